"""Training jobs, decoded.

The operator fills in defaults in memory only and takes replica types in any casing, so the stored
object may lack ``replicas`` or say ``worker`` for ``Worker``; both are read here, and the stored
casing is kept for writing back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec

from optimus.jobs import (
    AtTarget,
    CountBounds,
    Counts,
    FixedRole,
    Job,
    JobKey,
    ReplicaSpec,
    Role,
    TrainingMode,
)
from optimus.kube.annotations import (
    AnnotationProblem,
    ReadOptions,
    asks_for_management,
    read_options,
    unknown_annotations,
)
from optimus.kube.client import path_of, path_segment
from optimus.kube.contract import Annotation
from optimus.kube.eligibility import EligibilityConfig, why_not_suspendable, why_unmanaged
from optimus.kube.errors import Malformed, decode
from optimus.kube.job_kinds import (
    JOB_KINDS,
    JOBSET,
    PYTORCHJOB,
    TRAINER_GROUP,
    TRAINJOB,
    role_named,
)
from optimus.kube.job_schema import (
    DECODERS,
    ElasticPolicy,
    RunPolicy,
    StoredJob,
    StoredRole,
    StoredSpec,
    StoredStatus,
    command_of,
    default_workload_of,
    mode_of,
    processes_of,
    replicas_of,
    roles_of,
)
from optimus.kube.jobsets import SetShape, decode_jobset
from optimus.kube.list_watch import ListWatch
from optimus.kube.podspec import Template, shows_annotation
from optimus.kube.suspension import SuspensionMark, read_suspension
from optimus.kube.times import created_at

_LONGEST_COMMAND: Final = 2000
"""Maximum length of a command that is kept: some carry a whole script."""
_LONGEST_REASON: Final = 1000
"""The limit of a sentence that quotes fields of any length, or is the operator's."""

