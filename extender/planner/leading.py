"""Begins to lead, and ends it."""

from collections.abc import Callable

from extender.state.extender_state import ExtenderState
from optimus.placement.queue.order import Instant


class Leading:
    """Over one state; takes its lock."""

    def __init__(self, state: ExtenderState) -> None:
        self._state = state
        self.before_leading: Callable[[Instant], None] = lambda _: None
        """Called under the lock before anything is planned."""

    def begin(self) -> None:
        """Reserve for rescales and for gangs that are bound in part; then gangs may be planned."""
        with self._state.locked() as now:
            self._update_rescales(now)
            self.before_leading(now)
            self._state.leads, self._state.unled_since = True, None
            self._complete_gangs_bound_in_part(now)
            self._update_rescales(now)
            self._state.tried_in_call.clear()  # nothing could be planned then
        self._state.changes.notify()

    def _update_rescales(self, now: Instant) -> None:
        self._state.rescales.update(now.monotonic, reserve=self._state.may_plan())

    def _complete_gangs_bound_in_part(self, now: Instant) -> None:
        """Reserve for the rest of gangs that are bound in part before anything else is planned.

        The last leader had reserved it, and in the queue a gang of a higher priority would go
        first."""
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
