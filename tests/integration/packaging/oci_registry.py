"""A registry in memory with the part of the OCI distribution specification that a push needs."""

import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class OciRegistry:
    """Serves on loopback until the block ends; ``manifests`` are the digests by tag."""

    def __init__(self) -> None:
        self.manifests: dict[str, str] = {}
        contents = dict[str, tuple[str, bytes]]()
        manifests = self.manifests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status: int, length: int = 0, **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(length), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()

            def do_HEAD(self) -> bytes:
                name = self.path.rsplit("/", 1)[1]
                digest = manifests.get(name, name)
                if digest not in contents:
                    self.answer(404)
                    return b""
                form, body = contents[digest]
                self.answer(200, len(body), Content_Type=form, Docker_Content_Digest=digest)
                return body

            def do_GET(self) -> None:
                self.wfile.write(self.do_HEAD())

            def do_POST(self) -> None:
                self.answer(202, Location=f"{self.path.rstrip('/')}/1?state=1")

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                digest = f"sha256:{sha256(body).hexdigest()}"
                contents[digest] = self.headers.get("Content-Type", ""), body
                if "/manifests/" in self.path:
                    manifests[self.path.rsplit("/", 1)[1]] = digest
                self.answer(201, Docker_Content_Digest=digest, Location=self.path)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """The test says what went wrong."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
