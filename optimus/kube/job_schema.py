"""The parts of a training job's JSON that are read, and its replica types by role."""

import re
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from optimus.jobs import ReplicaSpec, Role, TrainingMode, default_workload
from optimus.kube.errors import Malformed, decode
from optimus.kube.job_kinds import JOB_KINDS, JOBSET, MOST_REPLICAS, JobKind, role_named
from optimus.kube.metadata import StatusCondition, UniqueMetadata
from optimus.kube.podspec import PodSpec, Template, replica_spec, template_of

_PROCESSES: Final = re.compile(r"--nproc[-_]per[-_]node[= ]\s*(\w+)", re.ASCII)
_DIST_MODE: Final = re.compile(r"\bdist_(?:device_)?(a?sync)\b")


class StoredTemplate(msgspec.Struct):
    """A pod template."""

    spec: PodSpec | None = None


class StoredReplicas(msgspec.Struct):
    """One replica type."""

    # The operator takes a missing number as 1.
    replicas: int | None = None
    template: StoredTemplate | None = None


class RunPolicy(msgspec.Struct, rename="camel"):
    """The operator's own settings of a job."""

    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None


class ElasticPolicy(msgspec.Struct, rename="camel"):
    """The bounds of a PyTorchJob's workers, and the metrics of a HorizontalPodAutoscaler that the
    operator makes for it."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    metrics: list[Any] | None = None


class StoredSpec(msgspec.Struct, rename="camel"):
    """The spec of a job; each kind stores ``replica_specs`` under a key of its own."""

    replica_specs: dict[str, StoredReplicas | None] | None = None
    run_policy: RunPolicy | None = None
    job_mode: str | None = None
    elastic_policy: ElasticPolicy | None = None
    nproc_per_node: str | None = None


class StoredStatus(msgspec.Struct, rename="camel"):
    """The operator's words on the job."""

    start_time: str | None = None
    conditions: list[StatusCondition] | None = None


SpecT = TypeVar("SpecT", bound=StoredSpec)


class StoredJob(msgspec.Struct, Generic[SpecT]):
    """A training job."""

    metadata: UniqueMetadata
    spec: SpecT
    status: StoredStatus | None = None


def _decoder(kind: JobKind) -> msgspec.json.Decoder[StoredJob[StoredSpec]]:
    stored_as = msgspec.field(name=kind.replica_specs, default=None)
    field = ("replica_specs", dict[str, StoredReplicas | None] | None, stored_as)
    spec = msgspec.defstruct(f"{kind.name}Spec", [field], bases=(StoredSpec,), rename="camel")
    return msgspec.json.Decoder(StoredJob[spec])  # type: ignore[valid-type]  # made of the table


DECODERS: Final = {name: _decoder(kind) for name, kind in JOB_KINDS.items() if kind is not JOBSET}
"""Decoders of whole jobs by kind; a JobSet has a form of its own (``optimus.kube.jobsets``)."""


def replicas_of(spec: StoredSpec) -> dict[str, StoredReplicas]:
    """The replica types under the keys that are stored."""
    return {key: found for key, found in (spec.replica_specs or {}).items() if found is not None}


@dataclass(frozen=True, slots=True)
class StoredRole:
    """One replica type: the key it is stored under, how many, and what each requests."""

    key: str
    count: int
    spec: ReplicaSpec
    template: PodSpec
    admitted: Template


def roles_of(spec: StoredSpec) -> dict[Role, StoredRole]:
    """The replica types by role.

    Raises:
        Malformed: the job cannot be placed as a gang; the sentence says why.
    """
    roles: dict[Role, StoredRole] = {}
    for key, replica in replicas_of(spec).items():
        role = role_named(key)
        if role is None:
            raise Malformed(f"replica type {key} is not supported")
        if role in roles:
            raise Malformed(
                f"replica types {roles[role].key} and {key} are the same one; only one may be there"
            )
        roles[role] = _role(key, replica)
    if not roles:
        raise Malformed("the job has no replica type")
    return roles


def _role(key: str, replica: StoredReplicas) -> StoredRole:
    template = (replica.template.spec if replica.template else None) or PodSpec()
    if not template.containers:
        raise Malformed(
            f"replica type {key} has no container; the training operator cannot run such a job"
        )
    count = 1 if replica.replicas is None else replica.replicas
    if not 0 <= count <= MOST_REPLICAS:
        raise Malformed(
            f"replica type {key} requests {count} replicas; 0 to {MOST_REPLICAS} are expected"
        )
    try:
        return StoredRole(key, count, replica_spec(template), template, template_of(template))
    except Malformed as error:
        raise Malformed(f"replica type {key}: {error}") from error


def mode_of(worker: StoredRole | None) -> TrainingMode | None:
    """The mode in the workers' command (MXNet's ``--kv-store``)."""
    match = _DIST_MODE.search(command_of(worker))
    return TrainingMode(match.group(1)) if match else None


def command_of(replicas: StoredRole | None) -> str:
    """Return what the containers of a replica type run, with its arguments, as one text."""
    containers = (replicas.template.containers or ()) if replicas else ()
    return " ".join(
        word
        for container in containers
        for word in (*(container.command or ()), *(container.args or ()))
    )


def processes_of(declared: str | None, worker: StoredRole | None) -> int:
    """The number of processes that train in each pod of a PyTorchJob: as its ``nprocPerNode`` or
    torchrun's ``--nproc-per-node`` says, a number, or one a GPU."""
    argument = _PROCESSES.search(command_of(worker))
    text = argument.group(1) if argument else declared or ""
    if text.isdecimal() and len(text) < 6:
        return max(int(text), 1)
    resources = worker.spec.resources if worker and text in ("auto", "gpu") else {}
    return max(sum(resources[name] for name in resources if name.endswith("/gpu")), 1)


_ANYTHING: Final = msgspec.json.Decoder[Any]()


def default_workload_of(kind: str, name: str, raw: bytes | msgspec.Raw) -> str:
    """The workload of a job of this name whose user names none: that of the jobs of one kind and of
    the same pod templates.

    The whole spec of each role's template counts: image, command, arguments, environment, requests,
    volumes, where its pods may run. The job's own name in them does not, as in the folder to which
    a run writes. What a ConfigMap or a mounted file says cannot be seen here: whether runs of one
    workload differ is found by what they show (``models.earlier_runs.why_differs``).

    Raises:
        Malformed: some part of the job cannot be read."""
    roles = decode(_ANYTHING, raw, f"a {kind}")["spec"].get(JOB_KINDS[kind].replica_specs) or {}
    templates = {
        role: (replicas.get("template") or {}).get("spec")
        for role, replicas in roles.items()
        if replicas is not None
    }
    text = msgspec.json.encode([kind, templates], order="sorted").decode()
    own_name = re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")
    return default_workload(own_name.sub("*", text))
