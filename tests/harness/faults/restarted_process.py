"""A process that is started again whenever it ends, as a kubelet does with a container."""

import subprocess
import threading
from collections.abc import Callable
from typing import TypeAlias

Process: TypeAlias = "subprocess.Popen[bytes]"

_AGAIN_SECONDS = 0.5


class RestartedProcess:
    """One such process. kube-scheduler is one: it ends itself where a new list shows another pod of
    a known name."""

    def __init__(self, start: Callable[[], Process]) -> None:
        self._start, self._lock, self._stopping = start, threading.Lock(), threading.Event()
        self._process = start()
        self._thread = threading.Thread(target=self._keep, name="keeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it for good."""
        with self._lock:
            self._stopping.set()
        end(self._process)
        self._thread.join()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._process.wait()
            self._stopping.wait(_AGAIN_SECONDS)
            with self._lock:
                if not self._stopping.is_set():
                    self._process = self._start()


def end(process: Process) -> None:
    """End a process, by force where it does not end when it is asked to."""
    process.terminate()
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
