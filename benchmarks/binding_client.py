"""The processor time of one binding, by libcurl and by the API client's library:
``python -m benchmarks.binding_client``.

A server by TLS on the loopback, in a process of its own, answers each request at once. One thread
sends; only its processor time counts. The result is one JSON object, in milliseconds."""

import argparse
import json
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec
import trustme

from extender.bindings import PodBinder
from optimus.kube.client import connect
from optimus.kube.pods import Pod, decode_pod

_ANSWER: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        head = f"HTTP/1.1 201 Created\r\nContent-Length: {len(_ANSWER)}\r\n\r\n".encode()
        self.wfile.write(head + _ANSWER)


def _serve(folder: Path, ready: Connection) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    ready.send(server.server_port)
    server.serve_forever()


def _kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca"}
    named = {"context": {"cluster": "c", "user": "c"}, "cluster": cluster, "user": {"token": "t"}}
    entries = {f"{kind}s": [{"name": "c", kind: each}] for kind, each in named.items()}
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Config"} | entries | {"current-context": "c"})
    )
    return path


def _milliseconds(bind: Callable[[], object], calls: int) -> float:
    rounds = []
    bind()
    for _ in range(5):
        began = time.thread_time()
        for _ in range(calls):
            bind()
        rounds.append((time.thread_time() - began) / calls * 1000)
    return round(statistics.median(rounds), 3)


def main() -> None:
    """Measure both and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="a round; the median of five")
    calls = parser.parse_args().calls
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=_serve, args=(folder, theirs), daemon=True)
        process.start()
        client = connect(_kubeconfig(folder, ours.recv()), user_agent="benchmark")
        pod, binder = _pod(), PodBinder(client, 15.0)
        body = msgspec.json.encode({"kind": "Binding", "metadata": {"name": pod.name}})
        path = "/api/v1/namespaces/ns/pods/p/binding"
        found["libcurl"] = _milliseconds(lambda: binder.bind(pod, "n1"), calls)
        found["library"] = _milliseconds(lambda: client.post("bind", path, body), calls)
        client.close()
        process.terminate()
    print(json.dumps(found | {"ratio": round(found["library"] / found["libcurl"], 2)}, indent=1))


def _pod() -> Pod:
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    return decode_pod(json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode())


if __name__ == "__main__":
    main()
