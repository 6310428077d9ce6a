"""Whether a gang would fit if others were gone: the planner's rule on hypothetical capacity."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from extender.preemption.victims import Victims
from extender.state.cluster import used_by_node
from extender.state.extender_state import ExtenderState
from extender.state.future_room import Awaited
from extender.state.gang_queue import QueuedGang
from optimus.kube.pods import Pod
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, GangRule, Placement
from optimus.resources import Resources

_MARGIN_SECONDS: Final = 30.0


class TrialPlan(NamedTuple):
    """A gang, with what other pods mean for it then, and its nodes."""

    gang: Gang
    placement: Placement


@dataclass(frozen=True, slots=True)
class Trial:
    """A gang, and the capacity that it may use at one time with what pods being deleted leave."""

    state: ExtenderState
    rule: GangRule
    gang: Gang
    capacity: Capacity
    leaving: frozenset[str]
    """The UIDs of the pods that are being deleted anyway."""

    @classmethod
    def of(
        cls,
        state: ExtenderState,
        rule: GangRule,
        queued: QueuedGang,
        stuck: Collection[str],
        ending: Iterable[Pod] = (),
    ) -> "Trial":
        """What is left now; takes the lock. Pods in ``stuck`` (UIDs) are not expected to end, those
        of ``ending`` are, although they may not be deleted yet."""
        gang = queued.observed.gang
        with state.lock:
            nodes, left = tuple(state.cluster.nodes.values()), state.reservations.left_by_node()
            own = state.reservations.own_room(gang)
            pods = {pod.uid: pod for pod in (*leaving_pods(state, stuck), *ending)}
        capacity = Capacity(nodes, left)
        capacity.distinguish(*{member.spec.constraints for member in gang.members})
        found = cls(state, rule, gang, capacity, frozenset(pods))
        found._add_room(own)
        found._add_room(used_by_node(pods.values()))
        return found

    def fits(self, victims: Victims = ()) -> bool:
        """Whether the gang fits once these gangs have gone too."""
        return self.plan(victims) is not None

    def plan(self, victims: Victims = ()) -> TrialPlan | None:
        """Where it fits then."""
        gone = self.leaving.union(*(each.pods for each in victims))
        return self.plan_with((each.room for each in victims), gone)

    def plan_with(
        self, rooms: Iterable[Mapping[str, Resources]], gone: Iterable[str]
    ) -> TrialPlan | None:
        """Where it fits with this room, by node, and without these pods (UIDs)."""
        with self.state.lock:
            gang = self.state.reservations.with_surroundings(self.gang, gone)
        mark = self.capacity.mark()
        for room in rooms:
            self._add_room(room)
        answer = self.rule.place(gang, self.capacity)
        self.capacity.undo_to(mark)
        return TrialPlan(gang, answer) if isinstance(answer, Placement) else None

    def _add_room(self, room: Mapping[str, Resources]) -> None:
        for node, amount in room.items():
            row, vector = self.capacity.row_of.get(node), self.capacity.vector(amount)
            if row is not None and vector is not None:
                self.capacity.give_back(row, vector)


def leaving_pods(state: ExtenderState, stuck: Collection[str]) -> list[Pod]:
    """The pods that are being deleted and whose room is not reserved; under the lock.

    What the pods of a rescaled job leave is reserved for its new ones."""
    future = state.future_room
    return [
        pod
        for uid, pod in state.cluster.ending.items()
        if uid not in stuck
        and pod.replica is not None
        and not state.rescales.is_tracked(pod.replica.job_uid)
        and not future.is_awaited(uid)
    ]


def plan_again(
    state: ExtenderState, rule: GangRule, queued: QueuedGang, awaited: Awaited
) -> TrialPlan | None:
    """Where a gang fits on what is left now and what the awaited pods leave; under the lock."""
    gang = state.reservations.with_surroundings(queued.observed.gang, awaited.pods)
    room = used_by_node(_pods(state, awaited))
    answer = rule.place(gang, state.reservations.free_for(gang, room))
    return TrialPlan(gang, answer) if isinstance(answer, Placement) else None


def reserve(state: ExtenderState, planned: TrialPlan, awaited: Awaited, expires_at: float) -> bool:
    """Reserve what a gang is planned on, where that still holds; under the lock.

    Of the awaited pods only those on the gang's nodes are waited for. The reservation lasts a
    little longer than the time (monotonic) that the caller ends it at."""
    gang, placement = planned
    pods = _pods(state, awaited)
    now = state.reservations.with_surroundings(gang, awaited.pods)
    room = used_by_node(pods)
    same = now.surroundings == gang.surroundings
    if not same or not state.reservations.still_fits(gang, placement, room):
        return False
    nodes = {*placement.nodes.values()}
    there = frozenset(pod.uid for pod in pods if pod.node in nodes and pod.bound() is not None)
    waits = Awaited(there, awaited.victims)
    state.hold_future(gang, placement, waits, expires_at + _MARGIN_SECONDS)
    return True


def _pods(state: ExtenderState, awaited: Awaited) -> list[Pod]:
    return [pod for uid in awaited.pods if (pod := state.cluster.pods.get(uid)) is not None]
