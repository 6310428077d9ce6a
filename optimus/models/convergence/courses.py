"""The posterior over courses of the loss, given the losses so far and the learning rates.

    y(k) = Y ((1 - b) d(k) + b r(k)^p)

Y is the loss now, d one of the decays of module ``posterior`` (d = 1 now), r the learning rate as a
multiple of the present one. The second term is the part of the loss that goes away with the
learning rate: the noise of the steps. A cosine or a line ends it gradually. It follows a drop fast
at first and then ever more slowly (``LearningRateSchedule.followed_rate``): in published runs half
of the fall over 20 epochs comes in the first two, and it goes on. b and p are averaged over, as
the decays are: for each pair the second term is taken off the losses, and what is left is fitted by
decays. Losses that fell with the rate so far are evidence for a large b, others for a small one.
No loss before a drop says how deep it is: with a probability of one fifth, each course falls at the
drops ahead by a further power of the rate. Where no schedule is declared, b is 0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.models import Matrix, Vector
from optimus.models.convergence.posterior import (
    CENTRES,
    INEXACT,
    PAST_WINDOWS,
    Decays,
    DecayTables,
    bin_weights,
    binned,
    independent_residuals,
    make_decay_tables,
)
from optimus.models.convergence.schedule import LearningRateSchedule
from optimus.models.convergence.series import LossSeries

_LEAST_LEFT: Final = 0.03
"""A share that leaves less than this part of the loss now to the decay is impossible."""
_COURSES: Final = 100
"""Number of courses by which the posterior is represented."""
_MOST_LOG: Final = 300.0


@dataclass(frozen=True, slots=True)
class CourseFamily:
    """The courses that are averaged over under a schedule: fewer decays than without one, as each
    is tried with each b and p. ``benchmarks.scheduled_runs --ablation`` says what each field costs
    and brings."""

    shares: tuple[float, ...] = (0.1, 0.25, 0.45, 0.7, 0.9)
    """b: the part of the present loss that goes away with the learning rate; besides, none does."""
    powers: tuple[float, ...] = (0.3, 1.0)
    """p: how the second term depends on the rate."""
    drop_lags: tuple[float, ...] = (0.2, math.inf)
    """How fast the second term follows a drop: ``LearningRateSchedule.followed_rate``."""
    deeper: float = 0.2
    """The probability that drops ahead are deeper than any course that the losses suggest."""
    forms: tuple[float, ...] = (-1.0, -0.2, 0.02, 0.66, 1.5, 4.0)
    speeds: tuple[float, ...] = tuple(np.geomspace(0.03, 200.0, 11).tolist())
    floors: tuple[float, ...] = (0.0, 0.4, 0.7, 0.87, 0.97)
    since_drop: bool = True
    """Whether the losses since the last drop alone count for half after it."""

    def rates(self, schedule: LearningRateSchedule, k: Vector) -> Matrix:
        """The rate as the losses follow it with each lag, (lags, places)."""
        return np.array([schedule.followed_rate(k, lag) for lag in self.drop_lags])


PRODUCT: Final = CourseFamily()
DECAYS: Final = CourseFamily(
    shares=(),
    forms=(-1.0, -0.5, -0.2, 0.02, 0.33, 0.66, 1.0, 1.5, 2.5, 4.0),
    speeds=tuple(np.geomspace(0.03, 200.0, 18).tolist()),
    floors=(0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97),
)
"""Where the rate does not vary: decays alone, more of them."""
_DEPTHS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
"""How much deeper: the loss falls by these powers of the rate besides."""


class _CourseFit(NamedTuple):
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

    def deepened(self, probability: float) -> "_CourseFit":
        """These courses, and with that probability the same with deeper drops."""
        rows = np.tile(np.arange(len(self.weights)), 2)
        depths, twice = np.resize(_DEPTHS, len(self.weights)), [1 - probability, probability]
        return _CourseFit(
            *(self.decays[rows], self.levels[rows], self.shares[rows], self.powers[rows]),
            *(self.lags[rows], np.concatenate([self.depths, depths])),
            np.asarray(np.outer(twice, self.weights).ravel(), dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Courses:
    """Courses of the loss with their weights; k counts epochs, or steps."""

    fitted: _CourseFit
    level: float
    """The log of the loss now."""
    start: float
    """The k from which the decays count: 0, or where the learning rate dropped last."""
    seen: float
    spacing: float
    """How far apart the losses are: each is that of the middle between two places."""
    schedule: LearningRateSchedule | None = None
    family: CourseFamily = PRODUCT

    @classmethod
    def fit(
        cls,
        series: LossSeries,
        start: float,
        schedule: LearningRateSchedule | None = None,
        family: CourseFamily = PRODUCT,
    ) -> "Courses":
        """Fit to losses since ``start``, in ascending k."""
        k, spacing, log_loss = series.k, series.spacing, series.log_loss
        seen, middle = float(k[-1]), k - spacing / 2
        x = (middle - start) / (seen - start)
        if schedule is None:
            level = float(log_loss[-1])
            fitted = _fit(x, log_loss - level, np.ones((1, len(k))), _tables(DECAYS, False))
            return cls(fitted, level, start, seen, spacing)
        rates = family.rates(schedule, middle)
        level = _level(k, log_loss, schedule.last_drop(seen))
        tables = _tables(family if schedule.varies else DECAYS, bool(schedule.drops))
        fitted = _fit(x, log_loss - level, rates / rates[:, -1:], tables)
        if schedule.last_drop(schedule.end) >= seen and family.deeper:
            fitted = fitted.deepened(family.deeper)
        return cls(fitted, level, start, seen, spacing, schedule, family)

    @property
    def weights(self) -> Vector:
        """They sum to 1, (courses,)."""
        return self.fitted.weights

    def log_loss(self, k: Vector) -> Matrix:
        """Logs of the losses after k epochs (steps) under each course, (courses, places)."""
        decays, levels, shares, powers, lags, depths, _ = self.fitted
        middle, now = k - self.spacing / 2, np.array([self.seen - self.spacing / 2])
        x = np.maximum(middle - self.start, 0.0) / (self.seen - self.start)
        log_decayed = decays.log_course(x) + levels
        if self.schedule is None:
            return np.asarray(log_decayed + self.level, dtype=np.float64)
        rates, present = (self.family.rates(self.schedule, each) for each in (middle, now))
        followed = (rates / present)[lags]
        courses = np.log((1 - shares) * np.exp(log_decayed) + shares * followed**powers)
        dropped = self.schedule.log_dropped(self.seen, middle)
        return np.asarray(courses + self.level + np.outer(depths, dropped), dtype=np.float64)

    def quantile(self, courses: Matrix, share: float) -> Vector:
        """The quantile of the courses at each place."""
        order = np.argsort(courses, axis=0)
        below = np.cumsum(self.weights[order], axis=0)
        row = np.minimum((below < share).sum(axis=0), len(order) - 1)
        places = np.arange(courses.shape[1])
        return np.asarray(courses[order[row, places], places], dtype=np.float64)


def _level(k: Vector, log_loss: Vector, dropped: float) -> float:
    """The log of the loss now, on a line through the last tenth of the points, 3 to 8 of those
    since the learning rate dropped."""
    count = int(np.clip(0.1 * len(k), 3, 8))
    last = log_loss[-min(count, max(int((k > dropped).sum()), 1)) :]
    if len(last) < 4:
        return float(last.mean())
    at = np.arange(len(last)) - (len(last) - 1) / 2
    slope = float(at @ last) / float(at @ at)
    return float(last.mean()) + slope * float(at[-1])


def _fit(x: Vector, log_loss: Vector, rates: Matrix, family: "_Tables") -> _CourseFit:
    """The posterior given the logs of losses and the rates so far, both relative to now."""
    past = binned(x, log_loss)
    tables, shares, powers, lags, log_prior = family
    followed = np.exp([np.interp(CENTRES, x, each) for each in np.log(rates)])
    gone = shares * followed[lags] ** powers
    losses = np.exp(np.clip(past.log_loss, -_MOST_LOG, _MOST_LOG))
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
        posterior = np.exp(log_weights - log_weights.max())
        # A window whose best course is far from its losses, as after a spike, counts for less.
        posterior /= posterior.sum() * math.sqrt(squares.min())
        found.append(_Window(pairs, levels, posterior))
    return _sampled(found, family)


class _Window(NamedTuple):
    """The posterior by one window of the past, for (decays, pairs) of decay and (b, p)."""

    pairs: NDArray[np.intp]
    levels: Matrix
    weights: Matrix
    """They sum to what the window counts for."""


def _sampled(windows: Sequence[_Window], family: "_Tables") -> _CourseFit:
    """Evenly spaced quantiles of the posterior's courses, in the order of the tables."""
    tables, shares, powers, lags, _ = family
    weights = np.concatenate([each.weights.ravel() for each in windows])
    kept = np.flatnonzero(weights >= 0.003 * weights.max())
    kept_weights = weights[kept] / weights[kept].sum()
    if len(kept) > _COURSES:
        at = (np.arange(_COURSES) + 0.5) / _COURSES
        chosen, times = np.unique(
            np.minimum(np.searchsorted(np.cumsum(kept_weights), at), len(kept) - 1),
            return_counts=True,
        )
        kept, kept_weights = kept[chosen], times / _COURSES
    sizes = [each.weights.size for each in windows]
    first = np.searchsorted(np.cumsum(sizes), kept, side="right")
    at = kept - np.concatenate([[0], np.cumsum(sizes)])[first]
    widths = np.array([len(each.pairs) for each in windows])[first]
    rows = at // widths
    pairs = np.concatenate(
        [each.pairs[(at % widths)[first == n]] for n, each in enumerate(windows)]
    )
    levels = np.concatenate([each.levels.ravel() for each in windows])[kept]
    return _CourseFit(
        *(tables.decays[rows], levels[:, np.newaxis], shares[pairs], powers[pairs], lags[pairs]),
        *(np.zeros(len(kept)), kept_weights),
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
def _tables(family: CourseFamily, drops: bool) -> _Tables:
    """Those of a family, with its first lag alone where the rate never drops."""
    indexes = np.arange(len(family.drop_lags) if drops else 1)
    shares, powers, lags = np.meshgrid(family.shares, family.powers, indexes, indexing="ij")
    return _Tables(
        make_decay_tables(family.forms, family.speeds, family.floors),
        np.concatenate([[0.0], shares.ravel()])[:, np.newaxis],
        np.concatenate([[1.0], powers.ravel()])[:, np.newaxis],
        np.concatenate([[0], lags.ravel()]).astype(np.intp),
        np.concatenate([[math.log(len(family.powers) * len(indexes))], np.zeros(shares.size)]),
    )
