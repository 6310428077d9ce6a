"""Which jobs wait for capacity alone, which running ones may be paused for them, and which could
shrink instead; read from one observation."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.cluster import Observation
from autoscaler.jobs.state import JobState
from optimus.interval.gang_trial import ByNode
from optimus.interval.victims import VictimCandidate, harm
from optimus.jobs import Job, RescaleRule, Role
from optimus.kube.budgets import Budget
from optimus.kube.pods import Pod
from optimus.kube.training_jobs import TrainingJob
from optimus.placement.gang import Gang
from optimus.placement.queue.order import AGE_LIMIT_SECONDS, WaitingGang, order_key
from optimus.resources import NONE, Resources, total


class WaitingJob(NamedTuple):
    """A job of which some pod has no node, with all its pods."""

    job: Job
    pods: Sequence[Pod]

    @property
    def priority(self) -> int:
        """The lowest of its pods."""
        return min((pod.priority for pod in self.pods), default=0)


@dataclass(frozen=True, slots=True)
class RunningGangs:
    """What gangs of a lower priority could give back."""

    candidates: Sequence[VictimCandidate] = ()
    surplus: ByNode | None = None
    """What managed jobs take beyond their minimum; ``None``: none of them."""

    rescaling: bool = False
    """Whether one of these managed jobs is being rescaled."""


@dataclass(frozen=True, slots=True)
class PresentJobs:
    """One observation, and what is done to the jobs in it."""

    observation: Observation
    managed: Mapping[str, JobState]
    scheduler_name: str
    protected: Collection[str]
    """PriorityClasses whose jobs are never paused for others."""

    def waiting_jobs(self) -> list[WaitingJob]:
        """The gangs that kube-scheduler has refused and that may preempt, in order."""
        observation = self.observation
        found = [
            WaitingJob(job, pods)
            for job in observation.snapshot.jobs
            if (pods := self._waiting_pods(job)) and self._may_preempt(job, pods)
        ]
        capacity = total(node.allocatable for node in observation.snapshot.nodes)
        found.sort(
            key=lambda each: order_key(
                self._as_queued(each), capacity, observation.at, AGE_LIMIT_SECONDS
            )
        )
        return found

    def _waiting_pods(self, job: Job) -> Sequence[Pod]:
        """The pods of a gang of which one waits; none where the gang is not whole."""
        pods = [pod for pod in self.observation.pods.get(job.uid, ()) if not pod.leaving]
        if job.suspended or all(pod.node is not None or pod.finished for pod in pods):
            return ()
        gang = Gang.of(job)
        members = {gang.replica(member) for member in gang.members}
        return pods if members <= {pod.replica for pod in pods} else ()

    def _may_preempt(self, job: Job, pods: Sequence[Pod]) -> bool:
        """Whether more capacity may be all that it lacks, and its pods may preempt."""
        return not self.is_moving(job.uid) and all(
            pod.may_preempt
            and pod.scheduler_name == self.scheduler_name
            and (pod.node is not None or (pod.refused and not pod.gates))
            for pod in pods
        )

    def _as_queued(self, waiting: WaitingJob) -> WaitingGang:
        state = self.managed.get(waiting.job.uid)
        return WaitingGang(
            waiting.job.uid,
            total(pod.resources for pod in waiting.pods if pod.node is None),
            max(pod.created_at for pod in waiting.pods),
            state is not None and bool(state.record.gang_uids),
            waiting.priority,
        )

    def nominated(self, besides: str) -> dict[str, Resources]:
        """What pods that the extender has planned are about to take, by node, without one job."""
        planned = (
            (pod.nominated_node, pod)
            for uid, pods in self.observation.pods.items()
            if uid != besides
            for pod in pods
        )
        return _sums(
            (node, pod.resources)
            for node, pod in planned
            if node and pod.node is None and not pod.leaving
        )

    def leaving(self, gang_uid: str, stuck: Collection[str]) -> dict[str, Resources]:
        """What pods take that are being deleted, or are those of jobs paused for this gang.

        What the pods of another job that is rescaled or paused leave is kept for others."""
        leaves = (
            pod
            for uid, pods in self.observation.pods.items()
            for pod in pods
            if pod.uid not in stuck and self._leaves(pod, uid, gang_uid)
        )
        return taken_by(leaves)

    def _leaves(self, pod: Pod, job_uid: str, gang_uid: str) -> bool:
        state = self.managed.get(job_uid)
        preemption = None if state is None else state.preemption
        if preemption is not None:
            return preemption.uid == gang_uid
        return pod.leaving and pod.replica is not None and not self.is_moving(job_uid)

    def running_below(self, priority: int, budgets: Sequence[Budget]) -> RunningGangs:
        """The gangs below a priority."""
        candidates: list[VictimCandidate] = []
        by_uid: dict[str, Sequence[Pod]] = {}
        surplus: list[Pod] = []
        rescaling = False
        for uid, job in self.observation.jobs.items():
            pods = [pod for pod in self.observation.pods.get(uid, ()) if not pod.finished]
            if not pods or any(pod.priority >= priority for pod in pods):
                continue
            extra, moves = self._beyond_minimum(uid, pods), self.is_moving(uid)
            rescaling |= moves and bool(extra)
            surplus += () if moves else extra
            if self.why_no_victim(job, pods) is None:
                candidates.append(_candidate(job, pods))
                by_uid[uid] = pods
        allowed = within_budgets(candidates, by_uid, budgets)
        return RunningGangs(allowed, taken_by(surplus) if surplus else None, rescaling)

    def why_no_victim(self, job: TrainingJob, pods: Sequence[Pod]) -> str | None:
        """Why a job is never paused for a gang, whatever its priority."""
        reasons = {
            "it has ended": job.active is None,
            "it is suspended already": job.suspended or job.suspended_by is not None,
            job.not_suspendable: job.not_suspendable is not None,
            "it is being rescaled": self.is_moving(job.uid),
            "its pods are being placed": any(
                pod.node is None and pod.nominated_node for pod in pods
            ),
            "its pods are ending": not any(pod.bound() for pod in pods)
            or any(pod.leaving for pod in pods),
            "its PriorityClass is protected": any(
                pod.priority_class in self.protected for pod in pods
            ),
            "another scheduler places it": any(
                pod.scheduler_name != self.scheduler_name for pod in pods
            ),
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def is_moving(self, job_uid: str) -> bool:
        """Whether a job is being rescaled, paused or resumed."""
        state = self.managed.get(job_uid)
        return state is not None and state.rescale is not None

    def _beyond_minimum(self, job_uid: str, pods: Iterable[Pod]) -> list[Pod]:
        """The pods that a managed job could do without."""
        state = self.managed.get(job_uid)
        if state is None or state.held or state.job.suspended or not state.job.managed:
            return []
        if state.job.rescale is RescaleRule.NEVER:
            return []
        bounds = state.job.bounds
        least = {Role.PS: bounds.min_ps, Role.WORKER: bounds.min_workers}
        return [
            pod
            for pod in pods
            if pod.replica is not None
            and not pod.leaving
            and pod.replica.index >= least.get(pod.replica.role, pod.replica.index + 1)
        ]


def within_budgets(
    candidates: Iterable[VictimCandidate],
    pods: Mapping[str, Iterable[Pod]],
    budgets: Sequence[Budget],
) -> list[VictimCandidate]:
    """The candidates that all together may go by the PodDisruptionBudgets.

    What a budget allows goes to the lowest and youngest first: then any of those left may go, in
    any set."""
    left = {at: budget.allowed for at, budget in enumerate(budgets)}
    allowed = []
    for candidate in sorted(candidates, key=lambda each: harm((each,))):
        takes = Counter(
            at
            for pod in pods[candidate.job_uid]
            for at, budget in enumerate(budgets)
            if budget.protects(pod.namespace, pod.labels)
        )
        if all(left[at] >= count for at, count in takes.items()):
            allowed.append(candidate)
            for at, count in takes.items():
                left[at] -= count
    return allowed


def taken_by(pods: Iterable[Pod]) -> dict[str, Resources]:
    """What these pods take of nodes, by node."""
    bound = (pod.bound() for pod in pods)
    return _sums((each.node, each.resources) for each in bound if each is not None)


def _sums(amounts: Iterable[tuple[str, Resources]]) -> dict[str, Resources]:
    sums: dict[str, Resources] = {}
    for node, amount in amounts:
        sums[node] = sums.get(node, NONE) + amount
    return sums


def _candidate(job: TrainingJob, pods: Sequence[Pod]) -> VictimCandidate:
    return VictimCandidate(
        job.uid,
        job.key,
        max(pod.priority for pod in pods),
        max(pod.created_at for pod in pods),
        taken_by(pods),
    )
