"""Goals in a metric of the log that is not its training loss: which series is meant, as losses.

The convergence models know one quantity, a loss that falls. A metric that is to fall is taken as
it is printed. One that is to rise towards a bound B (1, or 100 where the log prints percent) is
taken as its error

    e = (B - value) / B        and the goal as        e <= (B - target) / B

which falls towards a floor as losses do. A metric that rises beyond 100 has no bound: whether its
goal is met is known, when it will be is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from optimus.errors import NotReady
from optimus.jobs import TargetLoss, TargetMetric
from optimus.models.convergence import meets
from optimus.progress.metric_names import core_words
from optimus.progress.types import LossPoint, MetricSeries

_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class MetricAsLoss:
    """One series of the log as losses, and the goal in their terms."""

    series: MetricSeries
    losses: tuple[LossPoint, ...]
    goal: TargetLoss
    bounded: bool
    """Whether the losses can be fitted."""
    bound: float | None = None
    """What the metric rises to, 1 or 100 in percent; ``None`` for one that falls."""

    @property
    def is_met(self) -> bool:
        """Whether two epochs in a row have met the goal (without epochs, the last 20 values)."""
        # By then a log that prints percent has printed a value beyond 1.
        return len(self.losses) >= 3 and meets(self.goal, self.losses)

    def printed(self, loss: float) -> float:
        """The value of the metric, as the log prints it, that is this loss."""
        return loss if self.bound is None else self.bound * (1 - loss)

    def explained(self, refusal: NotReady) -> NotReady:
        """A refusal of the convergence model, which speaks of a loss, in the metric's terms."""
        name = self.series.name
        as_loss = (
            name if self.bound is None else f"the error of {name}, 1 - value / {self.bound:g},"
        )
        return NotReady(f"{as_loss} is fitted as a loss: {refusal}")

    def __str__(self) -> str:
        """Name, origin, direction and scale, for people."""
        side = "of an evaluation" if self.series.evaluated else "of the training"
        if self.bound is None:
            return f"{self.series.name} ({side}, falls)"
        if not self.bounded:
            return f"{self.series.name} ({side}, rises without a bound)"
        scale = "in percent" if self.bound == _PERCENT else "as a part of 1"
        return f"{self.series.name} ({side}, rises, {scale})"


def series_of(goal: TargetMetric, metrics: Sequence[MetricSeries]) -> MetricSeries | NotReady:
    """The series that a goal means: its words are in the name, the fewest others, the most values.

    A goal that says neither means the evaluation's, where there is one."""
    wanted = set(core_words(goal.name))
    named = [each for each in metrics if each.points and wanted <= set(core_words(each.name))]
    if goal.evaluated is not None:
        named = [each for each in named if each.evaluated == goal.evaluated]
    if named:
        return min(named, key=lambda each: _distance(each, wanted))
    known = sorted({each.name for each in metrics if each.points})
    found = f"; it has {', '.join(known)}" if known else ""
    return NotReady(f"its log has shown no {goal.name} yet{found}")


def _distance(series: MetricSeries, wanted: set[str]) -> tuple[bool, int, int]:
    others = len(set(core_words(series.name)) - wanted)
    return not series.evaluated, others, -len(series.points)


def as_losses(goal: TargetMetric, metrics: Sequence[MetricSeries]) -> MetricAsLoss | NotReady:
    """The values that a goal is about, as losses; or that the log has none."""
    series = series_of(goal, metrics)
    if isinstance(series, NotReady):
        return series
    if not goal.at_least:
        return MetricAsLoss(series, series.points, TargetLoss(goal.value), bounded=True)
    largest = max(point.loss for point in series.points)
    siblings = (each for each in metrics if each.is_part)
    beyond = (point.loss > 1 for each in siblings for point in each.points)
    is_percent = largest > 1 or (series.is_part and any(beyond))
    bound = _PERCENT if is_percent else 1.0
    value = goal.value
    if value <= 1 < bound:
        value *= _PERCENT
    elif bound == 1 < value <= _PERCENT:
        # After so many, none of them beyond 1, they are taken for parts of 1.
        if len(series.points) < 5:
            return NotReady(
                f"whether {series.name} is in percent is not clear yet, as it has not passed 1: "
                f"aim at a part of 1, {goal.name}>={value / _PERCENT:g}, if it is not"
            )
        value /= _PERCENT
    losses = tuple(replace(point, loss=(bound - point.loss) / bound) for point in series.points)
    goal_loss = TargetLoss((bound - value) / bound)
    return MetricAsLoss(series, losses, goal_loss, max(largest, value) <= bound, bound)
