"""The convergence model of a run whose end and whose schedule of the learning rate are known.

    y(k) = Y ((1 - b) d(k) + b r(k)^p)

Y is the loss now, d one of the decays of module ``posterior`` (d = 1 now), r the learning rate as a
multiple of the present one. The second term is the part of the loss that goes away with the
learning rate: the noise of the steps. A cosine or a line ends it gradually. It follows a drop fast
at first and then ever more slowly (``LearningRateSchedule.followed_rate``): in published runs half
of the fall over 20 epochs comes in the first two, and it goes on. b and p are averaged over, as
the decays are: for each pair the second term is taken off the losses, and what is left is fitted by
decays. Losses that fell with the rate so far are evidence for a large b, others for a small one.
No loss before a drop says how deep it is: with a probability of one fifth, each course falls at the
drops ahead by a further power of the rate.

The time to the goal rests on the declared end. Users set goals that they expect their runs to meet,
mostly late: before any loss is seen the goal is met after k of n epochs with a density
proportional to sqrt(k / n). By Bayes' rule the losses turn it into

    p(k) ~ sqrt(k / n) sum over the courses of weight x T((log target + v - log y(k)) / s) / s

v is the scatter of the losses (the target is met by an epoch below the course), s^2 = v^2 + e^2,
and e the error of the course: a part of how far it has fallen since now. T is Student's density
with 4 degrees of freedom, as some courses are far off. Where the losses are no evidence, the answer
is the density of the goal alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss
from optimus.models import Matrix, Vector
from optimus.models.convergence.curve import NO_EPOCHS, TimeToGoal, expected, quiet_streak
from optimus.models.convergence.posterior import (
    INEXACT,
    PAST_BINS,
    PAST_WINDOWS,
    Decays,
    DecayTables,
    bin_weights,
    binned,
    decay_tables,
    independent_residuals,
    make_decay_tables,
)
from optimus.models.convergence.schedule import LearningRateSchedule
from optimus.models.convergence.series import QUIET_EPOCHS, LossSeries, ThresholdRule
from optimus.progress.types import LossPoint

_DEGREES: Final = 4
"""Degrees of freedom of Student's distribution: ``_student`` has it in closed form."""
_LEAST_LEFT: Final = 0.03
"""A share that leaves less than this part of the loss now to the decay is impossible."""
_COURSES: Final = 100
"""Number of courses by which the posterior is represented."""
_LEAST_WEIGHT: Final = 0.003
_PLACES: Final = 80
_FEW_EPOCHS: Final = 8
"""With fewer epochs, the losses within them are fitted."""
_LEAST_ERROR: Final = 0.01
_LEVEL_POINTS: Final = (3, 8)
_LEVEL_PART: Final = 0.1
"""The loss now is that of a line through the last tenth of the points, 3 to 8 of them."""
_LEAST_LINE: Final = 4
_NEVER_MET: Final = -1e6
"""How many standard deviations a loss of 0 or less lies below every course."""
_CENTRES: Final = (np.arange(PAST_BINS) + 0.5) / PAST_BINS


@dataclass(frozen=True, slots=True)
class AnnealingConstants:
    """What a forecast rests on beside the losses: ``benchmarks.scheduled_runs --choose``."""

    fall_error: float = 0.3
    """e: standard deviation of the log of a loss, as a part of its predicted fall from now on."""
    lateness: float = 0.5
    """Before any loss is seen, the goal is met after k of n epochs with the density
    (k / n)^lateness."""
    by_chance: float = 0.02
    """The part of the probability that no course explains."""


