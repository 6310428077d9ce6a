"""What is promised of the cluster's room, and what is left of it.

The ledger says what is held for whom; this adds what a rescale needs: while the old pods of a job
are on their way out, what is held for its new ones rides on their room, so that it is not taken
twice. ``room`` is the free room less every promise as a matrix, corrected node by node as pods and
promises come and go."""

from collections.abc import Iterable, Mapping

from extender.state.cluster import Cluster
from optimus.placement.free_matrix import FreeMatrix
from optimus.placement.gang import Gang, Placement
from optimus.placement.ledger import Ledger, Reservation
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId


class Reservations:
    """The ledger over one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ledger = Ledger()
        self._riders: dict[str, dict[str, Resources]] = {}
        self._room: FreeMatrix | None = None
        self._room_generation = -1
        self._touched: set[str] = set()

    def room(self) -> FreeMatrix:
        """What is free and promised to no one. Not to be changed by the caller."""
        cluster = self._cluster
        touched = cluster.touched | self._touched
        cluster.touched, self._touched = set(), set()
        known = self._room
        if (
            known is not None
            and self._room_generation == cluster.node_generation
            and all(
                known.set_free(node, self.left(node)) for node in touched if node in cluster.nodes
            )
        ):
            return known
        self._room = FreeMatrix(
            tuple(cluster.nodes.values()), {node: self.left(node) for node in cluster.nodes}
        )
        self._room_generation = cluster.node_generation
        return self._room

    def room_for(self, gang: Gang, leaving: Mapping[str, Resources] | None = None) -> FreeMatrix:
        """The room as one gang may use it: with what is held for its unplaced replicas, and what
        its job is leaving."""
        room, leaving = self.room(), leaving or {}
        own = {held.node for held in self.ledger.of_job(gang.job_uid)} | leaving.keys()
        if not own:
            return room
        kept = self._kept(gang)
        nodes = [node for node in own if node in self._cluster.nodes]
        amounts = {
            node: self.left(node, besides=gang.job_uid)
            + leaving.get(node, NONE)
            - total(held.resources for held in kept if held.node == node)
            for node in nodes
        }
        room = room.copy()
        if all(room.set_free(node, amount) for node, amount in amounts.items()):
            return room
        everything = {node: self.left(node) for node in self._cluster.nodes} | amounts
        return FreeMatrix(tuple(self._cluster.nodes.values()), everything)

    def _kept(self, gang: Gang) -> list[Reservation]:
        """What stays held whatever is planned: room of members that count as placed and are not
        bound yet."""
        placed = {
            ReplicaId(gang.job_uid, member.role, member.index)
            for member in gang.members
            if member.node
        }
        return [held for held in self.ledger.of_job(gang.job_uid) if held.replica in placed]

    def left(self, node: str, besides: str | None = None) -> Resources:
        """What is free on a node and promised to no one, or to no one but one job."""
        return self._cluster.free(node) - self.promised(node, besides)

    def promised(self, node: str, besides: str | None = None) -> Resources:
        """What is promised on a node beyond what its bound pods take."""
        promised = self.ledger.held_on(node)
        if besides is not None:
            promised -= self._held(besides, node)
        for job_uid, riders in self._riders.items():
            if job_uid != besides and node in riders:
                promised -= _overlap(self._held(job_uid, node), riders[node])
        return promised

    def _held(self, job_uid: str, node: str) -> Resources:
        return total(held.resources for held in self.ledger.of_job(job_uid) if held.node == node)

    def hold(
        self,
        gang: Gang,
        placement: Placement,
        expires_at: float,
        leaving: Mapping[str, Resources] | None = None,
    ) -> None:
        """Hold a planned gang's room instead of whatever was held for the job's unplaced
        replicas."""
        kept = self._kept(gang)
        self.release_job(gang.job_uid)
        asked = {
            ReplicaId(gang.job_uid, member.role, member.index): member.spec.resources
            for member in gang.unbound
        }
        reservations = [
            Reservation(replica, node, asked[replica], expires_at)
            for replica, node in placement.nodes.items()
        ]
        self.ledger.hold_gang(gang.job_uid, [*kept, *reservations])
        if leaving:
            self._riders[gang.job_uid] = dict(leaving)
        self._touch([*kept, *reservations])

    def ride(self, job_uid: str, leaving: Mapping[str, Resources]) -> None:
        """Correct what the job's old pods still take: as they go, their room is held outright."""
        before = self._riders.get(job_uid)
        if before is None or before == leaving:
            return
        self._touched |= before.keys() | leaving.keys()
        if leaving:
            self._riders[job_uid] = dict(leaving)
        else:
            del self._riders[job_uid]

    def release(self, replica: ReplicaId) -> Reservation | None:
        """Let go of what is held for one replica."""
        released = self.ledger.release(replica)
        if released is not None:
            self._touch([released])
            if not self.ledger.of_job(replica.job_uid):
                self._touched |= self._riders.pop(replica.job_uid, {}).keys()
        return released

    def release_job(self, job_uid: str) -> tuple[Reservation, ...]:
        """Let go of everything held for a job."""
        self._touch(self.ledger.of_job(job_uid))
        self._touched |= self._riders.pop(job_uid, {}).keys()
        return self.ledger.release_job(job_uid)

    def expire(self, now: float) -> tuple[Reservation, ...]:
        """Let go of what has run out, and return it."""
        over = self.ledger.expire(now)
        self._touch(over)
        for job_uid in {reservation.replica.job_uid for reservation in over}:
            if not self.ledger.of_job(job_uid):
                self._touched |= self._riders.pop(job_uid, {}).keys()
        return over

    def is_overdrawn(self, node: str) -> bool:
        """Whether a node is promised more than it has; what others overcommit without us does not
        count."""
        free = self._cluster.free(node) if node in self._cluster.nodes else NONE
        return any(amount > max(free[name], 0) for name, amount in self.promised(node).items())

    def overdrawn(self) -> tuple[str, ...]:
        """Every node that is promised more than it has; there must be none."""
        return tuple(node for node in sorted(self.ledger.held_by_node()) if self.is_overdrawn(node))

    def _touch(self, reservations: Iterable[Reservation]) -> None:
        self._touched |= {reservation.node for reservation in reservations}


def _overlap(left: Resources, right: Resources) -> Resources:
    return Resources({name: min(amount, right[name]) for name, amount in left.items()})
