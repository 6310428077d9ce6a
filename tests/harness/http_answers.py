"""Answers of the processes under test, which a test may kill while they answer."""

import http.client
import urllib.request


def body_of(port: int, path: str, timeout_seconds: float = 5.0) -> str | None:
    """Return the body of a GET on loopback; ``None`` where it is not answered with 200, whole.

    A process that is killed may leave an answer without its body, which is no ``OSError``."""
    address = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(address, timeout=timeout_seconds) as answer:
            return str(answer.read().decode())
    except (OSError, http.client.HTTPException):
        return None
