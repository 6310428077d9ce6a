"""When a goal counts as met, and which loss it is compared with."""

import pytest

from optimus.jobs import ConvergenceThreshold, Counts, TargetLoss
from optimus.models.forecast import current_loss, goal_is_met
from optimus.progress.types import LossPoint, TrainingProgress
from tests.unit.models.forecasting import after, forecast_of


class TestGoalMet:
    def test_by_the_mean_of_a_completed_epoch(self) -> None:
        found = forecast_of(after(46))
        assert found.goal_met
        assert (found.remaining_epochs, found.progress_fraction) == (0.0, 1.0)
        assert found.at(Counts(3, 3)) == 0.0

    def test_not_by_the_beginning_of_an_epoch(self) -> None:
        losses = (LossPoint(1.0, 1.0), LossPoint(0.1, 1.3), LossPoint(0.1, 1.5))
        assert not goal_is_met(TargetLoss(0.2), TrainingProgress(losses))

    def test_not_by_a_single_low_batch(self) -> None:
        losses = (LossPoint(1.0, 0.5), LossPoint(0.1, 1.0))
        assert not goal_is_met(TargetLoss(0.2), TrainingProgress(losses))

    def test_known_before_any_model_is(self) -> None:
        found = forecast_of(TrainingProgress((LossPoint(0.1, 1.0),)))
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
        ],
    )
    def test_a_threshold_by_three_quiet_epochs_in_a_row(
        self, means: list[float], met: bool
    ) -> None:
        losses = tuple(LossPoint(mean, n + 1.0) for n, mean in enumerate(means))
        assert goal_is_met(ConvergenceThreshold(0.01), TrainingProgress(losses)) is met


@pytest.mark.parametrize(
    ("points", "loss"),
    [
        pytest.param([], None, id="nothing yet"),
        pytest.param([(0.25, 9.0), (0.5, 7.0)], 8.0, id="the running first epoch"),
        pytest.param(
            [(0.5, 9.0), (1.0, 7.0), (1.5, 3.0)],
            8.0,
            id="the last whole epoch, not the running one",
        ),
        pytest.param(
            [(0.5, 9.0), (1.0, 7.0), (1.5, 3.0), (2.0, 1.0)],
            2.0,
            id="the epoch that has just ended",
        ),
        pytest.param(
            [(n / 200, 9.0 - (n > 100)) for n in range(1, 351)],
            8.5,
            id="an epoch of many points, all of them",
        ),
        pytest.param(
            [(None, float(value)) for value in range(40)],
            29.5,
            id="without epochs the median of the last 20",
        ),
    ],
)
def test_the_present_loss_is_the_one_that_a_target_is_compared_with(
    points: list[tuple[float | None, float]], loss: float | None
) -> None:
    progress = TrainingProgress(tuple(LossPoint(value, epoch, None) for epoch, value in points))
    assert current_loss(progress) == loss
