"""Whether goals are met as often as forecasts say.

The goals are losses that the published runs reach (those of ``benchmarks.scheduled_runs`` with
targets everywhere), and parts of the least loss of each run, which it does not reach."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.scheduled_runs import CHOSEN_TARGETS, Run
from optimus.jobs import TargetLoss
from optimus.models.convergence import LossCurve, TimeToGoal
from optimus.models.convergence.curve import EXPECTED_ODDS

BELOW = (0.97, 0.9, 0.75, 0.5)
"""Of the least loss of a run: goals that it does not meet."""
BINS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
SHARES = (0.5, 0.8, 0.9, 0.95, 29 / 30)
ODDS = (0.5, 1.0, 2.0, 4.0, 9.0, 14.0, 19.0, 29.0, 49.0, 99.0)
_LEAST = 1e-4


class Answer(NamedTuple):
    """One forecast, and after how many epochs its goal was met; ``None``: never."""

    family: str
    found: TimeToGoal
    true: int | None

    @property
    def by_courses(self) -> float:
        """The probability of meeting the goal without the odds of a target."""
        odds = self.found.in_run / (EXPECTED_ODDS * max(1 - self.found.in_run, 1e-12))
        return odds / (1 + odds)


def answers(run: Run) -> Iterator[Answer]:
    """Forecasts from 30 and 50 % of a run and after its drops."""
    asked = [each for each in run.questions(CHOSEN_TARGETS) if each.seen > 0.25 * len(run.points)]
    least = min(point.loss for point in run.points)
    for seen in dict.fromkeys(each.seen for each in asked):
        curve = LossCurve.under(run.points[:seen], run.schedule)
        if not isinstance(curve, LossCurve):
            raise TypeError(f"{run.family}: {curve}")
        for each in asked:
            if each.seen == seen:
                yield Answer(run.family, curve.time_to_goal(each.goal), each.true)
        for part in BELOW if least > 0 else ():
            yield Answer(run.family, curve.time_to_goal(TargetLoss(part * least)), None)


class Calibration:
    """Probabilities of goals being met by the courses alone, and whether they were."""

    def __init__(self, found: Sequence[Answer]) -> None:
        self.said = np.clip([each.by_courses for each in found], _LEAST, 1 - _LEAST)
        self.met = np.array([each.true is not None for each in found])
        self.families = np.array([each.family for each in found])

    def weights(self, share: float) -> np.ndarray:
        """Of each goal, where that share of the weight is of goals that are met."""
        of_met, of_others = share / self.met.sum(), (1 - share) / (~self.met).sum()
        return np.asarray(np.where(self.met, of_met, of_others), dtype=np.float64)

    def reliability(self, least: float, most: float) -> tuple[int, float, float]:
        """Of goals whose probability is within: their number, how likely they were said to be, and
        how often they were met."""
        of_bin, weights = (self.said >= least) & (self.said <= most), self.weights(0.5)
        said, met = (
            float(np.average(each[of_bin], weights=weights[of_bin]))
            for each in (self.said, self.met)
        )
        return int(of_bin.sum()), round(said, 3), round(met, 3)

    def log_loss(self, odds: float, share: float, without: str = "") -> float:
        """The mean under these odds of a target, where that share of goals is met."""
        likely = odds * self.said / (odds * self.said + 1 - self.said)
        losses = -np.log(np.where(self.met, likely, 1 - likely))
        kept = self.families != without
        return float(np.average(losses[kept], weights=self.weights(share)[kept]))

    def best_odds(self, share: float, without: str = "") -> float:
        """Those of the least log loss, on all families or on all but one."""
        return min(ODDS, key=lambda odds: self.log_loss(odds, share, without))
