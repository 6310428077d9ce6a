"""The product's convergence model: a Bayesian average over courses, and when a goal is met by them.

Optimus, section 3.1, with its one form replaced by a family, weighted by the losses (module
``courses``). A run has a declared end, or none; only how the time of the goal follows from the
courses differs.

**With a declared end** users set goals that they expect their runs to meet, mostly late: before any
loss is seen the goal is met after k of n epochs with a density proportional to sqrt(k / n). By
Bayes' rule the losses turn it into

    p(k) ~ sqrt(k / n) sum over the courses of weight x T((log target + v - log y(k)) / s) / s

v is the scatter of the losses (the target is met by an epoch below the course), s^2 = v^2 + e^2,
and e the error of the course: a part of how far it has fallen since now. T is Student's density
with 4 degrees of freedom, as some courses are far off. After a drop the answer is half that, and
half that of the courses which are fitted to the losses since the drop alone, cut at the end.

**Without an end** each epoch ahead meets the goal with a probability by each course, and those
multiply up. The times that follow are blurred, since no course holds exactly, and moved away, since
from few epochs the goal seems to be near; then they are weighed by how long runs take
(``TotalPrior``): those of the workload, and where nothing is known of it, of the world. As far as
no course meets the goal, the answer is that prior alone.

A goal is met by its own rule: a target by the means of two epochs in a row, whole epochs alone.

Whoever sets a target expects the run to meet it: before any loss is seen, the odds are 29 to 1. By
Bayes' rule those of the courses to meet it while the run lasts multiply them. Without an end few
courses do, as the length of the run is not known: there the factor is 60."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss
from optimus.models import Matrix, Vector
from optimus.models.convergence.courses import PRODUCT, CourseFamily, Courses
from optimus.models.convergence.distribution import (
    USUAL_EPOCHS,
    TimeToGoal,
    TotalPrior,
    student,
    usual_steps,
)
from optimus.models.convergence.schedule import LearningRateSchedule
from optimus.models.convergence.series import (
    MEDIAN_OF,
    QUIET_EPOCHS,
    TARGET_EPOCHS,
    LossSeries,
    Segment,
    ThresholdRule,
    estimate_noise,
    pooled_noise,
    segment_since,
    since_last_drop,
)
from optimus.progress.types import LossPoint

NO_EPOCHS: Final = NotReady(
    "a convergence threshold needs epochs: set the annotation optimus.dl/steps-per-epoch"
)
_SOON: Final = 0.7
"""The least distance ahead of the first place, in epochs: the next epoch's mean comes at 1."""
_PLACES: Final = 80
_STUDENT_90: Final = 1.5332
"""The 90th percentile of Student's distribution with 4 degrees of freedom."""
_MEDIAN_NOISE: Final = float(np.sqrt(np.pi / 2))
"""The standard deviation of a median over that of a mean."""
_MAX_SIGMAS: Final = 8.0
_PER_SIGMA: Final = 256
"""Places of the table of hazards for each standard deviation."""
EXPECTED_ODDS: Final = 29.0
"""Of 30 targets, 29 are taken to be met: what is known of users, and not fitted to any run."""


@dataclass(frozen=True, slots=True)
class CurveConstants:
    """What a forecast rests on beside the losses: with a declared end the first three
    (``benchmarks.scheduled_runs --choose``), without one the others (``benchmarks.open_runs
    --choose``)."""

    fall_error: float = 0.3
    """e: standard deviation of the log of a loss, as a part of its predicted fall from now on."""
    lateness: float = 0.5
    """Before any loss is seen, the goal is met after k of n epochs with the density
    (k / n)^lateness."""
    by_chance: float = 0.02
    """The part of the probability that no course explains."""
    blur: float = 0.3
    """Standard deviation of the log of (true / predicted) time ahead."""
    slower: float = 4.0
    """Mean of that log where one loss is fitted; n losses make it n times smaller."""
    doubt: float = 0.05
    """The probability that no course holds, before any loss; it falls by e every 4 losses."""
    open_odds: float = 60.0
    """By which the odds of the courses to meet a target while the run lasts are multiplied."""


