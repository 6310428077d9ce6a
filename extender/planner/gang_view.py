"""What ``filter`` has to know of the gang of a pod that kube-scheduler asks about, as one value."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.gang_states import WaitReason, why_unplanned
from extender.planner.offers_check import OffersCheck
from extender.planner.slices import Planner
from extender.state.extender_state import ExtenderState
from extender.state.gang_queue import QueuedGang
from optimus.kube.pods import Pod
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant
from optimus.snapshot import ReplicaId

PASSING_SECONDS: Final = 0.1
"""How long pods of no job are waited for that may be about to go to the gang's nodes."""

IN_VAIN_SECONDS: Final = 5.0
"""How long they are not waited for after that was in vain."""


@dataclass(frozen=True, slots=True)
class GangView:
    """The gang of a pod that is asked about."""

    nodes: tuple[str, ...] = ()
    """The pod's planned node; without a gang, the nodes with capacity that is not reserved."""

    wait: WaitReason | None = None
    """Why there is none."""

    detail: str = ""
    """The same in a sentence, where that differs from gang to gang."""

    is_gang: bool = True
    """Whether the pod is of a training job."""


_BOUND: Final = GangView(wait=WaitReason.BOUND)
_JUST_BOUND: Final = GangView(wait=WaitReason.JUST_BOUND)
_BEGINS: Final = GangView(
    wait=WaitReason.JUST_BOUND, detail="the extender begins to lead: tried again soon"
)


