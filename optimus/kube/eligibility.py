"""Why a job with a goal is not managed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from optimus.jobs import Job, Role
from optimus.kube.annotations import AnnotationProblem
from optimus.kube.contract import SCHEDULER_NAME, Annotation
from optimus.kube.job_kinds import JOB_KINDS, PYTORCHJOB, JobKind
from optimus.kube.job_schema import RunPolicy, StoredJob, StoredRole, StoredSpec, command_of

_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_OPERATOR: Final = "kubeflow.org/training-operator"
_WORLD_SIZE: Final = re.compile(
    r"(?:^|(?<=\s))--?(?:nnodes|num[-_](?:nodes|machines|processes)|world[-_]size)[= ]\s*\d+"
)
"""Arguments of torchrun, Accelerate, Lightning and of scripts of their own."""


@dataclass(frozen=True, slots=True)
class EligibilityConfig:
    """The settings by which a job may be managed or not."""

    scheduler_name: str = SCHEDULER_NAME
    """Every role must name this scheduler."""

    operator_version: tuple[int, int, int] = (1, 7, 0)
    """The training operator's version: before 1.8.1 a job with ``ttlSecondsAfterFinished`` never
    becomes suspended. The default is the oldest that can suspend, so that a job is left alone
    rather than caught half-way."""

    ignored_resources: frozenset[str] = frozenset()
    """Extended resources that another extender of kube-scheduler accounts for: no node need offer
    them, and no replica is planned by them."""

    @classmethod
    def of(
        cls,
        scheduler_name: str,
        operator_version: str,
        ignored_resources: frozenset[str] = frozenset(),
    ) -> "EligibilityConfig":
        """Read it from settings; the version is three numbers, with dots between them."""
        major, minor, patch = map(int, operator_version.split("."))
        return cls(scheduler_name, (major, minor, patch), ignored_resources)


def why_unmanaged(
    job: Job,
    raw: StoredJob[StoredSpec],
    roles: Mapping[Role, StoredRole],
    problems: Sequence[AnnotationProblem],
    config: EligibilityConfig,
) -> str | None:
    """The first reason, as a sentence for users; ``None`` where the job can be managed."""
    if problems:
        return "; ".join(str(problem) for problem in problems)
    kind = job.kind
    return (
        _by_shape(raw.spec, roles, needs_ps=kind != PYTORCHJOB.name)
        or (_by_batch(job, raw.spec, roles) if kind == PYTORCHJOB.name else None)
        or _by_owner(raw)
        or _by_operator(raw, config)
        or _by_scheduler(JOB_KINDS[kind], roles, config)
    )


def why_not_suspendable(raw: StoredJob[StoredSpec], config: EligibilityConfig) -> str | None:
    """Return why ``runPolicy.suspend`` of a job, managed or not, is not this software's to set."""
    return _by_owner(raw) or _by_operator(raw, config)


def _by_shape(spec: StoredSpec, roles: Mapping[Role, StoredRole], *, needs_ps: bool) -> str | None:
    if spec.job_mode == "MXTune":
        return "an MXTune job does not train with parameter servers"
    if needs_ps and (Role.PS not in roles or not roles[Role.PS].count):
        return "the job has no parameter server"
    if Role.WORKER not in roles or not roles[Role.WORKER].count:
        return "the job has no worker"
    return None


def _by_batch(job: Job, spec: StoredSpec, roles: Mapping[Role, StoredRole]) -> str | None:
    """Why a job without PSs would not train the same, or not at all, with other workers."""
    if job.batch is None or job.batch.of_worker:
        return (
            "with each worker's batch fixed, other counts change what the job learns; declare the "
            f"batch that all workers share by {Annotation.GLOBAL_BATCH_SIZE}"
        )
    if spec.elastic_policy and spec.elastic_policy.metrics:
        return (
            "elasticPolicy.metrics makes the training operator create a HorizontalPodAutoscaler, "
            "which would set the workers back"
        )
    for role in roles.values():
        fixed = _WORLD_SIZE.search(command_of(role))
        if fixed:
            return (
                f"the arguments of replica type {role.key} fix how many processes "
                f"train: {fixed.group().strip()}; the operator sets PET_NNODES and WORLD_SIZE"
            )
    if not job.bounds.shares or job.bounds.shares % (job.counts.workers + job.leads):
        return (
            f"its {job.size} cannot take equal parts of the batch that "
            f"{Annotation.GLOBAL_BATCH_SIZE} declares, {job.batch.size}"
        )
    return None


def _by_owner(raw: StoredJob[StoredSpec]) -> str | None:
    manager = (raw.spec.run_policy or RunPolicy()).managed_by
    if manager and manager != _OPERATOR:
        return f"runPolicy.managedBy hands the job to {manager}, which decides when it is suspended"
    if _QUEUE_LABEL in (raw.metadata.labels or {}):
        return (
            f"the label {_QUEUE_LABEL} hands the job to Kueue, which decides when it is suspended"
        )
    return None


def _by_operator(raw: StoredJob[StoredSpec], config: EligibilityConfig) -> str | None:
    lifetime = (raw.spec.run_policy or RunPolicy()).ttl_seconds_after_finished
    if lifetime is None or config.operator_version >= (1, 8, 1):
        return None
    return (
        "training-operator before 1.8.1 never finishes suspending a job with "
        "runPolicy.ttlSecondsAfterFinished;"
        " remove that field, or state a newer operator by the autoscaler's --operator-version"
    )


def _by_scheduler(
    kind: JobKind, roles: Mapping[Role, StoredRole], config: EligibilityConfig
) -> str | None:
    wanted = config.scheduler_name
    for role in sorted(roles):
        named = roles[role].template.scheduler_name or "default-scheduler"
        if roles[role].count and named != wanted:
            where = f"spec.{kind.replica_specs}.{roles[role].key}.template.spec"
            return (
                f'replica type {roles[role].key} names scheduler {named}; add "schedulerName: '
                f'{wanted}" to {where}'
            )
    return None
