"""Who belongs to a gang: the replicas that a pod's own TF_CONFIG, MX_CONFIG or PET_NNODES tells of.

The list is fixed when a pod is created, so it shows the pod's generation; the job's spec may be
ahead of the pods or behind them. The spec is used where a pod carries no list (a single replica,
dynamic workers), and for TensorFlow's Evaluators, which no list names. A list that is larger than
the spec is not believed until the spec has as many replicas.

Anybody who may create a pod can write a list of tens of thousands of replicas. So a gang that is
not to be planned is counted: its members are made once all its pods exist.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from extender.state.cluster import is_waiting
from extender.state.offers import PodShape, shape_of
from optimus.jobs import Counts, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang, Member
from optimus.placement.rules import Surroundings
from optimus.snapshot import ReplicaId

MOST_EARLY: Final = 1000
"""Replicas without a pod up to which a gang is planned before all its pods exist."""


@dataclass(frozen=True, slots=True)
class ObservedGang:
    """A gang, and as many of its pods as exist."""

    gang: Gang
    """Without members where it is not to be planned."""

    counts: Mapping[Role, int]
    """How many replicas of each role it has."""

    pods: Mapping[ReplicaId, Pod]
    templates: Mapping[Role, ReplicaSpec]
    """What a replica without a pod asks for, of the roles of which that is known."""

    complete: bool
    """Whether every replica has its pod, and no pod waits for anything but a node."""

    other_schedulers: tuple[str, ...] = ()
    """The schedulers that waiting pods name, and that do not ask this process about pods."""

    beyond_plan: bool = False
    """Whether a pod has rules that only kube-scheduler can check."""

    constraints: frozenset[NodeConstraints] = frozenset()
    """Those of the members that need a node."""

    waits_for: str = ""
    """What an incomplete gang waits for, as a sentence that does not vary."""

    exceeds_job: bool = False
    """Whether its pods list more replicas than its job has."""

    @property
    def in_group(self) -> bool:
        """Return whether kube-scheduler binds its waiting pods together or not at all."""
        return any(pod.in_group for pod in self.pods.values())

    @property
    def size(self) -> int:
        """Return how many replicas it has."""
        return sum(self.counts.values())

    @property
    def specs_known(self) -> bool:
        """Return whether its members are known, those without a pod too."""
        return bool(self.gang.members)

    def requests(self, role: Role) -> Counter[ReplicaSpec]:
        """Return what the replicas of a role that need a node ask for, and how many ask for it."""
        if self.gang.members:
            return Counter(each.spec for each in self.gang.unbound if each.role is role)
        pods = [pod for replica, pod in self.pods.items() if replica.role is role]
        found = Counter(
            ReplicaSpec(pod.resources, pod.constraints) for pod in pods if pod.node is None
        )
        missing = self.counts.get(role, 0) - len(pods)
        if missing > 0 and role in self.templates:
            found[self.templates[role]] += missing
        return found

    def missing(self) -> Iterator[tuple[Role, int]]:
        """Role and index of each replica without a pod."""
        job_uid = self.gang.job_uid
        return (
            (role, index)
            for role in sorted(self.counts)
            for index in range(self.counts[role])
            if ReplicaId(job_uid, role, index) not in self.pods
        )


class GangContext(NamedTuple):
    """Facts about a gang beside its pods."""

    job: Job | None
    target: Counts | None
    """The counts that its job is being rescaled to."""

    excluded: Mapping[PodShape, frozenset[str]]
    """Nodes that no pod of a shape may go to."""

    schedulers: Container[str]
    """The names of the schedulers that ask this process."""

    early: bool
    """Whether it may be planned before all its pods exist."""


def observe_gang(pod: Pod, others: Iterable[Pod], known: GangContext) -> ObservedGang:
    """The gang of ``pod``."""
    assert pod.replica is not None
    assert pod.job_key is not None
    gang = Gang(JobKey(*pod.job_key), pod.replica.job_uid, ())
    counts = gang_counts(pod, known.job)
    pods = {
        other.replica: other for other in others if other.replica is not None and not other.leaving
    }
    pods[pod.replica] = pod
    first = _first_of_roles(pods)
    templates = _templates(first, counts, known.job)
    listed = [replica for replica in pods if replica.index < counts.get(replica.role, 0)]
    missing = sum(counts.values()) - len(listed)
    disagrees = _disagreement(gang, counts, known)
    foreign = _other_schedulers(pods.values(), known.schedulers)
    waits_for = disagrees
    if not waits_for and missing:
        waits_for = f"waiting for all pods of job {gang.key}"
    waits_for = waits_for or _foreign_pods(gang, foreign) or _gates(gang, pods.values())
    is_known = missing <= MOST_EARLY and counts.keys() <= templates.keys()
    if not waits_for or (known.early and is_known and not disagrees and not foreign):
        members = _members(gang, counts, pods, templates, first, known.excluded)
        has_rules = any(member.rules is not None for member in members)
        gang = replace(gang, members=members, surroundings=Surroundings() if has_rules else None)
    beyond_plan = any(found.beyond_plan for found in pods.values())
    complete = not waits_for
    return ObservedGang(
        gang,
        counts,
        pods,
        templates,
        complete,
        foreign,
        beyond_plan,
        waits_for=waits_for,
        exceeds_job=bool(disagrees),
    )


def _members(
    gang: Gang,
    counts: Mapping[Role, int],
    pods: Mapping[ReplicaId, Pod],
    templates: Mapping[Role, ReplicaSpec],
    first: Mapping[Role, Pod],
    excluded: Mapping[PodShape, frozenset[str]],
) -> tuple[Member, ...]:
    """Every replica; one without a pod is as the first pod of its role."""
    members: list[Member] = []
    for role, count in sorted(counts.items()):
        for index in range(count):
            found = pods.get(ReplicaId(gang.job_uid, role, index))
            if found is None:
                spec, node = templates[role], None
            else:
                spec, node = ReplicaSpec(found.resources, found.constraints), found.node
            alike = found or first.get(role)
            without = _NONE_EXCLUDED if alike is None else _excluded_for(alike, excluded)
            labels, rules = (alike.labels, alike.rules) if alike is not None else ((), None)
            members.append(Member(role, index, spec, node, without, labels, rules))
    return tuple(members)


_NONE_EXCLUDED: frozenset[str] = frozenset()


def _excluded_for(pod: Pod, excluded: Mapping[PodShape, frozenset[str]]) -> frozenset[str]:
    return excluded.get(shape_of(pod), _NONE_EXCLUDED) if excluded else _NONE_EXCLUDED


def _first_of_roles(pods: Mapping[ReplicaId, Pod]) -> dict[Role, Pod]:
    """The pod with the lowest index of each role."""
    lowest: dict[Role, ReplicaId] = {}
    for replica in pods:
        known = lowest.get(replica.role)
        if known is None or replica.index < known.index:
            lowest[replica.role] = replica
    return {role: pods[replica] for role, replica in lowest.items()}


def _templates(
    first: Mapping[Role, Pod], counts: Mapping[Role, int], job: Job | None
) -> dict[Role, ReplicaSpec]:
    """Return what a replica of each role requests: as its first pod does, else as the job's
    template."""
    specs: dict[Role, ReplicaSpec] = {}
    if job is not None:
        specs = {Role.PS: job.ps, Role.WORKER: job.worker}
        specs |= {fixed.role: fixed.spec for fixed in job.fixed}
    specs |= {
        role: ReplicaSpec(found.resources, found.constraints) for role, found in first.items()
    }
    return {role: specs[role] for role in counts if role in specs}


def _disagreement(gang: Gang, counts: Mapping[Role, int], known: GangContext) -> str:
    """Why a list of replicas is not believed: it is larger than the job, and than the job is about
    to be. A job that grows may be seen a moment later than its new pods."""
    if known.job is None:
        return ""
    most = _counts_of(known.job)
    if known.target is not None:
        most[Role.PS] = max(most[Role.PS], known.target.ps)
        most[Role.WORKER] = max(most[Role.WORKER], known.target.workers)
    if all(count <= most.get(role, 0) for role, count in counts.items()):
        return ""
    return f"waiting for job {gang.key} to have as many replicas as its pods list"


def _other_schedulers(pods: Iterable[Pod], schedulers: Container[str]) -> tuple[str, ...]:
    names = {
        pod.scheduler_name
        for pod in pods
        if pod.scheduler_name not in schedulers and is_waiting(pod)
    }
    return tuple(sorted(names))


def _foreign_pods(gang: Gang, schedulers: Sequence[str]) -> str:
    """Return what is reserved for a pod that another scheduler places may stay unused for ever."""
    if not schedulers:
        return ""
    return f"not planned: pods of job {gang.key} name another scheduler ({', '.join(schedulers)})"


def _gates(gang: Gang, pods: Iterable[Pod]) -> str:
    """The scheduling gates of the gang's pods, if there are any: kube-scheduler leaves such a pod
    alone until its gates are removed."""
    gates = sorted({gate for pod in pods if pod.node is None for gate in pod.gates})
    return f"waiting for scheduling gate {', '.join(gates)} of job {gang.key}" if gates else ""


def gang_counts(pod: Pod, job: Job | None) -> dict[Role, int]:
    """Return how many replicas of each role the pod's gang has; the pod itself always counts."""
    assert pod.replica is not None
    counts = dict(pod.gang or {})
    if job is not None and not counts:
        counts = _counts_of(job)
    elif job is not None:
        evaluators = sum(fixed.count for fixed in job.fixed if fixed.role is Role.EVALUATOR)
        counts[Role.EVALUATOR] = max(evaluators, counts.get(Role.EVALUATOR, 0))
    role, index = pod.replica.role, pod.replica.index
    counts[role] = max(counts.get(role, 0), index + 1)
    return {role: count for role, count in counts.items() if count}


def _counts_of(job: Job) -> dict[Role, int]:
    counts = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
    return counts | {fixed.role: fixed.count for fixed in job.fixed}
