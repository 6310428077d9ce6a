"""Reports long steps: one line each with its seconds, or a spinner on a terminal."""

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


class Lines:
    """Writes plain lines, or a spinner with a line after it where the stream is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def note(self, text: str) -> None:
        """Write one line."""
        print(text, file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Announce the step, then say how many seconds it took or that it failed."""
        started = time.monotonic()
        try:
            with self._announce(text):
                yield
        except BaseException:
            self.note(f"{text}: failed after {time.monotonic() - started:.1f} s")
            raise
        self.note(f"{text}: done in {time.monotonic() - started:.1f} s")

    @contextmanager
    def _announce(self, text: str) -> Iterator[None]:
        if not self._stream.isatty():
            self.note(f"{text} ...")
            yield
            return
        from rich.console import Console

        with Console(file=self._stream).status(text):
            yield
