"""Which room is taken by whom while a plan is tried out on the nodes.

Starts from the pods that are bound; a job whose counts change gives its room back and is placed anew as a whole.
Pods being deleted count as gone: a plan is carried out only once the room that it needs is really free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from scheduling.jobs import Counts, Job
from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, Member, PlacementRule
from scheduling.resources import NONE, Resources, total
from scheduling.snapshot import ClusterSnapshot, ReplicaId


class Held(NamedTuple):
    """The room of one replica."""

    replica: ReplicaId
    node: str
    resources: Resources


@dataclass(slots=True)
class Layout:
    """Free room by node, and what each job holds, by UID."""

    nodes: Sequence[Node]
    rule: PlacementRule
    free: dict[str, Resources]
    held: dict[str, tuple[Held, ...]]

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, rule: PlacementRule, leaving_counts: bool = False) -> Self:
        """The cluster as it is, pods being deleted with or without the room they still take."""
        staying = tuple(pod for pod in snapshot.pods if not pod.leaving)
        charged = snapshot if leaving_counts else replace(snapshot, pods=staying)
        held: dict[str, list[Held]] = {}
        for pod in staying:
            if pod.replica is not None:
                held.setdefault(pod.replica.job_uid, []).append(Held(pod.replica, pod.node, pod.resources))
        return cls(snapshot.nodes, rule, charged.free(), {uid: tuple(each) for uid, each in held.items()})

    def copy(self) -> Self:
        """A layout to try something on."""
        return type(self)(self.nodes, self.rule, dict(self.free), dict(self.held))

    def become(self, other: Self) -> None:
        """Take over what was tried on a copy."""
        self.free, self.held = other.free, other.held

    def is_bound(self, uid: str) -> bool:
        """Whether any replica of the job holds room."""
        return uid in self.held

    def charge(self, uid: str) -> Resources:
        """What the job's replicas hold together."""
        return total(each.resources for each in self.held.get(uid, ()))

    def release(self, uid: str) -> None:
        """Give a job's room back."""
        for _, node, resources in self.held.pop(uid, ()):
            if node in self.free:
                self.free[node] += resources

    def move(self, job: Job, counts: Counts) -> str | None:
        """Give the job's room back and place it whole at ``counts``; if it does not fit, say why and change nothing."""
        trial = self.copy()
        trial.release(job.uid)
        refusal = trial.place(Gang.of(job, counts))
        if refusal is None:
            self.become(trial)
        return refusal

    def complete(self, job: Job, counts: Counts | None = None) -> str | None:
        """Place what of the job, at its own counts or at these, is not bound yet, around what is."""
        where = {each.replica: each.node for each in self.held.get(job.uid, ())}
        gang = Gang.of(job, counts)
        members = tuple(_bound(member, where.get(_id(gang, member))) for member in gang.members)
        return self.place(replace(gang, members=members))

    def place(self, gang: Gang) -> str | None:
        """Take room for the gang's unbound replicas, or say why there is none."""
        if not gang.unbound:
            return None
        placed = self.rule.place(gang, self.nodes, self.free)
        if isinstance(placed, DoesNotFit):
            return placed.reason
        taken = tuple(
            Held(_id(gang, member), placed.nodes[_id(gang, member)], member.spec.resources) for member in gang.unbound
        )
        for _, node, resources in taken:
            self.free[node] -= resources
        self.held[gang.job_uid] = (*self.held.get(gang.job_uid, ()), *taken)
        return None


def _id(gang: Gang, member: Member) -> ReplicaId:
    return ReplicaId(gang.job_uid, member.role, member.index)


def _bound(member: Member, node: str | None) -> Member:
    return replace(member, node=node)


def usable(nodes: Sequence[Node]) -> Resources:
    """What all nodes that take new pods hold together."""
    return total(node.allocatable for node in nodes if not node.cordoned) or NONE
