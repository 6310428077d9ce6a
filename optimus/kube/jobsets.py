"""JobSets (``jobset.x-k8s.io``): what their pods' labels tell, and which pods form a gang.

A JobSet makes Jobs, and those make pods. A pod's labels tell its JobSet, its Job and its index
within that, and not how many pods a Job has: that is in the JobSet's spec alone. A gang is what is
created together: all pods of the JobSet, unless its spec has one replicated job wait for another.
The labels are those of JobSet 0.9 and newer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from optimus.jobs import ReplicaSpec
from optimus.kube.errors import Malformed, decode
from optimus.kube.job_kinds import JOBSET_NAME, MOST_REPLICAS
from optimus.kube.job_schema import (
    RunPolicy,
    StoredJob,
    StoredReplicas,
    StoredSpec,
    StoredStatus,
    StoredTemplate,
)
from optimus.kube.metadata import StatusCondition, UniqueMetadata
from optimus.kube.podspec import PodSpec, replica_spec

_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
_RESTARTS: Final = "jobset.sigs.k8s.io/restart-attempt"
_POD_INDEX: Final = "batch.kubernetes.io/job-completion-index"

_TRAINS: Final = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer"
"""The label of the replicated job that trains, in a JobSet that Kubeflow Trainer makes."""

_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BY_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"

WHAT_IS_A_GANG: Final = (
    "its Jobs need completionMode Indexed, not more completions than parallelism, and no annotation"
    f" {_EXCLUSIVE}"
)
"""Why pods of a JobSet are placed one by one, as part of a sentence."""


class SetMember(NamedTuple):
    """The place of a pod in its JobSet, by its labels."""

    jobset: str
    jobset_uid: str
    replicated_job: str
    job_index: int
    pod_index: int
    """Within its Job; 0 where the Job does not number its pods."""

    attempt: int
    """The restarts of the JobSet before the pod's Job was made."""


def member_of(labels: Mapping[str, str]) -> SetMember | None:
    """The member that a pod's labels tell of; ``None`` where they tell of none."""
    name, uid = labels.get(JOBSET_NAME), labels.get(_JOBSET_UID)
    job_index, attempt = _number(labels.get(_JOB_INDEX)), _number(labels.get(_RESTARTS, "0"))
    pod_index = _number(labels.get(_POD_INDEX, "0"))
    if not name or not uid or job_index is None or pod_index is None or attempt is None:
        return None
    return SetMember(name, uid, labels.get(_REPLICATED_JOB, ""), job_index, pod_index, attempt)


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return int(text)


@dataclass(frozen=True, slots=True)
class SetGang:
    """Pods of a JobSet that are created together."""

    uid: str
    """Its own: that of the JobSet, and of a part the name of its first replicated job too."""

    size: int
    spec: ReplicaSpec
    """The requests of a pod of the replicated job with the most pods."""


