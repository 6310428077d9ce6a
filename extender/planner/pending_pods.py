"""The pods that kube-scheduler is to try again, for ``extender.requeuer``."""

from dataclasses import dataclass

from extender.planner.offers_check import OffersCheck
from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that is planned on a node and not bound yet."""

    pod: Pod
    node: str
    answered_at: float
    """When kube-scheduler was last answered with this node (monotonic), or minus infinity."""

    assumed: bool = False
    """Whether kube-scheduler is binding it."""

    refused_at: float | None = None
    """When kube-scheduler was last refused every node for it (monotonic), if it has not been
    answered with one since."""


class PendingPods:
    """Over one state; takes its lock."""

    def __init__(self, state: ExtenderState, offers_check: OffersCheck) -> None:
        self._state, self._offers_check = state, offers_check

    def outdated_refusals(self) -> tuple[Pod, ...]:
        """Pods whose users read that the gang is not complete or that a cache is too old, while by
        now it is so no longer and the gang does not fit; each once."""
        if self._state.why_too_old() is not None:
            return ()
        with self._state.lock:
            outdated = tuple(
                pod
                for pod in self._state.refused_for_now.values()
                if pod.replica and pod.replica.job_uid in self._state.refusals
            )
            for pod in outdated:
                del self._state.refused_for_now[pod.uid]
            return outdated

    def planned(self) -> tuple[PendingPod, ...]:
        """The pods that are planned and wait, with their nodes."""
        with self._state.locked() as now:
            return tuple(
                each
                for job_uid in self._state.reservations.ledger.jobs()
                if self._state.cluster.waiting_count(job_uid)
                and not self._state.rescales.is_leaving(job_uid, now.monotonic)
                and self._state.future_room.awaits(job_uid) is None
                for each in self._pending_of(job_uid)
            )

    def _pending_of(self, job_uid: str) -> tuple[PendingPod, ...]:
        pods = {pod.replica: pod for pod in self._state.cluster.waiting_pods(job_uid)}
        if not self._state.rescales.is_whole(job_uid):
            return ()
        found = [
            held for held in self._state.reservations.ledger.of_job(job_uid) if held.replica in pods
        ]
        binds = self._state.config.binds_gangs and self._offers_check.knows_every_rule(job_uid)
        in_group = any(pod.in_group for pod in pods.values())
        pending = [
            PendingPod(
                pods[held.replica],
                held.node,
                self._state.answered_at.get(pods[held.replica].uid, float("-inf")),
                held.replica in self._state.reservations.assumed,
                self._state.asked_at.get(pods[held.replica].uid),
            )
            for held in found
        ]
        if (
            in_group or binds
        ):  # the others of a PodGroup are tried, or the others are bound, with it
            waits = [each for each in pending if in_group or not each.assumed]
            waits.sort(key=lambda each: each.refused_at is None and not each.pod.refused)
            return tuple(waits[:1])
        return tuple(pending)

    def pods_to_ask_about(self) -> tuple[Pod, ...]:
        """The pods that wait to be offered nodes, so that their gang can be planned."""
        with self._state.locked() as now:
            return self._state.queue.pods_to_requeue(now)

    def still_pending(self, pod: Pod, node: str) -> bool:
        """Return whether a pod still waits, is planned on this node, and is not being bound."""
        with self._state.lock:
            known = self._state.cluster.pods.get(pod.uid)
            if known is None or known.replica is None or not is_waiting(known):
                return False
            held = self._state.reservations.ledger.get(known.replica)
            assumed = known.replica in self._state.reservations.assumed
            return held is not None and held.node == node and not assumed

    def is_waiting(self, pod: Pod) -> bool:
        """Return whether the pod still needs a node."""
        with self._state.lock:
            known = self._state.cluster.pods.get(pod.uid)
            return known is not None and is_waiting(known)
