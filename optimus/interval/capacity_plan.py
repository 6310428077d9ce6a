"""Which room is taken by whom while a plan is tried out on the nodes.

Starts from the pods that are bound; a job whose counts change gives its room back and is placed
anew as a whole. Pods being deleted count as gone: a plan is carried out only once the room that it
needs is really free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from optimus.jobs import Counts, Job, Role
from optimus.nodes import Node
from optimus.placement.assignment import Assignment
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Member, PlacementRule
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ClusterSnapshot, ReplicaId


class Held(NamedTuple):
    """The room of one replica."""

    replica: ReplicaId
    node: str
    resources: Resources


class Assigned(NamedTuple):
    """A job that was placed as a whole while trying."""

    job: Job
    seats: Assignment


@dataclass(slots=True)
class CapacityPlan:
    """Free room by node, and what each job holds, by UID: pods as they are bound, or seats that
    were tried."""

    nodes: Sequence[Node]
    rule: PlacementRule
    stock: Capacity
    bound: dict[str, tuple[Held, ...]]
    seated: dict[str, Assigned]

    @classmethod
    def of(
        cls, snapshot: ClusterSnapshot, rule: PlacementRule, leaving_counts: bool = False
    ) -> Self:
        """The cluster as it is, pods being deleted with or without the room they still take."""
        staying = tuple(pod for pod in snapshot.pods if not pod.leaving)
        charged = snapshot if leaving_counts else replace(snapshot, pods=staying)
        bound: dict[str, list[Held]] = {}
        for pod in staying:
            if pod.replica is not None:
                bound.setdefault(pod.replica.job_uid, []).append(
                    Held(pod.replica, pod.node, pod.resources)
                )
        stock = Capacity(snapshot.nodes, charged.free())
        return cls(
            snapshot.nodes, rule, stock, {uid: tuple(each) for uid, each in bound.items()}, {}
        )

    @property
    def free(self) -> Mapping[str, Resources]:
        """Free room by node name."""
        return self.stock.free_by_name()

    @property
    def held(self) -> Mapping[str, tuple[Held, ...]]:
        """What each job holds, replica by replica, by UID."""
        return _Holdings(self)

    def copy(self) -> Self:
        """A layout to try something on."""
        return type(self)(
            self.nodes, self.rule, self.stock.copy(), dict(self.bound), dict(self.seated)
        )

    def become(self, other: Self) -> None:
        """Take over what was tried on a copy."""
        self.stock, self.bound, self.seated = other.stock, other.bound, other.seated

    def is_bound(self, uid: str) -> bool:
        """Whether any replica of the job holds room."""
        return uid in self.bound or uid in self.seated

    def charge(self, uid: str) -> Resources:
        """What the job's replicas hold together."""
        seated = self.seated.get(uid)
        if seated is not None:
            return seated.job.demand(seated.seats.counts)
        return total(each.resources for each in self.bound.get(uid, ()))

    def take(self, node: str, resources: Resources) -> None:
        """Take room for something that is no part of a plan."""
        self.stock.take(self.stock.row_of[node], self.stock.vector(resources) or ())

    def release(self, uid: str) -> None:
        """Give a job's room back."""
        for held in self.bound.pop(uid, ()):
            row = self.stock.row_of.get(held.node)
            vector = self.stock.vector(held.resources)
            if row is not None and vector is not None:
                self.stock.give_back(row, vector)
        seated = self.seated.pop(uid, None)
        if seated is not None:
            seated.seats.give_back_to(self.stock, seated.job)

    def put_back(self, seated: Assigned) -> None:
        """Seat a job, whose room was given back, where it was."""
        seated.seats.take_from(self.stock, seated.job)
        self.seated[seated.job.uid] = seated

    def fits(self, job: Job, counts: Counts) -> bool:
        """Whether ``move`` would find a place; changes nothing."""
        mark, bound, seated = self.stock.mark(), self.bound.get(job.uid), self.seated.get(job.uid)
        if self.move(job, counts) is not None:
            return False
        self.stock.back_to(mark)
        self.seated.pop(job.uid)
        if bound is not None:
            self.bound[job.uid] = bound
        if seated is not None:
            self.seated[job.uid] = seated
        return True

    def move(self, job: Job, counts: Counts) -> str | None:
        """Give the job's room back and place it whole at ``counts``; if it does not fit, say why
        and change nothing."""
        mark, bound, seated = self.stock.mark(), self.bound.get(job.uid), self.seated.get(job.uid)
        self.release(job.uid)
        refusal = self.seat(job, counts)
        if refusal is not None:
            self.stock.back_to(mark)
            if bound is not None:
                self.bound[job.uid] = bound
            if seated is not None:
                self.seated[job.uid] = seated
        return refusal

    def seat(self, job: Job, counts: Counts, *, evenly: bool = False) -> str | None:
        """Place a job that holds nothing, whole, at ``counts``, or say why that cannot be."""
        seats = self.rule.seat(job, counts, self.stock, evenly=evenly)
        if isinstance(seats, DoesNotFit):
            return seats.reason
        self.seated[job.uid] = Assigned(job, seats)
        return None

    def complete(self, job: Job, counts: Counts | None = None) -> str | None:
        """Place what of the job, at its own counts or at these, is not bound yet, around what
        is."""
        where = {each.replica: each.node for each in self.held.get(job.uid, ())}
        if counts is None and len(where) == sum(job.counts) + sum(each.count for each in job.fixed):
            wanted = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
            wanted |= {each.role: each.count for each in job.fixed}
            if all(replica.index < wanted.get(replica.role, 0) for replica in where):
                return None
        gang = Gang.of(job, counts)
        members = tuple(_bound(member, where.get(_id(gang, member))) for member in gang.members)
        return self.place(replace(gang, members=members))

    def place(self, gang: Gang) -> str | None:
        """Take room for the gang's unbound replicas, or say why there is none."""
        if not gang.unbound:
            return None
        specs = {member.spec for member in gang.members}
        named = [member.node for member in gang.members if member.node is not None]
        barred = [name for member in gang.members for name in member.barred]
        room = self.stock.part(len(gang.members) + len(barred), specs, [*named, *barred])
        placed = self.rule.place_in(gang, room)
        if isinstance(placed, DoesNotFit):
            return placed.reason
        taken = tuple(
            Held(_id(gang, member), placed.nodes[_id(gang, member)], member.spec.resources)
            for member in gang.unbound
        )
        for _, node, resources in taken:
            self.stock.take(self.stock.row_of[node], self.stock.vector(resources) or ())
        self.bound[gang.job_uid] = (*self.held.get(gang.job_uid, ()), *taken)
        self.seated.pop(gang.job_uid, None)
        return None


