"""What a move is worth: the probability that it saves more than it costs.

A move from counts a to b saves T (1 - r) - c seconds: T is the time that is left at a, r how much
of it is left at b, c the price of the rescale. T and r are taken as lognormal and independent: T by
the interval of the forecast, r by what the speed model says of its error at both counts.
"""

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from optimus.allocation import JobHistory
from optimus.jobs import Counts
from optimus.models.forecast import Forecast
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress

_NORMAL: Final = NormalDist()
_NORMAL_90: Final = _NORMAL.inv_cdf(0.9)
_POINTS: Final = 24
_QUANTILES: Final = tuple(_NORMAL.inv_cdf((n + 0.5) / _POINTS) for n in range(_POINTS))
"""Equally likely values of a standard normal variable."""

EXPECTED_SPREAD: Final = 0.7
"""Standard deviation of the logarithm of the work left where it is only assumed: what a wrong
assumption of 20 epochs is mostly within."""


def chance_of_saving(forecast: Forecast, now: Counts, then: Counts, price_seconds: float) -> float:
    """The probability that a job gains by a move that costs it so many seconds."""
    left, after = forecast.at(now), forecast.at(then)
    if not (math.isfinite(left) and math.isfinite(after)):
        return 1.0 if math.isfinite(after) else 0.0
    if left <= 0:
        return 0.0
    ratios = after / left * np.exp(_ratio_spread(forecast, now, then) * np.array(_QUANTILES))
    spread = max(_work_spread(forecast), 1e-6)
    parts = [1 - each for each in ratios.tolist()]
    chances = (
        1 - _NORMAL.cdf(math.log(max(price_seconds, 1e-9) / (left * part)) / spread)
        for part in parts
        if part > 0
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
