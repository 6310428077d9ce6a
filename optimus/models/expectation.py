"""The expectation of a young job: what is assumed before its losses and speed allow a fit.

The counts of a job are decided by it where there is no forecast; no user is shown a time by it.
1. Work: as a forecast has it where that is known (the job's own losses, earlier runs of its
   workload, a number of epochs or steps as its goal). Else 20 epochs are left, as the program of
   the paper's authors takes it (pengyanghua/optimus, scheduler/optimus_scheduler.py: ``end_epoch =
   job.progress + 20`` where the estimate fails), or fewer where the run declares an earlier end.
   That holds for the first 20 epochs, as long as there are too few losses for a curve.
2. Speed: the speed model, which rests on hypotheses where few counts were measured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from optimus.errors import NotReady
from optimus.jobs import AmountGoal, Counts, Goal, Job, TargetEpochs, TargetMetric
from optimus.models import Vector
from optimus.models.convergence import LossCurve
from optimus.models.forecast import (
    Forecast,
    SpeedNotReady,
    expected_speed,
    forecast_job,
    known_samples,
    losses_with_epochs,
    why_never_ready,
)
from optimus.models.metric_goal import as_losses
from optimus.models.speed.curve import SpeedTerms
from optimus.models.speed.hypotheses import values_of_measuring
from optimus.progress.types import TrainingProgress

EPOCHS_LEFT: Final = 20.0
"""Epochs that are left of a job if nothing else is known."""


def value_of_measuring(
    job: Job, progress: TrainingProgress, forecast: Forecast, allowed: Sequence[Counts]
) -> Vector:
    """Return what a sample of a job's speed at each of these counts is worth, as a part of its
    least expected time: ``speed.hypotheses``."""
    return values_of_measuring(
        known_samples(job, progress),
        SpeedTerms.of(job),
        allowed,
        batch_per_worker=forecast.batch_per_worker,
    )


def expect_job(
    job: Job, progress: TrainingProgress, refusal: NotReady | None = None
) -> Forecast | NotReady:
    """The expectation of a job that has no forecast, or why there is none.

    ``refusal`` is what ``forecast_job`` gave, where it is known: a curve is not fitted again."""
    known = refusal if isinstance(refusal, SpeedNotReady) else forecast_job(job, progress)
    found = _at_expected_speed(job, progress, known)
    if isinstance(found, NotReady):
        end = _expected_end(job.goal, progress)
        return found if end is None else _until_epoch(job, progress, end)
    return found if found.goal_met else replace(found, is_expected=True)


def presentable(
    job: Job, progress: TrainingProgress, expected: Forecast | NotReady
) -> Forecast | None:
    """What is expected of a job, if its user is shown it: where the work left is known and the
    speed measured at its present counts, that is enough, as only its speed elsewhere is expected;
    else ``None``."""
    if not isinstance(expected, Forecast) or expected.time_to_goal is None:
        return None
    return expected if job.counts in {each.counts for each in progress.samples} else None


def _until_epoch(job: Job, progress: TrainingProgress, end: float) -> Forecast | NotReady:
    """The forecast until an epoch that is not known, but assumed: without an interval for it."""
    found = _at_expected_speed(job, progress, forecast_job(job, progress, TargetEpochs(end)))
    if isinstance(found, NotReady):
        return found
    return replace(
        found,
        is_expected=True,
        remaining_epochs=None,
        low_epochs=None,
        high_epochs=None,
        time_to_goal=None,
    )


def _at_expected_speed(
    job: Job, progress: TrainingProgress, found: Forecast | NotReady
) -> Forecast | NotReady:
    """The forecast with the speed that is expected after few samples, where it has none."""
    if not isinstance(found, SpeedNotReady):
        return found
    speed = expected_speed(job, progress)
    return speed if isinstance(speed, NotReady) else found.at_speed(speed)


def _expected_end(goal: Goal | None, progress: TrainingProgress) -> float | None:
    """The epoch until which a job is expected to train, while a curve of its losses is to come."""
    epoch, declared = progress.epoch, progress.declared.epochs
    if goal is None or isinstance(goal, AmountGoal) or epoch is None or epoch >= EPOCHS_LEFT:
        return None
    if progress.diverged or progress.diagnostic or why_never_ready(goal, progress) is not None:
        return None
    if not _lacks_points(goal, progress):
        return None
    end = epoch + EPOCHS_LEFT
    return end if declared is None or declared <= epoch else min(end, declared)


def _lacks_points(goal: Goal, progress: TrainingProgress) -> bool:
    losses = losses_with_epochs(progress)
    if isinstance(goal, TargetMetric):
        found = as_losses(goal, progress.metrics)
        if isinstance(found, NotReady):
            return True
        losses = losses_with_epochs(replace(progress, losses=found.losses))
    return isinstance(LossCurve.fit(losses), NotReady)
