"""Free and held capacity while an interval is planned, and the headroom for a rescale that begins.

``CapacityPlan`` starts from the bound pods. A job whose counts change gives its capacity back and
is placed again as a whole. Pods being deleted count as gone: a plan is carried out only once its
capacity is really free.

``headroom`` is what is free at this moment:
1. Pods being deleted still take theirs.
2. A job in a rescale keeps capacity for its target, planned as the extender plans it: on what is
   free and on what its own pods take until they have left.
3. Where a suspended job does not fit, the nodes that it may use are closed to all others: it must
   not lose its capacity to a profiling run or to the growth of another job.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from optimus.allocation import FailedCounts
from optimus.allocation.problem import why_excluded
from optimus.jobs import NO_COUNTS, Counts, Job, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity, is_admitted
from optimus.placement.gang import Assignment, DoesNotFit, Gang, Member, PlacementRule
from optimus.quotas import Quota
from optimus.rescale.machine import Rescale
from optimus.rescale.words import Step, covers
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
    """The capacity of one job, and the mark of the capacity's changes: enough to undo a try."""

    mark: int
    bound: tuple[Held, ...] | None
    assigned: Assigned | None
    charged: tuple[Resources, ...]


class QuotaRefusal(str):
    """Why a quota lets a job not have some counts. Only jobs of its namespace can give room."""

    __slots__ = ("namespace",)

    namespace: str

    @classmethod
    def of(cls, quota: Quota, sentence: str) -> Self:
        """The refusal by one quota."""
        refusal = cls(sentence)
        refusal.namespace = quota.namespace
        return refusal


