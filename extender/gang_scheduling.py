"""What happens to a gang, from the first call about one of its pods until all of them run.

kube-scheduler asks about one pod at a time, and ``GangScheduling.filter`` answers it a part of a
plan for the pod's whole gang, or why the gang waits (``extender.gang_states.WaitReason``):

1. Its pods appear. Until all exist, none gets a node: what the others ask for is not known.
2. It is complete: it has its place in the queue, behind gangs that ran before, are of a higher
   priority or have waited for too long (``optimus.placement.queue.order``).
3. The call about its first pod plans it, after the gangs before it, on one snapshot of what is left
   (``extender.planner.slices``). It does not fit: it waits, and is planned again when nodes have
   gained what it lacks, in the next call or by the planner's thread.
4. It fits: room is reserved for every pod (``ExtenderState.hold``). kube-scheduler may have given
   up on its pods meanwhile: one is requeued (``extender.requeuer``).
5. One pod is answered its node and counts as placed (``ExtenderState.assume``); all others are
   bound in the same call (``extender.gang_binding``). Where kube-scheduler has rules that the plan
   does not know, it is asked about a pod of each shape first, and binds them one by one.
6. The watch shows its pods bound, and their reservations end: it runs
   (``extender.state.event_handlers``). A reservation that is not used in time ends too, and the
   gang is queued again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from extender.answers import FilterResult, Wait, refusal_of
from extender.gang_states import WaitReason, why_unplanned
from extender.passthrough import BEGINS, pass_pod
from extender.planner.offers_check import OffersCheck
from extender.planner.slices import Planner
from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant
from optimus.snapshot import ReplicaId

PASSING_SECONDS: Final = 0.1
"""How long pods of no job are waited for that may be about to go to the gang's nodes."""

IN_VAIN_SECONDS: Final = 5.0
"""How long they are not waited for after that was in vain."""

_PLANNED_LATER: Final = frozenset(
    {WaitReason.NOT_PLANNED, WaitReason.ASKED, WaitReason.NOT_OFFERED, WaitReason.ORDER}
)
"""After these refusals the threads that plan and requeue may have something to do."""


