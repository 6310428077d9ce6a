"""Elects the autoscaler that acts, by a Lease that fences its own holder.

1. The leader renews the Lease every second. A renewal is valid for 0.7 of its duration from the
   instant before it was sent; past that the fence refuses every write, also one that is on its way
   through this process.
2. A standby takes a Lease over that has not changed for its duration by the standby's own clock,
   which is longer: the leader's last write has been sent by then.
3. Each change of the Lease names the version it is made from. A leader that could not renew for a
   while goes on if its renewal then succeeds, since no other has led in between. Where another
   holds the Lease, it is lost, and this process has to end.

Clocks are never compared between machines. The process's own must also run while the machine is
suspended.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

from optimus.kube.errors import ErrorKind
from optimus.kube.leases import Lease
from optimus.kube.results import Refused, Written

_LOG = logging.getLogger(__name__)
_LOG_AGAIN_SECONDS: Final = 30.0
_LOST: Final = "this instance has lost its Lease for good"


def suspend_aware_clock() -> float:
    """Seconds of a clock that never jumps and also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


RENEWAL: Final = 0.7
"""The part of a Lease's duration for which a renewal is valid; in the rest the last writes
arrive."""

_RETRY: Final = 0.1
"""The part of it between two renewals, and two looks at another's Lease."""


class LeadershipState(Enum):
    """The part of this instance. FENCED: it holds the Lease, and could not renew it in time."""

    STANDBY = auto()
    LEADER = auto()
    FENCED = auto()
    LOST = auto()


class Fence:
    """Until when this process may write; safe to use from several threads."""

    def __init__(self, timer: Callable[[], float] = suspend_aware_clock) -> None:
        self._timer = timer
        self.until = float("-inf")
        """Until when writes may be sent, by the fence's clock."""
        self.is_closed = False
        """Whether no write is sent any more."""

    def why_not(self) -> str | None:
        """Return why nothing may be written now; ``None`` if it may."""
        if self.is_closed:
            return _LOST
        late_seconds = self._timer() - self.until
        if late_seconds < 0:
            return None
        if late_seconds == float("inf"):
            return "this instance does not lead"
        return f"the last renewal of this instance's Lease ran out {late_seconds:.1f} s ago"


class Store(Protocol):
    """The Lease; ``optimus.kube.leases.LeaseStore`` is one."""

    def read(self) -> Lease | Refused | None:
        """The Lease; ``None`` where there is none."""

    def create(self, holder: str, duration_seconds: float, at: float) -> Written | Refused:
        """Create it for a holder."""

    def renew(
        self, version: str, holder: str, duration_seconds: float, at: float
    ) -> Written | Refused:
        """Renew or release it; CONFLICT where it is another version."""

    def acquire(
        self, found: Lease, holder: str, duration_seconds: float, at: float
    ) -> Written | Refused:
        """Take it from the holder that was found."""


