"""Waiting for a state of the cluster or of a process."""

from collections.abc import Callable
from typing import Final, TypeVar

from localcluster.testing.waiting import wait_until as _wait_until

T = TypeVar("T")

LONG_SECONDS: Final = 180.0
"""The limit of most waits. A machine that is four times as slow as usual needs a good part of it;
a test that passes does not."""


def wait_until(what: str, look: Callable[[], T], seconds: float = LONG_SECONDS) -> T:
    """Return what ``look`` returns as soon as that is true. Raises AssertionError after so many
    seconds."""
    return _wait_until(look, what, seconds)
