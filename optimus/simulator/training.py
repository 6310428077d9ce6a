"""One job's training, as it really goes, and what its log would tell of it.

Between two changes (a start, a stop, a worker that begins or ends to straggle) the speed is
constant, so the work done is speed times time, and the end is known in closed form. A run lasts
from a start to the next stop. What a log, and so a model, shows is the loss of every
completed epoch and the mean speed of every run, with their noise."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from numpy.random import Generator

from optimus.jobs import Counts, Goal, TargetLoss
from optimus.models.convergence import QUIET_EPOCHS
from optimus.progress.log import MAX_LOSSES, MAX_SAMPLES
from optimus.progress.state import thin_losses
from optimus.progress.types import LossPoint, SpeedSample, TrainingProgress
from optimus.simulator.jobs import SimulatedJob, Straggling
from optimus.simulator.streams import Purpose, lognormal_factor, stream

_SLACK_EPOCHS: Final = 1e-9
"""Sums of epochs miss whole numbers by rounding."""


@dataclass(slots=True)
class Run:
    """Training without a stop, at one placement. ``noise`` is the factor by which its speed is
    measured wrong."""

    servers: tuple[Counts, ...]
    noise: float
    seconds: float = 0.0
    steps: float = 0.0

    @property
    def counts(self) -> Counts:
        """PSs and workers on all servers."""
        return Counts(
            sum(each.ps for each in self.servers), sum(each.workers for each in self.servers)
        )

    def sample(self, at: float) -> SpeedSample:
        """The speed as measured in the run up to the instant ``at``."""
        return SpeedSample(self.counts, self.steps / self.seconds * self.noise, self.seconds, at)


@dataclass(slots=True)
class Stragglers:
    """The workers of a run that straggle now, and when that changes."""

    habit: Straggling | None
    rng: Generator
    ends: list[float] = field(default_factory=list)
    next_at: float = math.inf

    def begin(self, at: float, workers: int) -> None:
        """All workers are new, and none straggles."""
        self.ends = []
        self._draw_next(at, workers)

    def change(self, at: float, workers: int) -> None:
        """Whatever begins or ends at the instant ``at`` does so."""
        if self.habit is not None and self.next_at <= at:
            self.ends.append(at + self.rng.exponential(self.habit.seconds))
        self.ends = [end for end in self.ends if end > at]
        self._draw_next(at, workers)

    @property
    def slow(self) -> tuple[float, ...]:
        """What is left of the speed of each one that straggles."""
        return () if self.habit is None else (self.habit.speed_fraction,) * len(self.ends)

    @property
    def changes_at(self) -> float:
        """When one more straggles, or one fewer."""
        return min([self.next_at, *self.ends])

    def _draw_next(self, at: float, workers: int) -> None:
        # An exponential wait has no memory: it may be drawn anew at every change.
        well = workers - len(self.ends)
        waits = self.habit is not None and well > 0
        self.next_at = (
            at + self.rng.exponential(self.habit.seconds_between / well)
            if self.habit and waits
            else math.inf
        )


class Training:
    """The state of one job's training at the instant ``at``.

    ``epochs`` and ``steps`` are done, ``speed`` is in steps per second (0 while it does not train),
    ``finish_at`` is when it ends if nothing changes.
    """

    def __init__(self, truth: SimulatedJob, seed: int) -> None:
        self.truth = truth
        self.at = truth.job.created_at
        self.epochs = self.steps = self.trained_seconds = self.speed = 0.0
        self.run: Run | None = None
        self.samples: list[SpeedSample] = []
        self._losses = observed_losses(truth, stream(seed, Purpose.LOSS, truth.job.uid))
        self._speed_noise = stream(seed, Purpose.SPEED, truth.job.uid)
        self._stragglers = Stragglers(
            truth.straggling, stream(seed, Purpose.STRAGGLING, truth.job.uid)
        )
        self._epochs_per_second = 0.0
        self._points = [
            LossPoint(loss, float(k), round(k * truth.steps_per_epoch), truth.steps_per_epoch)
            for k, loss in enumerate(self._losses, start=1)
        ]

    @property
    def end_epochs(self) -> int:
        """The epoch with which it ends."""
        return len(self._losses)

    @property
    def is_finished(self) -> bool:
        """Whether all its epochs are done."""
        return self.epochs >= self.end_epochs

    @property
    def finish_at(self) -> float:
        """When it ends at its present speed."""
        if self._epochs_per_second <= 0:
            return math.inf
        return self.at + max(self.end_epochs - self.epochs, 0.0) / self._epochs_per_second

    @property
    def next_at(self) -> float:
        """When its speed changes, or it ends."""
        return math.inf if self.run is None else min(self.finish_at, self._stragglers.changes_at)

    def begin(self, at: float, servers: tuple[Counts, ...]) -> None:
        """A run begins."""
        self.at = at
        self.run = Run(servers, lognormal_factor(self._speed_noise, self.truth.speed_noise))
        self._stragglers.begin(at, self.run.counts.workers)
        self._set_speed(self.run)

    def stop(self, at: float) -> None:
        """The run ends, if there is one; what was trained is kept."""
        self.advance(at)
        if self.run is not None:
            self._end(self.run)

    def advance(self, to: float) -> None:
        """Train until the instant ``to``, or until it has ended."""
        while self.run is not None and self.next_at <= to:
            if self.finish_at <= self._stragglers.changes_at:
                self._train(self.run, self.finish_at)
                self.epochs = float(self.end_epochs)
                self._end(self.run)
            else:
                at = self._stragglers.changes_at
                self._train(self.run, at)
                self._stragglers.change(at, self.run.counts.workers)
                self._set_speed(self.run)
        if self.run is not None:
            self._train(self.run, to)

    def progress(self) -> TrainingProgress:
        """What the log tells at this instant."""
        done = math.floor(self.epochs + _SLACK_EPOCHS)
        points = self._points[:done]
        samples = (
            [*self.samples, self.run.sample(self.at)]
            if self.run and self.run.seconds > 0
            else self.samples
        )
        return TrainingProgress(
            losses=tuple(thin_losses(points, MAX_LOSSES * 3 // 4) if done > MAX_LOSSES else points),
            epoch=float(done) if abs(done - self.epochs) < _SLACK_EPOCHS else self.epochs,
            step=round(self.steps),
            steps_per_epoch=self.truth.steps_in_epoch(self.run.counts.workers)
            if self.run
            else self._known_length(),
            samples=tuple(samples),
            trained_seconds=self.trained_seconds,
        )

    def add_sample(self, sample: SpeedSample) -> None:
        """Take in a speed that was measured before the job's start."""
        self.samples.append(sample)

    def measure(self, servers: tuple[Counts, ...], seconds: float, at: float) -> SpeedSample:
        """A short run on the side, which adds nothing to the job's training."""
        speed = self.truth.speed.steps_per_second(servers)
        run = Run(
            servers,
            lognormal_factor(self._speed_noise, self.truth.speed_noise),
            seconds,
            speed * seconds,
        )
        return run.sample(at)

    def _known_length(self) -> float | None:
        return self.truth.steps_in_epoch(self.samples[-1].counts.workers) if self.samples else None

    def _set_speed(self, run: Run) -> None:
        self.speed = self.truth.speed.steps_per_second(run.servers, self._stragglers.slow)
        self._epochs_per_second = self.speed / self.truth.steps_in_epoch(run.counts.workers)

    def _end(self, run: Run) -> None:
        if run.seconds > 0:
            self.samples = [*self.samples, run.sample(self.at)][-MAX_SAMPLES:]
        self.run, self.speed, self._epochs_per_second = None, 0.0, 0.0

    def _train(self, run: Run, to: float) -> None:
        seconds = max(to - self.at, 0.0)
        self.at = to
        self.steps += self.speed * seconds
        self.epochs += self._epochs_per_second * seconds
        self.trained_seconds += seconds
        run.seconds += seconds
        run.steps += self.speed * seconds


def observed_losses(truth: SimulatedJob, rng: Generator) -> tuple[float, ...]:
    """The mean loss of every epoch as seen, up to the one with which the goal is met (or
    ``most_epochs``)."""
    losses: list[float] = []
    largest = 0.0
    while len(losses) < truth.most_epochs:
        losses.append(
            truth.loss.after(float(len(losses) + 1)) * lognormal_factor(rng, truth.loss_noise)
        )
        largest = max(largest, losses[-1])
        if _is_met(truth.job.goal, losses, largest):
            break
    return tuple(losses)


def _is_met(goal: Goal | None, losses: list[float], largest: float) -> bool:
    """Whether the last loss meets the goal: the rule of ``models.forecast.goal_is_met``, one epoch
    at a time."""
    if goal is None:
        return False
    if isinstance(goal, TargetLoss):
        return losses[-1] <= goal.loss
    recent = losses[-QUIET_EPOCHS - 1 :]
    falls = [former - latter for former, latter in pairwise(recent)]
    return len(falls) == QUIET_EPOCHS and all(fall < goal.fraction * largest for fall in falls)
