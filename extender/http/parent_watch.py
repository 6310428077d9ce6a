"""Ends a worker whose master was killed, at once.

gunicorn's own worker notices too, but later, and then gives running calls ten seconds. All that
time it would hold the port that the next master needs, and plan beside the next one's ledger."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

_LOG = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.2


def end_with_parent(
    parent: int,
    *,
    parent_now: Callable[[], int] = os.getppid,
    end: Callable[[int], object] = os._exit,
    poll_seconds: float = POLL_SECONDS,
) -> threading.Thread:
    """End this process, from a thread, once its parent is no longer the process ``parent``."""

    def watch() -> None:
        waiting = threading.Event()
        while parent_now() == parent:
            waiting.wait(poll_seconds)
        _LOG.error("the parent process %d is gone: ending", parent)
        end(1)

    thread = threading.Thread(target=watch, name="parent-watch", daemon=True)
    thread.start()
    return thread
