"""Events on jobs of which a part is bound, while the rest fits nowhere.

The autoscaler takes such a job back where it manages it; nobody does for other jobs, since the
extender deletes no pod. Their users are told once per change of reason, with what would help.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, Protocol

from optimus.kube.events import EventType, Subject

_LOOK_SECONDS: Final = 5.0
"""How often it is looked for such jobs."""


@dataclass(frozen=True, slots=True)
class HalfPlaced:
    """A job that is bound in part, and why the rest is not planned."""

    kind: str
    namespace: str
    name: str
    uid: str
    bound: int
    pods: int
    reason: str

    @property
    def message(self) -> str:
        """What has happened, and what would help."""
        return (
            f"{self.bound} of {self.pods} pods are bound and hold their resources; the rest waits:"
            f" {self.reason}. Free capacity on the nodes that its pods may use, or suspend and"
            " resume the job so that it is placed again as a whole"
        )


class EmitEvent(Protocol):
    """``optimus.kube.events.EventWriter.emit``; see there."""

    def __call__(self, job: Subject, kind: EventType, reason: str, message: str) -> object:
        """Write an Event."""
        ...


class HalfPlacedEvents:
    """What each such job's user was told. One thread calls ``look``."""

    def __init__(
        self,
        find: Callable[[], Sequence[HalfPlaced]],
        emit: EmitEvent,
        after_seconds: float,
        executor: Executor | None = None,
    ) -> None:
        """A job is reported that is found for ``after_seconds``; ``executor`` makes the calls."""
        self._find, self._emit, self._after_seconds = find, emit, after_seconds
        self._executor = executor
        self._since: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._looked_at = float("-inf")

    def look(self, now: float) -> None:
        """Report the jobs that are bound in part; ``now`` is monotonic, in seconds."""
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        found = {each.uid: each for each in self._find()}
        self._since = {uid: self._since.get(uid, now) for uid in found}
        self._told = {uid: reason for uid, reason in self._told.items() if uid in found}
        for uid, job in found.items():
            is_new = self._told.get(uid) != job.reason
            if is_new and now - self._since[uid] >= self._after_seconds:
                self._told[uid] = job.reason
                self._tell(job)

    def _tell(self, job: HalfPlaced) -> None:
        call = self._executor.submit if self._executor is not None else _at_once
        call(self._emit, job, EventType.WARNING, "HalfPlaced", job.message)


def _at_once(call: Callable[..., object], *arguments: object) -> object:
    return call(*arguments)
