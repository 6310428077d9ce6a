"""Which sockets that nobody closed fail a test: all but those that Python itself leaves open."""

import gc
import socket
import ssl
import struct
import sys

import pytest


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far


def test_a_connection_reset_before_its_handshake_fails_no_test() -> None:
    near, far = connected()
    at_once = struct.pack("ii", 1, 0)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    far.close()
    with pytest.raises(OSError, match="reset"):
        ssl.create_default_context().wrap_socket(near, server_hostname="server")
    gc.collect()


def test_a_tls_socket_that_nobody_closed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    near, far = connected()
    context = ssl.create_default_context()
    left = context.wrap_socket(near, server_hostname="server", do_handshake_on_connect=False)
    # Warnings are errors here, and one raised while an object is freed goes to this hook.
    monkeypatch.setattr(
        sys, "unraisablehook", lambda raised: reported.append(str(raised.exc_value))
    )
    del left
    gc.collect()
    far.close()
    assert [each.split(" ")[0] for each in reported] == ["unclosed"]
