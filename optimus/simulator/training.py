"""One job's true training, and the progress that its log shows.

Between two changes (a start, a stop, a worker that begins or ends to straggle) the speed is
constant, and the end is known in closed form. A run lasts from a start to the next stop. A log
shows the loss of every completed epoch and the mean speed of every run, with their noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

from numpy.random import Generator

from optimus.jobs import Counts, TargetEpochs, TargetLoss, TargetMetric, TargetSteps
from optimus.models.convergence import TARGET_EPOCHS
from optimus.models.goals import has_converged
from optimus.models.speed.curve import mixed_kind
from optimus.progress.log import MAX_LOSSES, MAX_SAMPLES
from optimus.progress.state import thin_losses
from optimus.progress.types import (
    NOTHING_DECLARED,
    Declared,
    LossPoint,
    SpeedSample,
    TrainingProgress,
)
from optimus.simulator.jobs import SimulatedJob, Straggling
from optimus.simulator.streams import Purpose, lognormal_factor, stream

_SLACK: Final = 1e-9
"""Sums of epochs, and what is done of a save, miss whole numbers by rounding."""

_NO_KINDS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(slots=True)
class TrainingRun:
    """Training without a stop, at one placement; ``noise`` is a factor on the measured speed."""

    servers: tuple[Counts, ...]
    noise: float
    seconds: float = 0.0
    steps: float = 0.0
    node_kinds: Mapping[str, int] = field(default_factory=lambda: _NO_KINDS)
    """How many workers are on nodes of each kind; "" is none."""

    @property
    def counts(self) -> Counts:
        """PSs and workers on all servers."""
        ps, workers = zip(*self.servers, strict=True)
        return Counts(sum(ps), sum(workers))

    def sample(self, at: float) -> SpeedSample:
        """The speed as measured in the run up to the instant ``at``."""
        kind = mixed_kind(self.node_kinds)
        speed = self.steps / self.seconds * self.noise
        return SpeedSample(self.counts, speed, self.seconds, at, kind)


@dataclass(slots=True)
class Stragglers:
    """The workers of a run that straggle now, and when that changes."""

    config: Straggling | None
    rng: Generator
    ends: list[float] = field(default_factory=list)
    next_at: float = math.inf

    def begin(self, at: float, workers: int) -> None:
        """Start with workers of which none straggles."""
        self.ends = []
        self._draw_next(at, workers)

    def change(self, at: float, workers: int) -> None:
        """Apply the changes of the instant ``at``."""
        if self.config is not None and self.next_at <= at:
            self.ends.append(at + self.rng.exponential(self.config.seconds))
        self.ends = [end for end in self.ends if end > at]
        self._draw_next(at, workers)

    @property
    def speeds(self) -> tuple[float, ...]:
        """The part of its usual speed of each one that straggles."""
        return () if self.config is None else (self.config.speed_fraction,) * len(self.ends)

    @property
    def changes_at(self) -> float:
        """When one more straggles, or one fewer."""
        return min([self.next_at, *self.ends])

    def _draw_next(self, at: float, workers: int) -> None:
        # An exponential wait has no memory: it may be drawn again at every change.
        others, self.next_at = workers - len(self.ends), math.inf
        if self.config is not None and others > 0:
            self.next_at = at + self.rng.exponential(self.config.seconds_between / others)


@dataclass(slots=True)
class Saved:
    """The last checkpoint of a job that saves now and then: it goes on from there after a stop.

    ``trained_seconds``: what it had trained then, lost training included. ``number`` counts the
    times of the run after which one is saved."""

    epochs: float = 0.0
    steps: float = 0.0
    at: float | None = None
    trained_seconds: float = 0.0
    number: int = 0


class Training:
    """The state of one job's training at the instant ``at``; ``epochs`` and ``steps`` are done.

    ``trained_seconds`` is all training, ``lost_seconds`` what of it was undone by restarts.
    ``futile_stops`` counts those since the last checkpoint."""

    def __init__(self, truth: SimulatedJob, seed: int) -> None:
        self.truth = truth
        self.at = truth.job.created_at
        self.epochs = self.steps = self.trained_seconds = self.speed = 0.0
        self.run: TrainingRun | None = None
        self.samples: list[SpeedSample] = []
        self._losses = observed_losses(truth, stream(seed, Purpose.LOSS, truth.job.uid))
        self._speed_noise = stream(seed, Purpose.SPEED, truth.job.uid)
        self._stragglers = Stragglers(
            truth.straggling, stream(seed, Purpose.STRAGGLING, truth.job.uid)
        )
        self.saved = Saved()
        self.lost_seconds = 0.0
        self.futile_stops = 0
        self._restarts = stream(seed, Purpose.RESTART, truth.job.uid)
        self._epochs_per_second = 0.0
        self._quiet_until = -math.inf
        self._shown: TrainingProgress | None = None
        self._declared = NOTHING_DECLARED
        if truth.goal_at is not None:
            self._declared = Declared(epochs=math.ceil(self.end_epochs / truth.goal_at))
        self._shown_losses: tuple[int, tuple[LossPoint, ...]] = 0, ()
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
        """Return whether all its epochs are done."""
        return self.epochs >= self.end_epochs

    @property
    def finish_at(self) -> float:
        """Return when it ends at its present speed."""
        if self._epochs_per_second <= 0:
            return math.inf
        return self.at + max(self.end_epochs - self.epochs, 0.0) / self._epochs_per_second

    @property
    def next_at(self) -> float:
        """When its speed changes, or it ends."""
        return math.inf if self.run is None else min(self.finish_at, self._stragglers.changes_at)

    @property
    def next_save_at(self) -> float:
        """When it saves its next checkpoint, at its present speed."""
        if self.run is None or self.truth.checkpoints is None or self.speed <= 0:
            return math.inf
        done, each = self.run.seconds, self.truth.checkpoints.every_seconds
        return self.at + ((math.floor(done / each + _SLACK) + 1) * each - done)

    def draw_rescale_seconds(self) -> float:
        """From a suspension to the next step."""
        measured = self.truth.restart_seconds
        if not measured:
            return self.truth.rescale_seconds
        return measured[int(self._restarts.integers(len(measured)))]

    def begin(
        self,
        at: float,
        servers: tuple[Counts, ...],
        node_kinds: Mapping[str, int] | None = None,
    ) -> None:
        """A run begins, with so many workers on nodes of each kind."""
        self.at = at
        noise = lognormal_factor(self._speed_noise, self.truth.speed_noise)
        self.run = TrainingRun(servers, noise, node_kinds=node_kinds or _NO_KINDS)
        self._stragglers.begin(at, self.run.counts.workers)
        self._set_speed(self.run)
        self._shown = None
        self.saved.number = 0

    def stop(self, at: float) -> float:
        """The run ends, if there is one; returns the seconds of training that are lost: all since
        its last checkpoint, where it does not save as it is stopped."""
        self.advance(at)
        if self.run is None:
            return 0.0
        self._end(self.run)
        return self._restore() if self.truth.checkpoints is not None else 0.0

    def advance(self, to: float) -> None:
        """Train until the instant ``to``, or until it has ended."""
        if self.run is not None and to < self._quiet_until:
            self._train(self.run, to)
            return
        while self.run is not None and self.next_at <= to:
            self._quiet_until = -math.inf
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
            self._quiet_until = _surely_before(self.next_at)

    def progress(self) -> TrainingProgress:
        """The progress that the log shows at this instant."""
        if self._shown is None:
            self._shown = self._progress()
        return self._shown

    def _losses_until(self, done: int) -> tuple[LossPoint, ...]:
        """The losses in the log after so many epochs."""
        if self._shown_losses[0] != done:
            points = self._points[:done]
            thinned = thin_losses(points, MAX_LOSSES * 3 // 4) if done > MAX_LOSSES else points
            self._shown_losses = done, tuple(thinned)
        return self._shown_losses[1]

    def _progress(self) -> TrainingProgress:
        done = math.floor(self.epochs + _SLACK)
        samples, run = self.samples, self.run
        if run and run.seconds > 0:
            samples = [*samples, run.sample(self.at)]
        counts = run.counts if run else self.samples[-1].counts if self.samples else None
        return TrainingProgress(
            losses=self._losses_until(done),
            epoch=float(done) if abs(done - self.epochs) < _SLACK else self.epochs,
            step=round(self.steps),
            steps_per_epoch=counts and self.truth.steps_in_epoch(counts.workers),
            samples=tuple(samples),
            trained_seconds=self.trained_seconds,
            checkpoint_step=None if self.saved.at is None else round(self.saved.steps),
            checkpoint_at=self.saved.at,
            checkpoint_since=self.saved.at,
            declared=self._declared,
        )

    def add_sample(self, sample: SpeedSample) -> None:
        """Take in a speed that was measured before the job's start."""
        self._shown = None
        self.samples.append(sample)

    def measure(
        self, servers: tuple[Counts, ...], seconds: float, at: float, kind: str = ""
    ) -> SpeedSample:
        """A short run that adds nothing to the job's training, on nodes of one kind."""
        run = TrainingRun(
            servers, lognormal_factor(self._speed_noise, self.truth.speed_noise), seconds
        )
        run.node_kinds = {kind: run.counts.workers} if kind else _NO_KINDS
        run.steps = self.truth.speed.steps_per_second(servers, self._parts(run)) * seconds
        return run.sample(at)

    def _set_speed(self, run: TrainingRun) -> None:
        self.speed = self.truth.speed.steps_per_second(
            run.servers, self._parts(run, self._stragglers.speeds)
        )
        self._epochs_per_second = self.speed / self.truth.steps_in_epoch(run.counts.workers)

    def _parts(self, run: TrainingRun, straggling: tuple[float, ...] = ()) -> tuple[float, ...]:
        """The part of its full speed of each worker that has not all of it: on a slow kind of
        nodes, straggling, or both."""
        speeds = self.truth.kind_speeds
        slow = [speeds.get(kind, 1.0) for kind, n in run.node_kinds.items() for _ in range(n)]
        if all(each == 1.0 for each in slow):
            return straggling
        parts = [a * b for a, b in zip_longest(slow, straggling, fillvalue=1.0)]
        return tuple(each for each in parts if each < 1.0)

    def _end(self, run: TrainingRun) -> None:
        if run.seconds > 0:
            self.samples = [*self.samples, run.sample(self.at)][-MAX_SAMPLES:]
        self.run, self.speed, self._epochs_per_second = None, 0.0, 0.0
        self._quiet_until, self._shown = -math.inf, None

    def _train(self, run: TrainingRun, to: float) -> None:
        self._shown = None
        seconds = max(to - self.at, 0.0)
        self.at = to
        self.steps += self.speed * seconds
        self.epochs += self._epochs_per_second * seconds
        self.trained_seconds += seconds
        run.seconds += seconds
        run.steps += self.speed * seconds
        if self.truth.checkpoints is not None and self.speed > 0:
            self._save(run.seconds, self.truth.checkpoints.every_seconds)

    def _save(self, done_seconds: float, each_seconds: float) -> None:
        """Save the newest checkpoint that is due; the speed was constant since."""
        number = math.floor(done_seconds / each_seconds + _SLACK)
        if number > self.saved.number:
            ago = max(done_seconds - number * each_seconds, 0.0)
            self.futile_stops = 0
            self.saved = Saved(
                epochs=self.epochs - self._epochs_per_second * ago,
                steps=self.steps - self.speed * ago,
                at=self.at - ago,
                trained_seconds=self.trained_seconds - ago,
                number=number,
            )

    def _restore(self) -> float:
        """Go on from the last checkpoint, or from the beginning; returns what is lost."""
        lost_seconds = self.trained_seconds - self.saved.trained_seconds
        self.futile_stops += 1
        self.epochs, self.steps = self.saved.epochs, self.saved.steps
        self.saved.trained_seconds = self.trained_seconds
        self.lost_seconds += lost_seconds
        return lost_seconds