@dataclass(slots=True)
class QuotaLedger:
    """Keeps what is left of every quota while jobs are tried at other counts; by default there is
    none.

    A job that no quota concerns is never refused, and nothing is kept of it."""

    quotas: Sequence[Quota] = ()
    _of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The numbers of the quotas that concern a job, by UID."""
    _left: list[Resources] = field(default_factory=list)
    _charged: dict[str, tuple[Resources, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, quotas: Sequence[Quota]) -> Self:
        """Nobody is charged yet."""
        found: dict[str, list[int]] = {}
        for number, quota in enumerate(quotas):
            for uid in quota.charges:
                found.setdefault(uid, []).append(number)
        of = {uid: tuple(numbers) for uid, numbers in found.items()}
        return cls(quotas, of, [quota.room for quota in quotas])

    @classmethod
    def with_pods(cls, quotas: Sequence[Quota], *, leaving_counts: bool = False) -> Self:
        """The jobs are charged with their pods; with ``leaving_counts`` also with those that are
        being deleted."""
        ledger, held = cls.of(quotas), dict[str, list[Resources]]()
        for quota in quotas:
            for uid, each in quota.charges.items():
                taken = each.held + each.leaving if leaving_counts else each.held
                held.setdefault(uid, []).append(taken)
        for uid, amounts in held.items():
            ledger.restore(uid, tuple(amounts))
        return ledger

    def copy(self) -> Self:
        """A copy to try something on."""
        return type(self)(self.quotas, self._of, list(self._left), dict(self._charged))

    def charged(self, uid: str) -> tuple[Resources, ...]:
        """Return what a job is charged now, for ``restore``."""
        return self._charged.get(uid, ())

    def restore(self, uid: str, amounts: tuple[Resources, ...]) -> None:
        """Charge a job with just this, in place of what it was charged."""
        numbers = self._of.get(uid, ())
        for number, before in zip(numbers, self._charged.pop(uid, ()), strict=False):
            self._left[number] += before
        for number, amount in zip(numbers, amounts, strict=False):
            self._left[number] -= amount
        if amounts and numbers:
            self._charged[uid] = amounts

    def release(self, uid: str) -> None:
        """Give back all that a job is charged."""
        self.restore(uid, ())

    def charge(self, uid: str, counts: Counts) -> None:
        """Charge a job with these counts, whether they fit or not."""
        if uid in self._of:
            self.restore(uid, self._at(uid, counts))

    def refusal(self, uid: str, counts: Counts) -> QuotaRefusal | None:
        """Return why a job may not have these counts; ``None`` where it may.

        Those at which its pods are already make no new pods, whatever the quota is by now."""
        numbers = self._of.get(uid)
        if not numbers:
            return None
        asked = self._at(uid, counts)
        if all(
            self.quotas[number].charges[uid].held == amount
            for number, amount in zip(numbers, asked, strict=True)
        ):
            return None
        before = self._charged.get(uid) or (NONE,) * len(numbers)
        for number, amount, own in zip(numbers, asked, before, strict=True):
            quota = self.quotas[number]
            why = quota.why_not(amount, self._left[number] + own, counts)
            if why is not None:
                return QuotaRefusal.of(quota, why)
        return None

    def named_in(self, uid: str, reason: str) -> str:
        """The label of the quota that limits a job by this reason; empty where none does."""
        labels = (self.quotas[number].label for number in self._of.get(uid, ()))
        return next((each for each in labels if f"{each} leaves" in reason), "")

    def remaining(self) -> tuple[Quota, ...]:
        """The quotas with what is left of them as their room."""
        pairs = zip(self.quotas, self._left, strict=True)
        return tuple(replace(quota, room=left) for quota, left in pairs)

    def _at(self, uid: str, counts: Counts) -> tuple[Resources, ...]:
        return tuple(self.quotas[number].charges[uid].at(counts) for number in self._of[uid])


@dataclass(slots=True)
class CapacityPlan:
    """Free capacity by node, and what each job holds by UID: bound pods or a tried assignment.

    ``quotas`` are charged with all pods that exist, whether they have a node or not."""

    nodes: Sequence[Node]
    rule: PlacementRule
    capacity: Capacity
    bound: dict[str, tuple[Held, ...]]
    assigned: dict[str, Assigned]
    quotas: QuotaLedger

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
        by_job = {uid: tuple(each) for uid, each in bound.items()}
        quotas = QuotaLedger.with_pods(snapshot.quotas, leaving_counts=leaving_counts)
        return cls(snapshot.nodes, rule, capacity, by_job, {}, quotas)

    @property
    def free(self) -> Mapping[str, Resources]:
        """Free room by node name."""
        return self.capacity.free_by_name()

    @property
    def held(self) -> Mapping[str, tuple[Held, ...]]:
        """Return what each job holds, replica by replica, by UID."""
        return _Holdings(self)

    def copy(self) -> Self:
        """A copy to try something on."""
        bound, assigned = dict(self.bound), dict(self.assigned)
        capacity, quotas = self.capacity.copy(), self.quotas.copy()
        return type(self)(self.nodes, self.rule, capacity, bound, assigned, quotas)

    def adopt(self, other: Self) -> None:
        """Take over what was tried on a copy."""
        self.capacity, self.bound, self.assigned = other.capacity, other.bound, other.assigned
        self.quotas = other.quotas

    def is_placed(self, uid: str) -> bool:
        """Return whether any replica of the job holds room."""
        return uid in self.bound or uid in self.assigned

    def usage(self, uid: str) -> Resources:
        """Return what the job's replicas hold together."""
        assigned = self.assigned.get(uid)
        if assigned is not None:
            return assigned.job.demand(assigned.assignment.counts)
        return total(each.resources for each in self.bound.get(uid, ()))

    def kind_of(self, uid: str, label: str, *, schedulable: bool = False) -> str:
        """The kind of the nodes of a job's workers, by their label; "" where they have none, are of
        several, or, with ``schedulable``, one of the nodes takes no new pods."""
        held = self.nodes_of_workers(uid)
        if schedulable and any(node.cordoned for node in held):
            return ""
        kinds = {node.labels.get(label, "") for node in held}
        return kinds.pop() if len(kinds) == 1 else ""

    def nodes_of_workers(self, uid: str) -> Sequence[Node]:
        """The node of each of a job's workers that has one."""
        row_of, nodes = self.capacity.row_of, self.capacity.nodes
        workers = (each for each in self.held.get(uid, ()) if each.replica.role is Role.WORKER)
        return [nodes[row_of[each.node]] for each in workers if each.node in row_of]

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
        self.quotas.release(uid)

    def savepoint(self, uid: str) -> _Savepoint:
        """Return what the job holds now, to come back to with ``undo``."""
        mark, charged = self.capacity.mark(), self.quotas.charged(uid)
        return _Savepoint(mark, self.bound.get(uid), self.assigned.get(uid), charged)

    def undo(self, uid: str, savepoint: _Savepoint) -> None:
        """Take back every change since then; the job holds what it held."""
        self.capacity.undo_to(savepoint.mark)
        self.assigned.pop(uid, None)
        if savepoint.bound is not None:
            self.bound[uid] = savepoint.bound
        if savepoint.assigned is not None:
            self.assigned[uid] = savepoint.assigned
        self.quotas.restore(uid, savepoint.charged)

    def fits(self, job: Job, counts: Counts) -> bool:
        """Return whether ``move`` would find a place; changes nothing."""
        savepoint = self.savepoint(job.uid)
        if self.move(job, counts) is not None:
            return False
        self.undo(job.uid, savepoint)
        return True

    def move(self, job: Job, counts: Counts) -> str | None:
        """Place the job again as a whole at ``counts``, or say why it does not fit."""
        savepoint = self.savepoint(job.uid)
        self.release(job.uid)
        refusal = self.assign(job, counts)
        if refusal is not None:
            self.undo(job.uid, savepoint)
        return refusal

    def assign(self, job: Job, counts: Counts, *, within_quotas: bool = True) -> str | None:
        """Place a job that holds nothing as a whole at ``counts``, or say why it does not fit."""
        refusal = self.quotas.refusal(job.uid, counts) if within_quotas else None
        if refusal is not None:
            return refusal
        found = self.rule.place_job(job, counts, self.capacity)
        if isinstance(found, DoesNotFit):
            return found.reason
        self.assigned[job.uid] = Assigned(job, found)
        self.quotas.charge(job.uid, counts)
        return None

    def complete(
        self, job: Job, counts: Counts | None = None, *, within_quotas: bool = True
    ) -> str | None:
        """Place the job's unbound replicas (at its own counts if not given) beside the bound."""
        where = {each.replica: each.node for each in self.held.get(job.uid, ())}
        if counts is None and len(where) == sum(job.counts) + sum(each.count for each in job.fixed):
            wanted = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
            wanted |= {each.role: each.count for each in job.fixed}
            if all(replica.index < wanted.get(replica.role, 0) for replica in where):
                return None
        gang = Gang.of(job, counts)
        members = [replace(each, node=where.get(_id(gang, each))) for each in gang.members]
        beyond = self.quotas.refusal(job.uid, counts or job.counts) if within_quotas else None
        refusal = beyond or self.place(replace(gang, members=tuple(members)))
        if refusal is None:
            self.quotas.charge(job.uid, counts or job.counts)
        return refusal

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
    """The capacity that every job holds; replicas of an assignment are listed only when asked
    for."""

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
    """Return what all nodes that take new pods hold together."""
    return total(node.allocatable for node in nodes if not node.cordoned) or NONE


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that is kept for a job at ``counts``.

    ``keeps_pods``: beside the pods that it has; else the whole job is placed again. ``is_stopped``:
    its training was stopped for this. ``is_promised``: it waits for nodes, and others may be about
    to release the room: where there is not enough yet, as much as there is of it is kept."""

    job: Job
    counts: Counts
    keeps_pods: bool = False
    is_stopped: bool = False
    is_promised: bool = False


def headroom(
    snapshot: ClusterSnapshot, rule: PlacementRule, claims: Sequence[Claim]
) -> CapacityPlan:
    """The cluster's free room less the claims; those of stopped jobs come first, then those of jobs
    that wait for nodes."""
    plan = CapacityPlan.of(snapshot, rule, leaving_counts=True)
    pods = _pods_of(snapshot, plan, {each.job.uid for each in claims if not each.keeps_pods})
    in_order = sorted(claims, key=lambda claim: (not claim.is_stopped, not claim.is_promised))
    lacking = [claim for claim in in_order if not _keep(plan, claim, pods.get(claim.job.uid, ()))]
    for claim in lacking:
        if claim.is_stopped:
            _close(plan, claim.job)
    return plan


def largest_fit(
    plan: CapacityPlan, job: Job, most: Counts, failed: Sequence[FailedCounts] = ()
) -> Counts | None:
    """The most PSs and workers that fit, of each role at most these and in about their ratio;
    ``None`` where none do that are allowed. ``most`` itself always is."""
    options = [most, *(each for each in _fewer(most) if job.bounds.allow(each))]
    allowed = [each for each in options if why_excluded(failed, each) is None]
    return first_that_fits(plan, job, allowed)


def _fewer(most: Counts) -> Iterable[Counts]:
    """Fewer and fewer PSs and workers, in about the same ratio."""
    tasks, (ps, workers) = sum(most), most
    fewer = (
        Counts(math.ceil(ps * number / tasks), math.ceil(workers * number / tasks))
        for number in range(tasks - 1, 0, -1)
    )
    return dict.fromkeys(each for each in fewer if each != most)


def first_that_fits(plan: CapacityPlan, job: Job, options: Sequence[Counts]) -> Counts | None:
    """The first of these counts that fits; they are in descending order."""
    first = bisect_left(options, True, key=lambda counts: plan.fits(job, counts))
    return options[first] if first < len(options) else None


def reserve(free: CapacityPlan, job: Job, counts: Counts) -> tuple[Held, ...] | None:
    """Take the whole job's room at these counts, if it is free; its pods hold theirs meanwhile."""
    before = free.held.get(job.uid, ())
    if free.move(job, counts) is not None:
        return None
    for held in before:
        free.take(held.node, held.resources)
    return free.held[job.uid]


