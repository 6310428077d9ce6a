"""The true speed of a job, from what its containers do in a step ([O] equation 2, theorem 1).

A worker computes, packs its gradients, sends each PS its part and gets it back. Only what crosses
servers takes the network: a PS serves the workers elsewhere one after another, a worker moves the
parts of PSs elsewhere over its own link, and the slower of the two counts. A PS may also spend time
of its own on every worker. Sync: all wait for the slowest worker and the PS with the largest part.
Async: every worker at its own pace, rates add up. What the models' forms leave out: shared
servers, uneven parts, and waiting for the slowest worker."""

from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from optimus.jobs import Counts, TrainingMode
from optimus.simulator.ground_truth.assignment import ParameterAssignment
from optimus.simulator.ground_truth.testbed import Hardware, ModeCost
from optimus.simulator.jobs import TrueSpeed


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of a job; ``examples`` are those of all workers (sync) or of one (async)."""

    mode: TrainingMode
    examples: float
    gflop_per_example: float
    model_mb: float

    @property
    def gflop(self) -> float:
        """Arithmetic of a step, of all workers (sync) or of one (async), in 10^9 operations."""
        return self.examples * self.gflop_per_example


@dataclass(frozen=True, slots=True)
class PhysicalSpeed:
    """Implements ``optimus.simulator.jobs.TrueSpeed``."""

    training: TrainingStep
    assignment: ParameterAssignment
    hardware: Hardware

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = ()
    ) -> float:
        """The job's speed with these PSs and workers on each server, at least one of each."""
        ps, workers = sum(each.ps for each in servers), sum(each.workers for each in servers)
        parts = _parts_by_server(self.assignment.shares(ps), servers)
        served = max(
            self._served_seconds(max(here, default=0.0), workers - server.workers, workers)
            for server, here in zip(servers, parts, strict=True)
        )
        common = self._own_seconds(workers) + self._cost.seconds_per_ps * ps
        steps = [
            (server.workers, common + max(served, self._link_seconds(1 - sum(here))))
            for server, here in zip(servers, parts, strict=True)
            if server.workers
        ]
        if self.training.mode is TrainingMode.SYNC:
            return min((1.0, *straggling)) / max(seconds for _, seconds in steps)
        return sum(count / seconds for count, seconds in steps) * (
            1 - sum(1 - each for each in straggling) / workers
        )

    @property
    def _cost(self) -> ModeCost:
        return self.hardware.cost(self.training.mode)

    def _served_seconds(self, share: float, elsewhere: int, workers: int) -> float:
        """Busy time of one PS; ``elsewhere`` of the workers are on other servers."""
        part, cost = share * self.training.model_mb, self._cost
        return part * (2 * elsewhere / cost.ps_mb_per_second + workers * cost.ps_seconds_per_mb)

    def _link_seconds(self, share_elsewhere: float) -> float:
        """Busy time of a worker's own link."""
        return 2 * self.training.model_mb * share_elsewhere / self.hardware.mb_per_second

    def _own_seconds(self, workers: int) -> float:
        """Computing and packing of a worker; in sync training of the slowest one."""
        seconds = self.training.gflop / self.hardware.gflop_per_second
        if self.training.mode is TrainingMode.SYNC:
            seconds *= (1 + self.hardware.jitter * slowest_of(workers)) / workers
        return seconds + self._cost.worker_seconds_per_mb * self.training.model_mb


@dataclass(frozen=True, slots=True)
class ScaledSpeed:
    """A speed that depends on the counts as another one does, so many times as fast.

    Implements ``optimus.simulator.jobs.TrueSpeed``."""

    physical: TrueSpeed
    factor: float

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = ()
    ) -> float:
        """The job's speed with these PSs and workers on each server, at least one of each."""
        return self.factor * self.physical.steps_per_second(servers, straggling)


def _parts_by_server(
    shares: tuple[float, ...], servers: tuple[Counts, ...]
) -> list[tuple[float, ...]]:
    ends = list(accumulate(server.ps for server in servers))
    return [shares[end - server.ps : end] for server, end in zip(servers, ends, strict=True)]


def slowest_of(workers: int) -> float:
    """The mean of the largest of so many standard normal numbers (Blom's approximation)."""
    return NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))
