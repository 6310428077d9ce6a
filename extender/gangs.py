"""Who belongs to a gang: the replicas that a pod's own TF_CONFIG or MX_CONFIG lists, and the pods
that are there.

The list is fixed when a pod is made, so it says of which generation the pod is; the job's spec may
be ahead of the pods or behind them. It is used where a pod carries no list (a single replica,
dynamic workers), and for TensorFlow's Evaluators, which no list names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optimus.jobs import Job, JobKey, ReplicaSpec, Role
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang, Member
from optimus.snapshot import ReplicaId

Barred = Mapping[ReplicaId, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Assembly:
    """A gang as far as it is there; ``missing`` replicas have no pod yet.

    ``known`` means that what the missing ones ask for is known all the same.
    """

    gang: Gang
    missing: tuple[ReplicaId, ...]
    pods: Mapping[ReplicaId, Pod]
    known: bool = True

    @property
    def complete(self) -> bool:
        """Whether every replica has its pod."""
        return not self.missing


def assemble(pod: Pod, others: Iterable[Pod], job: Job | None, barred: Barred) -> Assembly:
    """The gang that ``pod`` belongs to. Replicas without a pod get the specification of their type,
    as far as known."""
    assert pod.replica is not None
    assert pod.job_key is not None
    job_uid = pod.replica.job_uid
    present = {
        other.replica: other for other in others if other.replica is not None and not other.leaving
    }
    present[pod.replica] = pod
    missing: list[ReplicaId] = []
    known = True
    members: list[Member] = []
    for role, count in sorted(shape_of(pod, job).items()):
        template = _template(role, present, job)
        for index in range(count):
            replica = ReplicaId(job_uid, role, index)
            found = present.get(replica)
            if found is None:
                missing.append(replica)
                known &= template is not None
            spec = (
                template or ReplicaSpec()
                if found is None
                else ReplicaSpec(found.resources, found.constraints)
            )
            node = None if found is None else found.node
            members.append(Member(role, index, spec, node, barred.get(replica, frozenset())))
    return Assembly(
        Gang(JobKey(*pod.job_key), job_uid, tuple(members)), tuple(missing), present, known
    )


def shape_of(pod: Pod, job: Job | None) -> dict[Role, int]:
    """How many replicas of each type the pod's gang has; the pod itself always counts."""
    assert pod.replica is not None
    counts = dict(pod.gang) if pod.gang else _counts(job)
    if job is not None and pod.gang:
        evaluators = sum(fixed.count for fixed in job.fixed if fixed.role is Role.EVALUATOR)
        counts[Role.EVALUATOR] = max(evaluators, counts.get(Role.EVALUATOR, 0))
    role, index = pod.replica.role, pod.replica.index
    counts[role] = max(counts.get(role, 0), index + 1)
    return {role: count for role, count in counts.items() if count}


def _counts(job: Job | None) -> dict[Role, int]:
    if job is None:
        return {}
    counts = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
    return counts | {fixed.role: fixed.count for fixed in job.fixed}


def _template(role: Role, present: Mapping[ReplicaId, Pod], job: Job | None) -> ReplicaSpec | None:
    alike = min((replica for replica in present if replica.role is role), default=None)
    if alike is not None:
        return ReplicaSpec(present[alike].resources, present[alike].constraints)
    if job is None:
        return None
    specs = {Role.PS: job.ps, Role.WORKER: job.worker} | {
        fixed.role: fixed.spec for fixed in job.fixed
    }
    return specs.get(role)
