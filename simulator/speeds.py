"""True speeds at any counts: as if the job were alone on the cluster, placed there by the rule in use.

A job's real speed depends on where its replicas find room; this is the one that a forecast can know beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduling.jobs import Counts, Job, Role
from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, PlacementRule
from scheduling.resources import Resources
from simulator.jobs import SimulatedJob

_Shape = tuple[object, ...]


@dataclass(slots=True)
class EmptyCluster:
    """Where a job would be placed if nobody else were there; jobs that ask for the same share the answers."""

    nodes: tuple[Node, ...]
    rule: PlacementRule
    _free: dict[str, Resources] = field(init=False)
    _servers: dict[_Shape, tuple[Counts, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = {node.name: node.allocatable for node in self.nodes}

    def servers(self, job: Job, counts: Counts) -> tuple[Counts, ...] | None:
        """PSs and workers by server, the largest first; ``None`` where they do not fit."""
        shape = (job.ps, job.worker, job.fixed, counts)
        if shape not in self._servers:
            self._servers[shape] = self._place(job, counts)
        return self._servers[shape]

    def _place(self, job: Job, counts: Counts) -> tuple[Counts, ...] | None:
        placed = self.rule.place(Gang.of(job, counts), self.nodes, self._free)
        if isinstance(placed, DoesNotFit):
            return None
        share: dict[str, list[int]] = {}
        for replica, node in placed.nodes.items():
            if replica.role in {Role.PS, Role.WORKER}:
                share.setdefault(node, [0, 0])[replica.role is Role.WORKER] += 1
        return tuple(sorted((Counts(*each) for each in share.values()), reverse=True))


@dataclass(slots=True)
class TypicalSpeed:
    """A job's true mean speed by counts: implements ``models.forecast.Speed``. 0 where the counts do not fit.

    ``error`` gives the factor by which the speed at given counts is told wrong.
    """

    truth: SimulatedJob
    empty: EmptyCluster
    error: Callable[[Counts], float] | None = None
    _known: dict[Counts, float] = field(default_factory=dict)

    def at(self, counts: Counts) -> float:
        """The true speed at these counts, in steps per second."""
        if counts not in self._known:
            servers = self.empty.servers(self.truth.job, counts)
            self._known[counts] = 0.0 if servers is None else self.truth.speed.steps_per_second(servers)
        return self._known[counts]

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The speed at each pair of counts (arrays broadcast), with its error."""
        pairs = np.broadcast(np.asarray(ps), np.asarray(workers))
        told = [self._told(Counts(int(p), int(w))) for p, w in pairs]
        return np.array(told, dtype=np.float64).reshape(pairs.shape)

    def with_error(self, error: Callable[[Counts], float]) -> "TypicalSpeed":
        """The same speed, told wrong."""
        return TypicalSpeed(self.truth, self.empty, error, self._known)

    def _told(self, counts: Counts) -> float:
        return self.at(counts) * (self.error(counts) if self.error else 1.0)