def _surely_before(at: float) -> float:
    """An instant that is earlier whatever the rounding of ``at``: it is worked out again at every
    step, from sums whose last digits differ."""
    return at - 1e-3 - 1e-9 * abs(at)


def observed_losses(truth: SimulatedJob, rng: Generator) -> tuple[float, ...]:
    """Every epoch's mean loss as seen, until the goal is met or after ``most_epochs``."""
    losses: list[float] = []
    while len(losses) < truth.most_epochs:
        loss = truth.loss.after(float(len(losses) + 1))
        losses.append(loss * lognormal_factor(rng, truth.loss_noise))
        if _is_met(truth, losses):
            break
    return tuple(losses)


def _is_met(truth: SimulatedJob, losses: list[float]) -> bool:
    """``models.forecast.goal_is_met``, one epoch at a time."""
    goal = truth.job.goal
    if goal is None or isinstance(goal, TargetMetric):
        return False  # a simulated job has a loss and no other metric
    if isinstance(goal, TargetEpochs):
        return len(losses) >= goal.epochs
    if isinstance(goal, TargetSteps):
        return len(losses) * truth.steps_per_epoch >= goal.steps
    if isinstance(goal, TargetLoss):
        newest = losses[-TARGET_EPOCHS:]
        return len(newest) == TARGET_EPOCHS and max(newest) <= goal.loss
    changes = (abs(losses[-1] - each) for each in losses[-3:-1])
    if min(changes, default=math.inf) >= goal.fraction * max(losses[:2]):
        return False  # neither quiet nor after an outlier: most epochs need no closer look
    return has_converged(goal, [LossPoint(loss, float(k)) for k, loss in enumerate(losses, 1)])
