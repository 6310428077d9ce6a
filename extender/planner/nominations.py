"""Which pods are to be nominated, requeued or tried again: what ``extender.nominator`` writes."""

from dataclasses import dataclass
from typing import Final

from extender.planner.offers_check import OffersCheck
from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from optimus.kube.pods import Pod

NODE_MICROSECONDS: Final = 4.9
"""Of kube-scheduler's processor time, to try one more node for a pod that is not nominated."""

NOMINATION_MICROSECONDS: Final = 6300.0
"""Of the processor time of API server, etcd and extender, for one nomination. Both were measured
(docs/benchmarks/processes.md); their ratio depends little on the processor."""


@dataclass(frozen=True, slots=True)
class PendingNomination:
    """A pod that is planned on a node and not bound yet."""

    pod: Pod
    node: str
    answered_at: float
    """When kube-scheduler was last answered with this node (monotonic), or minus infinity."""

    assumed: bool = False
    """Whether kube-scheduler is binding it: a nomination now would be found invalid."""

    refused_at: float | None = None
    """When kube-scheduler was last refused every node for it (monotonic), if it has not been
    answered with one since."""

    compared: bool = True
    """Whether it is known that kube-scheduler offers such pods the nodes that plans use."""


class Nominations:
    """Over one state; takes its lock."""

    def __init__(self, state: ExtenderState, offers_check: OffersCheck) -> None:
        self._state, self._offers_check = state, offers_check
        self.changes = state.changes
        """Wakes the nominator where there may be something to write."""
        self._pending: dict[str, tuple[PendingNomination, ...]] = {}
        """By job UID; corrected by ``Reservations.touched_jobs``."""

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

    def pending_nominations(self) -> tuple[PendingNomination, ...]:
        """The pods that are planned and wait, with their nodes."""
        with self._state.locked() as now:
            touched, self._state.reservations.touched_jobs = (
                self._state.reservations.touched_jobs,
                set(),
            )
            for job_uid in touched:
                self._pending[job_uid] = self._pending_of(job_uid)
                if not self._pending[job_uid]:
                    del self._pending[job_uid]
            return tuple(
                each
                for job_uid, pending in self._pending.items()
                if not self._state.rescales.is_leaving(job_uid, now.monotonic)
                and self._state.future_room.awaits(job_uid) is None
                for each in pending
            )

    def _pending_of(self, job_uid: str) -> tuple[PendingNomination, ...]:
        pods = {pod.replica: pod for pod in self._state.cluster.waiting_pods(job_uid)}
        if not self._state.rescales.is_whole(job_uid):
            return ()
        found = [
            held for held in self._state.reservations.ledger.of_job(job_uid) if held.replica in pods
        ]
        if any(pod.in_group for pod in pods.values()):
            found = found[:1]  # kube-scheduler tries the others of its PodGroup with it
        elif self._state.config.bind_gangs and self._offers_check.knows_every_rule(job_uid):
            waits = [held for held in found if held.replica not in self._state.reservations.assumed]
            found = waits[:1]  # the others are bound with it
        return tuple(
            PendingNomination(
                pods[held.replica],
                held.node,
                self._state.answered_at.get(pods[held.replica].uid, float("-inf")),
                held.replica in self._state.reservations.assumed,
                self._state.asked_at.get(pods[held.replica].uid),
                self._offers_check.is_compared(pods[held.replica]),
            )
            for held in found
        )

    def pods_to_requeue(self) -> tuple[Pod, ...]:
        """The pods that wait to be offered nodes, so that their gang can be planned."""
        with self._state.locked() as now:
            return self._state.queue.pods_to_requeue(now.monotonic)

    def nominations_save_time(self) -> bool:
        """Whether kube-scheduler would try so many nodes that a nomination costs less."""
        nodes = len(self._state.cluster.nodes)  # of one dict: needs no lock
        return nodes * NODE_MICROSECONDS > NOMINATION_MICROSECONDS

    def still_pending(self, pod: Pod, node: str) -> bool:
        """Whether a pod still waits, is planned on this node, and is not being bound."""
        with self._state.lock:
            known = self._state.cluster.pods.get(pod.uid)
            if known is None or known.replica is None or not is_waiting(known):
                return False
            held = self._state.reservations.ledger.get(known.replica)
            assumed = known.replica in self._state.reservations.assumed
            return held is not None and held.node == node and not assumed

    def find_waiting(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it still needs a node."""
        with self._state.lock:
            known = self._state.cluster.pods.get(pod.uid)
            return known if known is not None and is_waiting(known) else None