def _pods_of(
    snapshot: ClusterSnapshot, plan: CapacityPlan, uids: set[str]
) -> Mapping[str, Sequence[BoundPod]]:
    pods: dict[str, list[BoundPod]] = {}
    for pod in snapshot.pods if uids else ():
        if (
            pod.replica is not None
            and pod.replica.job_uid in uids
            and pod.node in plan.capacity.row_of
        ):
            pods.setdefault(pod.replica.job_uid, []).append(pod)
    return pods


def _keep(plan: CapacityPlan, claim: Claim, pods: Sequence[BoundPod]) -> bool:
    """Take the claim's room; false where there is none now, and nothing is taken."""
    # What was decided already is charged even where a quota has become smaller since.
    if claim.keeps_pods:
        if plan.complete(claim.job, claim.counts, within_quotas=claim.is_promised) is None:
            return True
        if claim.is_promised:
            _keep_part(plan, claim)
            return False
        plan.quotas.charge(claim.job.uid, claim.counts)
        return False
    uid, mark = claim.job.uid, plan.capacity.mark()
    staying = plan.bound.get(uid)
    plan.release(uid)
    for pod in pods:
        if pod.leaving:
            plan.take(pod.node, NONE - pod.resources)
    if plan.assign(claim.job, claim.counts, within_quotas=False) is not None:
        plan.capacity.undo_to(mark)
        plan.quotas.charge(uid, claim.counts)
        if staying is not None:
            plan.bound[uid] = staying
        return False
    assigned = _by_node((held.node, held.resources) for held in plan.held[uid])
    for node, taken in _by_node((pod.node, pod.resources) for pod in pods).items():
        # Nobody else has it either before those pods have left.
        plan.take(node, _beyond(taken, assigned.get(node, NONE)))
    return True


def _keep_part(plan: CapacityPlan, claim: Claim) -> None:
    """Take as much of the claim's room as there is."""
    if plan.is_placed(claim.job.uid):
        return  # its other pods have nodes already
    counts = first_that_fits(plan, claim.job, tuple(_fewer(claim.counts)))
    if counts is not None:
        plan.assign(claim.job, counts)


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


def claims_of(
    rescales: Iterable[tuple[Job, Rescale | None]],
    snapshot: ClusterSnapshot,
    at: float,
    hold_seconds: float,
) -> Iterator[Claim]:
    """Return what is kept for each job that goes to counts of which not all pods are bound.
    ``hold_seconds``: how long a stopped job keeps what it lacks in one step."""
    for job, rescale in rescales:
        if rescale is None:
            continue
        record = rescale.record
        target = record.current_target
        if target == NO_COUNTS or covers(snapshot.bound_counts(job.uid), target):
            continue
        is_held = record.holds_capacity and at - record.step_at < hold_seconds
        yield Claim(job, target, keeps_pods=record.step is Step.START, is_stopped=is_held)