@dataclass(frozen=True, slots=True)
class CourseFamily:
    """The courses that are averaged over. Fewer decays than without a schedule (``posterior``), as
    each is tried with each b and p. ``benchmarks.scheduled_runs --ablation`` says what each field
    costs and brings."""

    shares: tuple[float, ...] = (0.1, 0.25, 0.45, 0.7, 0.9)
    """b: the part of the present loss that goes away with the learning rate; besides, none does."""
    powers: tuple[float, ...] = (0.3, 1.0)
    """p: how the second term depends on the rate."""
    drop_lags: tuple[float, ...] = (0.2, math.inf)
    """How fast the second term follows a drop: ``LearningRateSchedule.followed_rate``."""
    deeper: float = 0.2
    """The probability that drops ahead are deeper than any course that the losses suggest."""
    forms: tuple[float, ...] = (-1.0, -0.2, 0.02, 0.66, 1.5, 4.0)
    floors: tuple[float, ...] = (0.0, 0.4, 0.7, 0.87, 0.97)

    def rates(self, schedule: LearningRateSchedule, k: Vector) -> Matrix:
        """The rate as the losses follow it with each lag, (lags, places)."""
        return np.array([schedule.followed_rate(k, lag) for lag in self.drop_lags])


_SPEEDS: Final = tuple(np.geomspace(0.03, 200.0, 11))
_DEPTHS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
"""How much deeper: the loss falls by these powers of the rate besides."""


