"""Whose turn it is: gangs that wait, in order, and the nodes that an old one keeps closed to those
behind it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from extender.gangs import Assembly
from extender.state.cluster import is_waiting
from optimus.placement.free_matrix import FreeMatrix, Rows
from optimus.placement.queue_order import OrderKey, WaitingGang, order_key
from optimus.resources import Resources


@dataclass(frozen=True, slots=True)
class Turn:
    """A gang that waits to be planned."""

    assembly: Assembly
    waiting: WaitingGang

    @classmethod
    def of(cls, assembly: Assembly) -> "Turn":
        """The gang's wait begins with the last of its pods."""
        gang = assembly.gang
        since = max(
            (pod.created_at for pod in assembly.pods.values() if is_waiting(pod)), default=0.0
        )
        return cls(assembly, WaitingGang(gang.job_uid, gang.demand(), since))

    def that_ran(self) -> "Turn":
        """The same of a job that has run before."""
        return Turn(self.assembly, replace(self.waiting, ran_before=True))

    @property
    def job_uid(self) -> str:
        """The job's UID."""
        return self.waiting.job_uid

    def waited_seconds(self, epoch: float) -> float:
        """How long the gang has waited."""
        return max(epoch - self.waiting.since, 0.0)


def in_order(
    turns: Iterable[Turn], capacity: Resources, epoch: float, age_limit_seconds: float
) -> list[Turn]:
    """First what is planned first."""

    def key(turn: Turn) -> OrderKey:
        return order_key(turn.waiting, capacity, epoch, age_limit_seconds)

    return sorted(turns, key=key)


def without(room: FreeMatrix, closed: Rows) -> FreeMatrix:
    """The room as if nothing were free on these nodes."""
    room = room.copy()
    room.free[closed] = 0
    return room
