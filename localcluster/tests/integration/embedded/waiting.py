"""Waiting for a state, and the client that reads it."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Core: TypeAlias = Any
"""The official client's CoreV1Api. Its types know no plain JSON, which it takes."""

Found = TypeVar("Found")
_SECONDS = 180.0


def until(find: Callable[[], Found | None], what: str) -> Found:
    """What `find` finds at last; fails after a minute."""
    deadline = time.monotonic() + _SECONDS
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
