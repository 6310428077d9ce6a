"""Losses as the convergence models take them: means of epochs, or points at their steps."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.errors import NotReady
from optimus.models.convergence import LossCurve, LossSeries
from optimus.progress.state import epoch_index
from optimus.progress.types import LossPoint
from tests.unit.models.losses import epochs


class TestSeries:
    def test_points_become_one_mean_per_epoch_weighted_by_their_training(self) -> None:
        points = [
            LossPoint(4.0, 0.5, weight=3.0),
            LossPoint(2.0, 1.0, weight=1.0),
            LossPoint(1.0, 2.0),
            LossPoint(0.1, 2.4),
        ]
        series = LossSeries.of(points)
        assert (series.k.tolist(), series.loss.tolist()) == ([1.0, 2.0], [3.5, 1.0])

    @given(
        st.lists(
            st.tuples(st.floats(0.01, 9), st.floats(0.0, 6.0), st.floats(1, 50)),
            min_size=1,
            max_size=40,
        )
    )
    def test_the_means_equal_a_plain_computation(
        self, found: list[tuple[float, float, float]]
    ) -> None:
        points = [LossPoint(loss, epoch, weight=weight) for loss, epoch, weight in found]
        groups = [(index, list(group)) for index, group in groupby(points, key=epoch_index)]
        last = found[-1][1]
        if len(groups) > 1 and not last > np.ceil(last) - 0.1:
            groups.pop()
        series = LossSeries.of(points)
        assert series.k.tolist() == [(index or 0) + 1.0 for index, _ in groups]
        assert series.loss == pytest.approx(
            np.array(
                [
                    sum(p.loss * p.weight for p in each) / sum(p.weight for p in each)
                    for _, each in groups
                ]
            )
        )

    def test_the_first_epoch_is_not_complete_while_it_runs(self) -> None:
        assert LossSeries.of([LossPoint(1.0, 0.3), LossPoint(1.0, 0.6)]).complete_loss.size == 0

    def test_points_without_epochs_are_taken_at_their_steps(self) -> None:
        series = LossSeries.of([LossPoint(1.0, step=10), LossPoint(0.5, step=30)])
        assert (series.k.tolist(), series.in_epochs, series.spacing) == ([10.0, 30.0], False, 20.0)

    def test_points_without_either_are_taken_in_their_order(self) -> None:
        assert LossSeries.of([LossPoint(1.0), LossPoint(0.5)]).k.tolist() == [1.0, 2.0]

    def test_a_loss_that_was_printed_as_0_is_half_of_the_smallest_other(self) -> None:
        series = LossSeries.of(epochs(np.array([1.0, 0.5, 0.0, 0.25, 0.0, 0.0])))
        assert np.exp(series.log_loss) == pytest.approx([1.0, 0.5, 0.125, 0.25, 0.125, 0.125])
        assert isinstance(LossCurve.fit(epochs(series.loss)), LossCurve)

    def test_what_goes_back_is_left_out(self) -> None:
        series = LossSeries.of([LossPoint(float(n), step=n) for n in (10, 30, 20, 30, 40)])
        assert series.rising.k.tolist() == [10.0, 30.0, 40.0]


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "the loss is known at 0 points, 5 needed"),
        (epochs(np.ones(1)), "the loss is known at 1 complete epoch, 5 needed"),
        (epochs(np.ones(3)), "the loss is known at 3 complete epochs, 5 needed"),
        (epochs(np.array([1, 0.5, 0.2, -0.1, -0.4])), "the loss is not positive"),
        (epochs(np.zeros(6)), "the loss is not positive"),
    ],
)
def test_what_cannot_be_fitted_says_why(points: list[LossPoint], reason: str) -> None:
    refusal = LossCurve.fit(points)
    assert isinstance(refusal, NotReady)
    assert reason in refusal.reason
