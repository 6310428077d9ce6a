"""The server that stands in for an API server."""

from collections.abc import Iterator

import pytest
from pytest_httpserver import HTTPServer


@pytest.fixture(scope="session")
def make_httpserver() -> Iterator[HTTPServer]:
    """The server of all tests, with a thread per request: a watch that hangs holds up no other."""
    server = HTTPServer(host="localhost", threaded=True)
    server.start()
    yield server
    server.stop()
