"""Weighs a move: by how much it is expected to lower the logarithm of the completion time.

A job that would be done after T more seconds at its present counts is done after c + r T at others:
c is the price of the rescale; T has the forecast's own distribution, and r the one that the speed
model gives for both counts.

Replicas beyond the user's own counts are *borrowed*: the next job that waits gets them back, which
costs a second restart. Jobs arrive as a Poisson process, those of one submission at once, and a
loan ends once they have used up what is free and what others return first. Their rate is told by
how many have arrived since the first of the last few.
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
from optimus.models import Vector
from optimus.models.forecast import Forecast
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress
from optimus.resources import Resources, total

_POINTS: Final = 12
_CHANCES: Final = (np.arange(_POINTS) + 0.5) / _POINTS
_QUANTILES: Final = np.array([NormalDist().inv_cdf(each) for each in _CHANCES])
"""Equally likely values of a standard normal variable."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Capacity that is lent until so many more jobs have arrived, at this rate."""

    arrivals: int = 1
    per_second: float = 0.0

    def quantiles(self) -> Vector:
        """Equally likely values of how long it lasts: until so many have arrived."""
        if not self.per_second:
            return np.array([math.inf])
        from scipy.special import gammaincinv  # late: a quarter of a second

        return np.asarray(gammaincinv(self.arrivals, _CHANCES) / self.per_second)

    @property
    def mean_seconds(self) -> float:
        """Return how long it lasts on average."""
        return self.arrivals / self.per_second if self.per_second else math.inf


FOR_EVER: Final = Loan()
"""Where no job arrives, or nothing is lent."""


def last_arrived(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The last few jobs, in the order of their arrival: a cluster's load changes within a day."""
    return tuple(sorted(jobs, key=lambda job: (job.created_at, job.uid))[-10:])


def loan_until_used(
    arrived: Sequence[Job], left: Resources, at: float, interval_seconds: float
) -> Loan:
    """Return how long what is lent lasts if submissions like the last ones go on: until they have
    used what is left."""
    if not arrived:
        return FOR_EVER
    gaps = (later.created_at - job.created_at for job, later in pairwise(arrived))
    # Jobs that follow one another as soon as this were submitted together.
    number = 1 + sum(gap > 5.0 for gap in gaps)
    # Where less is seen, as much as one arrival in each interval (Jeffreys' prior), by which
    # operators choose their length: a new cluster lends at once. The first arrival begins the time.
    prior_seconds = max(0.5 * interval_seconds, 60.0)
    seen_seconds = max(at - arrived[0].created_at, prior_seconds)
    asked = total(job.demand() for job in arrived)
    fits = min(max(left[name], 0) * number / amount for name, amount in asked.items() if amount)
    return Loan(int(fits + 1e-9) + 1, (number - 1 + 0.5) / seen_seconds)


def chance_of_saving(forecast: Forecast, now: Counts, then: Counts, price_seconds: float) -> float:
    """The probability that a job gains by a move that costs it so many seconds."""
    left, after = forecast.at(now), forecast.at(then)
    if not (math.isfinite(left) and math.isfinite(after)):
        return 1.0 if math.isfinite(after) else 0.0
    work, ratios = _work_left(forecast, now), _time_ratios(forecast, now, then)
    return float(np.mean(work[:, None] * (1 - ratios) > price_seconds))


def expected_gain(
    forecast: Forecast,
    now: Counts,
    then: Counts,
    price_seconds: float,
    age_seconds: float = 0.0,
    loan: Loan = FOR_EVER,
) -> float:
    """Return what a move is expected to save of the time that it replaces, by the logarithm of the
    job's completion time, its age included: .05 is 5 %.

    What is lent goes back when the loan ends, at the same price; the rest of the work is then done
    at the counts that the job has now. It is 0 where nothing is left or no end is in sight, and
    infinite where only the new counts have one."""
    left, after = forecast.at(now), forecast.at(then)
    if not math.isfinite(after) or left <= 0:
        return 0.0
    if not math.isfinite(left):
        return math.inf
    ratios = _time_ratios(forecast, now, then)
    return _gain(_work_left(forecast, now), ratios, price_seconds, age_seconds, loan)


def gain_at_ratio(
    forecast: Forecast,
    counts: Counts,
    log_ratio: tuple[float, float],
    price_seconds: float,
    age_seconds: float,
) -> float:
    """The same of a move for good whose effect is known otherwise; ``log_ratio`` is the mean and
    the standard deviation of the logarithm of the time there to the time here."""
    if not 0 < forecast.at(counts) < math.inf:
        return 0.0
    mean, spread = log_ratio
    ratios = np.exp(mean + spread * _QUANTILES)
    return _gain(_work_left(forecast, counts), ratios, price_seconds, age_seconds, FOR_EVER)


def _gain(work: Vector, ratios: Vector, price_seconds: float, age: float, loan: Loan) -> float:
    """By equally likely values of the work left and of the ratio of times, of shape ``(points,)``
    each."""
    stay, ratio = work[:, None, None], ratios[None, :, None]
    lasts = loan.quantiles()[None, None, :]
    replaced = np.minimum(stay, lasts / ratio)
    returns = stay > replaced
    move = price_seconds * (1 + returns) + replaced * ratio + stay - replaced
    age = max(age, 1.0)
    gain = np.mean(np.log((age + stay) / (age + move)))
    return float(gain * (age + stay.mean()) / replaced.mean())


def training_at_risk(history: JobHistory, progress: TrainingProgress, at: float) -> float:
    """Seconds of training that a stop of the job at the instant ``at`` would lose."""
    if history.saves_on_stop:
        return 0.0
    trained, saved_at = progress.trained_seconds, progress.checkpoint_at
    return trained if saved_at is None else min(max(at - saved_at, 0.0), trained)


def _work_left(forecast: Forecast, now: Counts) -> Vector:
    """Equally likely values of the seconds that are left at the present counts, ``(points,)``."""
    if forecast.time_to_goal is None and forecast.is_expected:
        # A wrong assumption of 20 epochs is mostly within this spread.
        return forecast.at(now) * np.exp(0.7 * _QUANTILES)
    return forecast.at(now) * forecast.work_factors(_CHANCES)


def _time_ratios(forecast: Forecast, now: Counts, then: Counts) -> Vector:
    """Equally likely values of the time at the new counts to that at the present, ``(points,)``."""
    spread = 0.0
    if isinstance(forecast.speed, SpeedModel):
        spread = float(forecast.speed.ratio_uncertainty(now, *then)[0])
    return forecast.at(then) / forecast.at(now) * np.exp(spread * _QUANTILES)
