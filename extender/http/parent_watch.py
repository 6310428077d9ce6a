"""A worker whose master was killed ends at once.

gunicorn's own worker notices too, but later, and then gives calls that are under way ten seconds:
all that time it holds the port that the next master needs, and plans from a ledger beside the next
one's."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

_LOG = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.2


def end_with(
    parent: int,
    *,
    parent_now: Callable[[], int] = os.getppid,
    end: Callable[[int], object] = os._exit,
    look_seconds: float = LOOK_SECONDS,
) -> threading.Thread:
    """End this process, from a thread, as soon as its parent is another than ``parent`` (a process
    id)."""

    def watch() -> None:
        waiting = threading.Event()
        while parent_now() == parent:
            waiting.wait(look_seconds)
        _LOG.error("the process %d that started this one is gone: ending", parent)
        end(1)

    thread = threading.Thread(target=watch, name="orphan", daemon=True)
    thread.start()
    return thread
