"""Compares the nodes that kube-scheduler offers with those that plans use."""

import logging
from collections.abc import Sequence

from extender.state.extender_state import ExtenderState
from extender.state.gang_queue import QueuedGang
from extender.state.unknown_rules import LAG_SECONDS
from optimus.kube.pods import Pod
from optimus.placement.capacity import is_admitted
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant

_LOG = logging.getLogger(__name__)


class OffersCheck:
    """Over one state, whose lock callers hold."""

    def __init__(self, state: ExtenderState) -> None:
        self._state = state

    def record_offer(
        self, pod: Pod, names: Sequence[str], planned: str | None = None
    ) -> QueuedGang | None:
        """Record which nodes a pod is not offered; gives its gang as it is then.

        Nodes that are full with what is reserved for others are not recorded as not offered."""
        assert pod.replica is not None
        absent = self._state.cluster.nodes.keys() - names
        full = self._state.reservations.nodes_too_full(pod.resources, absent, pod.priority)
        ruled_out = absent - full if planned is None else {*(absent - full), planned}
        self._state.offers.record(pod, ruled_out)
        self._state.job_changed(pod.replica.job_uid)
        return self._state.queue.find(pod.replica.job_uid)

    def offered(self, pod: Pod, names: Sequence[str]) -> QueuedGang | None:
        """The gang of a pod; which nodes the pod is offered is recorded where it was asked about to
        show that."""
        assert pod.replica is not None
        queue = self._state.queue
        queued = queue.find(pod.replica.job_uid)
        missing = () if queued is None else queue.pods_to_ask_about(queued.observed)
        return (
            self.record_offer(pod, names) if pod.uid in [each.uid for each in missing] else queued
        )

    def compare_offer(self, pod: Pod, names: Sequence[str], now: Instant) -> None:
        """See whether a pod is offered every node that a plan may use; a probe cannot show it.

        Nor can a pod with rules: they need not concern others with its constraints."""
        known = self._state.unknown_rules
        known.by_score = False
        last = known.last.get(pod.constraints)
        if last is not None and now.monotonic < last.recheck_at:
            return  # as mostly
        if self._has_rules(pod):
            return
        if list(names) == [pod.nominated_node]:
            return
        missing = self._missing(pod, names, now)
        differs = known.record(pod.constraints, now.monotonic, is_complete=missing is None)
        if differs and missing is not None:
            self._offers_differ(pod, missing)

    def _has_rules(self, pod: Pod) -> bool:
        """Return whether a pod has rules, or others have such that keep it from nodes."""
        return pod.has_rules or self._state.cluster.occupancy.has_rules_for(
            pod.namespace, pod.labels
        )

    def scored(self, pod: Pod, now: Instant) -> None:
        """A pod is scored. Without a filter before, no list is compared: nothing is refused."""
        if not self.is_compared(pod):
            self._state.unknown_rules.by_score = True
            self._state.unknown_rules.record(pod.constraints, now.monotonic, is_complete=True)

    def _missing(self, pod: Pod, names: Sequence[str], now: Instant) -> str | None:
        """A node that admits a pod, has had the room for a while, also beside all pods of no job
        that kube-scheduler may be binding there, and is not offered.

        What is reserved for its own gang counts where it is a PodGroup: kube-scheduler counts those
        that it has come to."""
        assert pod.replica is not None
        nodes = self._state.cluster.nodes
        own = None if pod.in_group else pod.replica.job_uid
        seen = now.monotonic - LAG_SECONDS
        for name in sorted(nodes.keys() - names):
            if (
                self._state.cluster.released_at.get(name, seen) <= seen
                and is_admitted(nodes[name], pod.constraints)
                and pod.resources.fits_in(self._state.cluster.free(name))
                and pod.resources.fits_in(self._state.reservations.left(name, besides=own))
                and self._state.unseen.leave_room_for_passing(
                    (name,), now.monotonic, pod.resources, besides=own
                )
            ):
                return name
        return None

    def _offers_differ(self, pod: Pod, missing: str) -> None:
        """Another thing is known about pods with these constraints: plans that it may concern are
        broken."""
        _LOG.info(
            "node %s is not offered to pod %s/%s, which it admits and has room for: kube-scheduler"
            " has rules that plans do not know. No pod like it is answered before all pods of its"
            " gang have been offered nodes",
            missing,
            pod.namespace,
            pod.name,
        )
        for job_uid in self._state.reservations.ledger.jobs():
            unanswered = self._unanswered(job_uid)
            concerned = any(each.constraints == pod.constraints for each in unanswered)
            if concerned and not self._state.offers.asks(job_uid):
                self._state.break_plan(job_uid)

    def _unanswered(self, job_uid: str) -> list[Pod]:
        """The waiting pods of a job of which none is being bound."""
        pods = self._state.cluster.waiting_pods(job_uid)
        is_binding = any(pod.replica in self._state.reservations.assumed for pod in pods)
        return [] if is_binding else pods

    def rule_out(self, pod: Pod, held: Reservation, names: Sequence[str], now: Instant) -> None:
        """kube-scheduler does not offer a pod's planned node: record its offer, break the plan."""
        job_uid = held.replica.job_uid
        _LOG.info("job %s: planned node %s is not offered", job_uid, held.node)
        if pod.in_group:
            # None of it is bound: it is planned anew as a whole. Nodes that are full with others of
            # it are not offered either.
            self.record_offer(pod, names, planned=held.node)
            self._state.break_plan(job_uid, also_assumed=True)
            return
        differs = self._state.offers.was_offered(job_uid, pod.uid)
        self._state.break_plan(job_uid)
        self.record_offer(pod, names, planned=held.node)
        if differs:
            self._state.offers.offers_differ(
                job_uid, now.monotonic, self._state.config.exclusion_seconds
            )

    def knows_every_rule(self, job_uid: str) -> bool:
        """Return whether plans know all that decides where the waiting pods of a job may go, so
        that kube-scheduler need not be asked about each."""
        state, known = self._state, self._state.unknown_rules
        if (
            known.by_score
            or state.offers.asks(job_uid)
            or any(state.offers.absent(job_uid).values())
        ):
            return False
        for pod in state.cluster.waiting_pods(job_uid):
            compared = known.last.get(pod.constraints)
            if pod.has_rules or pod.in_group or compared is None or not compared.is_complete:
                return False
        found = state.queue.find(job_uid)
        if found is None:
            return False
        return state.reservations.with_surroundings(found.observed.gang).surroundings is None

    def is_compared(self, pod: Pod) -> bool:
        """Return whether it is known which nodes kube-scheduler offers the pod, or it is asked
        about."""
        return (
            self._has_rules(pod)
            or (pod.replica is not None and self._state.offers.asks(pod.replica.job_uid))
            or pod.constraints in self._state.unknown_rules.last
        )
