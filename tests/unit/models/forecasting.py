"""A job with known speeds and a known loss, and its forecast."""

from dataclasses import replace

from optimus.jobs import Batch, BatchScope, Counts, Goal, TargetLoss, TrainingMode
from optimus.models.convergence import PublishedCurve
from optimus.models.forecast import Forecast, forecast_job
from optimus.progress.types import LossPoint, SpeedSample, TrainingProgress
from tests.unit.models.measured import sample
from tests.unit.progress.jobs import job

PER_EPOCH = 20.0

SHARED = Batch(64, BatchScope.JOB)


def speed(counts: Counts) -> float:
    """Equation 4 in the knee form."""
    return 1 / (
        0.3 / counts.workers
        + 0.1
        + 0.05 * max(counts.workers / counts.ps, 1)
        + 0.01 * counts.workers
    )


def samples(*counts: Counts) -> tuple[SpeedSample, ...]:
    return tuple(sample(each, speed(each), seconds=60) for each in counts)


SAMPLES = samples(*(Counts(ps, workers) for ps in (1, 2, 4) for workers in (1, 2, 4)))


def after(epochs: float, **fields: object) -> TrainingProgress:
    """The progress after so many epochs along 1/(0.2 k + 1) + 0.1, a loss at the end of each."""
    losses = tuple(
        LossPoint(1 / (0.2 * k + 1) + 0.1, float(k), int(k * PER_EPOCH))
        for k in range(1, int(epochs) + 1)
    )
    usual = TrainingProgress(losses, epochs, int(epochs * PER_EPOCH), PER_EPOCH, SAMPLES)
    return replace(usual, **fields)  # type: ignore[arg-type]  # the fields are TrainingProgress's own


JOB = job(mode=TrainingMode.SYNC, batch=SHARED, counts=Counts(1, 2), goal=TargetLoss(0.2))


def forecast_of(progress: TrainingProgress, goal: Goal | None = None, **fields: object) -> Forecast:
    """By the paper's curve, which gives the coefficients of these losses back: what is left is
    exact."""
    found = forecast_job(replace(JOB, **fields), progress, goal, PublishedCurve.fit)  # type: ignore[arg-type]  # as above
    assert isinstance(found, Forecast)
    return found
