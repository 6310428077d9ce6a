"""What the connections of a proxy share: the plan of faults, the calls seen, the open streams, a
freeze."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from localcluster.faults.faults import Call, Fault
from localcluster.faults.matching import Plan
from localcluster.kubeconfig import Credentials

_TURN_SECONDS = 0.02


class Server(Protocol):
    """What can be done to the server itself; `localcluster.faults.cluster` does it to a local
    cluster's."""

    def restart(self) -> None:
        """Kill it; it is started again by whoever does that."""
        ...

    def compact(self) -> None:
        """Make it forget its history."""
        ...


@dataclass(frozen=True)
class Seen:
    """A call that came, the fault that it met, and what the server answered: 0 if it was not asked
    or did not."""

    call: Call
    fault: Fault | None
    status: int


class Traffic:
    """Safe to use from several threads."""

    def __init__(self, credentials: Credentials, server: Server) -> None:
        """Begin without a fault."""
        self.credentials, self.server = credentials, server
        self._plan, self._lock = Plan(), threading.Lock()
        self._seen: list[Seen] = []
        self._streams: set[Callable[[], None]] = set()
        self._frozen_until = 0.0
        self._ended = threading.Event()

    def inject(self, *faults: Fault) -> None:
        """From now on calls meet these faults, and none of earlier ones; what was seen is
        forgotten."""
        with self._lock:
            self._plan, self._seen = Plan.of(*faults), []

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as it was to."""
        with self._lock:
            return self._plan.is_spent

    @property
    def seen(self) -> tuple[Seen, ...]:
        """The calls since the last `inject`, in the order in which they ended; open watches are not
        among them."""
        with self._lock:
            return tuple(self._seen)

    def meet(self, call: Call) -> Fault | None:
        """Count the call; return what it meets."""
        with self._lock:
            self._plan, fault = self._plan.meet(call)
        return fault

    def note(self, call: Call, fault: Fault | None, status: int) -> None:
        """Keep what became of a call."""
        with self._lock:
            self._seen.append(Seen(call, fault, status))

    def opened(self, cut: Callable[[], None]) -> None:
        """Remember how an open stream is cut."""
        with self._lock:
            self._streams.add(cut)

    def ended(self, cut: Callable[[], None]) -> None:
        """Forget a stream."""
        with self._lock:
            self._streams.discard(cut)

    def cut_streams(self) -> None:
        """Cut every stream that is open."""
        with self._lock:
            streams = tuple(self._streams)
        for cut in streams:
            cut()

    def freeze(self, seconds: float) -> None:
        """Let nothing through for so long."""
        with self._lock:
            self._frozen_until = time.monotonic() + seconds

    def wait_thawed(self) -> None:
        """Wait until nothing is frozen."""
        while time.monotonic() < self._frozen_until and not self._ended.wait(_TURN_SECONDS):
            pass

    def pause(self, seconds: float) -> None:
        """Wait, unless the proxy ends."""
        self._ended.wait(seconds)

    def end(self) -> None:
        """Wait for nothing any more, and end every stream."""
        self._ended.set()
        self.cut_streams()