_RESIZED: Final = (Role.PS, Role.WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One job of any kind as stored.

    ``job`` is ``None`` where the job cannot be scheduled as a gang at all; ``left_alone`` then says
    why. ``problems`` are values that cannot be used, ``hints`` annotations that mean nothing,
    ``ignored`` values without which the job is managed all the same.
    ``replica_keys`` holds each role's key as stored, ``templates`` what admission looks at.
    ``suspension`` is the mark of this software, if it has suspended the job.
    ``not_suspendable`` says why this software may not suspend it. ``started_at`` is the
    operator's ``startTime``, in seconds since the epoch, which each resume resets.
    ``active_deadline_seconds`` counts from there, ``backoff_limit`` and ``max_restarts`` the
    restarts of the pods there are. ``surplus`` says which of its workers can never train.
    ``conditions`` are those that are True. ``outcome`` is "Succeeded", "Failed" or ``None``
    while unfinished."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    created_at: float
    job: Job | None
    started_at: float | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    max_restarts: int | None = None
    surplus: str = ""
    left_alone: str | None = None
    problems: tuple[AnnotationProblem, ...] = ()
    hints: tuple[AnnotationProblem, ...] = ()
    ignored: tuple[AnnotationProblem, ...] = ()
    replica_keys: Mapping[Role, str] = field(default_factory=dict)
    templates: Mapping[Role, Template] = field(default_factory=dict)
    suspended: bool = False
    suspension: SuspensionMark | None = None
    not_suspendable: str | None = None
    conditions: frozenset[str] = frozenset()
    outcome: str | None = None
    message: str = ""
    deleted: bool = False
    shape: SetShape | None = None
    """The gangs of a JobSet."""
    is_train_job: bool = False
    """A TrainJob of Kubeflow Trainer has made the JobSet, which has the TrainJob's name."""

    key: JobKey = field(init=False)
    """Namespace and name."""

    active: Job | None = field(init=False)
    """The job where it is valid and neither finished nor being deleted."""

    def __post_init__(self) -> None:
        """Derive once, on the watch's thread, what every tick reads."""
        object.__setattr__(self, "key", JobKey(self.namespace, self.name))
        is_over = self.outcome is not None or self.deleted
        object.__setattr__(self, "active", None if is_over else self.job)

    @property
    def suspended_by(self) -> str | None:
        """The rescale or pause by which this software has suspended it."""
        return None if self.suspension is None else self.suspension.id

    @property
    def awaits_resume(self) -> bool:
        """This software has suspended it, and is to resume it."""
        mark = self.suspension
        is_final = mark is None or (mark.pause is not None and mark.pause.is_final)
        return self.suspended and not is_final

    @property
    def submitted_kind(self) -> str:
        """The kind of object that its user knows it by."""
        return TRAINJOB if self.is_train_job else self.kind

    @property
    def resume_line(self) -> str:
        """The command by which its user resumes it."""
        return self._suspension_line("false")

    @property
    def suspend_line(self) -> str:
        """The command by which its user suspends it."""
        return self._suspension_line("true")

    def _suspension_line(self, value: str) -> str:
        is_set = self.kind == JOBSET.name
        spec = f'"suspend":{value}' if is_set else f'"runPolicy":{{"suspend":{value}}}'
        return (
            f"kubectl patch {self.submitted_kind.lower()} {self.name} -n {self.namespace}"
            f""" --type merge -p '{{"spec":{{{spec}}}}}'"""
        )

    def gangs(self) -> Mapping[str, Job | None]:
        """The job by the UID of its gang; of a JobSet with several gangs, what each is of it."""
        job = self.job
        if self.shape is None:
            return {self.uid: job}
        if job is None:
            return {gang.uid: None for gang in self.shape.gangs}
        return {
            gang.uid: replace(job, uid=gang.uid, counts=Counts(0, gang.size), worker=gang.spec)
            for gang in self.shape.gangs
        }


_WITHOUT_JOBSETS: Final = "no pod of a JobSet is placed"
_NOT_PAUSED: Final = "a JobSet is neither resized nor paused"


def decode_job(kind: str, raw: bytes | msgspec.Raw, *, config: EligibilityConfig) -> TrainingJob:
    """A job of any kind from its JSON.

    Raises:
        Malformed: the JSON is no such object. A job that merely says something wrong does not
        raise: it is
            returned with its problems.
    """
    if kind == JOBSET.name:
        stored, shape = decode_jobset(raw)
        found, by = _record(kind, stored, config), _is_of_train_job(stored)
        return replace(found, shape=shape, not_suspendable=_NOT_PAUSED, is_train_job=by)
    found = _record(kind, decode(DECODERS[kind], raw, f"a {kind}"), config)
    job = found.job
    if job is None or not job.managed or job.workload is not None:
        return found
    workload = default_workload_of(kind, found.name, raw)
    return replace(found, job=replace(job, workload=workload))


def _is_of_train_job(stored: StoredJob[StoredSpec]) -> bool:
    return any(
        owner.kind == TRAINJOB and owner.group == TRAINER_GROUP
        for owner in stored.metadata.controllers
    )


def watched_training_jobs(kind: str, config: EligibilityConfig) -> ListWatch[TrainingJob]:
    """Jobs of one kind in every namespace; a cluster may lack the kind."""
    known = JOB_KINDS[kind]
    # Rights that are older than this software do not name JobSets. That must not stop the others.
    without = _WITHOUT_JOBSETS if kind == JOBSET.name else ""
    decoder = partial(decode_job, kind, config=config)
    return ListWatch(
        known.plural, decoder, known.group, known.version, optional=True, without=without
    )


def jobs_path(kind: str, namespace: str | None = None) -> str:
    """The path of the jobs of one kind, of a namespace or of all."""
    found = JOB_KINDS[kind]
    return path_of(found.group, found.version, found.plural, namespace)


def job_path(kind: str, namespace: str, name: str) -> str:
    """The path of one job."""
    return f"{jobs_path(kind, namespace)}/{path_segment(name)}"


def _record(kind: str, raw: StoredJob[StoredSpec], config: EligibilityConfig) -> TrainingJob:
    metadata, policy = raw.metadata, raw.spec.run_policy or RunPolicy()
    annotations = metadata.annotations or {}
    conditions = {
        entry.type: entry
        for entry in (raw.status or StoredStatus()).conditions or ()
        if entry.status == "True"
    }
    outcome = next((name for name in ("Failed", "Succeeded") if name in conditions), None)
    read = read_options(annotations)
    job, left_alone, templates = _read(kind, raw, read, config)
    mark = annotations.get(Annotation.SUSPENDED_BY)
    suspension = None if mark is None else read_suspension(mark)
    return TrainingJob(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        created_at=created_at(metadata.creation_timestamp),
        job=job,
        started_at=created_at((raw.status or StoredStatus()).start_time) or None,
        active_deadline_seconds=policy.active_deadline_seconds,
        backoff_limit=policy.backoff_limit,
        max_restarts=(raw.spec.elastic_policy or ElasticPolicy()).max_restarts,
        surplus=_surplus_of(job, raw.spec.elastic_policy),
        left_alone=left_alone,
        problems=read.problems,
        hints=unknown_annotations(annotations),
        ignored=read.ignored,
        replica_keys={
            role: key for key in replicas_of(raw.spec) if (role := role_named(key)) is not None
        },
        templates=templates,
        suspended=bool(policy.suspend),
        suspension=suspension,
        not_suspendable=why_not_suspendable(raw, config),
        conditions=frozenset(conditions),
        outcome=outcome,
        message=((outcome and conditions[outcome].message) or "")[:_LONGEST_REASON],
        deleted=metadata.deletion_timestamp is not None,
    )


def _read(
    kind: str, raw: StoredJob[StoredSpec], read: ReadOptions, config: EligibilityConfig
) -> tuple[Job | None, str | None, Mapping[Role, Template]]:
    managed = asks_for_management(raw.metadata.annotations or {})
    try:
        roles = roles_of(raw.spec)
    except Malformed as error:
        return None, str(error)[:_LONGEST_REASON], {}
    job = _job(kind, raw, roles, read.options)
    left_alone = why_unmanaged(job, raw, roles, read.problems, config) if managed else None
    left_alone = left_alone and left_alone[:_LONGEST_REASON]
    templates = {role: found.admitted for role, found in roles.items()}
    job = replace(job, left_alone=left_alone)
    # Quotas count what it is not planned by, too: the templates keep it.
    return job.without(config.ignored_resources), left_alone, templates


def _job(
    kind: str,
    raw: StoredJob[StoredSpec],
    roles: Mapping[Role, StoredRole],
    annotated: Mapping[str, Any],
) -> Job:
    ps, worker = roles.get(Role.PS), roles.get(Role.WORKER)
    # Without PSs, workers exchange their gradients in each step.
    options = dict(annotated)
    said = options.pop("mode", None) or mode_of(worker) or (None if ps else TrainingMode.SYNC)
    chief_trains = options.pop("chief_trains", False) or ps is None
    at_target = options.pop("at_target", None) or _at_target_of(roles)
    job = Job(
        key=JobKey(raw.metadata.namespace, raw.metadata.name),
        uid=raw.metadata.uid,
        kind=kind,
        created_at=created_at(raw.metadata.creation_timestamp),
        counts=Counts(ps.count if ps else 0, worker.count if worker else 0),
        ps=ps.spec if ps else ReplicaSpec(),
        worker=worker.spec if worker else ReplicaSpec(),
        fixed=tuple(FixedRole(role, found.count, found.spec) for role, found in _fixed(roles)),
        mode=said or TrainingMode.ASYNC,
        mode_is_assumed=said is None,
        chief_trains=chief_trains,
        suspended=bool((raw.spec.run_policy or RunPolicy()).suspend),
        preempted_for=_preempting_job(raw.metadata.annotations or {}),
        image=_image_of(worker),
        command=command_of(worker)[:_LONGEST_COMMAND],
        at_target=at_target,
        **options,
    )
    bounds = _elastic_bounds(job, raw.spec, worker)
    return replace(job, bounds=bounds) if kind == PYTORCHJOB.name else job


def _elastic_bounds(job: Job, spec: StoredSpec, worker: StoredRole | None) -> CountBounds:
    """The bounds of a job without PSs, of which each process takes an equal part of the batch."""
    elastic, bounds = spec.elastic_policy or ElasticPolicy(), job.bounds
    limits = (each for each in (bounds.max_workers, elastic.max_replicas) if each is not None)
    least = max(bounds.min_workers, elastic.min_replicas or 1)
    most = min(limits, default=None)
    shares = 0 if job.batch is None or job.batch.of_worker else job.batch.size
    each, rest = divmod(shares, processes_of(spec.nproc_per_node, worker))
    return replace(
        bounds,
        min_ps=0,
        max_ps=0,
        min_workers=least,
        max_workers=None if most is None else max(most, least),
        min_workers_given=bounds.min_workers_given or elastic.min_replicas is not None,
        shares=0 if rest else each,
        leads=job.leads,
    )


def _surplus_of(job: Job | None, elastic: ElasticPolicy | None) -> str:
    most = None if elastic is None else elastic.max_replicas
    if job is None or most is None or job.counts.workers <= most:
        return ""
    number, workers = job.counts.workers - most, job.counts.workers
    return (
        f"{number} of its {workers} workers {'is' if number == 1 else 'are'} above "
        f"elasticPolicy.maxReplicas, {most}: they hold capacity and never train"
    )


def _at_target_of(roles: Mapping[Role, StoredRole]) -> AtTarget:
    """The end of a job at its goal where its user says nothing: it ends by itself if its pods show
    that they read when to."""
    if any(shows_annotation(each.template, Annotation.GOAL_MET) for each in roles.values()):
        return AtTarget.COMPLETE
    return AtTarget.CONTINUE


def _image_of(worker: StoredRole | None) -> str:
    containers = worker.template.containers if worker else None
    return containers[0].image if containers else ""


def _preempting_job(annotations: Mapping[str, str]) -> str:
    preemption = read_suspension(annotations.get(Annotation.SUSPENDED_BY, "")).preemption
    return "" if preemption is None else preemption.job


def _fixed(roles: Mapping[Role, StoredRole]) -> list[tuple[Role, StoredRole]]:
    return sorted(
        (role, found) for role, found in roles.items() if role not in _RESIZED and found.count
    )