class GangViews:
    """Looks at gangs over one state, and records what kube-scheduler asks."""

    def __init__(self, state: ExtenderState, offers_check: OffersCheck, planner: Planner) -> None:
        self._state, self._offers_check, self._planner = state, offers_check, planner
        self._in_vain_until = float("-inf")

    def look(self, pod: Pod, names: Sequence[str]) -> GangView:
        """The gang of a pod that is offered these nodes. Takes the lock."""
        with self._state.locked() as now:
            view = self._view(pod, names, now)
        if view is _BEGINS:
            self._planner.notice_lead()
        if view.wait not in _NOTHING_TO_DO:
            self._state.changes.notify()
        return view

    def plan(self, pod: Pod) -> None:
        """Plan the pod's gang, without the lock but for moments; not for long."""
        assert pod.replica is not None
        self._planner.plan_in_call(pod.replica.job_uid)

    def wait_for_passing(self, pod: Pod, names: Sequence[str]) -> GangView:
        """Look again once no pod of no job may be about to take room of the gang; not for long, and
        not soon after that was in vain: kube-scheduler does nothing else meanwhile."""
        now = time.monotonic()
        until = now if now < self._in_vain_until else now + PASSING_SECONDS
        while True:
            count = self._state.changes.count
            gang = self.look(pod, names)
            left = until - time.monotonic()
            if gang.wait is not WaitReason.PASSING_PODS:
                return gang
            if left <= 0:
                self._in_vain_until = max(self._in_vain_until, until + IN_VAIN_SECONDS)
                return gang
            self._state.changes.wait(count, left)

    def offered(self, pod: Pod, names: Sequence[str]) -> QueuedGang | None:
        """The gang of a pod; which nodes the pod is offered is recorded where it was asked about to
        show that. Under the lock."""
        assert pod.replica is not None
        queue = self._state.queue
        queued = queue.find(pod.replica.job_uid)
        missing = () if queued is None else queue.pods_to_ask_about(queued.observed)
        if pod.uid in [each.uid for each in missing]:
            return self._offers_check.record_offer(pod, names)
        return queued

    def _view(self, pod: Pod, names: Sequence[str], now: Instant) -> GangView:
        state, replica = self._state, pod.replica
        # 1. Release what has expired, so that no answer depends on it.
        state.expire(now)

        # 2. A pod of no training job passes, except on nodes whose free capacity is reserved.
        if replica is None or not state.cluster.controls(pod):
            return self._passing(pod, names, now)

        if pod.uid in state.unseen.being_bound:
            return _BOUND

        # Pods that must not be placed: kube-scheduler's cache or the job's counts are out of date.
        state.asked(pod, replica, now)
        hindrance = self._hindrance(pod, replica, now)
        if hindrance is not None:
            return hindrance

        # A list of nodes is compared with what plans use: mostly one was, not long ago.
        last = state.unknown_rules.last.get(pod.constraints)
        if last is None or now.monotonic >= last.recheck_at:
            self._offers_check.compare_offer(pod, names, now)

        # 3. The pod has a reservation: its node, where that is offered.
        held = state.reservation_for(pod, replica)
        if held is not None and held.node in names:
            if self._may_lose_room(replica.job_uid, now):
                return GangView(wait=WaitReason.PASSING_PODS)
            state.assume(pod, held, now)
            return GangView((held.node,))

        # 4. A probe offers the nominated node alone. It is refused and causes no new plan: the
        # other nodes are missing from the list although they may suit the pod. kube-scheduler
        # offers all nodes next, in the same attempt.
        if list(names) == [pod.nominated_node]:
            return GangView(wait=WaitReason.PROBE)
        if held is not None:
            view = self._not_offered(pod, held, names, now)
            if view is not None:
                return view
        return self._unplanned(pod, replica, names, now)

    def _not_offered(
        self, pod: Pod, held: Reservation, names: Sequence[str], now: Instant
    ) -> GangView | None:
        """The pod's planned node is not offered: the answer, or ``None`` where its gang is to be
        planned anew."""
        state = self._state
        if state.depends_on_own_gang(pod, held.replica):
            # Its node is offered once the others are bound that it must be beside or balance. Of a
            # PodGroup none is bound before: it takes the node of another, where that is offered.
            taken = state.take_from_own_gang(pod, held, names) if pod.in_group else None
            if taken is None:
                return GangView(wait=WaitReason.ORDER)
            state.assume(pod, taken, now)
            return GangView((taken.node,))
        self._offers_check.rule_out(pod, held, names, now)
        return None

    def _passing(self, pod: Pod, names: Sequence[str], now: Instant) -> GangView:
        state = self._state
        kept, taken = state.reservations.nodes_for(pod.resources, names, pod.priority)
        if state.config.bind_gangs:
            if not state.leads and state.waits_to_lead(now):
                return _BEGINS
            full = state.unseen.full_for(pod, kept, now.monotonic)
            left = tuple(name for name in kept if name not in full) if full else kept
            if kept and not left:
                state.unseen.not_passed(pod.uid)
                return _JUST_BOUND
            kept, taken = left, tuple(name for name in taken if name not in full)
            if kept:
                refused = {*names} - {*kept} if len(kept) < len(names) else ()
                state.unseen.passed(pod, refused, now.monotonic, state.config.binding_seconds)
            else:
                state.unseen.not_passed(pod.uid)
        if taken:
            until = now.monotonic + state.config.reservation_seconds
            state.reservations.let_pass(pod.uid, pod.priority, taken, until)
        return GangView(kept, is_gang=False)

    def _hindrance(self, pod: Pod, replica: ReplicaId, now: Instant) -> GangView | None:
        """Return why the pod gets no node, whatever is reserved for it."""
        state, job_uid = self._state, replica.job_uid
        known = state.cluster.pods.get(pod.uid)
        if known is not None and known.node is not None:
            return _BOUND
        if job_uid in state.cluster.rescales and state.rescales.is_leaving(job_uid, now.monotonic):
            return GangView(wait=WaitReason.RESCALING)
        future = state.future_room
        if job_uid in future.awaited and future.awaits(job_uid) is not None:
            return GangView(wait=WaitReason.PREEMPTING)
        reservations = state.reservations
        if reservations.passing and reservations.may_be_taken(job_uid, now.monotonic):
            return GangView(wait=WaitReason.PASSED)
        return None

    def _may_lose_room(self, job_uid: str, now: Instant) -> bool:
        state = self._state
        if not state.config.bind_gangs or state.reservations.is_begun(job_uid):
            return False
        nodes = {held.node for held in state.reservations.ledger.of_job(job_uid)}
        return state.unseen.may_take(nodes, now.monotonic)

    def _unplanned(
        self, pod: Pod, replica: ReplicaId, names: Sequence[str], now: Instant
    ) -> GangView:
        state, job_uid = self._state, replica.job_uid
        if not state.cluster.knows_gang_of(pod):
            return GangView(wait=WaitReason.UNKNOWN)
        state.queue.ask(pod)

        # 5. On a cache that is too old no new plan is made: nodes may have been taken meanwhile.
        too_old = state.why_too_old()
        if too_old is not None:
            return self._for_now(pod, WaitReason.CACHE_TOO_OLD, too_old)

        # 6. A gang waits until all its pods exist: until then their requests are not all known. It
        # is not looked at while its namespace is over its budget.
        if state.queue.defers(job_uid):
            return self._for_now(pod, WaitReason.CHANGING)
        queued = self.offered(pod, names)
        if queued is None or not queued.observed.complete or replica not in queued.observed.pods:
            detail = "" if queued is None else queued.observed.waits_for
            return self._for_now(pod, WaitReason.INCOMPLETE, detail)

        # 7. It is planned, after the gangs before it in the queue, once the lock is free. What was
        # reserved for a rescale was for other counts: these would be reserved again. A new leader
        # reserves for rescales as it begins.
        wait = why_unplanned(state, queued.observed)
        if wait is WaitReason.NO_ROOM:
            return GangView(wait=wait, detail=state.refusals[job_uid].answer.reason)
        is_rescaled = state.leads and job_uid in state.cluster.rescales
        may_plan = wait is WaitReason.NOT_PLANNED and is_rescaled
        if may_plan and state.plan_at_once(queued, now):
            held = state.reservations.ledger.get(replica)
            if held is not None and held.node in names:
                state.assume(pod, held, now)
                return GangView((held.node,))
        return GangView(wait=wait)

    def _for_now(self, pod: Pod, wait: WaitReason, detail: str = "") -> GangView:
        """A refusal after which the pod is tried again once its users should read another."""
        self._state.refused_for_now[pod.uid] = pod
        return GangView(wait=wait, detail=detail)


_NOTHING_TO_DO: Final = frozenset(
    {
        None,
        WaitReason.JUST_BOUND,
        WaitReason.BOUND,
        WaitReason.RESCALING,
        WaitReason.PREEMPTING,
        WaitReason.PASSED,
        WaitReason.PASSING_PODS,
    }
)
"""Nothing is to be planned or requeued because of these."""
