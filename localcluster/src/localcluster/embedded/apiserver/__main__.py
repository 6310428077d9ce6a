"""`python -m localcluster.embedded.apiserver --port N`: serves on 127.0.0.1 until a signal."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from localcluster.embedded.apiserver.app import App
from localcluster.embedded.apiserver.server import Server
from localcluster.storage import read_yaml


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; return 0 after an orderly end, 1 where the port is taken."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.embedded.apiserver", description=__doc__
    )
    add = parser.add_argument
    add("--port", type=int, required=True, help="port of 127.0.0.1")
    add("--load", type=Path, action="append", default=[], help="YAML of initial objects")
    add("--token-file", type=Path, help="callers have to show this token; without it all may call")
    options = parser.parse_args(arguments)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    secret = options.token_file.read_bytes().strip() if options.token_file else b""
    documents = [each for path in options.load for each in read_yaml(path)]
    server = Server(f"127.0.0.1:{options.port}", documents, secret)
    return asyncio.run(_serve(server.app, options.port))


async def _serve(app: App, port: int) -> int:
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=3600,
        timeout_graceful_shutdown=2,
    )
    server = _HttpServer(config, app)
    # The objects of the start live on; the collector need not look at them again.
    gc.collect()
    gc.freeze()
    await server.serve()
    return 0 if server.started else 1


class _HttpServer(uvicorn.Server):
    """Ends the watches first when it is signalled: they would hold it up."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals during the block. uvicorn's own would raise them again at its end."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal to end."""
        super().handle_exit(sig, frame)
        self._app.close()


if __name__ == "__main__":
    sys.exit(main())
