"""Room that is reserved before it is free: pods that are about to end still take it.

A gang for which others are preempted is planned on what is free and on what their pods leave. Until
the last of those pods is gone, the gang's own pods must not be bound: kube-scheduler would find the
nodes full. What is reserved and what the pods still take overlap, as in a rescale.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from extender.state.cluster import Cluster, used_by_node
from extender.state.reservations import Reservations
from optimus.placement.gang import Gang, Placement
from optimus.resources import Resources


@dataclass(frozen=True, slots=True)
class Awaited:
    """Pods that a gang with a reservation waits for."""

    pods: frozenset[str]
    """UIDs of the pods that still take its room, or took it when they were last looked at."""

    victims: tuple[str, ...]
    """The jobs that were preempted for it, NAMESPACE/NAME."""


class FutureRoom:
    """Reservations on what pods are about to leave. Guarded by the state's lock."""

    def __init__(self, cluster: Cluster, reservations: Reservations) -> None:
        self._cluster, self._reservations = cluster, reservations
        self.awaited: dict[str, Awaited] = {}
        """By job UID; of a job without a reservation it says nothing."""

    def awaits(self, job_uid: str) -> Awaited | None:
        """The pods that a gang waits for, where its room is reserved; ``None``: it may be bound."""
        found = self.awaited.get(job_uid)
        return found if found is not None and self._reservations.ledger.holds(job_uid) else None

    def is_awaited(self, pod_uid: str) -> bool:
        """Return whether a gang's room is reserved on what this pod leaves."""
        return any(pod_uid in each.pods for each in self.awaited.values())

    def hold(
        self, gang: Gang, placement: Placement, awaited: Awaited, expires_at: float
    ) -> Mapping[str, Resources]:
        """Reserve a gang's room; returns what the awaited pods still take, by node."""
        self.awaited[gang.job_uid] = awaited
        leaving = self._taken_by(awaited.pods)
        self._reservations.hold(gang, placement, expires_at, leaving)
        return leaving

    def pod_changed(self, pod_uid: str) -> set[str]:
        """A pod has changed or is gone; returns the jobs whose room is free by that."""
        free: set[str] = set()
        for job_uid, awaited in list(self.awaited.items()):
            if pod_uid not in awaited.pods:
                continue
            leaving = self._taken_by(awaited.pods)
            self._reservations.set_leaving(job_uid, leaving)
            if not leaving:
                del self.awaited[job_uid]
                free.add(job_uid)
        return free

    def forget(self, job_uid: str) -> None:
        """A job is gone, or planned on what is free."""
        self.awaited.pop(job_uid, None)

    def _taken_by(self, pod_uids: Collection[str]) -> dict[str, Resources]:
        pods = (self._cluster.pods.get(uid) for uid in pod_uids)
        return used_by_node(pod for pod in pods if pod is not None)
