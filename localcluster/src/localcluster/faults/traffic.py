"""What the connections of a proxy share: the planned faults, the calls served, the open streams."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from localcluster.faults.faults import Call, Fault, Plan
from localcluster.kubeconfig import Credentials

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ServedCall:
    """A call, the fault that it met, the server's status (0 if it was not asked or silent), and
    when it had ended, in seconds since the epoch."""

    call: Call
    fault: Fault | None
    status: int
    at: float = 0.0


class Traffic:
    """Safe to use from several threads."""

    def __init__(self, credentials: Credentials, kill_server: Callable[[], object]) -> None:
        """Calls go to the server of these credentials; `kill_server` is how a `Restart` ends it."""
        self.credentials, self.kill_server = credentials, kill_server
        self.kill_client: Callable[[], None] = lambda: None
        """How a `Kill` ends the process whose calls these are."""

        self.on_call: Callable[[Call], None] = lambda _: None
        """Gets each call before the server does."""

        self.respond: Callable[[Call], bytes | None] = lambda _: None
        """Returns a text to answer a call with instead of the server, else None."""

        self._plan, self._lock = Plan(), threading.Lock()
        self._calls: list[ServedCall] = []
        self._streams: set[Callable[[], None]] = set()
        self._frozen_until = 0.0
        self._closed = threading.Event()

    def inject(self, *faults: Fault) -> None:
        """Replace the faults that calls meet from now on, and forget the calls served."""
        with self._lock:
            self._plan, self._calls = Plan(*faults), []

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as planned."""
        with self._lock:
            return self._plan.is_spent

    @property
    def calls(self) -> tuple[ServedCall, ...]:
        """The calls since the last `inject`, in the order of their ends; open watches excluded."""
        with self._lock:
            return tuple(self._calls)

    def cut_streams(self) -> None:
        """Cut every open watch and followed log, as a load balancer does that restarts."""
        with self._lock:
            streams = tuple(self._streams)
        for cut in streams:
            cut()

    def meet(self, call: Call) -> Fault | None:
        """Count a call; return the fault that it meets."""
        self.on_call(call)
        with self._lock:
            return self._plan.meet(call)

    def record(self, call: Call, fault: Fault | None, status: int) -> None:
        """Record a call that has ended."""
        with self._lock:
            self._calls.append(ServedCall(call, fault, status, time.time()))

    def add_stream(self, cut: Callable[[], None]) -> None:
        """Remember how an open stream is cut."""
        with self._lock:
            self._streams.add(cut)

    def remove_stream(self, cut: Callable[[], None]) -> None:
        """Forget a stream that has ended."""
        with self._lock:
            self._streams.discard(cut)

    def freeze(self, seconds: float) -> None:
        """Let nothing through for so long."""
        with self._lock:
            self._frozen_until = time.monotonic() + seconds

    def wait_unfrozen(self) -> None:
        """Wait until nothing is frozen."""
        while time.monotonic() < self._frozen_until and not self._closed.wait(_POLL_SECONDS):
            pass

    def pause(self, seconds: float) -> None:
        """Wait, unless the proxy closes."""
        self._closed.wait(seconds)

    def close(self) -> None:
        """End every wait and every stream."""
        self._closed.set()
        self.cut_streams()