class SetPlace(NamedTuple):
    """The place of a pod in its gang."""

    gang: SetGang
    number: int
    """Beyond the gang's size where the JobSet has no such pod (any more, or yet)."""


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The numbers of the pods of one replicated job within their gang."""

    gang: SetGang
    first: int
    jobs: int
    pods: int
    """The pods of each Job."""


@dataclass(frozen=True, slots=True)
class SetShape:
    """The gangs of a JobSet."""

    uid: str
    restarts: int
    """Pods of an earlier attempt are about to be deleted."""

    gangs: tuple[SetGang, ...]
    """The gangs that wait for nothing come first."""

    main: frozenset[str]
    """The replicated jobs that train: those that are created with Kubeflow Trainer's training step,
    else with the largest."""

    numbered: Mapping[str, _Numbered]
    """The numbers by replicated job; without those of which the pods are placed one by one."""

    alone: frozenset[str]
    """These replicated jobs."""

    def names(self, gang: SetGang) -> list[str]:
        """The replicated jobs of one gang."""
        return [name for name, found in self.numbered.items() if found.gang == gang]

    def place(self, member: SetMember) -> SetPlace | None:
        """The place of a pod; ``None`` where it is placed by itself."""
        if member.replicated_job in self.alone or not self.gangs:
            return None
        found = self.numbered.get(member.replicated_job)
        if found is None:
            return SetPlace(self.gangs[0], self.gangs[0].size)
        if member.job_index >= found.jobs or member.pod_index >= found.pods:
            return SetPlace(found.gang, found.gang.size)
        return SetPlace(found.gang, found.first + member.job_index * found.pods + member.pod_index)


def set_uid(gang_uid: str) -> str:
    """The UID of the object that has a gang."""
    return gang_uid.partition("/")[0]


# --- the object


class _Dependency(msgspec.Struct):
    name: str = ""
    status: str = ""


class _JobMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _JobSpec(msgspec.Struct, rename="camel"):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    template: StoredTemplate | None = None


class _JobTemplate(msgspec.Struct):
    metadata: _JobMetadata | None = None
    spec: _JobSpec = msgspec.field(default_factory=_JobSpec)


class _ReplicatedJob(msgspec.Struct, rename="camel"):
    name: str
    replicas: int | None = None
    template: _JobTemplate = msgspec.field(default_factory=_JobTemplate)
    depends_on: list[_Dependency] | None = None

    @property
    def jobs(self) -> int:
        """The number of its Jobs."""
        return 1 if self.replicas is None else max(self.replicas, 0)

    @property
    def pods(self) -> int:
        """The number of pods that each of them has at a time."""
        spec = self.template.spec
        return max(1 if spec.parallelism is None else spec.parallelism, 0)

    @property
    def pod_spec(self) -> PodSpec:
        """The spec of each pod."""
        template = self.template.spec.template
        return (template.spec if template else None) or PodSpec()

    @property
    def is_fixed(self) -> bool:
        """Its pods are numbered and all there at once."""
        spec = self.template.spec
        completions = self.pods if spec.completions is None else spec.completions
        is_numbered = spec.completion_mode == "Indexed" or self.pods == 1
        return is_numbered and completions == self.pods

    @property
    def trains(self) -> bool:
        """Kubeflow Trainer says that its pods train."""
        label, value = _TRAINS
        own = self.template.metadata
        return ((own and own.labels) or {}).get(label) == value

    def is_exclusive(self, of_set: Mapping[str, str]) -> bool:
        """Return whether JobSet makes other pods only once the first one has its node."""
        own = self.template.metadata
        annotations = {**of_set, **((own and own.annotations) or {})}
        return _EXCLUSIVE in annotations and _BY_NODE_SELECTOR not in annotations


class _StartupPolicy(msgspec.Struct, rename="camel"):
    startup_policy_order: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] | None = None
    startup_policy: _StartupPolicy | None = None
    suspend: bool | None = None


class _Status(msgspec.Struct):
    restarts: int | None = None
    conditions: list[StatusCondition] | None = None


class _JobSet(msgspec.Struct):
    metadata: UniqueMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_JobSet)
_OUTCOMES: Final = {"Completed": "Succeeded"}
"""JobSet's conditions by the operator's names for them."""


def decode_jobset(raw: bytes | msgspec.Raw) -> tuple[StoredJob[StoredSpec], SetShape]:
    """A JobSet in the form of the operator's jobs, with the pods that train as its workers, and its
    gangs.

    Raises:
        Malformed: the JSON is no JobSet.
    """
    found = decode(_DECODER, raw, "a JobSet")
    status = found.status or _Status()
    jobs = _main(found.spec)
    lead = max(jobs, key=_rank, default=None)
    template = StoredTemplate(None if lead is None else lead.pod_spec)
    conditions = [
        msgspec.structs.replace(each, type=_OUTCOMES.get(each.type, each.type))
        for each in status.conditions or ()
    ]
    workers = StoredReplicas(sum(map(_size, jobs)), template)
    spec = StoredSpec(
        replica_specs={"Worker": workers},
        run_policy=RunPolicy(suspend=found.spec.suspend),
    )
    stored = StoredJob(found.metadata, spec, StoredStatus(conditions=conditions))
    return stored, _shape(found, status.restarts or 0)


def _shape(jobset: _JobSet, restarts: int) -> SetShape:
    uid, gangs = jobset.metadata.uid, list[SetGang]()
    numbered, alone = dict[str, _Numbered](), set[str]()
    together = list(_created_together(jobset.spec))
    for number, jobs in enumerate(together):
        size, spec = sum(map(_size, jobs)), _spec_of(max(jobs, key=_size))
        annotations = jobset.metadata.annotations or {}
        is_gang = all(each.is_fixed and not each.is_exclusive(annotations) for each in jobs)
        if not is_gang or spec is None or size > MOST_REPLICAS:
            alone |= {each.name for each in jobs}
            continue
        gang = SetGang(uid if not number else f"{uid}/{jobs[0].name}", size, spec)
        gangs.append(gang)
        first = 0
        for each in jobs:
            numbered[each.name] = _Numbered(gang, first, each.jobs, each.pods)
            first += _size(each)
    main = frozenset(each.name for each in _main(jobset.spec))
    return SetShape(uid, restarts, tuple(gangs), main, numbered, frozenset(alone))


def _main(spec: _Spec) -> Sequence[_ReplicatedJob]:
    """The replicated jobs that train."""

    def rank(jobs: Sequence[_ReplicatedJob]) -> tuple[bool, int]:
        return any(each.trains for each in jobs), sum(map(_size, jobs))

    return max(_created_together(spec), key=rank, default=())


def _rank(job: _ReplicatedJob) -> tuple[bool, int]:
    return job.trains, _size(job)


def _created_together(spec: _Spec) -> Iterator[Sequence[_ReplicatedJob]]:
    """The replicated jobs, those together that wait for the same others."""
    jobs, policy = spec.replicated_jobs or [], spec.startup_policy
    if policy is not None and policy.startup_policy_order == "InOrder":
        return iter([each] for each in jobs)
    ordered = sorted(jobs, key=_awaited)  # stable: in the order of the spec
    return (list(group) for _, group in groupby(ordered, key=_awaited))


def _awaited(job: _ReplicatedJob) -> list[tuple[str, str]]:
    return sorted({(each.name, each.status) for each in job.depends_on or ()})


def _size(job: _ReplicatedJob) -> int:
    return job.jobs * job.pods


def _spec_of(job: _ReplicatedJob) -> ReplicaSpec | None:
    try:
        return replica_spec(job.pod_spec)
    except Malformed:
        return None
