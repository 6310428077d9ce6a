"""A thread that does one thing again and again."""

import logging
import threading
from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class StepThread:
    """Calls ``step`` every so many seconds."""

    def __init__(self, name: str, step: Callable[[], None], every_seconds: float) -> None:
        self._step, self._every_seconds = step, every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            try:
                self._step()
            except Exception:  # noqa: BLE001 - the thread goes on: the next step starts from what is there then
                _LOG.exception("thread %s: a step failed", self._thread.name)
