"""The gangs that wait to be planned, in the order of ``optimus.placement.queue_order``."""

from dataclasses import replace
from typing import NamedTuple

from extender.gang_membership import ObservedGang, observe_gang
from extender.settings import Settings
from extender.state.cluster import Cluster, is_waiting
from extender.state.exclusions import Exclusions
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from optimus.kube.pods import Pod
from optimus.placement.queue_order import WaitingGang, order_key


class Instant(NamedTuple):
    """One instant on both clocks, in seconds: one times what is reserved, the other ages pods."""

    monotonic: float
    epoch: float


class QueuedGang(NamedTuple):
    """A gang that waits to be planned."""

    observed: ObservedGang
    waiting: WaitingGang


class GangQueue:
    """The queue over one cluster. Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        reservations: Reservations,
        rescales: RescaleReservations,
        exclusions: Exclusions,
        settings: Settings,
    ) -> None:
        self._cluster, self._reservations, self._rescales = cluster, reservations, rescales
        self._exclusions, self._settings = exclusions, settings
        self.cached: dict[str, QueuedGang | None] = {}
        """By job UID. Whoever changes a job's pods, assumed replicas or exclusions drops it."""
        self.paused: set[str] = set()
        """Jobs whose reservations ran out: queued again when kube-scheduler asks about a pod."""

    def observe(self, pod: Pod) -> ObservedGang:
        """The gang of a pod, from the pods that exist."""
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        others, job = self._cluster.pods_of(job_uid).values(), self._cluster.jobs.get(job_uid)
        observed = observe_gang(pod, others, job, self._exclusions.of_job(job_uid))
        return replace(observed, gang=self._reservations.with_assumed(observed.gang))

    def observe_waiting(self, job_uid: str) -> ObservedGang | None:
        """The gang of a job's waiting pods that name our scheduler; ``None`` where none is known.

        The newest pod's list is the one of the generation that waits."""
        pods = [
            pod
            for pod in self._cluster.waiting_pods(job_uid)
            if pod.scheduler_name == self._settings.scheduler_name
            and self._cluster.knows_gang_of(pod)
        ]
        newest = max(pods, key=lambda pod: (pod.created_at, pod.uid), default=None)
        return None if newest is None else self.observe(newest)

    def in_order(self, now: Instant, asker: ObservedGang | None) -> list[QueuedGang]:
        """Every complete gang that waits without a plan, and the asker's; first what goes first."""
        queued = [] if asker is None else [self._queued(asker)]
        for job_uid in self._cluster.waiting_jobs():
            if (
                job_uid in self.paused
                or (asker is not None and job_uid == asker.gang.job_uid)
                or self._rescales.is_leaving(job_uid, now.monotonic)
            ):
                continue
            found = self._find(job_uid)
            if found is not None and found.observed.complete and not self.is_held(found.observed):
                queued.append(found)
        if len(queued) < 2:
            return queued
        capacity, limit = self._reservations.free().allocatable, self._settings.age_limit_seconds
        return sorted(queued, key=lambda each: order_key(each.waiting, capacity, now.epoch, limit))

    def _find(self, job_uid: str) -> QueuedGang | None:
        if job_uid not in self.cached:
            observed = self.observe_waiting(job_uid)
            self.cached[job_uid] = None if observed is None else self._queued(observed)
        found = self.cached[job_uid]
        if found is not None and found.waiting.ran_before != (job_uid in self._cluster.have_run):
            self.cached[job_uid] = found = self._queued(found.observed)
        return found

    def _queued(self, observed: ObservedGang) -> QueuedGang:
        """The gang's wait begins with the last of its pods; the lowest priority of them counts."""
        created = (pod.created_at for pod in observed.pods.values() if is_waiting(pod))
        gang, since = observed.gang, max(created, default=0.0)
        ran_before = gang.job_uid in self._cluster.have_run
        priority = min(pod.priority for pod in observed.pods.values())
        waiting = WaitingGang(gang.job_uid, gang.demand(), since, ran_before, priority)
        return QueuedGang(observed, waiting)

    def is_held(self, observed: ObservedGang) -> bool:
        """Whether room is reserved for every replica that is not bound."""
        gang, ledger = observed.gang, self._reservations.ledger
        return all(ledger.get(gang.replica(member)) is not None for member in gang.unbound)
