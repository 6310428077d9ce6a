"""The loss curve: every form of decay, noise, goals, invariances, the obvious slow version, real
curves."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Counts, LossGoal, Role, TargetLoss, TrainingMode
from optimus.models.convergence import LossCurve, LossSeries, TimeToGoal
from optimus.models.convergence.courses import PRODUCT, Courses
from optimus.models.convergence.curve import normal_hazard
from optimus.models.convergence.posterior import CENTRES, binned, make_decay_tables
from optimus.models.convergence.series import estimate_noise, sliding_noise, sudden_falls
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LossPoint
from tests.unit.models.losses import epochs
from tests.unit.progress.jobs import START, stamped
from tests.unit.properties import examples

CURVES = Path(__file__).parents[2] / "data" / "curves"


K = np.arange(1.0, 401)


COURSES = {
    "a hyperbola, the paper's form": 1 / (0.1 * K + 1) + 0.05,
    "a hyperbola without a floor": 2 / (0.05 * K + 1),
    "an exponential to a floor": 2 * np.exp(-K / 60) + 0.3,
    "an exponential without a floor": 3 * np.exp(-K / 50),
    "a slow power": 3 * K**-0.4,
    "a power with a floor": 2 * (1 + K / 5) ** -0.7 + 0.1,
    "a stretched exponential": 2 * np.exp(-((K / 40) ** 0.6)),
    "a straight line": 2 - K / 250,
}


def fitted(points: list[LossPoint]) -> LossCurve:
    curve = LossCurve.fit(points)
    assert isinstance(curve, LossCurve)
    return curve


def arrival(points: list[LossPoint], goal: LossGoal) -> TimeToGoal:
    found = fitted(points).until(goal)
    assert isinstance(found, TimeToGoal), found
    return found


class TestForms:
    @pytest.mark.parametrize("name", COURSES)
    @pytest.mark.parametrize(("seen", "asked"), [(40, 80), (100, 150), (150, 220)])
    def test_each_form_of_decay_is_predicted(self, name: str, seen: int, asked: int) -> None:
        course = COURSES[name]
        found = arrival(epochs(course[:seen]), TargetLoss(float(course[asked - 1])))
        assert found.low <= asked <= found.high
        assert found.point == pytest.approx(asked, rel=0.3)

    @pytest.mark.parametrize("name", COURSES)
    def test_the_fit_follows_what_was_seen(self, name: str) -> None:
        curve = fitted(epochs(COURSES[name][:120]))
        assert curve.predict(K[80:120]) == pytest.approx(COURSES[name][80:120], rel=0.02)

    @pytest.mark.parametrize("name", COURSES)
    def test_the_band_holds_the_course(self, name: str) -> None:
        low, high = fitted(epochs(COURSES[name][:120])).band(K[70:120])
        inside = (low <= COURSES[name][70:120]) & (COURSES[name][70:120] <= high)
        assert inside.mean() > 0.8


class TestNoise:
    def test_the_interval_is_calibrated(self) -> None:
        rng, held, widths = np.random.default_rng(5), [], []
        for course in COURSES.values():
            for noise in (0.01, 0.05):
                losses = course * np.exp(noise * rng.standard_normal(len(K)))
                lowest = np.minimum.accumulate(losses)
                for asked in (110, 150, 200):
                    truth = int(np.argmax(lowest <= lowest[asked - 1])) + 1
                    if truth > 75:
                        found = arrival(epochs(losses[:75]), TargetLoss(float(lowest[asked - 1])))
                        held.append(found.low <= truth <= found.high)
                        widths.append((found.high - found.low) / truth)
        assert len(held) > 40
        assert np.mean(held) >= 0.75
        assert np.mean(widths) < 1.0

    def test_noisy_means_pass_a_target_before_their_course_does(self) -> None:
        course, rng = COURSES["a slow power"], np.random.default_rng(1)
        target = TargetLoss(float(course[149]))
        calm = arrival(epochs(course[:80] * np.exp(1e-4 * rng.standard_normal(80))), target)
        noisy = np.median(
            [
                arrival(epochs(course[:80] * np.exp(0.06 * rng.standard_normal(80))), target).point
                for _ in range(15)
            ]
        )
        assert noisy < calm.point - 5

    def test_one_spike_hardly_moves_the_forecast(self) -> None:
        losses = COURSES["a hyperbola, the paper's form"][:60].copy()
        calm = arrival(epochs(losses), TargetLoss(0.12))
        losses[30] *= 1.5
        assert arrival(epochs(losses), TargetLoss(0.12)).point == pytest.approx(
            calm.point, rel=0.25
        )

    @pytest.mark.parametrize("count", [5, 8, 30, 200])
    @pytest.mark.parametrize("noise", [0.005, 0.05])
    def test_it_is_separated_from_the_course(self, count: int, noise: float) -> None:
        course = np.log(COURSES["an exponential to a floor"][:count])
        rng = np.random.default_rng(count)
        found = [estimate_noise(course + noise * rng.standard_normal(count)) for _ in range(60)]
        assert np.median(found) == pytest.approx(noise, rel=0.35)

    @pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
    def test_it_is_taken_for_a_drop_of_the_learning_rate_in_one_course_of_fifty_at_most(
        self, noise: float
    ) -> None:
        course, rng = COURSES["a power with a floor"][:40], np.random.default_rng(7)
        falls = [
            sudden_falls(np.log(course) + noise * rng.standard_normal(40)) for _ in range(4000)
        ]
        assert np.mean([bool(each) for each in falls]) <= 1 / 50

    def test_of_each_short_stretch_it_is_that_of_the_stretch_by_second_differences(self) -> None:
        log_loss = 0.03 * np.random.default_rng(0).standard_normal(30)
        second = [np.abs(np.diff(log_loss[n : n + 8], 2)) / np.sqrt(6) for n in range(23)]
        slow = [
            np.sqrt(((1.4826 * np.median(each)) ** 2 + np.mean(each**2)) / 2) for each in second
        ]
        assert sliding_noise(log_loss, 8) == pytest.approx(np.array(slow))


class TestInvariance:
    losses = COURSES["a power with a floor"][:50] * np.exp(
        0.02 * np.random.default_rng(3).standard_normal(50)
    )

    def test_the_unit_of_the_loss_does_not_matter(self) -> None:
        one = arrival(epochs(self.losses), TargetLoss(0.3))
        other = arrival(epochs(1000 * self.losses), TargetLoss(300.0))
        assert (one.low, one.point, one.high) == pytest.approx((other.low, other.point, other.high))

    def test_the_unit_of_the_steps_does_not_matter(self) -> None:
        by_one, by_many = (
            arrival(
                [LossPoint(float(y), step=n * each) for n, y in enumerate(self.losses, 1)],
                TargetLoss(0.3),
            )
            for each in (1, 250)
        )
        assert by_many.point == pytest.approx(250 * by_one.point)
        assert by_many.high == pytest.approx(250 * by_one.high)

    def test_thousands_of_points_are_as_good_as_their_means(self) -> None:
        rng, k = np.random.default_rng(4), np.arange(1, 5001)
        losses = (2 / (0.001 * k + 1) + 0.1) * np.exp(0.1 * rng.standard_normal(5000))
        found = arrival(
            [LossPoint(float(y), step=int(n)) for n, y in zip(k, losses, strict=True)],
            TargetLoss(0.3),
        )
        assert found.point == pytest.approx(9000, rel=0.25)


@given(
    st.lists(st.floats(0.0, 1e12), min_size=1, max_size=60),
    st.sampled_from(
        [TargetLoss(0.5), TargetLoss(-1.0), TargetLoss(0.0), ConvergenceThreshold(0.02)]
    ),
)
@example([4.0, 3.0, 2.0, 1.0, 5e-324], TargetLoss(0.5))
@settings(deadline=None)
def test_any_losses_give_an_arrival_or_a_reason(losses: list[float], goal: LossGoal) -> None:
    curve = LossCurve.fit(epochs(np.array(losses)))
    if isinstance(curve, NotReady):
        assert "needed" in curve.reason or max(losses) == 0
        return
    found = curve.time_to_goal(goal)
    assert len(losses) + 1 <= found.low <= found.point <= found.high < np.inf
    assert (np.diff(found.cdf) >= -1e-9).all()
    assert -1e-9 <= found.cdf[0] <= found.cdf[-1] <= 1 + 1e-9
    answer = curve.until(goal)
    assert isinstance(answer, TimeToGoal) or "not reachable at this rate" in answer.reason


@given(st.integers(0, 2**32), st.floats(0.3, 0.99), st.floats(0.3, 0.99))
@examples(50)
def test_a_lower_target_is_never_met_sooner(seed: int, one: float, other: float) -> None:
    assume(one != other)
    rng = np.random.default_rng(seed)
    losses = COURSES["a power with a floor"][:40] * np.exp(0.03 * rng.standard_normal(40))
    curve, lowest = LossCurve.fit(epochs(losses)), float(losses.min())
    assume(isinstance(curve, LossCurve))  # noise near the end may look like a drop of the rate
    assert isinstance(curve, LossCurve)
    far, near = (curve.time_to_goal(TargetLoss(part * lowest)) for part in sorted((one, other)))
    assert near.point <= far.point + 1e-6
    assert near.probability_by(100) >= far.probability_by(100) - 1e-9


class TestPosterior:
    def test_it_is_bayes_rule_over_every_law_one_by_one(self) -> None:
        """Oracle: each law fitted on its own, its likelihood computed from its residuals, window by
        window."""
        noise = 0.02 * np.random.default_rng(0).standard_normal(40)
        losses = np.log(COURSES["a power with a floor"][:40]) + noise
        past = binned((np.arange(40) + 0.5) / 40, losses)
        tables = make_decay_tables(PRODUCT.forms, PRODUCT.speeds, PRODUCT.floors)
        ahead, expected = np.array([50.0, 60.0]), np.zeros(2)
        for begin in (0.4, 0.7):
            inside = begin <= CENTRES
            likelihoods, courses = [], []
            for row, log_prior in enumerate(tables.log_prior):
                law = tables.decays[np.array([row])]
                residuals = past.log_loss[inside] - law.log_course(CENTRES[inside])[0]
                worth = max(0.15 * 40 * (1 - begin), 2.0)
                likelihoods.append(
                    np.exp(log_prior) * (np.var(residuals) + 0.003**2) ** (-worth / 2)
                )
                courses.append(np.mean(residuals) + law.log_course((ahead - 0.5) / 40)[0])
            expected += np.array(likelihoods) @ np.array(courses) / np.sum(likelihoods) / 2
        ours = Courses.fit(LossSeries.of(epochs(np.exp(losses))), 0.0)
        assert ours.weights @ ours.log_loss(ahead) == pytest.approx(expected, abs=0.02)

    def test_the_tables_are_of_the_present(self) -> None:
        decays = make_decay_tables(PRODUCT.forms, PRODUCT.speeds, PRODUCT.floors).decays
        assert decays.log_course(np.array([1.0])) == pytest.approx(0.0, abs=1e-12)


class TestGoals:
    def test_a_flat_loss_reaches_nothing(self) -> None:
        refusal = fitted(epochs(np.full(20, 0.7))).until(TargetLoss(0.3))
        assert isinstance(refusal, NotReady)
        assert refusal.reason.startswith("a loss of 0.3 is not reachable at this rate: ")

    def test_a_target_below_a_floor_that_shows_is_not_reachable(self) -> None:
        losses = 2 * np.exp(-K[:120] / 15) + 0.5
        assert isinstance(fitted(epochs(losses)).until(TargetLoss(0.2)), NotReady)

    def test_a_threshold_is_met_after_three_quiet_epochs(self) -> None:
        course = COURSES["a hyperbola, the paper's form"]
        falls = -np.diff(course) / course[0]
        truth = int(np.argmax(falls < 0.004)) + 1 + 3
        found = arrival(epochs(course[: truth // 2]), ConvergenceThreshold(0.004))
        assert found.low <= truth <= found.high
        assert found.point == pytest.approx(truth, rel=0.25)

    @pytest.mark.parametrize("at", [0, 3, 8])
    def test_a_spike_is_not_the_scale_of_a_threshold(self, at: int) -> None:
        course = COURSES["a hyperbola, the paper's form"][:14].copy()
        goal = ConvergenceThreshold(0.003)
        without = arrival(epochs(course), goal)
        course[at] = 500.0
        assert arrival(epochs(course), goal).point == pytest.approx(without.point, rel=0.2)

    def test_a_threshold_takes_three_epochs_at_least(self) -> None:
        losses = 0.7 + 1.3 * np.exp(-1.5 * np.arange(6.0))
        assert arrival(epochs(losses), ConvergenceThreshold(0.1)).low >= 9

    def test_a_threshold_needs_epochs(self) -> None:
        steps = [LossPoint(1.0 / n, step=100 * n) for n in range(1, 9)]
        refusal = fitted(steps).until(ConvergenceThreshold(0.01))
        assert isinstance(refusal, NotReady)
        assert "steps-per-epoch" in refusal.reason


class TestAfterADrop:
    """The paper: treat the training after the adjustment as a new job, and restart the fit."""

    @staticmethod
    def points(after: int) -> list[LossPoint]:
        before = [
            LossPoint(1 / (0.2 * k + 1) + 0.3, float(k), learning_rate=0.1) for k in range(1, 21)
        ]
        late = [1 / (0.5 * k + 6) + 0.1 for k in range(1, after + 1)]
        return before + [
            LossPoint(loss, 21.0 + n, learning_rate=0.01) for n, loss in enumerate(late)
        ]

    def test_the_fit_starts_again_there(self) -> None:
        curve = fitted(self.points(after=20))
        assert (curve.start, curve.seen, curve.points) == (20.0, 40.0, 20)
        assert curve.predict(20.0 + np.arange(10, 20)) == pytest.approx(
            1 / (0.5 * np.arange(10, 20) + 6) + 0.1, rel=0.02
        )

    def test_until_there_are_epochs_enough_nothing_is_forecast(self) -> None:
        refusal = LossCurve.fit(self.points(after=2))
        assert refusal == NotReady(
            "the loss is known at 2 complete epochs since the learning rate dropped, 5 needed"
        )


RECORDED = {
    "softmax_digits.log": 150,
    "mlp_noisy.log": 120,
    "mlp_digits_step.log": 150,
    "cnn_digits_step.log": 80,
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_curve_is_read_epoch_by_epoch(name: str) -> None:
    text = (CURVES / name).read_text().splitlines()
    log = ProgressLog(LogFormatOptions(mode=TrainingMode.SYNC))
    log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(text), "r")
    series = LossSeries.of(log.progress(START + 1e6).losses)
    truth = [float(line.rsplit("=", 1)[1]) for line in text if "Train-cross-entropy" in line]
    assert len(truth) == RECORDED[name]
    assert series.loss.tolist() == truth


def test_the_table_of_hazards_is_exact_to_a_few_parts_in_ten_thousand() -> None:
    sigmas = np.random.default_rng(1).uniform(-7.9, 7.0, (50, 40))
    exact = -log_ndtr(-sigmas)
    np.testing.assert_allclose(normal_hazard(sigmas, 1), exact, rtol=2e-4)


def test_two_epochs_in_a_row_meet_a_target_later_than_one() -> None:
    sigmas = np.linspace(-3.0, 3.0, 7)[np.newaxis]
    once, twice = (1 - np.exp(-normal_hazard(sigmas, n)) for n in (1, 2))
    np.testing.assert_allclose(twice, once**2 / (1 + once - once**2), rtol=2e-3)
    assert (twice < once).all()


def test_hazards_far_out_are_those_of_eight_standard_deviations() -> None:
    far = np.array([[-np.inf, -50.0, -8.0], [np.inf, 50.0, 8.0]])
    found = normal_hazard(far, 1)
    assert np.isfinite(found).all()
    assert (found == found[:, [2]]).all()
    assert found[0, 0] < 1e-15
    assert found[1, 0] > 20