class _Holdings(Mapping[str, tuple[Held, ...]]):
    """What every job holds; the replicas of a job that was seated are named only where somebody
    asks."""

    def __init__(self, layout: CapacityPlan) -> None:
        self._layout = layout

    def __getitem__(self, uid: str) -> tuple[Held, ...]:
        seated = self._layout.seated.get(uid)
        if seated is None:
            return self._layout.bound[uid]
        job, seats = seated
        specs = {Role.PS: job.ps, Role.WORKER: job.worker} | {
            each.role: each.spec for each in job.fixed
        }
        nodes = self._layout.stock.nodes
        return tuple(
            Held(replica, nodes[row].name, specs[replica.role].resources)
            for replica, row in seats.replicas(job)
        )

    def __iter__(self) -> Iterator[str]:
        return iter({**self._layout.bound, **self._layout.seated})

    def __len__(self) -> int:
        return len({**self._layout.bound, **self._layout.seated})


def _id(gang: Gang, member: Member) -> ReplicaId:
    return ReplicaId(gang.job_uid, member.role, member.index)


def _bound(member: Member, node: str | None) -> Member:
    return replace(member, node=node)


def usable(nodes: Sequence[Node]) -> Resources:
    """What all nodes that take new pods hold together."""
    return total(node.allocatable for node in nodes if not node.cordoned) or NONE