_CONSTANTS: Final = CurveConstants()
_AT_LAST_DROP: Final = 0.9
"""The probability that a run which meets a threshold does so as soon as its rule allows it after
the last drop, and that of meeting it at all, at least: no loss before the drop says more."""


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """A posterior over courses of a job's losses; k counts epochs, or steps where unknown."""

    courses: Courses
    noise: float
    """Standard deviation of the log of a loss about its course."""
    start_loss: float
    """The loss at the start; a convergence threshold is a fraction of it."""
    spacing: float
    """The k between two checks of the goal: an epoch, or the steps between two losses."""
    in_epochs: bool
    points: int
    """How many losses are fitted."""
    rule: ThresholdRule
    since_drop: "LossCurve | None" = None
    """Under a schedule: the same of the losses since the last drop alone, and without it."""
    constants: CurveConstants = _CONSTANTS

    @classmethod
    def fit(
        cls,
        points: Sequence[LossPoint],
        schedule: LearningRateSchedule | None = None,
        family: CourseFamily = PRODUCT,
    ) -> "LossCurve | NotReady":
        """Fit to losses in training order.

        Not ready with fewer than 5 points (or epochs); under a declared end, one complete epoch is
        enough. A schedule that the log contradicts, or that has ended, counts for nothing."""
        scheduled = None if schedule is None else cls.under(points, schedule, family)
        if isinstance(scheduled, LossCurve):
            return scheduled
        segment = since_last_drop(points)
        return segment if isinstance(segment, NotReady) else cls._of(segment, points)

    @classmethod
    def under(
        cls,
        points: Sequence[LossPoint],
        schedule: LearningRateSchedule,
        family: CourseFamily = PRODUCT,
    ) -> "LossCurve | NotReady":
        """Under a schedule. Not ready before the first epoch is complete (without epochs: 5 points
        are known), past the declared end, or where the log's learning rates are others."""
        whole = series = LossSeries.of(points)
        if len(series.complete_loss) < 8:
            series = LossSeries.of_parts(points)
        series = series.rising
        refusal = _refusal(points, series, schedule)
        if refusal is not None:
            return refusal
        start = min(float(series.k[0]) - series.spacing, 0.0)
        courses = Courses.fit(series, start, schedule, family)
        noise, spacing = series.noise_and_spacing
        since, dropped = None, schedule.last_drop(courses.seen)
        if dropped > 0 and family.since_drop and series.in_epochs:
            first = next(n for n, each in enumerate(points) if (each.epoch or 0.0) > dropped)
            segment = segment_since(points, whole, first)
            since = None if isinstance(segment, NotReady) else cls._of(segment, points)
        rule = ThresholdRule.of(points, whole)
        return cls(
            *(courses, noise, whole.start_loss, spacing, series.in_epochs, len(series.k), rule),
            since,
        )

    @classmethod
    def _of(cls, segment: Segment, points: Sequence[LossPoint]) -> "LossCurve":
        series, whole, first = segment
        start = float(series.k[0]) - series.spacing
        courses = Courses.fit(series, start if first else min(start, 0.0))
        noise, spacing = series.noise_and_spacing
        if first:
            noise = _with_noise_before(points[:first], len(series.k), noise)
        rule = ThresholdRule.of(points, whole)
        return cls(
            *(courses, noise, whole.start_loss, spacing, series.in_epochs, len(series.k), rule)
        )

    @property
    def seen(self) -> float:
        """The k up to which the losses are known."""
        return self.courses.seen

    @property
    def start(self) -> float:
        """The k from which the curve counts."""
        return self.courses.start

    @property
    def schedule(self) -> LearningRateSchedule | None:
        """The declared one, if the curve rests on it."""
        return self.courses.schedule

    def predict(self, k: ArrayLike) -> Vector:
        """The loss after k epochs (steps, where epochs are unknown): the posterior median."""
        return np.exp(self.courses.quantile(self.courses.log_loss(_places(k)), 0.5))

    def band(self, k: ArrayLike) -> tuple[Vector, Vector]:
        """The 80 % interval of an epoch's mean after k epochs, each (places,)."""
        courses = self.courses.log_loss(_places(k))
        low, middle, high = (self.courses.quantile(courses, part) for part in (0.1, 0.5, 0.9))
        error = _STUDENT_90 * self._error(middle)
        return np.exp(np.minimum(low, middle - error)), np.exp(np.maximum(high, middle + error))

    def until(self, goal: LossGoal, prior: TotalPrior | None = None) -> TimeToGoal | NotReady:
        """When the goal, not met yet, is met; not ready for a threshold without epochs, or where
        no end is declared and the goal is unlikely to be met at all.

        ``prior``: how long runs of its workload take, where that is known."""
        if isinstance(goal, ConvergenceThreshold) and not self.in_epochs:
            return NO_EPOCHS
        found = self.time_to_goal(goal, prior)
        if self.schedule is not None or not found.is_unlikely:
            return found
        what = (
            f"a loss of {goal.loss:g}"
            if isinstance(goal, TargetLoss)
            else f"a fall below {goal.fraction:g} an epoch"
        )
        end, unit = 10.0 * self.seen, "epochs" if self.in_epochs else "steps"
        probability, loss = found.probability_by(end), float(self.predict(end)[0])
        return NotReady(
            f"{what} is not reachable at this rate: it is met within {end:.4g} {unit} with a "
            f"probability of {probability:.0%}, the loss being near {loss:.4g}"
        )

    def time_to_goal(self, goal: LossGoal, prior: TotalPrior | None = None) -> TimeToGoal:
        """Return when the goal is met, however unlikely; a threshold needs epochs."""
        if self.schedule is None:
            return self._without_end(goal, prior)
        found = self._before_end(goal, prior, float(self.schedule.end))
        if self.since_drop is None or not isinstance(goal, TargetLoss):
            return found
        return found.mixed_with(self.since_drop.time_to_goal(goal, prior))

    def _before_end(self, goal: LossGoal, prior: TotalPrior | None, end: float) -> TimeToGoal:
        k, steps = self._ahead(end)
        if isinstance(goal, ConvergenceThreshold) and self._first_quiet < end:
            k = np.union1d(k, [self._first_quiet - 0.01, self._first_quiet])
            steps = _gaps(self.seen, k)
        courses = self.courses.log_loss(k)
        before = (k / end) ** self.constants.lateness * steps
        if prior is not None:
            before *= prior.density(k)
        if isinstance(goal, TargetLoss):
            found, cdf = self._of_target(goal.loss, courses)
            found *= before
            in_run = expected(float(cdf[-1]))
        else:
            met = self._of_threshold(goal.fraction, courses, k, steps)
            cdf = self.courses.weights @ met
            found = _gaps(0.0, cdf) * before / steps
            in_run = float(cdf[-1])
        total = float(found.sum())
        parts = found / total if total > 0 else np.zeros_like(found)
        if isinstance(goal, ConvergenceThreshold) and self._waits_for_drop_before(end):
            parts *= 1 - _AT_LAST_DROP
            parts[np.searchsorted(k, self._first_quiet)] += _AT_LAST_DROP
            in_run = max(in_run, 0.6)
        parts += self.constants.by_chance * before / before.sum()
        until = TimeToGoal.of(np.concatenate([[self.seen], k]), parts, in_run)
        earliest = min(self._next_check(goal), end)
        return replace(until, end=end, earliest=earliest, whole=self.in_epochs)

    def _ahead(self, end: float) -> tuple[Vector, Vector]:
        """Places from now to the declared end, closer at first, and how far each is from the one
        before it."""
        left = end - self.seen
        count = int(np.clip(left / self.spacing, 1, _PLACES))
        parts = (np.arange(1, count + 1) / count) ** (2 if count == _PLACES else 1)
        k = self.seen + left * parts
        return k, _gaps(self.seen, k)

    def _without_end(self, goal: LossGoal, prior: TotalPrior | None) -> TimeToGoal:
        constants = self.constants
        prior = prior or (USUAL_EPOCHS if self.in_epochs else usual_steps(self.seen))
        furthest = max(20.0 * self.seen, prior.furthest)
        step = math.log(furthest / (_SOON * self.spacing)) / (_PLACES - 1)
        ahead = _SOON * self.spacing * np.exp(step * np.arange(_PLACES))
        k = self.seen + ahead
        steps = _gaps(self.seen, k)
        courses = self.courses.log_loss(k)
        slower = 0.0
        if isinstance(goal, TargetLoss):
            slower = constants.slower / self.points
            met = 1 - np.exp(-np.cumsum(self._hazard_of(goal.loss, courses) * steps, axis=1))
        else:
            met = self._of_threshold(goal.fraction, courses, k, steps)
        cdf = self._blurred(step, slower, self.courses.weights @ met)
        usual = prior.density(k - steps / 2) * steps
        usual = usual / usual.sum()
        by_courses, in_run = _gaps(0.0, cdf), float(cdf[-1])
        if isinstance(goal, TargetLoss):
            doubt = constants.doubt * math.exp(-self.points / 4.0)
            lasting = float(by_courses @ (1 - np.cumsum(usual) + usual))
            in_run = expected(lasting + (1 - lasting) * doubt, constants.open_odds)
        found = by_courses * usual / steps
        total, by_prior = float(found.sum()), constants.by_chance + 1 - float(cdf[-1])
        parts = found / total if total > 0 else np.zeros_like(found)
        parts = max(1 - by_prior, 0.0) * parts + by_prior * usual
        earliest = self._next_check(goal)
        places = np.concatenate([[self.seen], np.maximum(k, earliest)])
        until = TimeToGoal.of(places, parts, in_run)
        over = until.cdf + (1 - in_run) * np.concatenate([[0.0], np.cumsum(usual)])
        return replace(until, earliest=earliest, whole=self.in_epochs, over=over)

    def _next_check(self, goal: LossGoal) -> float:
        """The first place at which the goal may be met."""
        if isinstance(goal, ConvergenceThreshold):
            return max(self._first_quiet, self.rule.stage_ends(goal.fraction))
        if not self.in_epochs:
            return self.seen + self.spacing
        means = self.rule.series.complete_loss
        begun = len(means) > 0 and means[-1] <= goal.loss
        return math.floor(self.seen) + (1 if begun else TARGET_EPOCHS)

    @property
    def _first_quiet(self) -> float:
        """The first epochs after now complete no streak that has not begun, and by the rule none
        counts before the last declared drop and the end of the warm-up."""
        declared = self.schedule
        waits = () if declared is None else (declared.warmup, *declared.drops)
        return max(self.seen, *waits) + QUIET_EPOCHS if waits else self.seen + QUIET_EPOCHS

    def _waits_for_drop_before(self, end: float) -> bool:
        """Whether the last declared drop is still ahead, and a threshold may be met after it."""
        ahead = self.schedule is not None and max((0.0, *self.schedule.drops)) > self.seen
        return ahead and self._first_quiet < end

    def _blurred(self, step: float, slower: float, cdf: Vector) -> Vector:
        """The distribution with a normal error added to the log of the time ahead, in which
        its places are so far apart."""
        blur = self.constants.blur
        reach = math.ceil((3 * blur + abs(slower)) / step)
        kernel = np.exp(-(((np.arange(-reach, reach + 1) * step - slower) / blur) ** 2) / 2)
        padded = np.concatenate([np.full(reach, cdf[0]), cdf, np.full(reach, cdf[-1])])
        return np.convolve(padded, kernel / kernel.sum(), "valid")

    def _of_target(self, loss: float, courses: Matrix) -> tuple[Vector, Vector]:
        """Likelihood of a target at each place, and the probability of having met it by then."""
        target = math.log(loss) if loss > 0 else -math.inf
        error = self._error(courses)
        # A loss of 0 or less lies far below every course.
        sigmas = (target - courses) / error if loss > 0 else np.full_like(courses, -1e6)
        at_most, density = student(sigmas)
        density /= error
        met = np.maximum.accumulate(at_most, axis=1)
        return self.courses.weights @ density, np.asarray(self.courses.weights @ met, np.float64)

    def _error(self, courses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviations of the logs of losses about courses, of the same shape."""
        fallen = self.constants.fall_error * (courses - self.courses.level)
        return np.asarray(np.sqrt(self.noise**2 + 0.01**2 + fallen**2), dtype=np.float64)

    def _hazard_of(self, loss: float, courses: Matrix) -> Matrix:
        """The hazard for each k that the rule of a target finds it met, (courses, places)."""
        each, in_row = (1, TARGET_EPOCHS) if self.in_epochs else (MEDIAN_OF, 1)
        noise = self.noise if self.in_epochs else self.noise * _MEDIAN_NOISE / np.sqrt(MEDIAN_OF)
        sigmas = ((np.log(loss) if loss > 0 else -np.inf) - courses) / noise
        return normal_hazard(sigmas, in_row) / (self.spacing * each)

    def _of_threshold(self, fraction: float, courses: Matrix, k: Vector, steps: Vector) -> Matrix:
        """The probability of each course of having met a threshold by each place."""
        level = np.full((len(courses), 1), self.courses.level)
        former = np.concatenate([level, courses[:, :-1]], axis=1)
        falls = np.maximum(former - courses, 0.0) / steps
        rates = quiet_streak((fraction * self.start_loss / np.exp(courses) - falls) / self.noise)
        losses = np.exp(courses)
        may_hold = self.rule.may_hold(fraction, k, losses, falls * losses)
        waiting = np.where((k >= self._first_quiet) & may_hold, rates * steps, 0.0)
        return np.asarray(1 - np.exp(-np.cumsum(waiting, axis=1)), dtype=np.float64)


def expected(probability: float, factor: float = EXPECTED_ODDS) -> float:
    """The probability that a target is met, of a user who expects that."""
    odds = factor * probability
    return odds / (odds + max(1.0 - probability, 0.0)) if odds > 0 else 0.0


def _refusal(
    points: Sequence[LossPoint], series: LossSeries, schedule: LearningRateSchedule
) -> NotReady | None:
    if not series.in_epochs or not len(series.complete_loss) or not (series.loss > 0).all():
        refusal = series.refusal(since_drop=False)
        if refusal is not None:
            return refusal
    if series.k[-1] >= schedule.end:
        return NotReady(f"the run has passed its declared end of {schedule.end:g} {series.unit}")
    known = [point for point in points if point.learning_rate is not None]
    k = [(point.epoch if series.in_epochs else point.step) or 0.0 for point in known]
    rates = [point.learning_rate or 0.0 for point in known]
    if not known or schedule.agrees(np.array(k, np.float64), np.array(rates)):
        return None
    return NotReady("the learning rates in the log are not those that are declared")


def quiet_streak(margin: Matrix) -> Matrix:
    """The probability per epoch that the third quiet epoch in a row is reached, given by how many
    standard deviations of a loss an epoch falls short of the threshold."""
    return np.asarray(-np.expm1(-normal_hazard(margin / np.sqrt(2), QUIET_EPOCHS)))


def _rate_of_streak(each: NDArray[np.float64], in_row: int) -> NDArray[np.float64]:
    """The probability per epoch that so many in a row are reached, where each is one with that
    probability. The mean wait for n successes is the sum of p^-1 to p^-n; all but one are no wait,
    as they may lie behind."""
    p = np.maximum(each, 1e-30)
    wait = np.add.reduce([p**-n for n in range(1, in_row + 1)]) - (in_row - 1)
    return np.asarray(1 / wait, dtype=np.float64)


def _gaps(before: float, places: Vector) -> Vector:
    """Return how far each place is from the one before it. ``np.diff`` takes four times as long."""
    gaps = np.empty_like(places)
    gaps[0] = places[0] - before
    np.subtract(places[1:], places[:-1], out=gaps[1:])
    return gaps


def normal_hazard(sigmas: Matrix, in_row: int) -> Matrix:
    """The hazard -log(1 - P) where P is the probability per check that so many in a row are below
    these ``sigmas`` of a standard normal distribution.

    Interpolated in a table, with a relative error below 2e-4: to evaluate the distribution and the
    logarithm at each place took a quarter of a job's forecast."""
    hazards, rises = _normal_hazards(in_row)
    at = sigmas * _PER_SIGMA
    np.clip(at, -_MAX_SIGMAS * _PER_SIGMA, _MAX_SIGMAS * _PER_SIGMA, out=at)
    at += _MAX_SIGMAS * _PER_SIGMA
    index = at.astype(np.int32)
    at -= index
    at *= rises.take(index)
    at += hazards.take(index)
    return at


@cache
def _normal_hazards(in_row: int) -> tuple[Vector, Vector]:
    """The hazards from -8 to 8 standard deviations, and the rise from each to the next."""
    sigmas = np.linspace(-_MAX_SIGMAS, _MAX_SIGMAS, round(2 * _MAX_SIGMAS * _PER_SIGMA) + 1)
    below = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in sigmas.tolist()])
    hazards = -np.log1p(-np.minimum(_rate_of_streak(below, in_row), 1 - 1e-12))
    return hazards, np.diff(hazards, append=hazards[-1])


def _places(k: ArrayLike) -> Vector:
    return np.atleast_1d(np.asarray(k, dtype=np.float64))


def _with_noise_before(before: Sequence[LossPoint], points: int, noise: float) -> float:
    """The noise of so many points after a drop, pooled with that of the epochs before it."""
    former = segment_since(before, None, 0)
    if isinstance(former, NotReady) or not former.series.in_epochs:
        return noise
    return pooled_noise(noise, points, estimate_noise(former.series.log_loss[-20:]))
