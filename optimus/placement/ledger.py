"""The ledger of reservations: room held for replicas that are planned and not bound yet.

A gang is held whole: holding it again replaces what was held for it, and never adds. Time is an
argument, of any monotonic clock. The ledger holds no cluster: the planner subtracts what
is held from what is free.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room on ``node`` for one replica until ``expires_at`` (seconds, on the caller's clock)."""

    replica: ReplicaId
    node: str
    resources: Resources
    expires_at: float


class Ledger:
    """Reservations by replica. Not thread-safe."""

    def __init__(self) -> None:
        self._by_job: dict[str, dict[ReplicaId, Reservation]] = {}
        self._held: dict[str, Resources] = {}
        self._on_node: dict[str, dict[ReplicaId, Reservation]] = {}
        self.next_expiry = float("inf")  # nothing expires before: most calls need not look

    def __len__(self) -> int:
        return sum(len(held) for held in self._by_job.values())

    def hold_gang(self, job_uid: str, reservations: Iterable[Reservation]) -> None:
        """Hold exactly these reservations for the job, instead of whatever was held for it."""
        self.release_job(job_uid)
        for reservation in reservations:
            node, replica = reservation.node, reservation.replica
            self.release(replica)
            self._by_job.setdefault(replica.job_uid, {})[replica] = reservation
            self._held[node] = self.held_on(node) + reservation.resources
            self._on_node.setdefault(node, {})[replica] = reservation
            self.next_expiry = min(self.next_expiry, reservation.expires_at)

    def get(self, replica: ReplicaId) -> Reservation | None:
        """Return what is held for a replica."""
        return self._by_job.get(replica.job_uid, {}).get(replica)

    def holds_all(self, replicas: Iterable[ReplicaId]) -> bool:
        """Return whether something is held for each of the replicas."""
        return all(replica in self._by_job.get(replica.job_uid, ()) for replica in replicas)

    def holds(self, job_uid: str) -> bool:
        """Return whether anything is held for a job."""
        return job_uid in self._by_job

    def of_job(self, job_uid: str) -> tuple[Reservation, ...]:
        """Return what is held for a job, in order of replicas."""
        held = self._by_job.get(job_uid, {})
        return tuple(held[replica] for replica in sorted(held))

    def jobs(self) -> tuple[str, ...]:
        """The UIDs of the jobs that something is held for, in order."""
        return tuple(sorted(self._by_job))

    def jobs_on(self, node: str) -> tuple[str, ...]:
        """The UIDs of the jobs that hold room on a node, in order."""
        return tuple(sorted({replica.job_uid for replica in self._on_node.get(node, {})}))

    def held_for(self, job_uid: str, node: str) -> Resources:
        """Return what is held for one job on one node."""
        return total(
            held.resources
            for replica, held in self._on_node.get(node, {}).items()
            if replica.job_uid == job_uid
        )

    def held_by_node(self) -> Mapping[str, Resources]:
        """Return what is held on each node, in all."""
        return dict(self._held)

    def held_on(self, node: str) -> Resources:
        """Return what is held on one node, in all."""
        return self._held.get(node, NONE)

    def expire(self, now: float) -> tuple[Reservation, ...]:
        """Release what has run out, and return it."""
        if now < self.next_expiry:
            return ()
        every = [held for job in self._by_job.values() for held in job.values()]
        expired = [held for held in every if held.expires_at <= now]
        for reservation in expired:
            self.release(reservation.replica)
        later = (held.expires_at for held in every if held.expires_at > now)
        self.next_expiry = min(later, default=float("inf"))
        return tuple(sorted(expired, key=lambda reservation: reservation.replica))

    def extend(self, job_uid: str, expires_at: float) -> None:
        """Let what is held for a job last at least until then."""
        for replica, held in self._by_job.get(job_uid, {}).items():
            if held.expires_at < expires_at:
                later = Reservation(replica, held.node, held.resources, expires_at)
                self._by_job[job_uid][replica] = self._on_node[held.node][replica] = later

    def expire_at(self, replica: ReplicaId, expires_at: float) -> None:
        """Let what is held for one replica last until then, whether longer or shorter."""
        held = self.get(replica)
        if held is not None:
            renewed = replace(held, expires_at=expires_at)
            self._by_job[replica.job_uid][replica] = self._on_node[held.node][replica] = renewed
            self.next_expiry = min(self.next_expiry, expires_at)

    def release(self, replica: ReplicaId) -> Reservation | None:
        """Release what is held for a replica, and return it."""
        of_job = self._by_job.get(replica.job_uid, {})
        reservation = of_job.pop(replica, None)
        if reservation is None:
            return None
        if not of_job:
            del self._by_job[replica.job_uid]
        on_node = self._on_node[reservation.node]
        del on_node[replica]
        if on_node:
            self._held[reservation.node] = self.held_on(reservation.node) - reservation.resources
        else:
            del self._on_node[reservation.node], self._held[reservation.node]
        return reservation

    def release_job(self, job_uid: str) -> tuple[Reservation, ...]:
        """Release everything held for a job, and return it."""
        released = self.of_job(job_uid)
        for reservation in released:
            self.release(reservation.replica)
        return released
