"""The paper's loss curve, as published: known coefficients, outliers, goals, an oracle, a real
curve."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, TargetLoss
from optimus.models.convergence import TimeToGoal
from optimus.models.convergence.paper_curve import PublishedCurve, fit_hyperbola, without_outliers
from optimus.progress.types import LossPoint
from tests.unit.models.losses import epochs

CURVES = Path(__file__).parents[2] / "data" / "curves"
KNOWN = [
    (0.21, 1.07, 0.07),
    (0.5, 1.0, 0.0),
    (0.02, 1.0, 0.3),
    (3.0, 0.7, 0.01),
    (0.0004, 0.9, 0.2),
]


def hyperbola(b: tuple[float, float, float], k: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return scale * (1 / (b[0] * k + b[1]) + b[2])


def fitted(points: list[LossPoint]) -> PublishedCurve:
    curve = PublishedCurve.fit(points)
    assert isinstance(curve, PublishedCurve)
    return curve


@pytest.mark.parametrize("b", KNOWN)
@pytest.mark.parametrize("count", [5, 12, 200])
@pytest.mark.parametrize("stride", [1, 250])
def test_noise_free_curves_give_their_coefficients_back(
    b: tuple[float, float, float], count: int, stride: int
) -> None:
    k = np.arange(1.0, count + 1) * stride
    per_step = (b[0] / stride, b[1], b[2])
    found = fit_hyperbola(k, hyperbola(per_step, k))
    assert found == pytest.approx(per_step, rel=1e-6, abs=1e-6 / stride)


@pytest.mark.parametrize("b", KNOWN)
def test_losses_are_divided_by_the_largest_and_predicted_in_their_own_unit(
    b: tuple[float, float, float],
) -> None:
    k = np.arange(1.0, 31)
    losses = hyperbola(b, k, scale=7.0)
    curve = fitted(epochs(losses[:20]))
    assert curve.largest == pytest.approx(losses[0])
    assert curve.predict(k) == pytest.approx(losses, rel=1e-6)
    assert curve.error == pytest.approx(0.0, abs=1e-6)


def test_losses_of_a_training_that_diverged_overflow_nothing() -> None:
    k = np.arange(1.0, 31)
    losses = 1e300 * hyperbola(KNOWN[0], k) * np.exp(0.1 * np.sin(k))
    assert 0.001 < fitted(epochs(losses)).error / losses[0] < 0.2


@given(
    st.lists(st.floats(0.01, 5.0), min_size=5, max_size=30).map(
        lambda losses: sorted(losses, reverse=True)
    ),
    st.integers(0, 60),
)
@example([4.0, 0.015625, 0.015625, 0.015625, 0.015625], 0)
@settings(deadline=None)
def test_no_floor_of_the_grid_fits_better(losses: list[float], place: int) -> None:
    """Oracle: scipy's NNLS at any one b2 of the search, with the same weights, never leaves smaller
    residuals."""
    k, loss = np.arange(1.0, len(losses) + 1), np.array(losses) / max(losses)
    floor = np.linspace(0, loss.min() * (1 - 1e-9), 61)[place]
    above = loss - floor
    (b0, b1), _ = nnls(np.column_stack([k, np.ones_like(k)]) * above[:, None] ** 2, above)
    theirs = np.sum((hyperbola((b0, b1, floor), k) - loss) ** 2)
    ours = np.sum((hyperbola(fit_hyperbola(k, loss), k) - loss) ** 2)
    assert ours <= theirs * (1 + 1e-6) + 1e-9


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
@settings(deadline=None)
def test_any_losses_give_a_curve_or_a_reason(losses: list[float]) -> None:
    curve = PublishedCurve.fit(epochs(np.array(losses)))
    if isinstance(curve, NotReady):
        assert "needed" in curve.reason
        return
    assert min(curve.b0, curve.b1, curve.b2) >= 0
    for goal in (TargetLoss(0.5), ConvergenceThreshold(0.02)):
        k = curve.until(goal)
        assert isinstance(k, NotReady) or 0 <= k.point < np.inf


class TestOutliers:
    def test_a_spike_becomes_the_mean_of_its_neighbours(self) -> None:
        loss = np.array([1.0, 0.9, 5.0, 0.7, 0.6, 0.5])
        assert without_outliers(loss).tolist() == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])

    def test_a_dip_below_all_that_follow_becomes_the_mean_of_its_neighbours(self) -> None:
        loss = np.array([1.0, 0.9, 0.1, 0.7, 0.6, 0.5])
        assert without_outliers(loss)[2] == pytest.approx(0.8)

    def test_a_falling_curve_has_none(self) -> None:
        loss = hyperbola((0.2, 1.0, 0.1), np.arange(1.0, 50))
        assert without_outliers(loss).tolist() == loss.tolist()

    def test_a_spike_hardly_moves_the_fit(self) -> None:
        losses = hyperbola((0.21, 1.07, 0.07), np.arange(1.0, 31))
        spiked = losses.copy()
        spiked[12] *= 4
        assert fitted(epochs(spiked)).predict(100) == pytest.approx(
            fitted(epochs(losses)).predict(100), rel=0.02
        )


class TestRateDrops:
    """The paper: treat the training after the adjustment as a new job, and restart the fit."""

    @staticmethod
    def points(after: int, rates: tuple[float, float] = (0.1, 0.01)) -> list[LossPoint]:
        before = [
            LossPoint(1 / (0.2 * k + 1) + 0.3, float(k), learning_rate=rates[0])
            for k in range(1, 21)
        ]
        late = [1 / (0.5 * k + 6) + 0.1 for k in range(1, after + 1)]
        return before + [
            LossPoint(loss, 21.0 + n, learning_rate=rates[1]) for n, loss in enumerate(late)
        ]

    def test_the_fit_starts_again_there(self) -> None:
        curve = fitted(self.points(after=10))
        assert (curve.start, curve.points) == (20.0, 10)
        assert curve.predict(20.0 + np.arange(1, 60)) == pytest.approx(
            1 / (0.5 * np.arange(1, 60) + 6) + 0.1
        )
        k = curve.until(TargetLoss(0.15))
        assert isinstance(k, TimeToGoal)
        assert k.point == pytest.approx(20 + 28)

    def test_until_there_are_epochs_enough_nothing_is_forecast(self) -> None:
        refusal = PublishedCurve.fit(self.points(after=2))
        assert refusal == NotReady(
            "the loss is known at 2 complete epochs since the learning rate dropped, 5 needed"
        )

    @pytest.mark.parametrize("rates", [(0.1, 0.09), (0.01, 0.1)])
    def test_a_smooth_decay_and_a_warm_up_are_no_drops(self, rates: tuple[float, float]) -> None:
        assert fitted(self.points(after=6, rates=rates)).start == 0.0


class TestGoals:
    curve = PublishedCurve(
        b0=0.2, b1=1.0, b2=0.1, largest=2.0, seen=10.0, in_epochs=True, points=10, error=0.0
    )

    def test_a_target_is_met_where_the_curve_meets_it(self) -> None:
        k = self.curve.until(TargetLoss(0.5))
        assert isinstance(k, TimeToGoal)
        assert self.curve.predict(k.point) == pytest.approx(0.5)

    def test_a_target_below_the_floor_is_not_reachable(self) -> None:
        refusal = self.curve.until(TargetLoss(0.2))
        assert refusal == NotReady(
            "a loss of 0.2 is not reachable at this rate: the curve levels off near 0.2"
        )

    def test_a_target_far_beyond_what_was_seen_is_not_reachable_at_this_rate(self) -> None:
        refusal = self.curve.until(TargetLoss(0.2 + 1e-4))
        assert isinstance(refusal, NotReady)
        assert "not reachable at this rate" in refusal.reason

    def test_a_target_above_the_first_loss_is_met_at_once(self) -> None:
        k = self.curve.until(TargetLoss(50.0))
        assert isinstance(k, TimeToGoal)
        assert (k.low, k.point, k.high) == (0.0, 0.0, 0.0)

    def test_a_flat_curve_reaches_nothing(self) -> None:
        refusal = fitted(epochs(np.full(8, 0.7))).until(TargetLoss(0.5))
        assert refusal == NotReady(
            "a loss of 0.5 is not reachable at this rate: the curve levels off near 0.7"
        )

    def test_a_threshold_is_met_after_three_quiet_epochs(self) -> None:
        k = self.curve.until(ConvergenceThreshold(0.01))
        assert isinstance(k, TimeToGoal)
        normalised = self.curve.predict(k.point - np.array([3, 2])) / self.curve.largest
        assert normalised[0] - normalised[1] == pytest.approx(0.01)

    def test_a_threshold_needs_epochs(self) -> None:
        steps = [LossPoint(1.0 / n, step=100 * n) for n in range(1, 9)]
        refusal = fitted(steps).until(ConvergenceThreshold(0.01))
        assert isinstance(refusal, NotReady)
        assert "steps-per-epoch" in refusal.reason


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "the loss is known at 0 points, 5 needed"),
        (epochs(np.ones(3)), "the loss is known at 3 complete epochs, 5 needed"),
        (epochs(np.array([1, 0.5, 0.2, -0.1, -0.4])), "the loss is not positive"),
    ],
)
def test_what_cannot_be_fitted_says_why(points: list[LossPoint], reason: str) -> None:
    refusal = PublishedCurve.fit(points)
    assert isinstance(refusal, NotReady)
    assert reason in refusal.reason


def measured_epochs(name: str) -> np.ndarray:
    """The Train-cross-entropy lines of a recorded curve, read by hand."""
    lines = (CURVES / name).read_text().splitlines()
    return np.array(
        [float(line.rsplit("=", 1)[1]) for line in lines if "Train-cross-entropy" in line]
    )


def test_the_plain_curve_describes_a_real_one_at_a_constant_learning_rate() -> None:
    truth = measured_epochs("softmax_digits.log")
    curve = fitted(epochs(truth))
    assert float(np.mean(np.abs(curve.predict(np.arange(1.0, 151)) / truth - 1))) < 0.05
