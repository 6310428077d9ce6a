"""A Lease in memory, as the API server keeps one; checked against it."""

from dataclasses import dataclass, replace
from typing import Final

from autoscaler.leadership import Store
from optimus.kube.errors import ErrorKind
from optimus.kube.leases import Lease
from optimus.kube.results import Refused, Written

NOW: Final = 1.8e9
"""A whole second: written without a fraction, the API server refuses it."""

NO_ANSWER = Refused(ErrorKind.TRANSIENT, "the API server did not answer in time")


@dataclass
class MemoryStore:
    """One Lease. ``silent``: no call reaches it; ``answer_lost``: the next change is made, and its
    answer lost; ``unreadable_answer``: the next answer does not say the new version."""

    lease: Lease | None = None
    silent: bool = False
    answer_lost: bool = False
    unreadable_answer: bool = False
    writes: int = 0

    def read(self) -> Lease | Refused | None:
        return NO_ANSWER if self.silent else self.lease

    def create(self, holder: str, duration_seconds: float, at: float) -> Written | Refused:
        if self.lease is not None:
            return NO_ANSWER if self.silent else Refused(ErrorKind.EXISTS, "it exists")
        return self._write(Lease(holder, duration_seconds, 0))

    def renew(
        self,
        version: str,
        holder: str,
        duration_seconds: float,
        at: float,
    ) -> Written | Refused:
        return self._change(version, holder, duration_seconds, 0)

    def acquire(
        self,
        found: Lease,
        holder: str,
        duration_seconds: float,
        at: float,
    ) -> Written | Refused:
        return self._change(found.version, holder, duration_seconds, 1)

    def _change(
        self, version: str, holder: str, duration_seconds: float, more: int
    ) -> Written | Refused:
        if self.silent:
            return NO_ANSWER
        if self.lease is None:
            return Refused(ErrorKind.NOT_FOUND, "there is no such Lease")
        if version != self.lease.version:
            return Refused(ErrorKind.CONFLICT, "the Lease has changed")
        transitions = (self.lease.transitions or 0) + more
        return self._write(Lease(holder, duration_seconds, transitions))

    def _write(self, lease: Lease) -> Written | Refused:
        if self.silent:
            return NO_ANSWER
        self.writes += 1
        self.lease = replace(lease, version=str(self.writes))
        if self.answer_lost:
            self.answer_lost = False
            return NO_ANSWER
        unreadable, self.unreadable_answer = self.unreadable_answer, False
        return Written("" if unreadable else self.lease.version)


def check_store(store: Store) -> None:
    """What any store of a Lease that is not there yet must do."""
    assert store.read() is None
    assert _refusal(store.renew("7", "one", 10.0, NOW)) is ErrorKind.NOT_FOUND
    created = store.create("one", 10.0, NOW)
    assert isinstance(created, Written), created
    first = _read(store)
    assert (first.holder, first.duration_seconds, first.transitions) == ("one", 10.0, 0)
    assert first.version == created.resource_version
    assert _refusal(store.create("two", 10.0, NOW)) is ErrorKind.EXISTS

    renewed = store.renew(first.version, "one", 10.0, NOW + 1.0)
    assert isinstance(renewed, Written)
    assert renewed.resource_version != first.version
    assert _refusal(store.renew(first.version, "one", 10.0, NOW)) is ErrorKind.CONFLICT
    assert _refusal(store.acquire(first, "two", 10.0, NOW)) is ErrorKind.CONFLICT

    assert isinstance(store.acquire(_read(store), "two", 10.0, NOW + 20.0), Written)
    second = _read(store)
    assert (second.holder, second.transitions) == ("two", 1)
    assert _refusal(store.renew(renewed.resource_version, "one", 10.0, NOW)) is ErrorKind.CONFLICT
    assert _read(store) == second

    assert isinstance(store.renew(second.version, "", 1.0, NOW + 21.0), Written)
    assert _read(store).holder == ""


def _refusal(outcome: Written | Refused) -> ErrorKind | None:
    return outcome.kind if isinstance(outcome, Refused) else None


def _read(store: Store) -> Lease:
    found = store.read()
    assert isinstance(found, Lease)
    return found
