"""True speeds of a job alone on the cluster, placed by the rule in use.

A job's real speed depends on where its replicas find room; this one a forecast can know."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Counts, Job
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, PlacementRule
from optimus.simulator.jobs import SimulatedJob

_Placements = dict[tuple[object, ...], tuple[Counts, ...] | None]


@lru_cache(maxsize=8)
def _placements(_nodes: Hashable, _rule: Hashable) -> _Placements:
    """The cache of all empty clusters with these nodes and this rule."""
    return {}


def _key(node: Node) -> tuple[object, ...]:
    labels = tuple(sorted(node.labels.items()))
    return node.name, node.allocatable, labels, node.taints, node.cordoned


@dataclass(slots=True)
class EmptyCluster:
    """Where a job would be placed if it were alone.

    Placements are cached for jobs with the same requests and across simulations on the same nodes:
    policies ask about thousands of counts, and each takes a search."""

    nodes: tuple[Node, ...]
    rule: PlacementRule
    _capacity: Capacity = field(init=False)
    _servers: _Placements = field(init=False)

    def __post_init__(self) -> None:
        self._servers = _placements(tuple(map(_key, self.nodes)), cast("Hashable", self.rule))
        self._capacity = Capacity(self.nodes, {node.name: node.allocatable for node in self.nodes})

    def servers(self, job: Job, counts: Counts) -> tuple[Counts, ...] | None:
        """PSs and workers by server, the largest first; ``None`` where they do not fit."""
        shape = (job.ps, job.worker, job.fixed, counts)
        if shape not in self._servers:
            self._servers[shape] = self._place(job, counts)
        return self._servers[shape]

    def _place(self, job: Job, counts: Counts) -> tuple[Counts, ...] | None:
        if not job.demand(counts).fits_in(self._capacity.allocatable):
            return None  # policies ask about far more than there is room for
        mark = self._capacity.mark()
        found = self.rule.place_job(job, counts, self._capacity)
        self._capacity.undo_to(mark)
        if isinstance(found, DoesNotFit):
            return None
        by_server = (Counts(each.ps, each.workers) for each in found.servers)
        return tuple(sorted(by_server, reverse=True))


@dataclass(slots=True)
class UncontendedSpeed:
    """A job's true mean speed, 0 where it does not fit; implements ``models.forecast.Speed``."""

    truth: SimulatedJob
    empty: EmptyCluster
    error: Callable[[Counts], float] | None = None
    """The factor by which the speed at given counts is wrong."""
    _known: dict[Counts, float] = field(default_factory=dict)

    def at(self, counts: Counts) -> float:
        """The true speed at these counts, in steps per second."""
        if counts not in self._known:
            servers = self.empty.servers(self.truth.job, counts)
            self._known[counts] = self.truth.speed.steps_per_second(servers) if servers else 0.0
        return self._known[counts]

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The speed at each pair of counts (arrays broadcast), with its error."""
        pairs = np.broadcast(np.asarray(ps), np.asarray(workers))
        reported = [self._reported(Counts(int(p), int(w))) for p, w in pairs]
        return np.array(reported, dtype=np.float64).reshape(pairs.shape)

    def with_error(self, error: Callable[[Counts], float]) -> "UncontendedSpeed":
        """The same speed with an error."""
        return UncontendedSpeed(self.truth, self.empty, error, self._known)

    def on(self, kind: str) -> "UncontendedSpeed":
        """The same job with all its workers on nodes of this kind."""
        part = self.truth.kind_speeds.get(kind, 1.0)
        error = self.error
        return self.with_error(lambda counts: part * (error(counts) if error else 1.0))

    def _reported(self, counts: Counts) -> float:
        return self.at(counts) * (self.error(counts) if self.error else 1.0)
