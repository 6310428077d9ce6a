"""Charts of one job: its losses with the fitted curve, and its speed over counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimus.errors import NotReady
from optimus.jobs import (
    AmountGoal,
    ConvergenceThreshold,
    Counts,
    Goal,
    Job,
    LossGoal,
    TargetLoss,
    TargetMetric,
    goal_text,
)
from optimus.models.convergence import LearningRateSchedule, LossCurve, LossSeries, TimeToGoal
from optimus.models.forecast import Forecast, amount, losses_with_epochs, schedule_of
from optimus.models.metric_goal import MetricAsLoss, as_losses
from optimus.models.speed.model import SpeedModel, needed_counts, why_not_ready
from optimus.progress.types import LossPoint, TrainingProgress

_MOST_POINTS: Final = 400
_CURVE_POINTS: Final = 160
_LONGEST_AHEAD: Final = 6.0
"""The curve is drawn up to so many times the training so far, and further to where it meets the
goal or is expected to, up to ``_GOAL_AHEAD`` times."""

_GOAL_AHEAD: Final = 20.0

_MOST_REPLICAS: Final = 16
_LEAST_REPLICAS: Final = 6

Vector = NDArray[np.float64]


class CurveChart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One quantity over epochs or steps, with its fit; all values as the log prints them."""

    name: str
    unit: str
    goal_text: str
    k: list[float]
    value: list[float]
    fit_k: list[float] = []
    fit: list[float] = []
    low: list[float] = []
    """80 % of the values lie between ``low`` and ``high``, at ``fit_k``."""

    high: list[float] = []
    goal: float | None = None
    done: float = 0.0
    """How far the training has come; beyond it the fit is a forecast."""

    goal_k: float | None = None
    """Where the forecast reaches the goal; the goal may be expected later, since a run may end
    short of it."""

    met: tuple[float, float, float] | None = None
    """When the goal is expected to be met: 10, 50 and 90 %."""

    drops: list[float] = []
    """When a declared schedule lowers the learning rate."""

    end: float | None = None
    """The declared end."""

    reason: str = ""
    """Why there is no curve, or no time to the goal."""


class SpeedPoint(msgspec.Struct, frozen=True, rename="camel"):
    """One measurement."""

    ps: int
    workers: int
    steps_per_second: float
    seconds: float
    at: float
    node_kind: str


class SpeedChart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Speed over counts: a row for each number of PSs from 1, a column for each of workers."""

    samples: list[SpeedPoint]
    unit: str
    speed: list[list[float | None]] = []
    remaining: list[list[float | None]] = []
    """Seconds to the goal; ``None`` where it is out of bounds or has none."""

    ps: int = 0
    workers: int = 0
    expected: bool = False
    """Whether it is the expectation of a young job and not a fit."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Quantity:
    """The quantity that a goal is about, as losses."""

    losses: tuple[LossPoint, ...]
    goal: LossGoal | None
    metric: MetricAsLoss | None = None

    def printed(self, losses: Sequence[float] | Vector) -> list[float]:
        """The values as the log prints them, to five digits."""
        values = (float(loss) for loss in losses)
        found = self.metric
        return [
            float(f"{value if found is None else found.printed(value):.5g}") for value in values
        ]


