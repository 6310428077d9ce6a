"""Which running gangs may be preempted, and which could shrink instead; read from the state."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.preemption.victims import VictimCandidate, harm
from extender.state.cluster import used_by_node
from extender.state.extender_state import ExtenderState
from optimus.jobs import Job, RescaleRule, Role
from optimus.kube.budgets import Budget
from optimus.kube.pods import Pod
from optimus.kube.training_jobs import TrainingJob
from optimus.resources import Resources

_AT_ONCE: Final = 20
"""Jobs that are read under the lock before others get it."""


@dataclass(frozen=True, slots=True)
class RunningGangs:
    """What gangs of a lower priority could leave."""

    candidates: Sequence[VictimCandidate] = ()
    surplus: Mapping[str, Resources] | None = None
    """By node, what managed jobs take beyond their minimum; ``None``: none of them."""

    rescaling: bool = False
    """Whether one of these managed jobs is being rescaled."""


def lowest_priority(state: ExtenderState) -> int | None:
    """No gang of this priority or a lower one has a candidate; under the lock."""
    firsts = (next(iter(state.cluster.pods_of(uid).values()), None) for uid in state.cluster.jobs)
    return min((pod.priority for pod in firsts if pod is not None), default=None)


def running_gangs(
    state: ExtenderState,
    priority: int,
    jobs: Mapping[str, TrainingJob],
    budgets: Sequence[Budget],
    protected: Collection[str],
) -> RunningGangs:
    """The gangs below a priority; takes the lock, again and again."""
    with state.lock:
        uids = sorted(state.cluster.jobs)
    candidates: list[VictimCandidate] = []
    labels: dict[str, list[Pod]] = {}
    surplus: list[Pod] = []
    rescaling = False
    for first in range(0, len(uids), _AT_ONCE):
        with state.lock:
            for uid in uids[first : first + _AT_ONCE]:
                pods = _lower_pods(state, uid, priority)
                if not pods or uid not in jobs:
                    continue
                extra = _beyond_minimum(state.cluster.jobs.get(uid), pods)
                moves = is_moving(state, uid)
                rescaling |= moves and bool(extra)
                surplus += () if moves else extra
                if why_no_victim(state, jobs[uid], pods, protected) is None:
                    candidates.append(_candidate(jobs[uid], pods))
                    labels[uid] = pods
    allowed = within_budgets(candidates, labels, budgets)
    room = used_by_node(surplus) if surplus else None
    return RunningGangs(allowed, room, rescaling)


def is_moving(state: ExtenderState, job_uid: str) -> bool:
    """Whether the autoscaler is rescaling a job; under the lock."""
    return job_uid in state.cluster.rescales or state.rescales.is_tracked(job_uid)


def why_no_victim(
    state: ExtenderState, job: TrainingJob, pods: Iterable[Pod], protected: Collection[str]
) -> str | None:
    """Why a gang is never preempted, whatever its priority; under the lock."""
    uid, ours = job.uid, state.config.scheduler_name
    found = list(pods)
    reasons = {
        "it has ended": job.active is None or uid not in state.cluster.jobs,
        "it is suspended already": job.suspended or job.suspended_by or job.preempted_for,
        job.not_suspendable: job.not_suspendable is not None,
        "it is being rescaled": is_moving(state, uid),
        "its pods are being placed": state.reservations.ledger.holds(uid),
        "its pods are ending": not any(pod.bound() for pod in found)
        or any(pod.leaving for pod in found),
        "its PriorityClass is protected": any(pod.priority_class in protected for pod in found),
        "another scheduler places it": uid not in state.queue.asked
        and any(pod.scheduler_name != ours for pod in found),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def within_budgets(
    candidates: Iterable[VictimCandidate],
    pods: Mapping[str, Iterable[Pod]],
    budgets: Sequence[Budget],
) -> list[VictimCandidate]:
    """The candidates that all together may go by the PodDisruptionBudgets.

    What a budget allows goes to the lowest and youngest first: then any of those left may go, in
    any set."""
    left = {at: each.allowed for at, each in enumerate(budgets)}
    found = []
    for candidate in sorted(candidates, key=lambda each: harm((each,))):
        takes = Counter(
            at
            for pod in pods[candidate.job_uid]
            for at, budget in enumerate(budgets)
            if budget.protects(pod.namespace, pod.labels)
        )
        if all(left[at] >= count for at, count in takes.items()):
            found.append(candidate)
            for at, count in takes.items():
                left[at] -= count
    return found


def _lower_pods(state: ExtenderState, job_uid: str, priority: int) -> list[Pod]:
    """All pods of a job that have not ended, where each is of a lower priority."""
    pods = [pod for pod in state.cluster.pods_of(job_uid).values() if not pod.finished]
    return pods if all(pod.priority < priority for pod in pods) else []


def _candidate(job: TrainingJob, pods: Sequence[Pod]) -> VictimCandidate:
    bound = [pod for pod in pods if pod.bound() is not None]
    return VictimCandidate(
        job.uid,
        job.key,
        max(pod.priority for pod in pods),
        max(pod.created_at for pod in pods),
        used_by_node(bound),
        frozenset(pod.uid for pod in bound),
    )


def _beyond_minimum(job: Job | None, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that a managed job could do without."""
    if job is None or not job.managed or job.suspended or job.rescale is RescaleRule.NEVER:
        return []
    least = {Role.PS: job.bounds.min_ps, Role.WORKER: job.bounds.min_workers}
    return [
        pod
        for pod in pods
        if pod.replica is not None
        and not pod.leaving
        and pod.replica.index >= least.get(pod.replica.role, pod.replica.index + 1)
    ]
