"""Waiting for a state, and the client that reads it."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from localcluster.testing.waiting import wait_until

Core: TypeAlias = Any
"""The official client's CoreV1Api. Its types know no plain JSON, which it takes."""

Found = TypeVar("Found")
_SECONDS = 180.0


def until(find: Callable[[], Found | None], what: str) -> Found:
    """What `find` finds at last. Raises AssertionError where it does not."""
    found = wait_until(find, what, _SECONDS, poll_seconds=0.05)
    assert found is not None
    return found
