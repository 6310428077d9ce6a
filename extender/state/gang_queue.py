"""The gangs that wait to be planned, in the order of ``optimus.placement.queue.order``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Final

from extender.state.cluster import Cluster, is_waiting
from extender.state.gang_membership import GangContext, ObservedGang, observe_gang
from extender.state.offers import Offers, asked_as
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from extender.state.unknown_rules import UnknownRules
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang
from optimus.placement.queue.budgets import SECONDS_PER_REPLICA, NamespaceBudgets
from optimus.placement.queue.order import Instant, WaitingGang

NEW_POD_SECONDS: Final = 1.0
"""kube-scheduler asks about a new pod sooner than this, unless it is busy."""


@dataclass(frozen=True)
class QueuedGang:
    """A gang that waits to be planned."""

    observed: ObservedGang
    ran_before: bool
    """Whether its job has had a bound pod or a rescale."""

    @property
    def gang(self) -> Gang:
        """Its replicas."""
        return self.observed.gang

    @cached_property
    def waiting(self) -> WaitingGang:
        """Return what decides on its place in the queue.

        Its wait begins with the last of its pods; the lowest priority of them counts."""
        observed, gang = self.observed, self.observed.gang
        pods = [*observed.pods.values()]
        since = max([pod.created_at for pod in pods if is_waiting(pod)], default=0.0)
        priority = min([pod.priority for pod in pods])
        # Not where its user has made it larger: a pod that runs would close nodes for all of it.
        in_part = self.ran_before and gang.is_in_part
        return WaitingGang(gang.job_uid, gang.demand(), since, self.ran_before, priority, in_part)


class GangQueue:
    """The queue over one cluster. Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        reservations: Reservations,
        rescales: RescaleReservations,
        offers: Offers,
        unknown_rules: UnknownRules,
        clock: Callable[[], Instant],
    ) -> None:
        self._cluster, self._reservations, self._rescales = cluster, reservations, rescales
        self._offers, self._unknown_rules = offers, unknown_rules
        self._clock, self._budgets = clock, NamespaceBudgets()
        self.cached: dict[str, QueuedGang | None] = {}
        """By job UID. Whoever changes a job's pods, assumed replicas or offers drops it."""
        self.paused: dict[str, float] = {}
        """Jobs whose reservations were not used, and until when (monotonic); infinite: they are
        queued again when kube-scheduler asks about a pod."""
        self.asked: dict[str, bool] = {}
        """Jobs that kube-scheduler has asked about; true: also to be planned before all their pods
        exist."""
        self.schedulers: set[str] = set()
        """The names of the schedulers that ask this process: profiles of one kube-scheduler."""

    def observe(self, pod: Pod) -> ObservedGang:
        """The gang of a pod, from the pods that exist."""
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        others = self._cluster.pods_of(job_uid).values()
        rescale = self._cluster.rescales.get(job_uid)
        known = GangContext(
            self._cluster.jobs.get(job_uid),
            None if rescale is None else rescale.target,
            self._offers.absent(job_uid) if job_uid in self._offers.jobs else {},
            self.schedulers,
            self.asked.get(job_uid, False),
        )
        observed = observe_gang(pod, others, known)
        gang, beyond_plan = observed.gang, observed.beyond_plan
        if gang.surroundings is not None:  # some pod has rules
            beyond_plan |= self._cluster.occupancy.is_beyond_plan(gang)
        if not observed.pods.keys().isdisjoint(self._reservations.assumed):
            gang = self._reservations.with_assumed(gang)
        gang = self._cluster.as_profile_says(gang)
        constraints = frozenset([member.spec.constraints for member in gang.unbound])
        return replace(observed, gang=gang, beyond_plan=beyond_plan, constraints=constraints)

    def observe_waiting(self, job_uid: str) -> ObservedGang | None:
        """The gang of a job's waiting pods that name a scheduler that asks; ``None`` where none is
        known.

        The newest pod's list is the one of the generation that waits."""
        has_job = self._cluster.may_run(job_uid)
        pods = [
            (pod.created_at, pod.uid, pod)
            for pod in self._cluster.waiting_pods(job_uid)
            if pod.scheduler_name in self.schedulers and (pod.gang or has_job)
        ]
        newest = max(pods, key=itemgetter(0, 1))[2] if pods else None
        return None if newest is None else self.observe(newest)

    def waiting(self, now: Instant) -> list[QueuedGang]:
        """Every gang that waits without a plan and can be planned, in no particular order."""
        queued = []
        for job_uid in self._cluster.expire_avoided(now.epoch):
            self.changed(job_uid)
        for job_uid in self._cluster.waiting_jobs():
            if job_uid in self.paused or self._rescales.is_leaving(job_uid, now.monotonic):
                continue
            if self._is_reserved(job_uid) and not self.asked.get(job_uid, False):
                continue  # asked about early, a gang is planned before all its pods exist
            found = self.find(job_uid)
            if found is not None and self._is_plannable(found.observed):
                queued.append(found)
        return queued

    def changed(self, job_uid: str) -> None:
        """A job's pods or offers have changed."""
        self.cached.pop(job_uid, None)
        self._reservations.touch(job_uid)

    def is_first_question(self, job_uid: str) -> bool:
        """Record that kube-scheduler asks about a pod of a job; returns whether it never has."""
        is_first = job_uid not in self.asked
        self.asked.setdefault(job_uid, False)
        return is_first

    def resume(self, job_uid: str) -> None:
        """kube-scheduler asks about a pod of a job whose reservations ran out."""
        if self.paused.get(job_uid) == float("inf"):
            del self.paused[job_uid]

    def end_pauses(self, now: float) -> bool:
        """Queue again what has paused long enough (``now`` is monotonic); whether there is any."""
        ended = [job_uid for job_uid, until in self.paused.items() if until <= now]
        for job_uid in ended:
            del self.paused[job_uid]
        return bool(ended)

    def _is_reserved(self, job_uid: str) -> bool:
        """Return whether every pod of a job that waits has a reservation."""
        ledger, whole_jobs = self._reservations.ledger, self._reservations.whole_jobs
        if job_uid not in whole_jobs and ledger.holds(job_uid):
            pods = self._cluster.waiting_pods(job_uid)
            if all(pod.replica is not None and ledger.get(pod.replica) for pod in pods):
                whole_jobs.add(job_uid)
        return job_uid in whole_jobs

    def is_asked(self, gang: Gang) -> bool:
        """Return whether kube-scheduler has asked about a gang, or need not have."""
        job_uid = gang.job_uid
        return job_uid in self.asked or job_uid in self._cluster.rescales or gang.is_in_part

    def _is_plannable(self, observed: ObservedGang) -> bool:
        return (
            observed.specs_known
            and not self.is_held(observed)
            and not self._offers.waits(observed.gang.job_uid)
            and not self.pods_to_ask_about(observed)
        )

    def pods_to_ask_about(self, observed: ObservedGang) -> tuple[Pod, ...]:
        """The waiting pods that kube-scheduler is to ask about before the gang is planned.

        None of a PodGroup: it stops at the first that is refused, and binds none before it has
        been answered for all. A plan is simply tried."""
        missing = self.not_offered_yet(observed)
        return () if missing and observed.in_group else missing

    def not_offered_yet(self, observed: ObservedGang) -> tuple[Pod, ...]:
        """The waiting pods that are to be offered nodes before any pod of the gang is answered:
        those of which none like it was."""
        job_uid, assumed = observed.gang.job_uid, self._reservations.assumed
        if not (
            observed.beyond_plan
            or (job_uid in self._offers.jobs and self._offers.asks(job_uid))
            or self._may_have_unknown_rules(observed)
        ):
            return ()
        pods, offers = sorted(observed.pods.items()), self._offers
        known = {asked_as(pod) for _, pod in pods if offers.was_offered(job_uid, pod.uid)}
        return tuple(
            pod
            for replica, pod in pods
            if is_waiting(pod) and replica not in assumed and asked_as(pod) not in known
        )

    def _may_have_unknown_rules(self, observed: ObservedGang) -> bool:
        """Return whether pods like those of a gang are not offered nodes that a plan may use."""
        if not self._unknown_rules.any_missing:
            return False  # as nearly always
        may_apply = self._unknown_rules.may_apply
        return any(may_apply(constraints) for constraints in observed.constraints)

    def pods_to_requeue(self, now: Instant) -> tuple[Pod, ...]:
        """The pods that kube-scheduler has to be made to ask about; it asks about new ones
        itself."""
        pods: list[Pod] = []
        for job_uid in self._cluster.waiting_jobs():
            if job_uid in self.paused or self._is_reserved(job_uid):
                continue
            found = self.find(job_uid)
            if found is None or not found.observed.complete:
                continue
            missing = self.pods_to_ask_about(found.observed)
            if missing and not self.is_held(found.observed):
                pods += (pod for pod in missing if now.epoch - pod.created_at >= NEW_POD_SECONDS)
        return tuple(pods)

    def find(self, job_uid: str) -> QueuedGang | None:
        """The gang of a job's waiting pods; the same object until it changes.

        ``None`` too where it has changed and its namespace is over its budget."""
        if job_uid not in self.cached:
            if self.defers(job_uid):
                return None
            observed = self.observe_waiting(job_uid)
            self.cached[job_uid] = None if observed is None else self.queued(observed)
            if observed is not None:
                cost = SECONDS_PER_REPLICA * (len(observed.pods) + len(observed.gang.members))
                namespace, now = observed.gang.key.namespace, self._clock().monotonic
                self._budgets.charge(namespace, cost, now)
        found = self.cached[job_uid]
        if found is not None and found.ran_before != self._ran_before(found.observed):
            self.cached[job_uid] = found = self.queued(found.observed)
        return found

    def defers(self, job_uid: str) -> bool:
        """Return whether a gang has changed and is not looked at now: its namespace is over its
        budget."""
        pod = next(iter(self._cluster.pods_of(job_uid).values()), None)
        return (
            job_uid not in self.cached
            and pod is not None
            and self._budgets.is_over(pod.namespace, self._clock().monotonic)
        )

    def unobserved(self) -> list[str]:
        """The UIDs of jobs whose gangs have changed since they were looked at."""
        return [
            job_uid
            for job_uid in self._cluster.waiting_jobs()
            if job_uid not in self.cached and not self._is_reserved(job_uid)
        ]

    def ask(self, pod: Pod, *, early: bool = False) -> None:
        """kube-scheduler asks about a pod; ``early``: by score alone."""
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        if pod.scheduler_name not in self.schedulers:
            self.schedulers.add(pod.scheduler_name)
            self.cached.clear()
        was_early = self.asked.get(job_uid, False)
        self.asked[job_uid] = early or was_early
        if early and not was_early:
            self.cached.pop(job_uid, None)
        if self.cached.get(job_uid) is None:
            self.cached.pop(job_uid, None)

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self.paused.pop(job_uid, None)
        self.asked.pop(job_uid, None)
        self.changed(job_uid)

    def queued(self, observed: ObservedGang) -> QueuedGang:
        """The gang with what its job has done before."""
        return QueuedGang(observed, self._ran_before(observed))

    def _ran_before(self, observed: ObservedGang) -> bool:
        """Return whether the job has run as it waits now, or a part of this very gang has been
        placed."""
        gang, cluster = observed.gang, self._cluster
        if gang.job_uid not in cluster.have_run:
            return False
        if cluster.ran_with(gang.job_uid, gang.demand()):
            return True
        if not cluster.was_planned_with(gang.job_uid, gang.demand()):
            return False
        lists = [pod.gang for pod in observed.pods.values() if is_waiting(pod)]
        return any(
            pod.node is not None
            and pod.scheduler_name in self.schedulers
            and pod.gang is not None
            and pod.gang in lists
            for pod in observed.pods.values()
        )

    def is_held(self, observed: ObservedGang) -> bool:
        """Return whether room is reserved for every replica that is not bound."""
        gang, ledger = observed.gang, self._reservations.ledger
        if not gang.members:
            bound = sum(pod.node is not None for pod in observed.pods.values())
            return len(ledger.of_job(gang.job_uid)) + bound >= observed.size
        if not ledger.holds(gang.job_uid):  # as most that wait
            return all(member.node is not None for member in gang.members)
        return ledger.holds_all([gang.replica(member) for member in gang.unbound])