class _Fit(NamedTuple):
    """The posterior's courses, (courses, 1) each."""

    decays: Decays
    levels: Matrix
    """Logs of d's level now: 0 but for the residuals of the fit."""
    shares: Matrix
    powers: Matrix
    lags: NDArray[np.intp]
    """(courses,), as ``depths`` and ``weights``."""
    depths: Vector
    """By which power of the rate the loss falls besides at each drop ahead."""
    weights: Vector

    def deepened(self, probability: float) -> "_Fit":
        """These courses, and with that probability the same with deeper drops."""
        rows = np.tile(np.arange(len(self.weights)), 2)
        depths, twice = np.resize(_DEPTHS, len(self.weights)), [1 - probability, probability]
        return _Fit(
            *(self.decays[rows], self.levels[rows], self.shares[rows], self.powers[rows]),
            *(self.lags[rows], np.concatenate([self.depths, depths])),
            np.asarray(np.outer(twice, self.weights).ravel(), dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AnnealedCurve:
    """A posterior over courses of the loss until the declared end; k counts epochs, or steps."""

    fitted: _Fit
    schedule: LearningRateSchedule
    level: float
    """The log of the loss now."""
    rates: Matrix
    """The learning rate that the losses follow now, with each lag, as a part of its largest value;
    (lags, 1)."""
    noise: float
    """Standard deviation of the log of a loss about its course."""
    start_loss: float
    """The loss at the start; a convergence threshold is a fraction of it."""
    start: float
    seen: float
    """The k up to which the losses are known."""
    spacing: float
    """The k between two checks of the goal."""
    in_epochs: bool
    points: int
    rule: ThresholdRule
    family: CourseFamily
    constants: AnnealingConstants = AnnealingConstants()

    @classmethod
    def fit(
        cls,
        points: Sequence[LossPoint],
        schedule: LearningRateSchedule,
        family: CourseFamily | None = None,
    ) -> "AnnealedCurve | NotReady":
        """Fit to losses in training order. Not ready before the first epoch is complete (without
        epochs: 5 points are known), past the declared end, or where the log's learning
        rates are not those that are declared."""
        whole = series = LossSeries.of(points)
        if len(series.complete_loss) < _FEW_EPOCHS:
            series = LossSeries.of_parts(points)
        series = series.rising
        refusal = _refusal(points, series, schedule)
        if refusal is not None:
            return refusal
        k, spacing, log_loss = series.k, series.spacing, series.log_loss
        seen, start = float(k[-1]), min(float(k[0]) - spacing, 0.0)
        middle = k - spacing / 2
        family = family or CourseFamily()
        rates = family.rates(schedule, middle)
        now = rates[:, -1:]
        level = _level(k, log_loss, schedule.last_drop(seen))
        x = (middle - start) / (seen - start)
        tables = _tables(family if schedule.varies else None, bool(schedule.drops))
        fitted = _fit(x, log_loss - level, rates / now, tables)
        if schedule.last_drop(schedule.end) >= seen and family.deeper:
            fitted = fitted.deepened(family.deeper)
        noise, spacing = series.noise_and_spacing
        return cls(
            *(fitted, schedule, level, now, noise, whole.start_loss, start, seen, spacing),
            *(series.in_epochs, len(log_loss), ThresholdRule.of(points, whole), family),
        )

    def predict(self, k: ArrayLike) -> Vector:
        """The loss after k epochs (steps, where epochs are unknown): the posterior median."""
        return np.exp(self._quantile(self._log_courses(_places(k)), 0.5))

    def band(self, k: ArrayLike, probability: float = 0.8) -> tuple[Vector, Vector]:
        """The interval of an epoch's mean after k epochs with that probability, each (places,)."""
        from scipy.special import stdtrit  # late: see models/speed/curve.py

        courses = self._log_courses(_places(k))
        tail = (1 - probability) / 2
        low, high = (self._quantile(courses, share) for share in (tail, 1 - tail))
        middle = self._quantile(courses, 0.5)
        error = stdtrit(_DEGREES, 1 - tail) * self._error(middle)
        return np.exp(np.minimum(low, middle - error)), np.exp(np.maximum(high, middle + error))

    def until(self, goal: LossGoal) -> TimeToGoal | NotReady:
        """When the goal, not met yet, is met if the run meets it; not ready for a threshold without
        epochs. ``in_run`` is the probability that the run meets it before its end."""
        if isinstance(goal, ConvergenceThreshold) and not self.in_epochs:
            return NO_EPOCHS
        return self.time_to_goal(goal)

    def time_to_goal(self, goal: LossGoal) -> TimeToGoal:
        """The same; a threshold needs epochs."""
        k, steps = self._ahead()
        courses = self._log_courses(k)
        before = (k / self.schedule.end) ** self.constants.lateness * steps
        if isinstance(goal, TargetLoss):
            found, cdf = self._of_target(goal.loss, courses)
            found *= before
            in_run = expected(float(cdf[-1]))
        else:
            met = self._of_threshold(goal.fraction, courses, k, steps)
            cdf = self.fitted.weights @ met
            found = np.diff(cdf, prepend=0.0) * before / steps
            in_run = float(cdf[-1])
        total = float(found.sum())
        parts = found / total if total > 0 else np.zeros_like(found)
        parts += self.constants.by_chance * before / before.sum()
        places, end = np.concatenate([[self.seen], k]), float(self.schedule.end)
        earliest = min(self.seen + self.spacing, end)
        return TimeToGoal.of(places, parts, in_run, earliest, end)

    def _ahead(self) -> tuple[Vector, Vector]:
        """Places from now to the declared end, closer at first, and how far each is from the one
        before it."""
        left = self.schedule.end - self.seen
        count = int(np.clip(left / self.spacing, 1, _PLACES))
        parts = (np.arange(1, count + 1) / count) ** (2 if count == _PLACES else 1)
        k = self.seen + left * parts
        return k, np.diff(k, prepend=self.seen)

    def _of_target(self, loss: float, courses: Matrix) -> tuple[Vector, Vector]:
        """Likelihood of a target at each place, and the probability of having met it by then."""
        target = math.log(loss) + self.noise if loss > 0 else -math.inf
        error = self._error(courses)
        sigmas = (target - courses) / error if loss > 0 else np.full_like(courses, _NEVER_MET)
        at_most, density = _student(sigmas)
        density /= error
        met = np.maximum.accumulate(at_most, axis=1)
        return self.fitted.weights @ density, np.asarray(self.fitted.weights @ met, np.float64)

    def _error(self, courses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviations of the logs of losses about courses, of the same shape."""
        fallen = self.constants.fall_error * (courses - self.level)
        return np.asarray(np.sqrt(self.noise**2 + _LEAST_ERROR**2 + fallen**2), dtype=np.float64)

    def _of_threshold(self, fraction: float, courses: Matrix, k: Vector, steps: Vector) -> Matrix:
        """The probability of each course of having met a threshold by each place."""
        former = np.concatenate([np.full((len(courses), 1), self.level), courses[:, :-1]], axis=1)
        falls = np.maximum(former - courses, 0.0) / steps
        rates = quiet_streak((fraction * self.start_loss / np.exp(courses) - falls) / self.noise)
        # The first epochs after now complete no streak that has not begun, and by the rule none
        # counts before the last declared drop and the end of the warm-up.
        first = max(self.schedule.warmup, *self.schedule.drops, self.seen) + QUIET_EPOCHS
        losses = np.exp(courses)
        may_hold = self.rule.may_hold(fraction, k, losses, falls * losses)
        waiting = np.where((k >= first) & may_hold, rates * steps, 0.0)
        return np.asarray(1 - np.exp(-np.cumsum(waiting, axis=1)), dtype=np.float64)

    def _log_courses(self, k: Vector) -> Matrix:
        """Logs of the losses after k epochs (steps) under each course, (courses, places)."""
        decays, levels, shares, powers, lags, depths, _ = self.fitted
        x = np.maximum(k - self.spacing / 2 - self.start, 0.0) / (self.seen - self.start)
        rates = (self.family.rates(self.schedule, k - self.spacing / 2) / self.rates)[lags]
        decayed = np.exp(decays.log_course(x) + levels)
        courses = np.log((1 - shares) * decayed + shares * rates**powers)
        dropped = self.schedule.log_dropped(self.seen, k - self.spacing / 2)
        return np.asarray(courses + self.level + np.outer(depths, dropped), dtype=np.float64)

    def _quantile(self, courses: Matrix, share: float) -> Vector:
        order = np.argsort(courses, axis=0)
        below = np.cumsum(self.fitted.weights[order], axis=0)
        row = np.minimum((below < share).sum(axis=0), len(order) - 1)
        places = np.arange(courses.shape[1])
        return np.asarray(courses[order[row, places], places], dtype=np.float64)


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


def _level(k: Vector, log_loss: Vector, dropped: float) -> float:
    """The log of the loss now, by the last points since the learning rate dropped."""
    count = int(np.clip(_LEVEL_PART * len(k), *_LEVEL_POINTS))
    last = log_loss[-min(count, max(int((k > dropped).sum()), 1)) :]
    if len(last) < _LEAST_LINE:
        return float(last.mean())
    at = np.arange(len(last)) - (len(last) - 1) / 2
    slope = float(at @ last) / float(at @ at)
    return float(last.mean()) + slope * float(at[-1])


def _student(sigmas: Matrix) -> tuple[Matrix, Matrix]:
    """Student's distribution with 4 degrees of freedom: the probability of at most so many standard
    deviations, and the density but for a factor."""
    scaled = 4 + sigmas**2
    part = sigmas / np.sqrt(scaled)
    return 0.5 + part * (0.75 - part**2 / 4), scaled**-2.5


def _fit(x: Vector, log_loss: Vector, rates: Matrix, family: "_Tables") -> _Fit:
    """The posterior given the logs of losses and the rates so far, both relative to now."""
    past = binned(x, log_loss)
    tables, shares, powers, lags, log_prior = family
    followed = np.exp([np.interp(_CENTRES, x, each) for each in np.log(rates)])
    gone = shares * followed[lags] ** powers
    losses = np.exp(past.log_loss)
    left = (losses - gone) / (1 - shares)
    found = []
    for begin in PAST_WINDOWS:
        weights, part = bin_weights(past, begin, len(log_loss))
        weights = weights / weights.sum()
        enough = (np.where(weights > 0, left, 1.0) > _LEAST_LEFT).all(axis=1)
        # With b = 0 nothing is taken off, however far the loss has risen since.
        pairs = np.flatnonzero(enough | (shares[:, 0] == 0))
        kept = np.where(weights > 0, left[pairs], _LEAST_LEFT)
        # Residuals count as parts of the whole loss, not of what is left of it.
        of_loss = ((1 - shares[pairs]) * kept / losses) @ weights
        levels, squares = tables.residuals(np.log(kept), weights)
        squares = squares * of_loss**2 + INEXACT**2
        log_weights = -independent_residuals(part * len(log_loss)) / 2 * np.log(squares)
        log_weights += tables.log_prior[:, np.newaxis] + log_prior[pairs]
        found.append(_Window(pairs, levels, log_weights))
    return _sampled(found, family)


class _Window(NamedTuple):
    """The posterior by one window of the past, for (decays, pairs) of decay and (b, p)."""

    pairs: NDArray[np.intp]
    levels: Matrix
    log_weights: Matrix


def _sampled(windows: Sequence[_Window], family: "_Tables") -> _Fit:
    """Evenly spaced quantiles of the posterior's courses, in the order of the tables."""
    tables, shares, powers, lags, _ = family
    largest = max(float(each.log_weights.max()) for each in windows)
    weights = np.concatenate([np.exp(each.log_weights - largest).ravel() for each in windows])
    levels = np.concatenate([each.levels.ravel() for each in windows])
    pairs = np.concatenate([np.tile(each.pairs, len(tables.log_prior)) for each in windows])
    rows = np.concatenate(
        [np.repeat(np.arange(len(tables.log_prior)), len(each.pairs)) for each in windows]
    )
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
    kept_weights = weights[kept] / weights[kept].sum()
    if len(kept) > _COURSES:
        at = (np.arange(_COURSES) + 0.5) / _COURSES
        chosen, times = np.unique(
            np.minimum(np.searchsorted(np.cumsum(kept_weights), at), len(kept) - 1),
            return_counts=True,
        )
        kept, kept_weights = kept[chosen], times / _COURSES
    pairs = pairs[kept]
    return _Fit(
        *(tables.decays[rows[kept]], levels[kept][:, np.newaxis], shares[pairs], powers[pairs]),
        lags[pairs],
        np.zeros(len(kept)),
        kept_weights,
    )


class _Tables(NamedTuple):
    """Decays, and the cases of b, p and the lag's index, (cases, 1) each; the first is b = 0."""

    decays: DecayTables
    shares: Matrix
    powers: Matrix
    lags: NDArray[np.intp]
    """(cases,), as ``log_prior``."""
    log_prior: Vector
    """Each b is as probable as any other, and b = 0 has one case alone."""


@cache
def _tables(family: CourseFamily | None, drops: bool) -> _Tables:
    """Those of a family, with its first lag alone where the rate never drops; without a family, of
    all decays and b = 0."""
    if family is None:
        none = np.zeros(1)
        return _Tables(
            decay_tables(), np.zeros((1, 1)), np.ones((1, 1)), none.astype(np.intp), none
        )
    indexes = np.arange(len(family.drop_lags) if drops else 1)
    shares, powers, lags = np.meshgrid(family.shares, family.powers, indexes, indexing="ij")
    cases = len(family.powers) * len(indexes)
    return _Tables(
        make_decay_tables(family.forms, _SPEEDS, family.floors),
        np.concatenate([[0.0], shares.ravel()])[:, np.newaxis],
        np.concatenate([[1.0], powers.ravel()])[:, np.newaxis],
        np.concatenate([[0], lags.ravel()]),
        np.concatenate([[math.log(cases)], np.zeros(shares.size)]),
    )


def _places(k: ArrayLike) -> Vector:
    return np.atleast_1d(np.asarray(k, dtype=np.float64))
