"""Free and held capacity while an interval is planned, and the headroom for a rescale that begins.

``CapacityPlan`` starts from the bound pods. A job whose counts change gives its capacity back and
is placed anew as a whole. Pods being deleted count as gone: a plan is carried out only once its
capacity is really free.

``headroom`` is what is free at this moment:
1. Pods being deleted still take theirs.
2. A job in a rescale keeps capacity for its target, planned as the extender plans it: on what is
   free and on what its own pods take until they have left.
3. Where a suspended job does not fit, the nodes that it may use are closed to all others: it must
   not lose its capacity to a profiling run or to the growth of another job.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from optimus.jobs import Counts, Job, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity, is_admitted
from optimus.placement.gang import Assignment, DoesNotFit, Gang, Member, PlacementRule
from optimus.resources import NONE, Resources, total
from optimus.snapshot import BoundPod, ClusterSnapshot, ReplicaId


class Held(NamedTuple):
    """The capacity that one replica holds."""

    replica: ReplicaId
    node: str
    resources: Resources


class Assigned(NamedTuple):
    """A job that the plan has placed as a whole."""

    job: Job
    assignment: Assignment


class _Savepoint(NamedTuple):
    """What one job holds, and the mark of the capacity's changes: enough to undo a try."""

    mark: int
    bound: tuple[Held, ...] | None
    assigned: Assigned | None


