"""Room that is reserved on one cluster, and what is left of it.

The ledger holds what is reserved for whom; this adds what only the extender knows:

* ``assumed`` replicas (kube-scheduler's term): it was answered their node, and they are not seen
  bound yet. They count as placed, so that the rest of a gang is planned around them.
* pods of no job that may be about to take what is reserved for gangs of a lower priority.
* overlaps: while a rescaled job's old pods leave, what is reserved for its new ones overlaps the
  room of the old ones, and must not be subtracted twice.
* what is left of each node, corrected as pods and reservations change.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from cachetools import LRUCache

from extender.state.cluster import Cluster
from extender.state.occupancy import Occupant
from optimus.placement.capacity import Capacity, is_admitted
from optimus.placement.gang import Gang, Placement
from optimus.placement.ledger import Ledger, Reservation
from optimus.placement.queue.order import SYSTEM_CRITICAL_PRIORITY
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId

ByNode = Mapping[str, Resources]


class Reservations:
    """The ledger over one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ledger = Ledger()
        self.assumed: dict[ReplicaId, str] = {}
        self.whole_jobs: set[str] = set()
        """Jobs of which every waiting pod was found to have a reservation, until pods or
        reservations change: most of a queue, and nothing has to be looked at again for them."""
        self._overlaps: dict[str, dict[str, Resources]] = {}
        self._changed_nodes: set[str] = set()
        self._unread: set[str] = set()
        """Nodes that have changed since ``read_changes``."""
        self._left: dict[str, Resources] = {}
        self.changes = 0
        """How many changes of nodes there have been."""
        self._changed_at: dict[str, int] = {}
        """The last change of each node that has changed, in order."""
        self._full_nodes: LRUCache[Resources, tuple[int, set[str]]] = LRUCache(64)
        """By what is asked for: up to which change, and the nodes that leave less than that."""
        self._held_priorities: dict[str, int] = {}
        """Of the jobs with reservations, when these were made."""
        self.passing: dict[str, tuple[frozenset[str], float]] = {}
        """By UID of a pod of no job, the jobs whose room it may take and until when it may."""

    def free(self) -> Capacity:
        """Return what is neither bound nor reserved."""
        return Capacity(tuple(self._cluster.nodes.values()), self.left_by_node())

    def _collect_changes(self) -> None:
        """Pass on which nodes have changed to everything that is corrected node by node."""
        changed = self._cluster.changed_nodes | self._changed_nodes
        if changed:
            self._cluster.changed_nodes, self._changed_nodes = set(), set()
            self._unread |= changed
            for node in changed:
                self._left.pop(node, None)
                self.changes += 1
                self._changed_at.pop(node, None)
                self._changed_at[node] = self.changes

    def changed_since(self, changes: int) -> dict[str, Resources]:
        """Return what is left of the nodes that have changed since there were so many
        ``changes``."""
        self._collect_changes()
        names, nodes = self._names_changed_since(changes), self._cluster.nodes
        return {node: self._left_cached(node) for node in names if node in nodes}

    def _names_changed_since(self, changes: int) -> list[str]:
        recent = reversed(self._changed_at.items())
        return [node for node, _ in takewhile(lambda each: each[1] > changes, recent)]

    def left_by_node(self) -> dict[str, Resources]:
        """Return what is left of every node."""
        self._collect_changes()
        return {node: self._left_cached(node) for node in self._cluster.nodes}

    def read_changes(self) -> dict[str, Resources | None]:
        """Return what is left of each node that has changed since the last call; ``None``: it is
        gone."""
        self._collect_changes()
        unread, self._unread = self._unread, set()
        nodes = self._cluster.nodes
        return {node: self._left_cached(node) if node in nodes else None for node in unread}

    def own_room(self, gang: Gang) -> dict[str, Resources]:
        """Return, by node, what is reserved for the gang's own replicas that are not placed."""
        if not self.ledger.holds(gang.job_uid):
            return {}
        held = self.ledger.of_job(gang.job_uid)
        kept = self._of_placed(gang)
        return {
            node: self.reserved(node)
            - self.reserved(node, besides=gang.job_uid)
            - total(each.resources for each in kept if each.node == node)
            for node in {each.node for each in held} & self._cluster.nodes.keys()
        }

    def still_fits(self, gang: Gang, placement: Placement, leaving: ByNode | None = None) -> bool:
        """Return whether nodes still have the room, with what is about to leave them, and admit the
        replicas, that a gang is planned on."""
        asked: dict[str, Resources] = {}
        for member in gang.unbound:
            name = placement.nodes[gang.replica(member)]
            node = self._cluster.nodes.get(name)
            if node is None or not is_admitted(node, member.spec.constraints):
                return False
            asked[name] = asked.get(name, NONE) + member.spec.resources
        own, leaving = self.own_room(gang), leaving or {}
        return all(
            amount.fits_in(self._left_cached(node) + own.get(node, NONE) + leaving.get(node, NONE))
            for node, amount in asked.items()
        )

    def free_for(self, gang: Gang, leaving: ByNode | None = None) -> Capacity:
        """The room that a gang may use, with what is reserved for it and what its job leaves."""
        left = self.left_by_node() | self.left_to(gang, leaving)
        return Capacity(tuple(self._cluster.nodes.values()), left)

    def left_to(self, gang: Gang, leaving: ByNode | None = None) -> dict[str, Resources]:
        """Return what is left to a gang of the nodes on which that is more than what is left to
        others: what is reserved for it and what its job leaves."""
        own, leaving = self.own_room(gang), leaving or {}
        return {
            node: self._left_cached(node) + own.get(node, NONE) + leaving.get(node, NONE)
            for node in (own.keys() | leaving.keys()) & self._cluster.nodes.keys()
        }

    def _of_placed(self, gang: Gang) -> list[Reservation]:
        """The reservations of members that count as placed and are not bound yet: they stay."""
        placed = {gang.replica(member) for member in gang.members if member.node}
        return [held for held in self.ledger.of_job(gang.job_uid) if held.replica in placed]

    def left(self, node: str, besides: str | None = None) -> Resources:
        """Return what is free on a node and not reserved, or reserved for the one job
        ``besides``."""
        return self._cluster.free(node) - self.reserved(node, besides)

    def reserved(self, node: str, besides: str | None = None) -> Resources:
        """Return what is reserved on a node beyond what its bound pods take."""
        reserved = self.ledger.held_on(node)
        if besides is not None:
            reserved -= self.ledger.held_for(besides, node)
        for job_uid, leaving in self._overlaps.items():
            if job_uid != besides and node in leaving:
                held = self.ledger.held_for(job_uid, node)
                reserved -= Resources(
                    {name: min(amount, leaving[node][name]) for name, amount in held.items()}
                )
        return reserved

    def nodes_too_full(
        self, resources: Resources, names: Collection[str], priority: int
    ) -> set[str]:
        """Return, of these nodes, those with reservations that leave less than ``resources``.

        A pod of this ``priority`` may take what is reserved for gangs of a lower one of which no
        pod is placed yet, a system-critical pod what is reserved for any."""
        if priority >= SYSTEM_CRITICAL_PRIORITY:
            return set()
        full = self._full(resources).intersection(names)
        if priority <= min(self._held_priorities.values(), default=priority):
            return full  # which is so for most pods
        priorities: dict[str, int] = {}
        return {
            name
            for name in full
            if not resources.fits_in(self._left_to(priority, name, priorities))
        }

    def nodes_for(
        self, resources: Resources, names: Sequence[str], priority: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The nodes that a pod of no job may go to, and those of them where it takes what is
        reserved: none where others have the room, since that harms nobody's plan."""
        reserved = self._full(resources)
        unreserved = tuple(name for name in names if name not in reserved)
        if unreserved:
            return unreserved, ()
        full = self.nodes_too_full(resources, names, priority)
        taken = tuple(name for name in names if name not in full)
        return taken, taken

    def let_pass(self, pod_uid: str, priority: int, nodes: Iterable[str], until: float) -> None:
        """A pod of no job was answered nodes where it takes what is reserved.

        Until it is seen bound, plans that count on these nodes are not to be relied on: of a gang
        that was answered meanwhile a part would be bound, and the rest find its room taken."""
        jobs = {job_uid for node in nodes for job_uid in self.ledger.jobs_on(node)}
        if priority < SYSTEM_CRITICAL_PRIORITY:
            jobs = {each for each in jobs if self._cluster.priority_of(each) < priority}
        self.passing[pod_uid] = frozenset(jobs), until

    def pod_changed(self, pod_uid: str) -> None:
        """A pod is bound or gone, or kube-scheduler has written that its attempt failed."""
        self.passing.pop(pod_uid, None)

    def may_be_taken(self, job_uid: str, now: float) -> bool:
        """Return whether a pod of no job may be about to take what is reserved for this job."""
        if not self.passing:
            return False  # as nearly always
        self.passing = {uid: known for uid, known in self.passing.items() if known[1] > now}
        return any(job_uid in jobs for jobs, _ in self.passing.values())

    def _full(self, resources: Resources) -> set[str]:
        """The nodes with reservations that leave less than so much, corrected node by node."""
        self._collect_changes()
        at, full = self._full_nodes.get(resources, (None, set()))
        changed = self.ledger.held_by_node() if at is None else self._names_changed_since(at)
        for node in changed:
            is_held = node in self._cluster.nodes and bool(self.ledger.held_on(node))
            if is_held and not resources.fits_in(self._left_cached(node)):
                full.add(node)
            else:
                full.discard(node)
        self._full_nodes[resources] = self.changes, full
        return full

    def _left_to(self, priority: int, node: str, priorities: dict[str, int]) -> Resources:
        """Return what is left of a node where gangs of a lower priority hold nothing, but for those
        of which a part is placed: the rest of such a gang would find no room."""
        left = self._left_cached(node)
        for job_uid in self.ledger.jobs_on(node):
            if job_uid not in priorities:
                priorities[job_uid] = self._cluster.priority_of(job_uid)
            if priorities[job_uid] < priority and not self.is_begun(job_uid):
                left += self.reserved(node) - self.reserved(node, besides=job_uid)
        return left

    def is_begun(self, job_uid: str) -> bool:
        """Return whether a pod of the job is bound, or is answered with its node."""
        pods = self._cluster.pods_of(job_uid).values()
        return any(
            not pod.leaving and (pod.node is not None or pod.replica in self.assumed)
            for pod in pods
        )

    def _left_cached(self, node: str) -> Resources:
        self._collect_changes()
        left = self._left.get(node)
        if left is None:
            left = self._left[node] = self.left(node)
        return left

    def with_assumed(self, gang: Gang) -> Gang:
        """The gang with its assumed replicas as placed."""
        if not self.assumed:
            return gang
        members = (
            member if member.node else replace(member, node=self.assumed.get(gang.replica(member)))
            for member in gang.members
        )
        return replace(gang, members=tuple(members))

    def with_surroundings(self, gang: Gang, leaving: Iterable[str] = ()) -> Gang:
        """The gang with what other pods mean for it, now; pods in ``leaving`` (UIDs) do not count.

        To be called just before the gang is planned, and again before its plan is reserved where
        anything may have happened between."""
        besides = [*leaving, *(gang.replica(member) for member in gang.unbound)]
        surroundings = self._cluster.occupancy.surroundings(gang, besides)
        return gang if surroundings is None else replace(gang, surroundings=surroundings)

    def hold(
        self, gang: Gang, placement: Placement, expires_at: float, leaving: ByNode | None = None
    ) -> None:
        """Reserve a planned gang's room, instead of what was reserved for its unplaced replicas."""
        kept = self._of_placed(gang)
        self.release_job(gang.job_uid)
        self.touch(gang.job_uid)
        requests = {gang.replica(member): member.spec.resources for member in gang.unbound}
        planned = [
            Reservation(replica, node, requests[replica], expires_at)
            for replica, node in placement.nodes.items()
        ]
        self.ledger.hold_gang(gang.job_uid, [*kept, *planned])
        self._overlaps.pop(gang.job_uid, None)
        if leaving and (kept or planned):  # without them nothing would end the overlap
            self._overlaps[gang.job_uid] = dict(leaving)
        self._held_priorities[gang.job_uid] = self._cluster.priority_of(gang.job_uid)
        self._cluster.note_planned(gang.job_uid, gang.demand())
        self._changed_nodes |= {held.node for held in (*kept, *planned)}
        members, namespace = {gang.replica(each): each for each in gang.members}, gang.key.namespace
        for held in (*kept, *planned):
            member = members[held.replica]
            occupant = Occupant(held.node, namespace, member.labels, member.rules)
            self._cluster.occupancy.reserve(held.replica, occupant)

    def move(self, gang: Gang, nodes: Mapping[ReplicaId, str], expires_at: float) -> None:
        """Reserve other nodes for replicas of a gang that have reservations."""
        leaving = self._overlaps.get(gang.job_uid)
        self.hold(gang, Placement(gang.job_uid, nodes), expires_at, leaving)

    def touch(self, job_uid: str) -> None:
        """A job's pods or reservations have changed: nothing that was found for it holds."""
        self.whole_jobs.discard(job_uid)

    def set_leaving(self, job_uid: str, leaving: ByNode) -> None:
        """Correct what the job's old pods still take, by node: as they go, the overlap shrinks."""
        before = self._overlaps.get(job_uid)
        if before is not None and before != leaving:
            self._changed_nodes |= before.keys() | leaving.keys()
            self._overlaps[job_uid] = dict(leaving)

    def release(self, replica: ReplicaId) -> None:
        """Release what is reserved for one replica."""
        released = self.ledger.release(replica)
        self._released(() if released is None else (released,))

    def release_job(self, job_uid: str) -> bool:
        """Release everything reserved for a job; returns whether there was anything."""
        released = self.ledger.release_job(job_uid)
        self._released(released)
        return bool(released)

    def expire(self, now: float) -> tuple[Reservation, ...]:
        """Release what has run out, and return it."""
        expired = self.ledger.expire(now)
        self._released(expired)
        return expired

    def _released(self, released: Iterable[Reservation]) -> None:
        for held in released:
            self._changed_nodes.add(held.node)
            self.touch(held.replica.job_uid)
            self._cluster.occupancy.release(held.replica)
            if not self.ledger.of_job(held.replica.job_uid):
                self._changed_nodes |= self._overlaps.pop(held.replica.job_uid, {}).keys()
                self._held_priorities.pop(held.replica.job_uid, None)

    def is_overcommitted(self, node: str) -> bool:
        """Return whether reservations exceed what a node has; what others overcommit does not
        count."""
        if not self.ledger.held_on(node):
            return False  # as most nodes
        free = self._cluster.free(node) if node in self._cluster.nodes else NONE
        return any(amount > max(free[name], 0) for name, amount in self.reserved(node).items())

    def overcommitted(self) -> tuple[str, ...]:
        """Every node whose reservations exceed what it has; there must be none."""
        return tuple(
            node for node in sorted(self.ledger.held_by_node()) if self.is_overcommitted(node)
        )
