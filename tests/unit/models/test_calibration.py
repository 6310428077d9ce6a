"""Whether goals of published runs are met as often as the forecasts say, and by when."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.goal_calibration import BINS, SHARES, Answer, Calibration, answers
from benchmarks.scheduled_runs import published_runs


@pytest.fixture(scope="module")
def found() -> list[Answer]:
    return [answer for run in published_runs() for answer in answers(run)]


@pytest.mark.parametrize(("least", "most"), list(pairwise(BINS)))
def test_goals_are_met_as_often_as_the_courses_say(
    found: list[Answer], least: float, most: float
) -> None:
    goals, said, met = Calibration(found).reliability(least, most)
    assert goals > 100
    assert met == pytest.approx(said, abs=0.1)


@pytest.mark.parametrize("share", SHARES)
def test_the_odds_of_a_target_are_the_share_of_targets_that_are_met(
    found: list[Answer], share: float
) -> None:
    """They need not be fitted, whichever family of runs is left out."""
    calibration, odds = Calibration(found), share / (1 - share)
    for without in ("", *{each.family for each in found}):
        assert odds / 2 <= calibration.best_odds(share, without) + 1e-9 <= 2 * odds


def test_deep_drops_are_expected(found: list[Answer]) -> None:
    """In three of the five cifar runs the loss falls to a tenth or less at a drop."""
    of_cifar = [each for each in found if each.family == "cifar" and each.true is not None]
    held = [each.found.low <= (each.true or 0) <= each.found.high for each in of_cifar]
    errors = [abs(each.found.point - (each.true or 0)) for each in of_cifar]
    ends = [each.found.end or 0.0 for each in of_cifar]
    assert np.mean(held) >= 0.7
    assert np.mean(np.divide(errors, ends)) < 0.12
    assert np.mean([each.found.is_unlikely for each in of_cifar]) < 0.1
