"""What a move is worth: the probability that it saves more than it costs.

A move from counts a to b saves T (1 - r) - c seconds: T is the time that is left at a, r how much
of it is left at b, c the price of the rescale. T and r are taken as lognormal and independent: T by
the interval of the forecast, r by what the speed model says of its error at both counts.

What a job has beyond its own counts is lent: it goes back to jobs that arrive, at the price of a
second rescale, and saves only until then. Jobs arrive as a Poisson process, those of one submission
at once, and a loan ends once they have used up what is free and what others return first. The rate
has a gamma distribution, by how many have arrived since the first of the last few.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

import numpy as np

from optimus.allocation import JobHistory
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress
from optimus.resources import Resources, total

_NORMAL: Final = NormalDist()
_NORMAL_90: Final = _NORMAL.inv_cdf(0.9)
_POINTS: Final = 24
_QUANTILES: Final = tuple(_NORMAL.inv_cdf((n + 0.5) / _POINTS) for n in range(_POINTS))
"""Equally likely values of a standard normal variable."""

EXPECTED_SPREAD: Final = 0.7
"""Standard deviation of the logarithm of the work left where it is only assumed: what a wrong
assumption of 20 epochs is mostly within."""


_LAST_ARRIVALS: Final = 10
"""Arrivals by which the next ones are judged: the load of a cluster changes within a day."""

_TOGETHER_SECONDS: Final = 5.0
"""Jobs that follow one another as soon as this were submitted together."""

_PRIOR_ARRIVALS: Final = 0.5
"""Jeffreys' prior of a rate. The first arrival begins the time and is not counted."""

_PRIOR_INTERVALS: Final = 0.5
"""Intervals in which so many arrive where less time is seen: one in each, by which operators choose
their length. Without it a new cluster lends nothing until it has been quiet for a while."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Capacity that is lent until so many more jobs have arrived, at a rate that is told by how
    many were seen in how long."""

    arrivals: int = 1
    seen: float = _PRIOR_ARRIVALS
    seen_seconds: float = math.inf

    def chance_of_lasting(self, seconds: float) -> float:
        """The probability that it lasts so long: that of fewer arrivals, whose number is negative
        binomial."""
        from scipy.special import betainc  # late: see models/speed/curve.py

        chance_before = 1 / (1 + seconds / self.seen_seconds)
        return float(betainc(self.seen, self.arrivals, chance_before))

    @property
    def mean_seconds(self) -> float:
        """How long it lasts on average; infinite where too few were seen to tell."""
        return self.arrivals * self.seen_seconds / (self.seen - 1) if self.seen > 1 else math.inf


FOR_EVER: Final = Loan()
"""Where no job arrives, or nothing is lent."""


def last_arrived(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The last few jobs, in the order of their arrival."""
    return tuple(sorted(jobs, key=lambda job: (job.created_at, job.uid))[-_LAST_ARRIVALS:])


def loan_of(arrived: Sequence[Job], left: Resources, at: float, interval_seconds: float) -> Loan:
    """How long a loan lasts if submissions like the last ones take so much before it is
    returned."""
    if not arrived:
        return FOR_EVER
    gaps = (later.created_at - job.created_at for job, later in pairwise(arrived))
    submissions = 1 + sum(gap > _TOGETHER_SECONDS for gap in gaps)
    seen_seconds = max(at - arrived[0].created_at, _PRIOR_INTERVALS * interval_seconds)
    asked = total(job.demand() for job in arrived)
    fit = (left[name] * submissions // amount for name, amount in asked.items() if amount > 0)
    until = max(min(fit, default=0), 0) + 1
    return Loan(until, submissions - 1 + _PRIOR_ARRIVALS, seen_seconds)


def chance_of_saving(
    forecast: Forecast,
    now: Counts,
    then: Counts,
    price_seconds: float,
    loan: Loan = FOR_EVER,
) -> float:
    """The probability that a job gains by a move that costs it so many seconds, and as many again
    once it has to give back."""
    left, after = forecast.at(now), forecast.at(then)
    if not (math.isfinite(left) and math.isfinite(after)):
        return 1.0 if math.isfinite(after) else 0.0
    if left <= 0:
        return 0.0
    ratios = after / left * np.exp(_ratio_spread(forecast, now, then) * np.array(_QUANTILES))
    spread = max(_work_spread(forecast), 1e-6)
    price_seconds = max(price_seconds * (2 - loan.chance_of_lasting(after)), 1e-9)
    needed = (price_seconds / (1 - each) for each in ratios.tolist() if each < 1)
    chances = (
        (1 - _NORMAL.cdf(math.log(each / left) / spread)) * loan.chance_of_lasting(each)
        for each in needed
    )
    return sum(chances) / _POINTS


def training_at_risk(history: JobHistory, progress: TrainingProgress, at: float) -> float:
    """Seconds of training that a stop of the job at the instant ``at`` would lose."""
    if history.saves_on_stop:
        return 0.0
    trained, saved_at = progress.trained_seconds, progress.checkpoint_at
    return trained if saved_at is None else min(max(at - saved_at, 0.0), trained)


def _work_spread(forecast: Forecast) -> float:
    """Standard deviation of the logarithm of the work that is left."""
    if forecast.time_to_goal is None and forecast.is_expected:
        return EXPECTED_SPREAD
    return math.log(max(forecast.late_factor, 1.0)) / _NORMAL_90


def _ratio_spread(forecast: Forecast, now: Counts, then: Counts) -> float:
    """Standard deviation of the logarithm of the ratio of two speeds."""
    if not isinstance(forecast.speed, SpeedModel):
        return 0.0
    spread = forecast.speed.uncertainty(*np.array([now, then]).T)
    return float(np.hypot(*spread))
