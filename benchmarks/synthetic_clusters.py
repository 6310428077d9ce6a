"""Synthetic clusters of known training speed that the speed model is evaluated on.

They are not made of its terms: a step is simulated. A worker computes its part of the batch (whole
examples, slower where processes share cores), the model travels over its own link and
over the PSs' links, which all workers share and which hold unequal parts of the model; part of the
computation overlaps with that; each PS adds up what workers push and, in sync training, updates
once; a barrier waits for the slowest worker. In async training the PSs are queues."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticCluster:
    """One model on one cluster; times are in units of the computation of a whole batch."""

    mode: TrainingMode
    batch: Batch
    side: int = 6
    """PSs and workers are measured from 1 to this."""
    transfer: float = 0.2
    """The whole model there and back over one PS's link."""
    own_link: float = 0.2
    """The same over a worker's link."""
    fixed: float = 0.05
    overlap: float = 0.0
    """Part of the computation that goes on while the model travels."""
    push: float = 0.0
    """A PS's work for each worker's push, for the whole model."""
    update: float = 0.0
    """A PS's work once a step, for the whole model."""
    per_worker: float = 0.0
    per_ps: float = 0.0
    straggling: float = 0.0
    """Relative standard deviation of one worker's step: the slowest is waited for."""
    cores: float = math.inf
    """So many workers compute at full speed."""
    unevenness: tuple[float, ...] = ()
    """By how much the fullest of 1, 2, .. PSs exceeds an even share."""
    sharpness: float = 20.0
    """The p of the p-norm over bottlenecks: how sharply one takes over from another."""
    noise: float = 0.03
    """Relative standard deviation of one run."""
    repeats: int = 1

    def speed(self, counts: Counts) -> float:
        """The job's mean steps per second."""
        return self._sync(counts) if self.mode is TrainingMode.SYNC else self._async(counts)

    def table(self, generator: np.random.Generator) -> dict[Counts, tuple[float, ...]]:
        """Measured speeds at all counts."""
        side = range(1, self.side + 1)
        counts = [Counts(ps, workers) for ps in side for workers in side]
        noise = np.exp(generator.normal(0, self.noise, (len(counts), self.repeats)))
        return {
            each: tuple((self.speed(each) * runs).tolist())
            for each, runs in zip(counts, noise, strict=True)
        }

    def _sync(self, counts: Counts) -> float:
        compute = self._compute(counts.workers)
        work = (self.transfer + self.push) * counts.workers + self.update
        servers = work / counts.ps * self._fullest(counts.ps)
        travel = self._either(servers, self.own_link)
        seconds = self.fixed + compute * (1 - self.overlap)
        seconds += self._either(compute * self.overlap, travel)
        seconds += self.per_worker * counts.workers + self.per_ps * counts.ps
        slowest = 1 + self.straggling * math.sqrt(2 * math.log(counts.workers))
        return 1 / (seconds * slowest)

    def _async(self, counts: Counts) -> float:
        alone = self.fixed + self._compute(counts.workers) + self.own_link
        alone += self.per_worker * counts.workers + self.per_ps * counts.ps
        server = (self.transfer + self.push) / counts.ps * self._fullest(counts.ps)
        return counts.workers / self._either(alone + server / 2, server * counts.workers)

    def _compute(self, workers: int) -> float:
        part = 1.0
        if self.batch.scope is BatchScope.JOB:
            part = math.ceil(self.batch.size / workers) / self.batch.size
        return part * max(1.0, workers / self.cores)

    def _fullest(self, ps: int) -> float:
        return 1 + (self.unevenness[ps - 1] if ps <= len(self.unevenness) else 0.0)

    def _either(self, one: float, other: float) -> float:
        return float((one**self.sharpness + other**self.sharpness) ** (1 / self.sharpness))


KINDS: Final[Mapping[str, tuple[TrainingMode, BatchScope]]] = MappingProxyType(
    {
        "sync": (TrainingMode.SYNC, BatchScope.JOB),
        "sync, batch per worker": (TrainingMode.SYNC, BatchScope.WORKER),
        "async": (TrainingMode.ASYNC, BatchScope.WORKER),
    }
)


def draw_cluster(
    kind: str, generator: np.random.Generator, side: int = 6, **fixed: Any
) -> SyntheticCluster:
    """A random cluster; ``fixed`` fields are not drawn, ``links`` sets own link / PS's transfer."""
    mode, scope = KINDS[kind]
    own = scope is BatchScope.WORKER
    transfer = fixed.pop("transfer", None) or _between(
        generator, *((0.05, 2.0) if own else (0.02, 1.0))
    )
    links = fixed.pop("links", None) or _between(generator, 0.4, 2.5)
    spread = float(generator.choice([0.02, 0.1]))
    drawn = SyntheticCluster(
        mode=mode,
        batch=Batch(int(generator.choice([32, 64, 128, 256, 960])), scope),
        side=side,
        transfer=transfer,
        own_link=transfer * links,
        fixed=_between(generator, 0.01, 0.15),
        overlap=float(generator.choice([0.0, 0.5, 0.9])),
        push=transfer * _between(generator, 0.01, 0.3),
        update=transfer * _between(generator, 0.01, 4.0) * int(generator.integers(2)),
        per_worker=_between(generator, 0.0005, 0.02),
        per_ps=_between(generator, 0.0005, 0.02),
        straggling=float(generator.choice([0.0, 0.03, 0.08])),
        cores=float(generator.choice([math.inf, math.inf, _between(generator, 3, 12)])),
        unevenness=(0.0, *generator.exponential(spread, side - 1).tolist()),
        sharpness=float(generator.choice([2.0, 4.0, 20.0])),
        noise=float(generator.choice([0.02, 0.04, 0.08])),
        repeats=int(generator.choice([1, 1, 3])),
    )
    return replace(drawn, **fixed)


def _between(generator: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(generator.uniform(math.log(low), math.log(high))))
