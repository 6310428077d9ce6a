"""The book of reservations: room held for replicas that are planned and not bound yet.

A gang is held whole: holding it again replaces what was held for it, and never adds. Time is an
argument: any clock will do that never goes back. The ledger knows no cluster: it says what is
promised, and whoever plans subtracts that from what is free.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room held on ``node`` for one replica until ``expires_at`` (seconds, on the caller's
    clock)."""

    replica: ReplicaId
    node: str
    resources: Resources
    expires_at: float


class Ledger:
    """Reservations by replica. Not thread-safe: one lock of its owner guards it together with the
    cluster's state."""

    def __init__(self) -> None:
        self._by_job: dict[str, dict[ReplicaId, Reservation]] = {}
        self._held: dict[str, Resources] = {}

    def __len__(self) -> int:
        return sum(len(held) for held in self._by_job.values())

    def hold_gang(self, job_uid: str, reservations: Iterable[Reservation]) -> None:
        """Hold exactly these reservations for the job, instead of whatever was held for it."""
        self.release_job(job_uid)
        for reservation in reservations:
            self._put(reservation)

    def get(self, replica: ReplicaId) -> Reservation | None:
        """What is held for a replica."""
        return self._by_job.get(replica.job_uid, {}).get(replica)

    def of_job(self, job_uid: str) -> tuple[Reservation, ...]:
        """What is held for a job, in order of replicas."""
        held = self._by_job.get(job_uid, {})
        return tuple(held[replica] for replica in sorted(held))

    def jobs(self) -> tuple[str, ...]:
        """The UIDs of the jobs that something is held for, in order."""
        return tuple(sorted(self._by_job))

    def jobs_on(self, node: str) -> tuple[str, ...]:
        """The UIDs of the jobs that hold room on a node, in order."""
        return tuple(
            job_uid
            for job_uid in self.jobs()
            if any(held.node == node for held in self._by_job[job_uid].values())
        )

    def held_by_node(self) -> Mapping[str, Resources]:
        """What is promised on each node, in all."""
        return dict(self._held)

    def held_on(self, node: str) -> Resources:
        """What is promised on one node."""
        return self._held.get(node, NONE)

    def expire(self, now: float) -> tuple[Reservation, ...]:
        """Release what has run out, and return it."""
        over = [
            held for job in self._by_job.values() for held in job.values() if held.expires_at <= now
        ]
        for reservation in over:
            self.release(reservation.replica)
        return tuple(sorted(over, key=lambda reservation: reservation.replica))

    def extend(self, job_uid: str, expires_at: float) -> None:
        """Let what is held for a job last at least until then."""
        for reservation in self.of_job(job_uid):
            if reservation.expires_at < expires_at:
                self._by_job[job_uid][reservation.replica] = replace(
                    reservation, expires_at=expires_at
                )

    def release(self, replica: ReplicaId) -> Reservation | None:
        """Let go of what is held for a replica, bound by now or given up; ``None`` when nothing was
        held."""
        held = self._by_job.get(replica.job_uid, {})
        reservation = held.pop(replica, None)
        if not held:
            self._by_job.pop(replica.job_uid, None)
        if reservation is not None:
            self._give_back(reservation)
        return reservation

    def release_job(self, job_uid: str) -> tuple[Reservation, ...]:
        """Let go of everything held for a job, and return it."""
        released = self.of_job(job_uid)
        for reservation in released:
            self.release(reservation.replica)
        return released

    def _put(self, reservation: Reservation) -> None:
        self.release(reservation.replica)
        self._by_job.setdefault(reservation.replica.job_uid, {})[reservation.replica] = reservation
        self._held[reservation.node] = self.held_on(reservation.node) + reservation.resources

    def _give_back(self, reservation: Reservation) -> None:
        left = self.held_on(reservation.node) - reservation.resources
        if left:
            self._held[reservation.node] = left
        else:
            self._held.pop(reservation.node, None)
