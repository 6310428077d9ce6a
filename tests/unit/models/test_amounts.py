"""Goals that an amount of training meets: only the speed is fitted."""

from dataclasses import replace

import pytest

from optimus.errors import NotReady
from optimus.jobs import Counts, TargetEpochs, TargetSteps
from optimus.models.forecast import Forecast, forecast_job, goal_is_met
from optimus.progress.types import LossPoint, TrainingProgress
from tests.unit.models.forecasting import JOB, PER_EPOCH, SAMPLES, after, forecast_of, speed

ONE = Counts(1, 2)


def test_what_is_left_of_the_epochs_is_the_work() -> None:
    found = forecast_of(after(15.5), TargetEpochs(40))
    assert (found.remaining_epochs, found.low_epochs, found.high_epochs) == (24.5, 24.5, 24.5)
    assert found.progress_fraction == pytest.approx(15.5 / 40)
    assert found.at(Counts(3, 3)) == pytest.approx(24.5 * PER_EPOCH / speed(Counts(3, 3)))


def test_what_is_left_of_the_steps_is_the_work() -> None:
    found = forecast_of(after(15), TargetSteps(1000))
    assert found.remaining_epochs is None
    assert found.progress_fraction == pytest.approx(0.3)
    assert found.at(ONE) == pytest.approx(700 / speed(ONE))


@pytest.mark.parametrize("epochs", [0.25, 1.0])
def test_no_loss_is_needed(epochs: float) -> None:
    progress = TrainingProgress((), epochs, 20, PER_EPOCH, SAMPLES)
    found = forecast_of(progress, TargetEpochs(3))
    assert found.remaining_epochs == 3 - epochs
    assert found.curve is None


def test_a_loss_that_is_no_number_changes_nothing() -> None:
    progress = after(10, diverged=True, diagnostic="the loss is NaN")
    assert forecast_of(progress, TargetEpochs(40)).remaining_epochs == 30


@pytest.mark.parametrize(
    ("goal", "epochs", "met"),
    [
        (TargetEpochs(15), 14.99, False),
        (TargetEpochs(15), 15 - 1e-9, True),
        (TargetEpochs(0.5), 0.5, True),
        (TargetSteps(300), 14.99, False),
        (TargetSteps(300), 15.0, True),
    ],
)
def test_it_is_met_after_that_amount(
    goal: TargetEpochs | TargetSteps, epochs: float, met: bool
) -> None:
    progress = after(epochs)
    assert goal_is_met(goal, progress) is met
    found = forecast_of(progress, goal)
    assert (found.goal_met, found.progress_fraction == 1.0) == (met, met)


@pytest.mark.parametrize(
    ("progress", "goal", "why"),
    [
        (TrainingProgress(), TargetEpochs(3), "its log has shown no epoch yet"),
        (TrainingProgress(), TargetSteps(3), "its log has shown no step yet"),
        (
            TrainingProgress(diagnostic="the log is binary"),
            TargetSteps(3),
            "the log is binary",
        ),
        (TrainingProgress((), 1.0, samples=SAMPLES), TargetEpochs(3), "steps per epoch"),
        (after(2, samples=()), TargetEpochs(3), "speed"),
    ],
)
def test_there_is_none_where(
    progress: TrainingProgress, goal: TargetEpochs | TargetSteps, why: str
) -> None:
    found = forecast_job(replace(JOB, goal=goal), progress)
    assert isinstance(found, NotReady)
    assert why in found.reason


def test_the_loss_curve_is_shown_all_the_same() -> None:
    found = forecast_job(replace(JOB, goal=TargetEpochs(40)), after(20))
    assert isinstance(found, Forecast)
    assert found.curve is not None


def test_one_loss_is_no_curve() -> None:
    progress = replace(after(5), losses=(LossPoint(1.0, 1.0, 20),))
    assert forecast_of(progress, TargetEpochs(40)).curve is None
