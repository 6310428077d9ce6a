"""Who belongs to a gang: the replicas that a pod's own TF_CONFIG or MX_CONFIG lists.

The list is fixed when a pod is created, so it shows the pod's generation; the job's spec may be
ahead of the pods or behind them. The spec is used where a pod carries no list (a single replica,
dynamic workers), and for TensorFlow's Evaluators, which no list names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from extender.state.offers import PodShape, shape_of
from optimus.jobs import Job, JobKey, ReplicaSpec, Role
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang, Member
from optimus.placement.rules import Surroundings
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class ObservedGang:
    """A gang, and as many of its pods as exist."""

    gang: Gang
    pods: Mapping[ReplicaId, Pod]
    complete: bool
    """Whether every replica has its pod."""

    specs_known: bool
    """Whether what the replicas without a pod ask for is known all the same."""

    beyond_plan: bool = False
    """Whether a pod has rules that only kube-scheduler can check."""

    waits_for: str = ""
    """What an incomplete gang waits for, as a sentence that does not vary."""


def observe_gang(
    pod: Pod, others: Iterable[Pod], job: Job | None, excluded: Mapping[PodShape, frozenset[str]]
) -> ObservedGang:
    """The gang of ``pod``. Replicas without a pod get the specification of their type, if known.

    ``excluded`` are nodes that no pod of a shape may go to."""
    assert pod.replica is not None
    assert pod.job_key is not None
    job_uid = pod.replica.job_uid
    pods = {
        other.replica: other for other in others if other.replica is not None and not other.leaving
    }
    pods[pod.replica] = pod
    complete = specs_known = True
    members: list[Member] = []
    first = {replica.role: pods[replica] for replica in sorted(pods, reverse=True)}
    for role, count in sorted(gang_counts(pod, job).items()):
        template = _template(role, pods, job)
        for index in range(count):
            replica = ReplicaId(job_uid, role, index)
            found = pods.get(replica)
            if found is None:
                complete = False
                specs_known &= template is not None
                spec, node = template or ReplicaSpec(), None
            else:
                spec, node = ReplicaSpec(found.resources, found.constraints), found.node
            alike = found or first.get(role)
            without = _NONE_EXCLUDED if alike is None else _excluded_for(alike, excluded)
            labels, rules = (alike.labels, alike.rules) if alike is not None else ((), None)
            members.append(Member(role, index, spec, node, without, labels, rules))
    has_rules = any(member.rules is not None for member in members)
    surroundings = Surroundings() if has_rules else None
    gang = Gang(JobKey(*pod.job_key), job_uid, tuple(members), surroundings)
    beyond_plan = any(found.beyond_plan for found in pods.values())
    missing = f"waiting for all pods of job {gang.key}"
    waits_for = _gates(gang, pods) if complete else missing
    return ObservedGang(gang, pods, not waits_for, specs_known, beyond_plan, waits_for)


_NONE_EXCLUDED: frozenset[str] = frozenset()


def _excluded_for(pod: Pod, excluded: Mapping[PodShape, frozenset[str]]) -> frozenset[str]:
    return excluded.get(shape_of(pod), _NONE_EXCLUDED) if excluded else _NONE_EXCLUDED


def _gates(gang: Gang, pods: Mapping[ReplicaId, Pod]) -> str:
    """The scheduling gates of the gang's pods, if there are any: kube-scheduler leaves such a pod
    alone until its gates are removed."""
    every = (pods[gang.replica(member)] for member in gang.unbound)
    gates = sorted({gate for pod in every for gate in pod.gates})
    return f"waiting for scheduling gate {', '.join(gates)} of job {gang.key}" if gates else ""


def gang_counts(pod: Pod, job: Job | None) -> dict[Role, int]:
    """How many replicas of each role the pod's gang has; the pod itself always counts."""
    assert pod.replica is not None
    counts = dict(pod.gang or {})
    if job is not None and not counts:
        counts = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
        counts |= {fixed.role: fixed.count for fixed in job.fixed}
    elif job is not None:
        evaluators = sum(fixed.count for fixed in job.fixed if fixed.role is Role.EVALUATOR)
        counts[Role.EVALUATOR] = max(evaluators, counts.get(Role.EVALUATOR, 0))
    role, index = pod.replica.role, pod.replica.index
    counts[role] = max(counts.get(role, 0), index + 1)
    return {role: count for role, count in counts.items() if count}


def _template(role: Role, pods: Mapping[ReplicaId, Pod], job: Job | None) -> ReplicaSpec | None:
    """What a replica of a role requests: as its first pod does, else as the job's template does."""
    first = min((replica for replica in pods if replica.role is role), default=None)
    if first is not None:
        return ReplicaSpec(pods[first].resources, pods[first].constraints)
    if job is None:
        return None
    specs = {Role.PS: job.ps, Role.WORKER: job.worker}
    return (specs | {fixed.role: fixed.spec for fixed in job.fixed}).get(role)
