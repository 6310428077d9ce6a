"""Whether a gang would fit if others were gone: the planner's rule on hypothetical capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.gang_queue import Instant, QueuedGang
from extender.planner import Planner
from extender.preemption.victims import Victims
from extender.state.cluster import used_by_node
from extender.state.future_room import Awaited
from optimus.kube.pods import Pod
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources

_MARGIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A gang, and the capacity that it may use at one time with what pods being deleted leave."""

    planner: Planner
    rule: Theorem1
    gang: Gang
    capacity: Capacity
    leaving: frozenset[str]
    """The UIDs of the pods that are being deleted anyway."""

    @classmethod
    def of(
        cls, planner: Planner, rule: Theorem1, queued: QueuedGang, stuck: Iterable[str]
    ) -> "Trial":
        """What is left now; under the lock. Pods in ``stuck`` (UIDs) are not expected to end."""
        gang, pods = queued.observed.gang, leaving_pods(planner, stuck)
        room = used_by_node(pods)
        capacity = planner.reservations.free_for(gang, room).copy()
        return cls(planner, rule, gang, capacity, frozenset(pod.uid for pod in pods))

    def fits(self, victims: Victims = ()) -> bool:
        """Whether the gang fits once these gangs have gone too."""
        gone = self.leaving.union(*(each.pods for each in victims))
        return self.fits_with((each.room for each in victims), gone)

    def fits_with(self, rooms: Iterable[Mapping[str, Resources]], gone: Iterable[str]) -> bool:
        """Whether it fits with this room, by node, and without these pods (UIDs)."""
        with self.planner.lock:
            gang = self.planner.reservations.with_surroundings(self.gang, gone)
        capacity, mark = self.capacity, self.capacity.mark()
        for room in rooms:
            for node, amount in room.items():
                row, vector = capacity.row_of.get(node), capacity.vector(amount)
                if row is not None and vector is not None:
                    capacity.give_back(row, vector)
        answer = self.rule.place(gang, capacity)
        capacity.undo_to(mark)
        return isinstance(answer, Placement)


def leaving_pods(planner: Planner, stuck: Iterable[str]) -> list[Pod]:
    """The pods that are being deleted and whose room nobody has reserved; under the lock.

    What the pods of a rescaled job leave is reserved for its new ones."""
    stuck, future = set(stuck), planner.future_room
    return [
        pod
        for pod in planner.cluster.pods.values()
        if pod.leaving
        and pod.uid not in stuck
        and pod.replica is not None
        and pod.bound() is not None
        and not planner.rescales.is_tracked(pod.replica.job_uid)
        and not future.is_awaited(pod.uid)
    ]


def reserve(
    planner: Planner,
    rule: Theorem1,
    queued: QueuedGang,
    awaited: Awaited,
    now: Instant,
    seconds: float,
) -> bool:
    """Reserve a gang's room on what is free and what the awaited pods leave; under the lock.

    Of the awaited pods only those on the gang's nodes are waited for. The reservation lasts a
    little longer than the time that the caller ends it after."""
    pods = [pod for uid in awaited.pods if (pod := planner.cluster.pods.get(uid)) is not None]
    gang = planner.reservations.with_surroundings(queued.observed.gang, awaited.pods)
    capacity = planner.reservations.free_for(gang, used_by_node(pods))
    answer = rule.place(gang, capacity)
    if not isinstance(answer, Placement):
        return False
    nodes = {*answer.nodes.values()}
    there = frozenset(pod.uid for pod in pods if pod.node in nodes and pod.bound() is not None)
    expires_at = now.monotonic + seconds + _MARGIN_SECONDS
    planner.hold_future(gang, answer, Awaited(there, awaited.victims), expires_at)
    return True
