"""The forecasts of a simulation: fitted as by the product, by the paper's equations, true, or true
with an error.

Optimus, section 6.4: errors in the convergence (the job's total of epochs) and the speed shrink as
the job trains. An error of e multiplies the total of epochs by 1 + s e (1 - progress), with a sign
s drawn for each job, and the speed at each pair of counts likewise, with a sign drawn for each
pair: the same error at all counts would change no choice of counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import numpy as np

from optimus.errors import NotReady
from optimus.jobs import Counts, Job, TargetEpochs
from optimus.models.forecast import Forecast, ForecastFn, Speed, forecast_job
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress
from optimus.simulator.cluster import SimulatedJobState
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.training import Training

_SIGNS: Final = 256
"""Signs drawn for each count; they repeat beyond."""


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What a source of forecasts may look at: trainings by UID, the empty cluster, the seed."""

    training: Callable[[str], Training]
    empty: EmptyCluster
    seed: int


class ForecastSource(Protocol):
    """Where a simulation's forecasts come from."""

    def forecast_fn(self, ground_truth: GroundTruth, /) -> ForecastFn:
        """Predicts the jobs of one simulation."""


@dataclass(frozen=True, slots=True)
class FittedForecasts:
    """Fitted to the observed progress, as on a cluster; cached until that changes."""

    fit: ForecastFn = forecast_job

    epochs_left: float | None = None
    """Epochs taken as left of a job whose speed is known, but whose losses allow no fit yet.
    ``None``: such a job has no forecast."""

    def forecast_fn(self, _: GroundTruth, /) -> ForecastFn:
        """The product's own forecasts."""
        return _CachedForecasts(self._forecast)

    def _forecast(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        fitted = self.fit(job, progress)
        if self.epochs_left is None or progress.epoch is None or isinstance(fitted, Forecast):
            return fitted
        return forecast_job(job, progress, TargetEpochs(progress.epoch + self.epochs_left))


@dataclass(frozen=True, slots=True)
class TrueForecasts:
    """The truth from the arrival on, with relative errors that shrink as the job trains."""

    convergence_error: float = 0.0
    speed_error: float = 0.0

    def forecast_fn(self, ground_truth: GroundTruth, /) -> ForecastFn:
        """Forecasts from the ground truth."""
        return _KnownForecasts(self, ground_truth)


@dataclass(frozen=True, slots=True)
class EquationForecasts:
    """Speeds by the paper's equations 3 and 4, fitted to what was measured of the job.

    The total of epochs is the true one with a relative error that shrinks as the job trains."""

    convergence_error: float = 0.2
    """What the paper calls typical (section 6.4)."""
    samples: int = 10
    """Pairs of counts measured before a job's start. Section 6.1 takes 5 and shows an error of 6 %
    with them; on speeds recorded elsewhere that takes 10. The authors' program takes at least 8."""

    def forecast_fn(self, ground_truth: GroundTruth, /) -> ForecastFn:
        """Forecasts by the paper's models."""
        totals = _KnownForecasts(TrueForecasts(self.convergence_error), ground_truth)
        return _CachedForecasts(partial(_by_equations, totals))


@dataclass(slots=True)
class _CachedForecasts:
    """Fits again only where the counts or the progress have changed."""

    fit: ForecastFn
    known: dict[str, tuple[Job, TrainingProgress, Forecast | NotReady]] = field(
        default_factory=dict
    )

    def __call__(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        former = self.known.get(job.uid)
        if former is None or former[:2] != (job, progress):
            self.known[job.uid] = (job, progress, self.fit(job, progress))
        return self.known[job.uid][2]


@dataclass(slots=True)
class _Errors:
    """The signs of one job's errors."""

    total: int
    by_counts: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

    @classmethod
    def of(cls, seed: int, uid: str) -> "_Errors":
        rng = stream(seed, Purpose.FORECAST_ERROR, uid)
        return cls(int(rng.choice((-1, 1))), rng.choice(np.array((-1, 1)), size=(_SIGNS, _SIGNS)))

    def at(self, counts: Counts) -> int:
        return int(self.by_counts[counts.ps % _SIGNS, counts.workers % _SIGNS])


@dataclass(slots=True)
class _KnownForecasts:
    source: TrueForecasts
    ground_truth: GroundTruth
    speeds: dict[str, UncontendedSpeed] = field(default_factory=dict)
    errors: dict[str, _Errors] = field(default_factory=dict)

    def __call__(self, job: Job, _: TrainingProgress, /) -> Forecast | NotReady:
        training = self.ground_truth.training(job.uid)
        if job.uid not in self.speeds:
            self.speeds[job.uid] = UncontendedSpeed(training.truth, self.ground_truth.empty)
        speed, errors = self.speeds[job.uid], self._errors(job.uid)
        size = self.source.speed_error * _left_fraction(training)
        if size:
            speed = speed.with_error(lambda counts: max(1 + errors.at(counts) * size, 0.05))
        return self.at_speed(job, speed)

    def at_speed(self, job: Job, speed: Speed) -> Forecast:
        """The forecast with this speed."""
        training = self.ground_truth.training(job.uid)
        truth, total = training.truth, training.end_epochs
        error = self._errors(job.uid).total * self.source.convergence_error
        forecast_total = total * (1 + error * _left_fraction(training))
        # What is forecast to be done already is not: the end is near, but there is an epoch more.
        left = max(forecast_total - training.epochs, min(total - training.epochs, 1.0))
        return Forecast(speed, left * truth.steps_per_epoch, truth.batch_per_worker, 1)

    def _errors(self, uid: str) -> _Errors:
        if uid not in self.errors:
            self.errors[uid] = _Errors.of(self.ground_truth.seed, uid)
        return self.errors[uid]


def _left_fraction(training: Training) -> float:
    return max(1 - training.epochs / training.end_epochs, 0.0)


def _by_equations(
    totals: _KnownForecasts, job: Job, progress: TrainingProgress, /
) -> Forecast | NotReady:
    speed = SpeedModel.fit(progress.samples, job.mode, job.batch, SpeedForm.PAPER)
    return speed if isinstance(speed, NotReady) else totals.at_speed(job, speed)


def epochs_left(truth: SimulatedJob, forecast: Forecast) -> float:
    """The epochs that a forecast takes to be left."""
    workers = forecast.reference_workers if forecast.batch_per_worker else 1
    return forecast.remaining_steps / truth.steps_in_epoch(workers)


@dataclass(frozen=True, slots=True)
class LoggedForecast:
    """One job's forecast at the instant ``at``, for the counts decided then, beside the truth.

    ``progress`` is the true part of its epochs that was done; the true speed is that of its present
    run, at other counts that of the job alone on the cluster."""

    uid: str
    at: float
    progress: float
    remaining_seconds: float
    total_epochs: float
    true_epochs: int
    steps_per_second: float
    true_steps_per_second: float

    @property
    def convergence_error(self) -> float:
        """Relative error of the total of epochs (Optimus, section 3.1)."""
        return self.total_epochs / self.true_epochs - 1

    @property
    def speed_error(self) -> float:
        """Relative error of the speed."""
        return self.steps_per_second / self.true_steps_per_second - 1


def log_forecasts(
    states: Mapping[str, SimulatedJobState],
    forecasts: Mapping[str, Forecast | NotReady],
    decided: Mapping[str, Counts],
    empty: EmptyCluster,
) -> list[LoggedForecast]:
    """The forecasts of all jobs that go on, at the counts decided for them."""
    logged = []
    for uid, counts in sorted(decided.items()):
        forecast, state = forecasts.get(uid), states.get(uid)
        if state is None or isinstance(forecast, NotReady | None) or forecast.goal_met:
            continue
        if forecast.is_expected:
            continue
        logged.append(_logged(state, forecast, counts, empty))
    return [each for each in logged if each.true_steps_per_second > 0]


def _logged(
    state: SimulatedJobState, forecast: Forecast, counts: Counts, empty: EmptyCluster
) -> LoggedForecast:
    training = state.training
    servers = training.run.servers if training.run and training.run.counts == counts else None
    servers = servers or empty.servers(state.job, counts)
    true_speed = training.truth.speed.steps_per_second(servers) if servers else 0.0
    return LoggedForecast(
        state.job.uid,
        training.at,
        training.epochs / training.end_epochs,
        forecast.at(counts),
        training.epochs + epochs_left(training.truth, forecast),
        training.end_epochs,
        float(forecast.speed.steps_per_second(counts.ps, counts.workers)),
        true_speed,
    )
