"""The frozen input of one decision: jobs, nodes and bound pods at one instant.

Jobs and pods are ordered by UID and nodes by name, whatever order they were read in, so that the
same cluster gives the same plan byte for byte.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Self

from optimus.jobs import Counts, Job, Role
from optimus.nodes import Node
from optimus.quotas import Quota
from optimus.resources import Resources

_NONE_BOUND = Counts(0, 0)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """One replica of one job: the key of a reservation."""

    job_uid: str
    role: Role
    index: int


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod bound to a node; ``replica`` is ``None`` where no training job controls it.

    ``leaving`` is a pod being deleted: its room is not free yet, and it does not count as placed.
    ``ended`` is a replica that has ended: it takes nothing, and needs no other place.
    """

    uid: str
    node: str
    resources: Resources
    replica: ReplicaId | None = None
    leaving: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The input of one decision. ``at`` is in seconds since the epoch, UTC."""

    at: float
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    pods: tuple[BoundPod, ...]
    quotas: tuple[Quota, ...] = ()
    """What the namespaces of the jobs may use; none without an entry."""

    _bound: Mapping[str, Counts] | None = field(default=None, init=False, repr=False, compare=False)
    _free: Mapping[str, Resources] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def prepare(self, bound: Mapping[str, Counts], free: Mapping[str, Resources]) -> Self:
        """Keep what follows from the pods and whoever made the snapshot knows already: each job's
        bound counts, and free resources by node."""
        object.__setattr__(self, "_bound", bound)
        object.__setattr__(self, "_free", free)
        return self

    def _counted(self) -> Mapping[str, Counts]:
        """Each job's pods, counted once, when they are first asked for."""
        if self._bound is not None:
            return self._bound
        counts: dict[str, Counts] = {}
        for pod in self.pods:
            if pod.replica is not None and not pod.leaving and not pod.ended:
                uid, role = pod.replica.job_uid, pod.replica.role
                ps, workers = counts.get(uid, _NONE_BOUND)
                counts[uid] = Counts(ps + (role is Role.PS), workers + (role is Role.WORKER))
        object.__setattr__(self, "_bound", MappingProxyType(counts))
        return counts

    @classmethod
    def of(
        cls, at: float, jobs: Iterable[Job], nodes: Iterable[Node], pods: Iterable[BoundPod]
    ) -> Self:
        """A snapshot in canonical order."""
        return cls(
            at,
            tuple(sorted(jobs, key=lambda job: job.uid)),
            tuple(sorted(nodes, key=attrgetter("name"))),
            tuple(sorted(pods, key=lambda pod: pod.uid)),
        )

    def free(self) -> dict[str, Resources]:
        """Free resources by node name."""
        if self._free is not None:
            return dict(self._free)
        used: dict[str, dict[str, int]] = {}
        for pod in self.pods:
            here = used.setdefault(pod.node, {})
            for name, amount in pod.resources.items():
                here[name] = here.get(name, 0) + amount
        return {
            node.name: node.allocatable - Resources(used[node.name])
            if node.name in used
            else node.allocatable
            for node in self.nodes
        }

    def bound_counts(self, job_uid: str) -> Counts:
        """Return how many PSs and workers of a job are bound, not leaving and not ended."""
        return self._counted().get(job_uid, _NONE_BOUND)
