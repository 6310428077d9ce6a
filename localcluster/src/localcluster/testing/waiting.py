"""Waiting for what must come about, with a sentence for the case that it does not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.2


def wait_until(
    look: Callable[[], T],
    sentence: str,
    seconds: float,
    explain: Callable[[], str] = lambda: "",
    poll_seconds: float = _POLL_SECONDS,
) -> T:
    """Return what `look` returns as soon as that is true.

    Raises AssertionError after so many seconds, with the sentence, the last answer and what
    `explain` says."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {seconds:.0f} s: {sentence} (last seen: {found!r})\n{explain()}"
            )
        time.sleep(poll_seconds)


def holds_for(
    true: Callable[[], bool], sentence: str, seconds: float, explain: Callable[[], str] = lambda: ""
) -> None:
    """Assert for so many seconds that something stays true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not true():
            raise AssertionError(f"it does not hold: {sentence}\n{explain()}")
        time.sleep(_POLL_SECONDS)