def curve_chart(
    goal: Goal | None,
    progress: TrainingProgress,
    known: Forecast | NotReady | None,
    *,
    ended: bool = False,
) -> CurveChart:
    """A chart of the quantity that the goal is about; of a job that has ended without what would
    have come."""
    forecast = known if isinstance(known, Forecast) else None
    found, name = _quantity(goal, progress), "loss"
    if isinstance(goal, TargetMetric):
        name = goal.name
    if not isinstance(found, NotReady) and found.metric is not None:
        name = found.metric.series.name
    if isinstance(found, NotReady) or not found.losses:
        why = str(found) if isinstance(found, NotReady) else "its log has shown no losses yet"
        reason, text = progress.diagnostic or why, goal_text(goal)
        return CurveChart(name=name, unit="epochs", goal_text=text, k=[], value=[], reason=reason)
    series, schedule = LossSeries.of(found.losses), schedule_of(progress.declared, found.losses)
    level = found.goal.loss if isinstance(found.goal, TargetLoss) else None
    k, value = _thinned(series.k, series.loss)
    curve = None if forecast is None else forecast.curve
    fitted = curve if isinstance(curve, LossCurve) else _fit(found, schedule)
    met = _time_to_goal(goal, found, fitted, forecast)
    done = max(float(series.k[-1]), 0.0)
    chart = CurveChart(
        name=name,
        unit=series.unit,
        goal_text=goal_text(goal),
        k=[round(each, 3) for each in k],
        value=found.printed(value),
        goal=None if level is None else found.printed([level])[0],
        done=done,
        met=None
        if isinstance(met, NotReady)
        else (round(met.low, 2), round(met.point, 2), round(met.high, 2)),
        reason=str(met) if isinstance(met, NotReady) else "",
    )
    if isinstance(fitted, NotReady):
        return chart
    end = done if ended else _drawn_until(chart, found.goal, fitted)
    return _with_curve(chart, found, fitted, series, end)


def _drawn_until(chart: CurveChart, goal: LossGoal | None, curve: LossCurve) -> float:
    end, declared = 1.15 * chart.done, curve.schedule
    if chart.met is not None:
        _, median, latest = chart.met
        near = max(_LONGEST_AHEAD * chart.done, min(1.15 * median, _GOAL_AHEAD * chart.done))
        end = max(end, min(1.05 * latest, near))
    if declared is not None:
        return max(end, float(declared.end))
    ahead = np.linspace(chart.done, _GOAL_AHEAD * chart.done, _CURVE_POINTS)
    return max(end, 1.05 * (_reached(ahead, curve.predict(ahead), goal, chart.done) or 0.0))


def _with_curve(
    chart: CurveChart, found: _Quantity, curve: LossCurve, series: LossSeries, end: float
) -> CurveChart:
    declared = curve.schedule
    k = np.linspace(max(curve.start, float(series.k[0])), end, _CURVE_POINTS)
    low, high = curve.band(k)
    band = found.printed(low), found.printed(high)
    rises = found.metric is not None and found.metric.bound is not None
    fit = curve.predict(k)
    return msgspec.structs.replace(
        chart,
        fit_k=[round(each, 3) for each in k.tolist()],
        fit=found.printed(fit),
        goal_k=_reached(k, fit, found.goal, chart.done),
        low=band[1] if rises else band[0],
        high=band[0] if rises else band[1],
        drops=[] if declared is None else [float(drop) for drop in declared.drops],
        end=None if declared is None else float(declared.end),
    )


def _reached(k: Vector, fit: Vector, goal: LossGoal | None, done: float) -> float | None:
    """Return where a curve reaches a goal from now on; ``None`` where it does not."""
    if not isinstance(goal, TargetLoss):
        return None
    below = np.flatnonzero((fit <= goal.loss) & (k >= done))
    at = int(below[0]) if len(below) else 0
    if at == 0 or fit[at - 1] <= goal.loss:
        return None
    part = (fit[at - 1] - goal.loss) / (fit[at - 1] - fit[at])
    return round(float(k[at - 1] + part * (k[at] - k[at - 1])), 3)


def _quantity(goal: Goal | None, progress: TrainingProgress) -> _Quantity | NotReady:
    if isinstance(goal, TargetMetric):
        found = as_losses(goal, progress.metrics)
        return found if isinstance(found, NotReady) else _Quantity(found.losses, found.goal, found)
    meant = goal if isinstance(goal, TargetLoss | ConvergenceThreshold) else None
    return _Quantity(losses_with_epochs(progress), meant)


