"""Waiting for a state of another process."""

import time
from collections.abc import Callable


def wait_until(what: str, true: Callable[[], bool], seconds: float = 180.0) -> None:
    """Ask again and again until it is true."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s it is still not so that {what}")
        time.sleep(0.05)
