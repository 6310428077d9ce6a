"""Why a job with a goal is not managed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from optimus.jobs import Role
from optimus.kube.annotations import AnnotationProblem
from optimus.kube.contract import SCHEDULER_NAME
from optimus.kube.job_kinds import JOB_KINDS, JobKind
from optimus.kube.job_schema import RunPolicy, StoredJob, StoredRole, StoredSpec

_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_OPERATOR: Final = "kubeflow.org/training-operator"


@dataclass(frozen=True, slots=True)
class EligibilityConfig:
    """What decides whether a job may be managed, besides the job itself."""

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
    kind: str,
    raw: StoredJob[StoredSpec],
    roles: Mapping[Role, StoredRole],
    problems: Sequence[AnnotationProblem],
    config: EligibilityConfig,
) -> str | None:
    """The first reason, as a sentence for users; ``None`` where the job can be managed."""
    if problems:
        return "; ".join(str(problem) for problem in problems)
    return (
        _by_shape(raw.spec, roles)
        or _by_owner(raw)
        or _by_operator(raw, config)
        or _by_scheduler(JOB_KINDS[kind], roles, config)
    )


def why_not_suspendable(raw: StoredJob[StoredSpec], config: EligibilityConfig) -> str | None:
    """Return why ``runPolicy.suspend`` of a job, managed or not, is not this software's to set."""
    return _by_owner(raw) or _by_operator(raw, config)


def _by_shape(spec: StoredSpec, roles: Mapping[Role, StoredRole]) -> str | None:
    if spec.job_mode == "MXTune":
        return "an MXTune job does not train with parameter servers"
    if Role.PS not in roles or not roles[Role.PS].count:
        return "the job has no parameter server"
    if Role.WORKER not in roles or not roles[Role.WORKER].count:
        return "the job has no worker"
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