def _fit(found: _Quantity, schedule: LearningRateSchedule | None) -> LossCurve | NotReady:
    if found.metric is not None and not found.metric.bounded:
        return NotReady(f"{found.metric.series.name} rises without a bound")
    return LossCurve.fit(found.losses, schedule)


def _time_to_goal(
    goal: Goal | None, found: _Quantity, curve: LossCurve | NotReady, forecast: Forecast | None
) -> TimeToGoal | NotReady:
    if forecast is not None and forecast.time_to_goal is not None:
        return NotReady(forecast.unlikely) if forecast.unlikely else forecast.time_to_goal
    if forecast is not None and forecast.goal_met:
        return NotReady("the goal is met")
    if isinstance(goal, AmountGoal):
        return TimeToGoal.at(amount(goal))
    if isinstance(curve, NotReady):
        return curve
    return NotReady("the job has no goal") if found.goal is None else curve.until(found.goal)


def _thinned(k: Vector, value: Vector) -> tuple[list[float], list[float]]:
    """Some hundred points at most: means of as many neighbours each."""
    parts = -(-len(k) // _MOST_POINTS)
    if parts <= 1:
        return k.tolist(), value.tolist()
    cuts = range(0, len(k), parts)
    ends = [float(k[min(at + parts, len(k)) - 1]) for at in cuts]
    return ends, [float(value[at : at + parts].mean()) for at in cuts]


def speed_chart(
    job: Job, progress: TrainingProgress, forecast: Forecast | NotReady | None
) -> SpeedChart:
    """The measured speeds, and the model's at all counts near them."""
    samples = [
        SpeedPoint(
            *sample.counts,
            float(f"{sample.steps_per_second:.4g}"),
            round(sample.seconds, 1),
            round(sample.at, 1),
            sample.node_kind,
        )
        for sample in progress.samples
    ]
    unit = progress.speed_unit
    if not isinstance(forecast, Forecast):
        return SpeedChart(
            samples=samples, unit=unit, reason="" if forecast is None else str(forecast)
        )
    speed, needed = forecast.speed, needed_counts(job.bounds)
    if not isinstance(speed, SpeedModel) or why_not_ready(speed.measured, needed):
        why = "the goal is met" if forecast.goal_met else "its speed is expected, not measured"
        return SpeedChart(samples=samples, unit=unit, reason=why, expected=not forecast.goal_met)
    widest = job.bounds.clamp(_widest(job.counts, progress))
    servers = range(min(1, widest.ps), widest.ps + 1)
    ps, workers = np.meshgrid(servers, np.arange(1, widest.workers + 1), indexing="ij")
    remaining = forecast.remaining_seconds(ps, workers)
    allowed = [
        [job.bounds.allow(Counts(p, w)) for w in range(1, widest.workers + 1)] for p in servers
    ]
    return SpeedChart(
        samples=samples,
        unit=unit,
        speed=_listed(speed.steps_per_second(ps, workers), None),
        remaining=_listed(remaining, allowed),
        ps=job.counts.ps,
        workers=job.counts.workers,
        expected=forecast.is_expected,
    )


def _widest(counts: Counts, progress: TrainingProgress) -> Counts:
    """Somewhat more than it has or was measured at."""
    measured = [counts, *(sample.counts for sample in progress.samples)]
    ps, workers = (max(each[role] for each in measured) for role in (0, 1))
    near = (min(max(each + 2, _LEAST_REPLICAS), _MOST_REPLICAS) for each in (ps, workers))
    return Counts(*near)


def _listed(
    values: NDArray[np.float64], allowed: list[list[bool]] | None
) -> list[list[float | None]]:
    return [
        [
            float(f"{each:.4g}")
            if np.isfinite(each) and (allowed is None or allowed[row][column])
            else None
            for column, each in enumerate(line)
        ]
        for row, line in enumerate(values.tolist())
    ]
