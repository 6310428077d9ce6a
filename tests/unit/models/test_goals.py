"""When a goal counts as met, and which loss it is compared with."""

from dataclasses import replace

import pytest

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Counts, TargetLoss
from optimus.models.forecast import current_loss, forecast_job, goal_is_met
from optimus.progress.types import LossPoint, TrainingProgress
from tests.cases import cases
from tests.unit.models.forecasting import after, forecast_of
from tests.unit.progress.jobs import job


class TestGoalMet:
    def test_by_the_mean_of_a_completed_epoch(self) -> None:
        found = forecast_of(after(47))
        assert found.goal_met
        assert (found.remaining_epochs, found.progress_fraction) == (0.0, 1.0)
        assert found.at(Counts(3, 3)) == 0.0

    @pytest.mark.parametrize(("target", "met"), [(0.25, True), (0.249, False)])
    @cases("epoch", {"in epochs": 1.0, "without epochs": None})
    def test_by_a_loss_that_is_the_target(
        self, target: float, met: bool, epoch: float | None
    ) -> None:
        later = None if epoch is None else epoch + 1
        losses = (LossPoint(0.25, epoch, 1),) * 20 + (LossPoint(0.25, later, 2),) * 20
        assert goal_is_met(TargetLoss(target), TrainingProgress(losses)) is met

    def test_not_by_the_beginning_of_an_epoch(self) -> None:
        losses = (LossPoint(1.0, 1.0), LossPoint(0.1, 1.3), LossPoint(0.1, 1.5))
        assert not goal_is_met(TargetLoss(0.2), TrainingProgress(losses))

    def test_not_by_a_single_low_batch(self) -> None:
        losses = (LossPoint(1.0, 0.5), LossPoint(0.1, 1.0))
        assert not goal_is_met(TargetLoss(0.2), TrainingProgress(losses))

    @cases(
        ("means", "met"),
        {
            "a lucky epoch, and another": ([1.0, 0.19, 0.3, 0.19, 0.3], False),
            "two in a row": ([1.0, 0.19, 0.18], True),
            "once met it stays met": ([1.0, 0.19, 0.18, 0.3], True),
        },
    )
    def test_by_two_epochs_in_a_row(self, means: list[float], met: bool) -> None:
        losses = tuple(LossPoint(mean, n + 1.0) for n, mean in enumerate(means))
        assert goal_is_met(TargetLoss(0.2), TrainingProgress(losses)) is met

    def test_known_before_any_model_is(self) -> None:
        found = forecast_of(TrainingProgress((LossPoint(0.1, 1.0), LossPoint(0.1, 2.0))))
        assert found.goal_met
        assert found.curve is None

    @pytest.mark.parametrize(("low", "met"), [(9, False), (11, True)])
    def test_without_epochs_by_the_median_of_the_last_20_points(self, low: int, met: bool) -> None:
        losses = tuple(LossPoint(0.1 if n >= 50 - low else 1.0, None, n) for n in range(50))
        assert goal_is_met(TargetLoss(0.2), TrainingProgress(losses)) is met

    @pytest.mark.parametrize(
        ("means", "met"),
        [
            ([1.0, 0.5, 0.499, 0.498, 0.497], True),
            ([1.0, 0.5, 0.499, 0.498], False),
            ([1.0, 0.5, 0.499, 0.4, 0.399, 0.398], False),
            ([1.0, 0.999, 0.998], False),
            ([], False),
            pytest.param([2.3, 2.3, 2.3, 2.3, 2.3], False, id="a flat start"),
            pytest.param([2.3, 2.29, 2.28, 2.27, 2.26], False, id="one that hardly falls"),
            pytest.param([1.0, 0.3, 0.4, 0.5, 0.6], False, id="rising"),
            pytest.param([1.0, 0.3, 0.3, 0.311, 0.319, 0.327], False, id="rising slowly"),
            pytest.param([1.0, 0.5, 0.504, 0.498, 0.502], True, id="noise on a plateau"),
        ],
    )
    def test_a_threshold_by_three_quiet_epochs_in_a_row(
        self, means: list[float], met: bool
    ) -> None:
        losses = tuple(LossPoint(mean, n + 1.0) for n, mean in enumerate(means))
        assert goal_is_met(ConvergenceThreshold(0.01), TrainingProgress(losses)) is met


def schedule(*stages: tuple[float, int, float | None]) -> TrainingProgress:
    """Stages of a level, so many epochs, and a learning rate, the first after a start at 1."""
    points, epoch = [LossPoint(1.0, 1.0, learning_rate=stages[0][2])], 1.0
    for level, epochs, rate in stages:
        for n in range(epochs):
            epoch += 1.0
            points.append(LossPoint(level + 0.2 * 0.5**n, epoch, learning_rate=rate))
    return TrainingProgress(tuple(points))


@cases(
    ("progress", "met"),
    {
        "no learning rate in the log": (schedule((0.4, 15, None)), True),
        "a plateau before the first drop": (schedule((0.4, 20, 0.1)), False),
        "one as long as no schedule waits": (schedule((0.4, 30, 0.1)), True),
        "between two drops of 30 epochs": (schedule((0.4, 29, 0.1), (0.2, 15, 0.01)), False),
        "longer than the stage before": (schedule((0.4, 29, 0.1), (0.2, 40, 0.01)), True),
        "a drop that the loss shows": (schedule((0.4, 29, None), (0.1, 15, None)), False),
    },
)
def test_a_plateau_before_a_drop_of_the_learning_rate_is_not_the_end(
    progress: TrainingProgress, met: bool
) -> None:
    assert goal_is_met(ConvergenceThreshold(0.02), progress) is met


@pytest.mark.parametrize("diverged", [False, True])
def test_a_job_whose_loss_is_no_number_has_no_forecast(diverged: bool) -> None:
    progress = replace(
        after(20), diverged=diverged, diagnostic="it has diverged" if diverged else None
    )
    found = forecast_job(job(), progress)
    assert isinstance(found, NotReady) is diverged
    if diverged:
        assert str(found) == "it has diverged"


@cases(
    ("points", "loss"),
    {
        "nothing yet": ([], None),
        "the running first epoch": ([(0.25, 9.0), (0.5, 7.0)], 8.0),
        "the last whole epoch, not the running one": ([(0.5, 9.0), (1.0, 7.0), (1.5, 3.0)], 8.0),
        "the epoch that has just ended": ([(0.5, 9.0), (1.0, 7.0), (1.5, 3.0), (2.0, 1.0)], 2.0),
        "an epoch of many points, all of them": (
            [(n / 200, 9.0 - (n > 100)) for n in range(1, 351)],
            8.5,
        ),
        "without epochs the median of the last 20": (
            [(None, float(value)) for value in range(40)],
            29.5,
        ),
    },
)
def test_the_present_loss_is_the_one_that_a_target_is_compared_with(
    points: list[tuple[float | None, float]], loss: float | None
) -> None:
    progress = TrainingProgress(tuple(LossPoint(value, epoch, None) for epoch, value in points))
    assert current_loss(progress) == loss
