"""Median, interval, probability and deadline come from one distribution; a forecast of a threshold
follows the rule by which it is met."""

import math
from dataclasses import replace

import numpy as np
import pytest

from optimus.allocation.deadline import Deadline, outlook
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Counts, LossGoal, TargetLoss
from optimus.models.convergence import (
    LearningRateSchedule,
    LossCurve,
    TimeToGoal,
    TotalPrior,
)
from optimus.models.forecast import Forecast, NoWorkLeft, goal_is_met
from optimus.models.goals import has_converged
from optimus.progress.types import LossPoint, TrainingProgress
from optimus.resources import Resources
from tests.unit.progress.jobs import job

END = 400.0
LOSSES = 0.2 + 1.8 / (1 + np.arange(1.0, 121.0) / 15)
TARGETS = [round(0.05 * n, 2) for n in range(1, 12)]


def points(losses: np.ndarray, rate: float | None = None) -> tuple[LossPoint, ...]:
    return tuple(
        LossPoint(float(loss), float(n), learning_rate=rate) for n, loss in enumerate(losses, 1)
    )


def declared(goal: LossGoal, losses: np.ndarray = LOSSES, end: float = END) -> TimeToGoal:
    curve = LossCurve.fit(points(losses), LearningRateSchedule(end))
    assert isinstance(curve, LossCurve)
    return curve.time_to_goal(goal)


@pytest.mark.parametrize("target", TARGETS)
def test_no_figure_contradicts_another(target: float) -> None:
    for found in (
        declared(TargetLoss(target)),
        LossCurve.fit(points(LOSSES)).time_to_goal(TargetLoss(target)),  # type: ignore[union-attr]
    ):
        over = found if found.over is None else replace(found, cdf=found.over)
        for place, share in ((found.low, 0.1), (found.point, 0.5), (found.high, 0.9)):
            assert place == math.ceil(place)
            if place < found.k[-1]:
                assert over.probability_by(place) >= share - 1e-6
            if place > found.earliest:
                assert over.probability_by(place - 1) <= share + 1e-6
            assert found.probability_by(place) <= over.probability_by(place) + 1e-9
        assert found.is_unlikely == (found.probability_by(math.inf) < 0.5)


def test_a_goal_out_of_reach_ends_with_the_run() -> None:
    found = declared(TargetLoss(0.05))
    assert found.is_unlikely
    assert found.in_run < 0.4
    assert found.point == found.high == END


def forecast(found: TimeToGoal) -> Forecast:
    left = found.point - 120
    return Forecast(NoWorkLeft(), left, late_factor=(found.high - 120) / left, time_to_goal=found)


def test_no_deadline_is_met_by_an_unlikely_goal() -> None:
    unlikely, likely = (forecast(declared(TargetLoss(target))) for target in (0.05, 0.55))
    assert unlikely.at(Counts(1, 1)) == END - 120
    deadline, at = Deadline(seconds=1e6, held=Counts(1, 1)), job(finish_by=1e9)
    assert math.isinf(float(unlikely.late_seconds(1, 1)))
    assert not deadline.is_met(unlikely, Counts(1, 1))
    assert not outlook(at, unlikely, deadline, Counts(1, 1), Resources({"cpu": 64000})).possible
    assert deadline.is_met(likely, Counts(1, 1))
    assert (unlikely.unlikely, likely.unlikely) == (
        f"goal unlikely: {100 * declared(TargetLoss(0.05)).in_run:.0f} %",
        "",
    )


def test_earlier_runs_do_not_make_an_unlikely_goal_likely() -> None:
    own = declared(TargetLoss(0.05))
    curve = LossCurve.fit(points(LOSSES), LearningRateSchedule(END))
    assert isinstance(curve, LossCurve)
    found = curve.time_to_goal(TargetLoss(0.05), TotalPrior(math.log(300.0), 0.1))
    assert found.in_run == pytest.approx(own.in_run)
    assert found.point == END


