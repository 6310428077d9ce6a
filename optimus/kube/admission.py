"""Quotas and priorities of jobs, worked out from their templates, before their pods exist. What
other admission plugins and policies make of a pod is not: a rescale whose pods they refuse is
rolled back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from optimus.jobs import Job, Role
from optimus.kube.pods import Pod
from optimus.kube.podspec import Template
from optimus.kube.quotas import PriorityClass, ResourceQuota
from optimus.kube.training_jobs import TrainingJob
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import NONE, PODS, Resources, total


def _taken(limited: Iterable[str], template: Template) -> Resources:
    """Return what one pod of a template takes of what a quota limits."""
    amounts = {}
    for name in limited:
        kind, _, resource = name.partition(".")
        of = template.limits if kind == "limits" else template.requests
        amounts[name] = 1 if name == PODS else of[resource]
    return Resources(amounts)


def quotas_of(
    jobs: Iterable[TrainingJob],
    pods: Mapping[str, Sequence[Pod]],
    quotas: Iterable[ResourceQuota],
) -> tuple[Quota, ...]:
    """The quotas that limit jobs that are not over, in order of their names; pods by job UID."""
    by_namespace: dict[str, list[TrainingJob]] = {}
    for job in jobs:
        if job.active is not None:
            by_namespace.setdefault(job.namespace, []).append(job)
    found = []
    for quota in sorted(quotas, key=lambda each: (each.namespace, each.name)):
        charges = _charges(by_namespace.get(quota.namespace, ()), pods, quota.limited)
        if charges:
            own = total(charge.held + charge.leaving for charge in charges.values())
            room = quota.hard - _at_least_none(quota.used - own)
            title = f"quota {quota.name}"
            found.append(Quota(quota.namespace, title, quota.limited, room, charges, quota.hard))
    return tuple(found)


def _charges(
    jobs: Iterable[TrainingJob], pods: Mapping[str, Sequence[Pod]], limited: Iterable[str]
) -> dict[str, QuotaCharge]:
    """Return what each of these jobs takes of what is limited, by UID."""
    found = {}
    for job in jobs:
        taken = {role: _taken(limited, template) for role, template in job.templates.items()}
        if any(taken.values()) and job.job is not None:
            found[job.uid] = _charge(job.job, taken, pods.get(job.uid, ()))
    return found


def _charge(job: Job, taken: Mapping[Role, Resources], pods: Sequence[Pod]) -> QuotaCharge:
    held: tuple[list[Resources], list[Resources]] = [], []
    for pod in pods:
        if pod.replica is not None and not pod.finished:
            held[pod.leaving].append(taken.get(pod.replica.role, NONE))
    fixed = total(taken.get(each.role, NONE) * each.count for each in job.fixed)
    ps, worker = taken.get(Role.PS, NONE), taken.get(Role.WORKER, NONE)
    return QuotaCharge(ps, worker, fixed, total(held[0]), total(held[1]))


def _at_least_none(amounts: Resources) -> Resources:
    return Resources({name: max(amount, 0) for name, amount in amounts.items()})


class Priorities:
    """The priorities of jobs by their templates; what was worked out for a job is kept until
    something changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TrainingJob, tuple[int, str], TrainingJob]] = {}

    def set_on(
        self, jobs: Iterable[TrainingJob], classes: Iterable[PriorityClass]
    ) -> list[TrainingJob]:
        """The jobs with the priority that their pods will have."""
        by_name = {each.name: each for each in classes}
        default = min(
            ((each.value, each.name) for each in by_name.values() if each.is_default),
            default=(0, ""),
        )
        known, found = dict[str, tuple[TrainingJob, tuple[int, str], TrainingJob]](), []
        for training_job in jobs:
            priority = _priority(training_job, by_name, default)
            if training_job.job is None or not any(priority):
                found.append(training_job)
                continue
            before = self._known.get(training_job.uid)
            if before is None or before[0] is not training_job or before[1] != priority:
                value, name = priority
                job = replace(training_job.job, priority=value, priority_class=name)
                before = training_job, priority, replace(training_job, job=job)
            known[training_job.uid] = before
            found.append(before[2])
        self._known = known
        return found


def _priority(
    job: TrainingJob, classes: Mapping[str, PriorityClass], default: tuple[int, str]
) -> tuple[int, str]:
    """The lowest priority of the job's templates, and its class."""
    found = []
    for template in job.templates.values():
        name = template.priority_class or default[1]
        known = classes.get(name)
        found.append((0 if known is None else known.value, name))
    return min(found, default=(0, ""))