@dataclass(slots=True)
class CapacityPlan:
    """Free capacity by node, and what each job holds by UID: bound pods or a tried assignment."""

    nodes: Sequence[Node]
    rule: PlacementRule
    capacity: Capacity
    bound: dict[str, tuple[Held, ...]]
    assigned: dict[str, Assigned]

    @classmethod
    def of(
        cls, snapshot: ClusterSnapshot, rule: PlacementRule, leaving_counts: bool = False
    ) -> Self:
        """The cluster as it is; with ``leaving_counts`` pods being deleted still count."""
        staying = tuple(pod for pod in snapshot.pods if not pod.leaving)
        charged = snapshot if leaving_counts else replace(snapshot, pods=staying)
        bound: dict[str, list[Held]] = {}
        for pod in staying:
            if pod.replica is not None:
                held = Held(pod.replica, pod.node, pod.resources)
                bound.setdefault(pod.replica.job_uid, []).append(held)
        capacity = Capacity(snapshot.nodes, charged.free())
        return cls(
            snapshot.nodes, rule, capacity, {uid: tuple(each) for uid, each in bound.items()}, {}
        )

    @property
    def free(self) -> Mapping[str, Resources]:
        """Free room by node name."""
        return self.capacity.free_by_name()

    @property
    def held(self) -> Mapping[str, tuple[Held, ...]]:
        """What each job holds, replica by replica, by UID."""
        return _Holdings(self)

    def copy(self) -> Self:
        """A copy to try something on."""
        return type(self)(
            self.nodes, self.rule, self.capacity.copy(), dict(self.bound), dict(self.assigned)
        )

    def adopt(self, other: Self) -> None:
        """Take over what was tried on a copy."""
        self.capacity, self.bound, self.assigned = other.capacity, other.bound, other.assigned

    def is_placed(self, uid: str) -> bool:
        """Whether any replica of the job holds room."""
        return uid in self.bound or uid in self.assigned

    def usage(self, uid: str) -> Resources:
        """What the job's replicas hold together."""
        assigned = self.assigned.get(uid)
        if assigned is not None:
            return assigned.job.demand(assigned.assignment.counts)
        return total(each.resources for each in self.bound.get(uid, ()))

    def take(self, node: str, resources: Resources) -> None:
        """Take room for something that is no part of a plan."""
        self.capacity.take(self.capacity.row_of[node], self.capacity.vector(resources) or ())

    def release(self, uid: str) -> None:
        """Give a job's room back."""
        for held in self.bound.pop(uid, ()):
            row = self.capacity.row_of.get(held.node)
            vector = self.capacity.vector(held.resources)
            if row is not None and vector is not None:
                self.capacity.give_back(row, vector)
        assigned = self.assigned.pop(uid, None)
        if assigned is not None:
            assigned.assignment.give_back_to(self.capacity, assigned.job)

    def savepoint(self, uid: str) -> _Savepoint:
        """What the job holds now, to come back to with ``undo``."""
        return _Savepoint(self.capacity.mark(), self.bound.get(uid), self.assigned.get(uid))

    def undo(self, uid: str, savepoint: _Savepoint) -> None:
        """Take back every change since then; the job holds what it held."""
        self.capacity.undo_to(savepoint.mark)
        self.assigned.pop(uid, None)
        if savepoint.bound is not None:
            self.bound[uid] = savepoint.bound
        if savepoint.assigned is not None:
            self.assigned[uid] = savepoint.assigned

    def fits(self, job: Job, counts: Counts) -> bool:
        """Whether ``move`` would find a place; changes nothing."""
        savepoint = self.savepoint(job.uid)
        if self.move(job, counts) is not None:
            return False
        self.undo(job.uid, savepoint)
        return True

    def move(self, job: Job, counts: Counts) -> str | None:
        """Place the job anew as a whole at ``counts``, or say why it does not fit."""
        savepoint = self.savepoint(job.uid)
        self.release(job.uid)
        refusal = self.assign(job, counts)
        if refusal is not None:
            self.undo(job.uid, savepoint)
        return refusal

    def assign(self, job: Job, counts: Counts, *, evenly: bool = False) -> str | None:
        """Place a job that holds nothing as a whole at ``counts``, or say why it does not fit."""
        found = self.rule.place_job(job, counts, self.capacity, evenly=evenly)
        if isinstance(found, DoesNotFit):
            return found.reason
        self.assigned[job.uid] = Assigned(job, found)
        return None

    def complete(self, job: Job, counts: Counts | None = None) -> str | None:
        """Place the job's unbound replicas (at its own counts if not given) beside the bound."""
        where = {each.replica: each.node for each in self.held.get(job.uid, ())}
        if counts is None and len(where) == sum(job.counts) + sum(each.count for each in job.fixed):
            wanted = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
            wanted |= {each.role: each.count for each in job.fixed}
            if all(replica.index < wanted.get(replica.role, 0) for replica in where):
                return None
        gang = Gang.of(job, counts)
        members = [replace(each, node=where.get(_id(gang, each))) for each in gang.members]
        return self.place(replace(gang, members=tuple(members)))

    def place(self, gang: Gang) -> str | None:
        """Take room for the gang's unbound replicas, or say why there is none."""
        if not gang.unbound:
            return None
        placed = self.rule.place(gang, self.capacity)
        if isinstance(placed, DoesNotFit):
            return placed.reason
        taken = tuple(
            Held(_id(gang, member), placed.nodes[_id(gang, member)], member.spec.resources)
            for member in gang.unbound
        )
        for _, node, resources in taken:
            self.take(node, resources)
        self.bound[gang.job_uid] = (*self.held.get(gang.job_uid, ()), *taken)
        self.assigned.pop(gang.job_uid, None)
        return None


class _Holdings(Mapping[str, tuple[Held, ...]]):
    """What every job holds; replicas of an assignment are listed only when asked for."""

    def __init__(self, plan: CapacityPlan) -> None:
        self._plan = plan

    def __getitem__(self, uid: str) -> tuple[Held, ...]:
        assigned = self._plan.assigned.get(uid)
        if assigned is None:
            return self._plan.bound[uid]
        job, assignment = assigned
        specs = {Role.PS: job.ps, Role.WORKER: job.worker}
        specs |= {each.role: each.spec for each in job.fixed}
        nodes = self._plan.capacity.nodes
        return tuple(
            Held(replica, nodes[row].name, specs[replica.role].resources)
            for replica, row in assignment.replicas(job)
        )

    def __iter__(self) -> Iterator[str]:
        return iter({**self._plan.bound, **self._plan.assigned})

    def __len__(self) -> int:
        return len({**self._plan.bound, **self._plan.assigned})


