"""The gangs that wait to be planned, in the order of ``optimus.placement.queue_order``."""

from dataclasses import replace
from typing import Final, NamedTuple

from extender.gang_membership import ObservedGang, observe_gang
from extender.settings import Settings
from extender.state.cluster import Cluster, is_waiting
from extender.state.offers import Offers
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from optimus.kube.pods import Pod
from optimus.placement.queue_order import WaitingGang, order_key

ASKED_BY_ITSELF_SECONDS: Final = 1.0
"""kube-scheduler asks about a new pod sooner than this, unless it is busy."""


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
        offers: Offers,
        settings: Settings,
    ) -> None:
        self._cluster, self._reservations, self._rescales = cluster, reservations, rescales
        self._offers, self._settings = offers, settings
        self.cached: dict[str, QueuedGang | None] = {}
        """By job UID. Whoever changes a job's pods, assumed replicas or offers drops it."""
        self.paused: set[str] = set()
        """Jobs whose reservations ran out: queued again when kube-scheduler asks about a pod."""

    def observe(self, pod: Pod) -> ObservedGang:
        """The gang of a pod, from the pods that exist."""
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        others, job = self._cluster.pods_of(job_uid).values(), self._cluster.jobs.get(job_uid)
        observed = observe_gang(pod, others, job, self._offers.absent(job_uid))
        beyond_plan = observed.beyond_plan or self._cluster.occupancy.is_beyond_plan(observed.gang)
        gang = self._reservations.with_assumed(observed.gang)
        return replace(observed, gang=gang, beyond_plan=beyond_plan)

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
            if found is not None and self._is_plannable(found.observed):
                queued.append(found)
        if len(queued) < 2:
            return queued
        capacity, limit = self._reservations.free().allocatable, self._settings.age_limit_seconds
        return sorted(queued, key=lambda each: order_key(each.waiting, capacity, now.epoch, limit))

    def _is_plannable(self, observed: ObservedGang) -> bool:
        return (
            observed.complete
            and not self.is_held(observed)
            and not self._offers.waits(observed.gang.job_uid)
            and not self.not_offered_yet(observed)
        )

    def not_offered_yet(self, observed: ObservedGang) -> tuple[Pod, ...]:
        """The waiting pods that are to be offered nodes before any pod of the gang is answered."""
        job_uid, assumed = observed.gang.job_uid, self._reservations.assumed
        if not observed.beyond_plan and not self._offers.asks(job_uid):
            return ()
        return tuple(
            pod
            for replica, pod in sorted(observed.pods.items())
            if is_waiting(pod)
            and replica not in assumed
            and not self._offers.was_offered(job_uid, pod.uid)
        )

    def pods_to_requeue(self, now: float) -> tuple[Pod, ...]:
        """The pods that kube-scheduler has to be made to ask about; it asks about new ones itself.

        ``now`` is monotonic."""
        pods: list[Pod] = []
        for job_uid in self._cluster.waiting_jobs():
            found = self._find(job_uid)
            if found is None or not found.observed.complete or job_uid in self.paused:
                continue
            missing = self.not_offered_yet(found.observed)
            if (
                missing
                and not self.is_held(found.observed)
                and now - self._offers.begin(job_uid, now) >= ASKED_BY_ITSELF_SECONDS
            ):
                pods += missing
        return tuple(pods)

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