class GangScheduling:
    """Over one state; takes its lock. Several calls may be running."""

    def __init__(self, state: ExtenderState, offers_check: OffersCheck, planner: Planner) -> None:
        self._state, self._offers_check, self._planner = state, offers_check, planner
        self.bind_others: Callable[[Pod, Sequence[str]], None] = lambda *_: None
        """Binds the rest of a gang of which a pod is answered one of the offered nodes; without it
        kube-scheduler binds each."""
        self._in_vain_until = float("-inf")

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Return one of the offered nodes for a pod whose gang has a plan, and none for one that
        waits; for a pod of no training job all nodes with room that is not reserved."""
        if pod.replica is not None:
            self._state.wait_until_shown(pod)
        found = self._look(pod, names)

        # The gang is complete and has no plan: it gets one now, after those before it.
        if isinstance(found, Wait) and found.reason is WaitReason.NOT_PLANNED:
            assert pod.replica is not None
            self._planner.plan_in_call(pod.replica.job_uid)
            found = self._look(pod, names)

        # It has one, and pods of no job that were just answered may take some of its nodes.
        if isinstance(found, Wait) and found.reason is WaitReason.PASSING_PODS:
            found = self._wait_for_passing(pod, names)

        if isinstance(found, Wait):
            if found is BEGINS:
                self._planner.notice_lead()
            if found.reason in _PLANNED_LATER:
                self._state.changes.notify()
            return refusal_of(pod, names, found)
        if isinstance(found, FilterResult):
            return found

        # The pod has its node: the others of its gang are bound before kube-scheduler binds it.
        self.bind_others(pod, names)
        return FilterResult((found,))  # reasons are read only where no node is left

    def _look(self, pod: Pod, names: Sequence[str]) -> FilterResult | Wait | str:
        """Return the planned node of a pod, or why there is none; for a pod of no job its nodes."""
        with self._state.locked() as now:
            # 1. Release what has expired, so that no answer depends on it.
            self._state.expire(now)

            # 2. A pod of no training job passes, except on nodes whose capacity is reserved.
            replica = pod.replica
            if replica is None or not self._state.cluster.controls(pod):
                return pass_pod(self._state, pod, names, now)

            # 3. A pod that must not be placed now, whatever is reserved for it.
            wait = self._must_not_be_placed(pod, replica, now)
            if wait is not None:
                return wait

            # 4. What kube-scheduler offers is compared with the nodes that plans use.
            self._offers_check.compare_offer(pod, names, now)

            # 5. The gang has a plan: the pod's node, where that is offered.
            held = self._state.reservation_for(pod, replica)
            if held is not None:
                answer = self._answer_reserved(pod, held, names, now)
                if answer is not None:
                    return answer

            # 6. A probe offers the nominated node alone. It is refused and causes no new plan: the
            # other nodes are missing from the list although they may suit the pod. kube-scheduler
            # offers all nodes next, in the same attempt.
            if list(names) == [pod.nominated_node]:
                return Wait(WaitReason.PROBE)

            # 7. The gang waits for its pods, for room, or to be planned.
            return self._queue(pod, replica, names, now)

    def _must_not_be_placed(self, pod: Pod, replica: ReplicaId, now: Instant) -> Wait | None:
        """Return why a pod gets no node: kube-scheduler's cache or the job's counts are out of
        date, or others still take its room. Also records that kube-scheduler asks."""
        state, job_uid = self._state, replica.job_uid
        if not state.is_shown(pod):
            return Wait(WaitReason.INCOMPLETE)
        if pod.uid in state.unseen.being_bound:
            return Wait(WaitReason.BOUND)
        state.asked(pod, replica, now)
        known = state.cluster.pods.get(pod.uid)
        if known is not None and known.node is not None:
            return Wait(WaitReason.BOUND)
        if state.rescales.is_leaving(job_uid, now.monotonic):
            return Wait(WaitReason.RESCALING)
        if state.future_room.awaits(job_uid) is not None:
            return Wait(WaitReason.PREEMPTING)
        if state.reservations.may_be_taken(job_uid, now.monotonic):
            return Wait(WaitReason.PASSED)
        return None

    def _answer_reserved(
        self, pod: Pod, held: Reservation, names: Sequence[str], now: Instant
    ) -> Wait | str | None:
        """Return a pod's node, or why it is not answered; ``None``: its gang is planned anew."""
        state = self._state
        if held.node in names:
            if self._may_lose_room(held.replica.job_uid, now):
                return Wait(WaitReason.PASSING_PODS)
            state.assume(pod, held, now)
            return held.node
        if list(names) == [pod.nominated_node]:
            return None
        if not state.depends_on_own_gang(pod, held.replica):
            self._offers_check.rule_out(pod, held, names, now)
            return None
        # Its node is offered once the others are bound that it must be beside or balance. Of a
        # PodGroup none is bound before: it takes the node of another, where that is offered.
        taken = state.take_from_own_gang(pod, held, names) if pod.in_group else None
        if taken is None:
            return Wait(WaitReason.ORDER)
        state.assume(pod, taken, now)
        return taken.node

    def _may_lose_room(self, job_uid: str, now: Instant) -> bool:
        """Return whether pods of no job may be about to take nodes of a gang not yet begun."""
        state = self._state
        if not state.config.binds_gangs or state.reservations.is_begun(job_uid):
            return False
        nodes = {held.node for held in state.reservations.ledger.of_job(job_uid)}
        return state.unseen.may_take(nodes, now.monotonic)

    def _queue(
        self, pod: Pod, replica: ReplicaId, names: Sequence[str], now: Instant
    ) -> Wait | str:
        """Queue the pod's gang. Return a rescaled job's node, else why the gang has no plan;
        NOT_PLANNED: it can be planned at once."""
        state, job_uid = self._state, replica.job_uid
        if not state.cluster.knows_gang_of(pod):
            return Wait(WaitReason.UNKNOWN)
        state.queue.ask(pod)

        # On a cache that is too old no new plan is made: nodes may have been taken meanwhile.
        too_old = state.why_too_old()
        if too_old is not None:
            return self._for_now(pod, WaitReason.CACHE_TOO_OLD, too_old)

        # A gang that changes all the time is not looked at each time.
        if state.queue.defers(job_uid):
            return self._for_now(pod, WaitReason.CHANGING)

        # It is incomplete.
        queued = self._offers_check.offered(pod, names)
        if queued is None or not queued.observed.complete or replica not in queued.observed.pods:
            detail = "" if queued is None else queued.observed.waits_for
            return self._for_now(pod, WaitReason.INCOMPLETE, detail)

        # It was planned as it is, and does not fit.
        reason = why_unplanned(state, queued.observed)
        if reason is WaitReason.NO_ROOM:
            return Wait(reason, state.refusals[job_uid].answer.reason)

        # A rescaled job returns past the queue: what was reserved for it was for other counts.
        is_rescaled = state.leads and job_uid in state.cluster.rescales
        if reason is WaitReason.NOT_PLANNED and is_rescaled and state.plan_at_once(queued, now):
            held = state.reservations.ledger.get(replica)
            if held is not None and held.node in names:
                state.assume(pod, held, now)
                return held.node
        return Wait(reason)

    def _for_now(self, pod: Pod, reason: WaitReason, detail: str = "") -> Wait:
        """Return a refusal after which the pod is tried again once its users should read another
        one."""
        self._state.refused_for_now[pod.uid] = pod
        return Wait(reason, detail)

    def _wait_for_passing(self, pod: Pod, names: Sequence[str]) -> FilterResult | Wait | str:
        """Look again once no pod of no job may be about to take room of the gang; not for long, and
        not soon after that was in vain: kube-scheduler does nothing else meanwhile."""
        now = time.monotonic()
        until = now if now < self._in_vain_until else now + PASSING_SECONDS
        while True:
            count = self._state.changes.count
            found = self._look(pod, names)
            if not isinstance(found, Wait) or found.reason is not WaitReason.PASSING_PODS:
                return found
            left = until - time.monotonic()
            if left <= 0:
                self._in_vain_until = max(self._in_vain_until, until + IN_VAIN_SECONDS)
                return found
            self._state.changes.wait(count, left)