class Election:
    """One instance's part in the election. ``step`` is called by one thread; the rest by any."""

    def __init__(
        self,
        store: Store,
        identity: str,
        fence: Fence,
        *,
        duration_seconds: float = 10.0,
        timer: Callable[[], float] = suspend_aware_clock,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """The Lease must stay unchanged for ``duration_seconds`` before another may take it."""
        self._store, self._identity, self._fence = store, identity, fence
        self._duration_seconds = duration_seconds
        self._timer, self._wall = timer, wall
        self._own: Lease | None = None
        """The Lease as this instance last wrote it, since it leads."""

        self._seen: Lease | None = None
        """Another's Lease as last read, unchanged since ``_seen_at``."""

        self._seen_at = float("-inf")
        self._logged_at = float("-inf")
        self.holder = ""
        """Who leads, as last known."""

    @property
    def state(self) -> LeadershipState:
        """Return where this instance stands now."""
        if self._fence.is_closed:
            return LeadershipState.LOST
        if self._fence.why_not() is None:
            return LeadershipState.LEADER
        return LeadershipState.STANDBY if self._own is None else LeadershipState.FENCED

    def step(self) -> float:
        """Renew the Lease or try to take it; returns the seconds until the next step."""
        retry_seconds = _RETRY * self._duration_seconds
        if self._fence.is_closed:
            return retry_seconds
        if self._own is None or not self._renewed(self._own):
            self._read()
        if self._own is not None or self._seen is None:
            return retry_seconds
        left_seconds = self._seen_at + self._seen.duration_seconds - self._timer()
        return min(retry_seconds, max(left_seconds, 0.05))

    def release(self) -> None:
        """Stop leading; the next instance need not wait. Nothing is written after this."""
        own, self._own = self._own, None
        self._fence.is_closed = True
        if own is not None:
            outcome = self._store.renew(own.version, "", 1.0, self._wall())
            why = "" if isinstance(outcome, Written) else f", but not in the Lease: {outcome}"
            _LOG.info("leader: released by %s%s", self._identity, why)

    def _renewed(self, own: Lease) -> bool:
        """Renew the Lease as last written; returns false where it is not known as it is stored:
        another has written it, or this instance did and has not seen the answer."""
        if not own.version:
            return False
        refused = self._renew(own)
        return refused is None or refused.kind not in (ErrorKind.CONFLICT, ErrorKind.NOT_FOUND)

    def _read(self) -> None:
        """Look at the Lease as it is stored, and go on with it, take it or stop."""
        found = self._store.read()
        if isinstance(found, Refused):
            self._log_refusal(found)
        elif self._own is not None:
            if found is None or _term(found) != _term(self._own):
                self._lose(found)
            else:
                self._renew(found)
        elif found is not None and found.holder == self._identity:
            self._note_holder(self._identity)
            self._renew(found)
        else:
            self._take_if_free(found)

    def _renew(self, found: Lease) -> Refused | None:
        """Renew a Lease that this instance holds: it leads from the answer on."""
        self._own = found
        renew, version = self._store.renew, found.version
        return self._write(partial(renew, version), found.transitions)

    def _take_if_free(self, found: Lease | None) -> None:
        """Take another's Lease once it has not changed for its duration. The holder of one that was
        deleted may not know yet."""
        at, store = self._timer(), self._store
        if found is not None:
            if self._seen is None or found.version != self._seen.version:
                self._seen, self._seen_at = found, at
            self._note_holder(found.holder)
        seen = self._seen or Lease()
        if seen.holder and at - self._seen_at < (seen.duration_seconds or self._duration_seconds):
            return
        if found is None:
            self._write(store.create, 0)
        else:
            self._write(partial(store.acquire, found), (found.transitions or 0) + 1)

    def _write(
        self, write: Callable[[str, float, float], Written | Refused], transitions: int | None
    ) -> Refused | None:
        """Write this instance into the Lease; returns why not. That another was faster is usual."""
        sent_at, duration_seconds = self._timer(), self._duration_seconds
        outcome = write(self._identity, duration_seconds, self._wall())
        if isinstance(outcome, Refused):
            if outcome.kind not in (ErrorKind.CONFLICT, ErrorKind.EXISTS, ErrorKind.NOT_FOUND):
                self._log_refusal(outcome)
            return outcome
        self._own = Lease(self._identity, duration_seconds, transitions, outcome.resource_version)
        self._fence.until = sent_at + RENEWAL * duration_seconds
        self._note_holder(self._identity)
        return None

    def _lose(self, found: Lease | None) -> None:
        self._fence.is_closed = True
        self._own = None
        self.holder = found.holder if found is not None else ""
        by = f"is held by {self.holder}" if self.holder else "is held by nobody"
        _LOG.warning("leader: %s %s; %s stops", self._store, by, self._identity)

    def _note_holder(self, holder: str) -> None:
        if holder != self.holder:
            self.holder = holder
            effect = "acts" if holder == self._identity else "stands by"
            _LOG.info("leader: %s; this instance %s", holder or "(none)", effect)

    def _log_refusal(self, refused: Refused) -> None:
        now = self._timer()
        if now - self._logged_at >= _LOG_AGAIN_SECONDS:
            self._logged_at = now
            _LOG.warning("leader election: %s", refused)


def _term(lease: Lease) -> tuple[str, int | None]:
    """Return who holds a Lease, and for which time: each holder counts its transitions up."""
    return lease.holder, lease.transitions


class Leadership:
    """Runs an election on a thread of its own, which nothing else of the process can hold up."""

    def __init__(self, election: Election | None = None) -> None:
        """Without an election this instance leads at once: there is no other, or it is a dry
        run."""
        self._election = election
        self._stopping, self._changed = threading.Event(), threading.Event()
        self._stepped_at = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, args=(election,), name="leader-election", daemon=True
        )

    @property
    def state(self) -> LeadershipState:
        """Return where this instance stands now."""
        return LeadershipState.LEADER if self._election is None else self._election.state

    @property
    def holder(self) -> str:
        """Who leads, as last known; empty without an election."""
        return "" if self._election is None else self._election.holder

    @property
    def silent_seconds(self) -> float:
        """Seconds since the election last came round."""
        return 0.0 if self._election is None else time.monotonic() - self._stepped_at

    def start(self) -> None:
        """Take part."""
        if self._election is not None:
            self._thread.start()

    def wait(self, seconds: float) -> LeadershipState:
        """Wait for a change of the state, at most so long."""
        if self._election is not None and self._changed.wait(seconds):
            self._changed.clear()
        return self.state

    def stop(self) -> None:
        """End the part in it, and release the Lease."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._election is not None:
            self._election.release()

    def _run(self, election: Election) -> None:
        wait_seconds = 0.0
        while not self._stopping.wait(wait_seconds):
            before = self.state
            try:
                wait_seconds = election.step()
            except Exception:  # noqa: BLE001 - logged; and a Lease that is not renewed runs out
                _LOG.exception("leader election failed")
                wait_seconds = 1.0
            self._stepped_at = time.monotonic()
            if self.state is not before:
                self._changed.set()


def readiness_text(leadership: Leadership) -> str:
    """Return what ``/readyz`` says of an instance that is ready."""
    match leadership.state:
        case LeadershipState.LEADER:
            return "ok: leader"
        case LeadershipState.FENCED:
            return "ok: leader, but its Lease cannot be renewed: nothing is written"
        case _:
            return f"ok: standby; {leadership.holder or 'nobody'} leads"


def instance_name() -> str:
    """The identity of this process: its host, and a part of its own."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"
