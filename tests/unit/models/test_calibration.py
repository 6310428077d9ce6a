"""Whether goals of published runs are met as often as the forecasts say, and by when.

Goals are losses that a run reaches, and losses below all that it reaches. Half of the weight goes
to either: there the courses alone say how likely a goal is, without what users expect of targets.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.scheduled_runs import CHOSEN_TARGETS, Run, published_runs
from optimus.jobs import TargetLoss
from optimus.models.convergence import AnnealedCurve, TimeToGoal
from optimus.models.convergence.curve import EXPECTED_ODDS

BELOW = (0.97, 0.9, 0.75, 0.5)
"""Of the least loss of a run: goals that it does not meet."""


class Answer(NamedTuple):
    family: str
    found: TimeToGoal
    true: int | None

    @property
    def by_courses(self) -> float:
        """The probability of meeting the goal without the odds of a target."""
        odds = self.found.in_run / (1 - self.found.in_run + 1e-12) / EXPECTED_ODDS
        return odds / (1 + odds)


def answers(run: Run) -> Iterator[Answer]:
    asked = [each for each in run.questions(CHOSEN_TARGETS) if each.origin in ("0.3", "0.5")]
    least = min(point.loss for point in run.points)
    for seen in {each.seen for each in asked}:
        curve = AnnealedCurve.fit(run.points[:seen], run.schedule)
        assert isinstance(curve, AnnealedCurve)
        for each in asked:
            if each.seen == seen:
                yield Answer(run.family, curve.time_to_goal(each.goal), each.true)
        for part in BELOW if least > 0 else ():
            yield Answer(run.family, curve.time_to_goal(TargetLoss(part * least)), None)


@pytest.fixture(scope="module")
def found() -> list[Answer]:
    return [answer for run in published_runs() for answer in answers(run)]


@pytest.mark.parametrize(
    ("least", "most"), [(0.0, 0.1), (0.1, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 0.9), (0.9, 1.0)]
)
def test_goals_are_met_as_often_as_the_courses_say(
    found: list[Answer], least: float, most: float
) -> None:
    met = np.array([each.true is not None for each in found])
    weights = np.where(met, 0.5 / met.sum(), 0.5 / (~met).sum())
    said = np.array([each.by_courses for each in found])
    of_bin = (said >= least) & (said <= most)
    assert of_bin.sum() > 50
    often = np.average(met[of_bin], weights=weights[of_bin])
    assert often == pytest.approx(np.average(said[of_bin], weights=weights[of_bin]), abs=0.12)


def test_what_users_expect_is_worth_the_odds_that_it_is_given(found: list[Answer]) -> None:
    """Of goals of which 29 in 30 are met, no other odds say as well which ones are."""
    met = np.array([each.true is not None for each in found])
    share = EXPECTED_ODDS / (1 + EXPECTED_ODDS)
    weights = np.where(met, share / met.sum(), (1 - share) / (~met).sum())
    said = np.clip([each.by_courses for each in found], 1e-4, 1 - 1e-4)

    def loss(odds: float) -> float:
        of_met = odds * said / (odds * said + 1 - said)
        return float(-np.average(np.log(np.where(met, of_met, 1 - of_met)), weights=weights))

    assert loss(EXPECTED_ODDS) < min(loss(EXPECTED_ODDS / 3), loss(EXPECTED_ODDS * 3))


def test_deep_drops_are_expected(found: list[Answer]) -> None:
    """In three of the five cifar runs the loss falls to a tenth or less at a drop."""
    of_cifar = [each for each in found if each.family == "cifar" and each.true is not None]
    held = [each.found.low <= (each.true or 0) <= each.found.high for each in of_cifar]
    errors = [abs(each.found.point - (each.true or 0)) for each in of_cifar]
    ends = [each.found.end or 0.0 for each in of_cifar]
    assert np.mean(held) >= 0.75
    assert np.mean(np.divide(errors, ends)) < 0.125
    assert np.mean([each.found.is_unlikely for each in of_cifar]) < 0.1
