"""A thread that does one thing again and again."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from optimus.kube.store import Changes

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.02
"""Least time between two steps: many events are handled together."""

PAUSES_PER_STEP: Final = 2
"""How much longer than a step the pause after it is: also for a long queue, the thread takes at
most a third of a processor, which it shares with the thread that answers kube-scheduler."""


class StepThread:
    """Calls ``step`` every so many seconds, and whenever ``changes`` counts one."""

    def __init__(
        self,
        name: str,
        step: Callable[[], bool | None],
        every_seconds: float = 1.0,
        changes: Changes | None = None,
    ) -> None:
        """``step`` returns whether it is to be called again at once."""
        self._step, self._every_seconds = step, every_seconds
        self._changes = changes or Changes()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        self._changes.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        count, more = -1, False
        while not self._stopping.is_set():
            count = self._changes.wait(count, 0.0 if more else self._every_seconds)
            began = time.thread_time()
            try:
                more = bool(self._step())
            except Exception:  # noqa: BLE001 - the thread goes on: the next step starts from what is there then
                _LOG.exception("thread %s: a step failed", self._thread.name)
                more = False  # what fails is not tried again without a pause
            if not more:
                used = time.thread_time() - began
                self._stopping.wait(max(PAUSE_SECONDS, PAUSES_PER_STEP * used))