def _id(gang: Gang, member: Member) -> ReplicaId:
    return ReplicaId(gang.job_uid, member.role, member.index)


def schedulable_capacity(nodes: Sequence[Node]) -> Resources:
    """What all nodes that take new pods hold together."""
    return total(node.allocatable for node in nodes if not node.cordoned) or NONE


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that is kept for a job at ``counts``.

    ``keeps_pods``: beside the pods that it has; else the whole job is placed anew. ``is_stopped``:
    its training was stopped for this."""

    job: Job
    counts: Counts
    keeps_pods: bool = False
    is_stopped: bool = False


def headroom(
    snapshot: ClusterSnapshot, rule: PlacementRule, claims: Sequence[Claim]
) -> CapacityPlan:
    """The cluster's free room less the claims; those of stopped jobs come first."""
    plan = CapacityPlan.of(snapshot, rule, leaving_counts=True)
    pods = _pods_of(snapshot, plan, {claim.job.uid for claim in claims})
    in_order = sorted(claims, key=lambda claim: not claim.is_stopped)
    lacking = [claim for claim in in_order if not _keep(plan, claim, pods.get(claim.job.uid, ()))]
    for claim in lacking:
        if claim.is_stopped:
            _close(plan, claim.job)
    return plan


def reserve(free: CapacityPlan, job: Job, counts: Counts) -> tuple[Held, ...] | None:
    """Take the whole job's room at these counts, if it is free; its pods hold theirs meanwhile."""
    leaving = free.held.get(job.uid, ())
    if free.move(job, counts) is not None:
        return None
    for _, node, resources in leaving:
        free.take(node, resources)
    return free.held[job.uid]


def _pods_of(
    snapshot: ClusterSnapshot, plan: CapacityPlan, uids: set[str]
) -> Mapping[str, Sequence[BoundPod]]:
    pods: dict[str, list[BoundPod]] = {}
    for pod in snapshot.pods:
        if (
            pod.replica is not None
            and pod.replica.job_uid in uids
            and pod.node in plan.capacity.row_of
        ):
            pods.setdefault(pod.replica.job_uid, []).append(pod)
    return pods


def _keep(plan: CapacityPlan, claim: Claim, pods: Sequence[BoundPod]) -> bool:
    """Take the claim's room; false where there is none now, and nothing is taken."""
    if claim.keeps_pods:
        return plan.complete(claim.job, claim.counts) is None
    uid, mark = claim.job.uid, plan.capacity.mark()
    staying = plan.bound.get(uid)
    plan.release(uid)
    for pod in pods:
        if pod.leaving:
            plan.take(pod.node, NONE - pod.resources)
    if plan.assign(claim.job, claim.counts) is not None:
        plan.capacity.undo_to(mark)
        if staying is not None:
            plan.bound[uid] = staying
        return False
    assigned = _by_node((held.node, held.resources) for held in plan.held[uid])
    for node, taken in _by_node((pod.node, pod.resources) for pod in pods).items():
        # Nobody else has it either before those pods have left.
        plan.take(node, _beyond(taken, assigned.get(node, NONE)))
    return True


def _by_node(amounts: Iterable[tuple[str, Resources]]) -> dict[str, Resources]:
    sums: dict[str, Resources] = {}
    for node, amount in amounts:
        sums[node] = sums.get(node, NONE) + amount
    return sums


def _beyond(taken: Resources, held: Resources) -> Resources:
    return Resources({name: max(amount - held[name], 0) for name, amount in taken.items()})


def _close(plan: CapacityPlan, job: Job) -> None:
    """Leave nothing free on the nodes that any of the job's replicas may go to."""
    choices = {
        spec.constraints for spec in (job.ps, job.worker, *(role.spec for role in job.fixed))
    }
    for row, node in enumerate(plan.capacity.nodes):
        if any(is_admitted(node, constraints) for constraints in choices):
            plan.capacity.take(row, tuple(max(amount, 0) for amount in plan.capacity.free[row]))
