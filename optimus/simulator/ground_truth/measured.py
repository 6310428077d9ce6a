"""Measured speeds and recorded losses as the truth of simulated jobs.

A speed at counts that were not measured is interpolated: linear in the logarithms of the counts and
of the speed, between the four measured pairs around them; where one of these is missing, and beyond
the table, it is that of the nearest pair. A table does not say on which servers the replicas were,
so that placement has no effect on it. After its last recorded epoch a loss stays as it is."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from optimus.jobs import Counts, JobKey, TrainingMode
from optimus.simulator.jobs import SimulatedJob, TrueLoss, TrueSpeed, Workload


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """Steps per second by counts; implements ``optimus.simulator.jobs.TrueSpeed``."""

    mode: TrainingMode
    speeds: Mapping[Counts, float]
    """Of at least one pair of counts; above 0."""
    _ps: tuple[int, ...] = field(init=False)
    _workers: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name, index in (("_ps", 0), ("_workers", 1)):
            measured = tuple(sorted({counts[index] for counts in self.speeds}))
            object.__setattr__(self, name, measured)

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = ()
    ) -> float:
        """The job's speed with these PSs and workers, wherever they are."""
        ps, workers = (sum(server[role] for server in servers) for role in (0, 1))
        speed = self.at(Counts(ps, workers))
        if self.mode is TrainingMode.SYNC:
            return speed * (min(straggling) if straggling else 1.0)
        return speed * (workers - len(straggling) + math.fsum(straggling)) / workers

    def at(self, counts: Counts) -> float:
        """The speed at these counts, interpolated where they were not measured."""
        if counts in self.speeds:
            return self.speeds[counts]
        ps, part_ps = _between(self._ps, counts.ps)
        workers, part_workers = _between(self._workers, counts.workers)
        corners = {
            Counts(p, w): weight_p * weight_w
            for p, weight_p in zip(ps, (1 - part_ps, part_ps), strict=True)
            for w, weight_w in zip(workers, (1 - part_workers, part_workers), strict=True)
            if weight_p * weight_w > 0
        }
        if not corners.keys() <= self.speeds.keys():
            return self.speeds[min(self.speeds, key=lambda each: (_distance(each, counts), each))]
        return math.exp(
            math.fsum(weight * math.log(self.speeds[each]) for each, weight in corners.items())
        )


@dataclass(frozen=True, slots=True)
class RecordedLoss:
    """The mean loss of each epoch; implements ``optimus.simulator.jobs.TrueLoss``."""

    losses: Sequence[float]

    def after(self, epochs: float) -> float:
        """The recorded mean loss of this epoch."""
        return self.losses[min(max(math.ceil(epochs), 1), len(self.losses)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured, and of which jobs it is true: those of which all that is given is so."""

    job: str | None = None
    """``NAMESPACE/NAME``."""
    workload: str | None = None
    type: str | None = None
    mode: TrainingMode | None = None
    speeds: tuple[MeasuredSpeed, ...] = ()
    """At most one for each mode."""
    loss: RecordedLoss | None = None

    def is_of(self, key: JobKey, workload: str | None, type_name: str, mode: TrainingMode) -> bool:
        """Return whether it is true of this job."""
        given = (
            (self.job, str(key)),
            (self.workload, workload),
            (self.type, type_name),
            (self.mode, mode),
        )
        return all(wanted is None or wanted == found for wanted, found in given)


@dataclass(frozen=True, slots=True)
class MeasuredTruths:
    """All that was measured; of what is true of one job the first counts."""

    truths: Sequence[Measured] = ()

    def of(
        self, key: JobKey, workload: str | None, type_name: str, mode: TrainingMode
    ) -> tuple[MeasuredSpeed | None, RecordedLoss | None]:
        """The speed and the loss of a job; ``None`` for what was not measured."""
        those = [each for each in self.truths if each.is_of(key, workload, type_name, mode)]
        speeds = (speed for each in those for speed in each.speeds if speed.mode is mode)
        losses = (each.loss for each in those if each.loss is not None)
        return next(speeds, None), next(losses, None)

    def apply(self, workload: Workload) -> Workload:
        """The workload with the steps that its jobs have, and these speeds and losses."""
        return replace(workload, jobs=tuple(map(self._apply_to, workload.jobs)))

    def _apply_to(self, simulated: SimulatedJob) -> SimulatedJob:
        job = simulated.job
        speed, loss = self.of(job.key, job.workload, simulated.kind, job.mode)
        return with_measured(simulated, speed, loss)


NOTHING_MEASURED = MeasuredTruths()


def with_measured(
    simulated: SimulatedJob, speed: TrueSpeed | None, loss: TrueLoss | None
) -> SimulatedJob:
    """The job with this speed and loss where they are given; a recorded loss has its noise."""
    if speed is not None:
        simulated = replace(simulated, speed=speed)
    return simulated if loss is None else replace(simulated, loss=loss, loss_noise=0.0)


def _between(measured: Sequence[int], wanted: int) -> tuple[tuple[int, int], float]:
    """The measured numbers around one, and how far it is on the way from one to the other."""
    wanted = min(max(wanted, measured[0]), measured[-1])
    above = min(bisect_right(measured, wanted), len(measured) - 1)
    below = max(above - 1, 0)
    low, high = measured[below], measured[above]
    part = math.log(wanted / low) / math.log(high / low) if high > low else 0.0
    return (low, high), part


def _distance(one: Counts, other: Counts) -> float:
    return math.hypot(*(math.log(a / b) for a, b in zip(one, other, strict=True)))
