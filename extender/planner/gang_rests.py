"""Which pods of a gang can be bound beside one that kube-scheduler is answered for, or why none is.

Only where the plan knows everything that decides on the pods, and where no binding may be on its
way that it does not know (``extender.state.unseen_bindings``).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from extender.planner.offers_check import OffersCheck
from extender.state.extender_state import ExtenderState
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.placement.capacity import is_admitted
from optimus.placement.gang import Placement
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant


class Rest(NamedTuple):
    """The pods of a gang that are to be bound, with their reservations."""

    pods: tuple[tuple[Pod, Reservation], ...] = ()
    cause: str = ""
    """Why none is, in one or two words, for a metric."""


class GangRests:
    """Over one state; takes its lock."""

    def __init__(self, state: ExtenderState, offers_check: OffersCheck) -> None:
        self._state, self._offers_check = state, offers_check
        self.changes = state.changes
        """Count what shows the rest of a gang bound."""

    def begin(self, pod: Pod, names: Sequence[str]) -> Rest:
        """The pods to be bound beside this one, whose planned node is one of ``names``; from now on
        they count as placed there, and kube-scheduler gets no answer about them."""
        with self._state.locked() as now:
            rest = self._rest(pod, names, now)
            for each, held in rest.pods:
                self._state.assume(each, held, now)
                self._state.unseen.begin(each.uid, held.node, now.monotonic)
        return rest

    def _rest(self, pod: Pod, names: Sequence[str], now: Instant) -> Rest:
        state = self._state
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        assumed, ledger = state.reservations.assumed, state.reservations.ledger
        waiting = [
            each
            for each in state.cluster.waiting_pods(job_uid)
            if each.uid != pod.uid and each.replica not in assumed
        ]
        if not waiting:
            return Rest()
        cause = self._why_none(job_uid, now)
        if cause:
            return Rest(cause=cause)
        pairs = [
            (each, held)
            for each in waiting
            if each.replica is not None and (held := ledger.get(each.replica)) is not None
        ]
        if len(pairs) < len(waiting) or not self._still_holds(job_uid, pairs):
            return Rest(cause="plan")
        if not self._are_offered(pod, names, [held.node for _, held in pairs]):
            return Rest(cause="not offered")
        nodes = {held.node for _, held in pairs}
        if not state.unseen.leave_room_for_passing(nodes, now.monotonic):
            return Rest(cause="passing pods")
        return Rest(tuple(pairs))

    def _why_none(self, job_uid: str, now: Instant) -> str:
        """Return why nothing of a gang is bound, whatever is planned for it."""
        state = self._state
        if job_uid in state.cluster.rescales:
            return "rescaling"
        is_late = state.why_too_old() is not None or state.unseen.may_be_late(now.monotonic)
        if is_late or not state.leads:
            return "late"
        if now.monotonic < state.unseen.others_until:
            return "other scheduler"
        return "" if self._offers_check.knows_every_rule(job_uid) else "rules"

    def _still_holds(self, job_uid: str, pairs: Sequence[tuple[Pod, Reservation]]) -> bool:
        """Return whether the gang is as it was planned, and its nodes still admit it and have the
        room."""
        state = self._state
        found = state.queue.find(job_uid)
        if found is None or not found.observed.complete or not state.queue.is_held(found.observed):
            return False
        gang = state.reservations.with_assumed(found.observed.gang)
        nodes = {held.replica: held.node for _, held in pairs}
        if {gang.replica(member) for member in gang.unbound} != nodes.keys():
            return False
        if len(nodes) < len(pairs):
            return False  # labels name a replica twice, and room is reserved for one of them
        enough = all(each.resources.fits_in(held.resources) for each, held in pairs)
        over = any(state.reservations.is_overcommitted(node) for node in {*nodes.values()})
        placement = Placement(job_uid, nodes)
        return enough and not over and state.reservations.still_fits(gang, placement)

    def _are_offered(self, pod: Pod, names: Sequence[str], nodes: Iterable[str]) -> bool:
        """Return whether kube-scheduler offers ``pod`` those of the planned nodes where it would
        fit: its view may be newer, or know of other pods. A probe cannot show it."""
        if len(names) < 2:
            return True
        assert pod.replica is not None
        left, job_uid = self._state.reservations.left, pod.replica.job_uid
        missing = {*nodes} - {*names}
        return not any(
            is_admitted(self._state.cluster.nodes[node], pod.constraints)
            and pod.resources.fits_in(left(node, besides=job_uid))
            for node in missing
        )

    def has_room(self, node: str) -> bool:
        """Return whether, as far as the watch has shown since ``begin``, a node still has what is
        reserved on it, and no scheduler that asks nobody here has bound a pod to any."""
        with self._state.locked() as now:
            others = now.monotonic < self._state.unseen.others_until
            return not others and not self._state.reservations.is_overcommitted(node)

    def end(self, pod: Pod, held: Reservation, outcome: Written | Refused) -> bool:
        """Record what became of a binding; returns whether the pod is bound."""
        if isinstance(outcome, Written):
            return True
        with self._state.locked() as now:
            if outcome.kind is ErrorKind.TRANSIENT:
                # It may be bound all the same: its room stays taken, and it is answered that node.
                self._state.unseen.end(pod.uid)
            else:
                self._state.not_bound(pod, held.replica, now)
        return False

    def are_seen(self, pods: Iterable[Pod]) -> bool:
        """Return whether the watch has shown these pods bound."""
        with self._state.lock:
            return self._state.unseen.being_bound.isdisjoint(each.uid for each in pods)
