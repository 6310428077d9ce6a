"""Reports long steps: one line at the begin of each, one with its seconds at the end."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO


class Progress(Protocol):
    """Where a long operation says what it is doing."""

    def note(self, text: str) -> None:
        """Say one thing that happened."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Announce a step; leaving the returned context ends it."""


class PlainProgress:
    """Writes plain lines."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def note(self, text: str) -> None:
        """Write one line."""
        print(text, file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Announce the step, then say how many seconds it took or that it failed."""
        started = time.monotonic()
        self.note(f"{text} ...")
        try:
            yield
        except BaseException:
            self.note(f"{text}: failed after {time.monotonic() - started:.1f} s")
            raise
        self.note(f"{text}: done in {time.monotonic() - started:.1f} s")
