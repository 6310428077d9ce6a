"""Begins to lead with the nominations of the last leader, and ends it."""

from collections.abc import Callable

from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod
from optimus.placement.gang import Placement
from optimus.placement.queue.order import Instant


class Adoption:
    """Over one state; takes its lock."""

    def __init__(self, state: ExtenderState) -> None:
        self._state = state
        self.before_leading: Callable[[Instant], None] = lambda _: None
        """Called under the lock when the nominations of the last leader have been adopted, before
        anything is planned."""

    def adopt_nominations(self) -> tuple[Pod, ...]:
        """Adopt the nominations of complete gangs as plans, then reserve for rescales beside them;
        returns pods with other nominations."""
        with self._state.locked() as now:
            self._state.update_rescales(now)
            stale = (
                self._adopt(job_uid, now) for job_uid in sorted(self._state.cluster.waiting_jobs())
            )
            found = tuple(pod for pods in stale for pod in pods)
            self.before_leading(now)
            self._state.leads, self._state.unled_since = True, None
            self._complete_gangs_bound_in_part(now)
            self._state.update_rescales(now)
            self._state.waited_for.clear()  # they waited while nothing could be planned
        self._state.changes.notify()
        return found

    def _adopt(self, job_uid: str, now: Instant) -> tuple[Pod, ...]:
        self._drop_outdated_answers(job_uid)
        observed = self._state.queue.observe_waiting(job_uid)
        if observed is None or self._state.queue.is_held(observed):
            return ()
        nominated = {
            replica: pod.nominated_node
            for replica, pod in observed.pods.items()
            if pod.nominated_node
            and not pod.in_group
            and is_waiting(pod)
            and replica not in self._state.reservations.assumed
        }
        gang = observed.gang
        unbound = {gang.replica(member) for member in gang.unbound}
        if observed.complete and nominated.keys() == unbound:
            self._state.hold(gang, Placement(job_uid, nominated), now, adopted=True)
            if not any(
                self._state.reservations.is_overcommitted(node) for node in nominated.values()
            ):
                self._state.rescales.adopt(job_uid)
                return ()
            self._state.break_plan(job_uid)
        return tuple(observed.pods[replica] for replica in sorted(nominated))

    def _complete_gangs_bound_in_part(self, now: Instant) -> None:
        """Reserve for the rest of gangs that are bound in part before anything else is planned.

        The last leader had reserved it. kube-scheduler drops the nomination of a pod that it tries
        while it has no extender, and in the queue a gang of a higher priority would go first."""
        if self._state.why_too_old() is not None:
            return
        for job_uid in sorted(self._state.cluster.waiting_jobs()):
            found = self._state.queue.find(job_uid)
            if found is None or job_uid in self._state.cluster.rescales:
                continue
            observed = found.observed
            in_part = observed.gang.is_in_part
            may_be_planned = observed.complete and not self._state.queue.not_offered_yet(observed)
            if in_part and may_be_planned and not self._state.queue.is_held(observed):
                self._state.plan_at_once(found, now)

    def _drop_outdated_answers(self, job_uid: str) -> None:
        """Another leader has nominated other nodes for pods that this one answered when it led: the
        kube-scheduler that was answered ended before that, and binds them no more."""
        for pod in self._state.cluster.waiting_pods(job_uid):
            answered = self._state.reservations.assumed.get(pod.replica) if pod.replica else None
            if answered is not None and pod.nominated_node not in (None, answered):
                assert pod.replica is not None
                self._state.settled(pod.replica)
                self._state.reservations.release(pod.replica)

    def release_all(self) -> None:
        """Reserve nothing: another process leads now."""
        with self._state.locked() as now:
            self._state.release_count += 1
            self._state.leads = self._state.waited_to_lead = False
            self._state.unled_since = None
            for job_uid in self._state.reservations.ledger.jobs():
                self._state.break_plan(job_uid)
            for replica in self._state.reservations.assumed:
                # Its kube-scheduler has stopped: no binding waits for volumes any more.
                self._state.hold_assumed(replica, now, self._state.config.reservation_seconds)