def test_a_target_is_met_by_two_epochs_in_a_row() -> None:
    """The mean of the last epoch seen has met the first target, but not the second."""
    begun, not_begun = (
        LossCurve.fit(points(LOSSES)).time_to_goal(TargetLoss(target))  # type: ignore[union-attr]
        for target in (1.0001 * LOSSES[-1], 0.9999 * LOSSES[-1])
    )
    assert (begun.low, not_begun.low) == (121, 122)


def test_a_run_that_does_not_meet_its_goal_is_over_when_runs_are() -> None:
    curve = LossCurve.fit(points(LOSSES))
    assert isinstance(curve, LossCurve)
    found = curve.time_to_goal(TargetLoss(0.1))
    usual = TotalPrior(math.log(60.0), 0.9).after(120.0)
    assert found.in_run < 0.5
    assert found.probability_by(found.point) < 0.5 * found.in_run
    assert found.high == pytest.approx(usual.high, rel=0.3)


def test_a_floor_that_the_losses_show_makes_a_goal_below_it_unlikely() -> None:
    noise = np.exp(0.003 * np.random.default_rng(1).standard_normal(200))
    losses = (0.05 + 0.95 * np.exp(-np.arange(1.0, 201.0) / 30)) * noise
    early, late = (
        LossCurve.fit(points(losses[:seen])).time_to_goal(TargetLoss(0.01))  # type: ignore[union-attr]
        for seen in (40, 140)
    )
    assert early.in_run > 0.5
    assert late.in_run < 0.05


def test_only_the_lower_bound_of_a_wide_interval_says_something() -> None:
    near, far = TotalPrior(math.log(300.0), 0.1), TotalPrior(math.log(300.0), 1.5)
    assert not near.after(100.0).is_wide
    assert far.after(100.0).is_wide
    assert not far.after(100.0).within(400.0).is_wide


FLAT = np.array([2.303, 2.302, 2.3025, 2.3018, 2.3021, 2.3019])
DIVERGED = np.array([1.0, 0.8, 0.7, 0.72, 0.9, 1.3, 2.0, 2.9, 4.0])
STAGE = 0.9 + 2.3 * np.exp(-0.5 * np.arange(12.0))


@pytest.mark.parametrize("losses", [FLAT, DIVERGED], ids=["a flat start", "a loss that rises"])
def test_what_meets_no_threshold_is_predicted_to_meet_none(losses: np.ndarray) -> None:
    goal = ConvergenceThreshold(0.02)
    curve = LossCurve.fit(points(losses))
    assert isinstance(curve, LossCurve)
    assert isinstance(curve.until(goal), NotReady)
    assert declared(goal, losses, end=30).is_unlikely


def test_a_plateau_before_a_drop_of_the_rate_is_not_the_last() -> None:
    goal, seen = ConvergenceThreshold(0.02), points(STAGE, rate=0.1)
    curve = LossCurve.fit(seen)
    assert isinstance(curve, LossCurve)
    found = curve.time_to_goal(goal)
    longer = (*seen, *(LossPoint(0.9, float(n), learning_rate=0.1) for n in range(13, 60)))
    met = next(n for n in range(13, 60) if has_converged(goal, longer[:n]))
    assert found.low == met
    assert found.probability_by(met - 1) < 0.1


def test_a_goal_is_never_met_before_its_forecast_allows() -> None:
    """The forecast asks of the epochs ahead what the goal's own rule asks of those seen."""
    goal = ConvergenceThreshold(0.02)
    for slope in (0.05, 0.1, 0.3):
        losses = 0.5 + 1.5 * np.exp(-slope * np.arange(200.0))
        met = next(n for n in range(5, 200) if has_converged(goal, points(losses[:n])))
        curve = LossCurve.fit(points(losses[: met // 2]))
        assert isinstance(curve, LossCurve)
        found = curve.time_to_goal(goal)
        assert found.low <= met <= found.high
        progress = TrainingProgress(losses=points(losses[:met]), epoch=float(met))
        assert goal_is_met(goal, replace(progress, steps_per_epoch=10.0))
