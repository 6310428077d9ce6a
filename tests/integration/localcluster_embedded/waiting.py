"""Waiting for what comes about on its own."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
_SECONDS = 60.0


def until(find: Callable[[], Found | None], what: str) -> Found:
    """What `find` finds at last; fails after a minute."""
    deadline = time.monotonic() + _SECONDS
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
