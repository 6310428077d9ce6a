"""Prints the line that a supervisor waits for."""

import threading
import time
from collections.abc import Callable

_POLL_SECONDS = 0.02


def print_when_ready(ready: Callable[[], bool]) -> None:
    """Print `ready`, on a thread of its own, once that is so."""

    def wait() -> None:
        while not ready():
            time.sleep(_POLL_SECONDS)
        print("ready", flush=True)

    threading.Thread(target=wait, name="ready", daemon=True).start()
