"""The product's convergence model: a Bayesian average over decays, and when a goal is met under it.

Optimus, section 3.1, with its one form replaced by a family, weighted by the losses (module
``posterior``). After a drop of the learning rate only the points since then count, together with
what the descent before it lets one expect (``PostDropPrior``).

The log of the loss scatters about its course, and the goal is met by the first epoch whose mean
meets it, which is sooner than the course does: each epoch ahead meets it with a probability, and
those multiply up. The distribution over k is then blurred, since no decay holds exactly and its
errors grow with the distance, and moved away, since most errors are of being late.

A run of which k epochs are seen lasts to epoch n with the density k / n^2 (the run is observed at a
uniformly random moment: Gott 1993); the distribution is taken under that weight. Whoever sets a
target expects the run to meet it: before any loss is seen, the odds are 29 to 1, and the model's
own probability multiplies them by its odds.

Median, interval, probability and deadline are all read from that one distribution (``TimeToGoal``),
so that none contradicts another. Its mass beyond the end is that of runs which do not meet the
goal: a quantile there is the declared end, as the run is over then in any case, and without a
declared end the furthest place that the model looks at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss
from optimus.models import Matrix, Vector
from optimus.models.convergence.posterior import (
    INEXACT,
    PAST_BINS,
    PostDropPrior,
    Posterior,
    binned,
    decay_tables,
    posterior,
)
from optimus.models.convergence.series import (
    MEDIAN_OF,
    NEEDED_POINTS,
    NOISE_LOOK_BACK,
    QUIET_EPOCHS,
    Drop,
    LossSeries,
    ThresholdRule,
    estimate_noise,
    pooled_noise,
    since_last_drop,
)
from optimus.progress.types import LossPoint

HORIZON: Final = 20.0
"""How far ahead the model looks, in times the training seen."""
UNLIKELY: Final = 0.02
"""A goal that is met before the run ends with less than this probability, as long as runs last, is
not what its user expects."""
NO_EPOCHS: Final = NotReady(
    "a convergence threshold needs epochs: set the annotation optimus.dl/steps-per-epoch"
)
_SOON: Final = 0.7
"""The least distance ahead of the first place, in epochs: the next epoch's mean comes at 1."""
_FAR: Final = 10.0
"""For how far ahead a refusal states the loss, in times the training seen."""
_PRIOR_WEIGHT: Final = 1 / 3
"""After a drop, the probability of ``PostDropPrior`` against the fit to the points since."""
_MEDIAN_NOISE: Final = float(np.sqrt(np.pi / 2))
"""The standard deviation of a median over that of a mean."""
_GAMMA_SHAPE: Final = 2.0
"""Shape of the prior of (true / expected) frequency at which the goal is met."""
_SURE: Final = 1 - 1e-12
_MAX_SIGMAS: Final = 8.0
_PER_SIGMA: Final = 256
"""Places of the table of hazards for each standard deviation."""

BLUR: Final = 0.4
"""Standard deviation of the log of (true / predicted) time ahead."""
SLOWER: Final = 0.25
"""Mean of that log: training slows down more often than any decay predicts."""
EXPECTED_ODDS: Final = 29.0
"""Of 30 targets, 29 are taken to be met: what is known of users, and not fitted to any run."""
_LOW, _HIGH = 0.1, 0.9
_DURATION_POWER: Final = 2.0
"""The weight of meeting the goal at k falls with this power of k."""
_NEVER: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TimeToGoal:
    """When a goal is met, as a distribution over epochs (steps) from the start of training."""

    k: Vector
    cdf: Vector
    """The probability that the goal is met by each ``k``, both (places,), rising; the last is that
    of meeting it at all before the run ends."""
    end: float | None = None
    """The declared end of the run."""
    earliest: float = 0.0
    """No quantile is before it: the next check of a goal that is not met yet."""

    @classmethod
    def at(cls, k: float) -> "TimeToGoal":
        """The goal is met at k with certainty."""
        return cls(np.array([k]), np.array([1.0]))

    @classmethod
    def of(
        cls, k: Vector, parts: Vector, probability: float, earliest: float, end: float | None = None
    ) -> "TimeToGoal":
        """From the place that is seen and those ahead, the weight of each of the latter, and the
        probability that the goal is met by the last of them."""
        shares = np.concatenate([[0.0], np.cumsum(parts)])
        return cls(k, shares / shares[-1] * probability, end, earliest)

    @property
    def point(self) -> float:
        """The median; ``low`` and ``high`` bound 80 %."""
        return self.quantile(0.5)

    @property
    def low(self) -> float:
        """The lower bound of the 80 % interval."""
        return self.quantile(_LOW)

    @property
    def high(self) -> float:
        """The upper bound of the 80 % interval."""
        return self.quantile(_HIGH)

    @property
    def in_run(self) -> float:
        """The probability that the goal is met before the run ends."""
        return float(self.cdf[-1])

    @property
    def is_unlikely(self) -> bool:
        """Whether the run rather ends without having met the goal."""
        return self.in_run < 0.5

    @property
    def is_late(self) -> bool:
        """Whether there is no time by which the goal is met with a probability of 90 %."""
        return self.in_run < _HIGH

    def quantile(self, probability: float) -> float:
        """When the goal is met, or the run over, with that probability."""
        if probability > self.in_run:
            at = float(self.k[-1]) if self.end is None else self.end
        else:
            at = float(np.interp(probability, self.cdf, self.k))
        return max(at, self.earliest)

    def if_met(self, probability: float) -> float:
        """The same of the runs that meet the goal."""
        return self.quantile(probability * self.in_run)

    def within(self, end: float) -> "TimeToGoal":
        """The same of a run that ends then."""
        before = self.k < end
        k, cdf = (
            np.append(self.k[before], end),
            np.append(self.cdf[before], self.probability_by(end)),
        )
        return TimeToGoal(k, cdf, end, min(self.earliest, end))

    def probability_by(self, k: float) -> float:
        """The probability that the goal is met by k."""
        return float(np.interp(k, self.k, self.cdf, left=0.0))


def expected(probability: float) -> float:
    """The probability that a target is met, of a user who expects that."""
    odds = EXPECTED_ODDS * probability
    return odds / (odds + max(1.0 - probability, 0.0)) if odds > 0 else 0.0


def _blurred(ahead: Vector, cdf: Vector) -> Vector:
    """The distribution with a normal error about ``SLOWER`` added to the log of the time ahead."""
    kernel = _blur_kernel(round(math.log(ahead[1] / ahead[0]), 12))
    reach = len(kernel) // 2
    padded = np.concatenate([np.full(reach, cdf[0]), cdf, np.full(reach, cdf[-1])])
    return np.convolve(padded, kernel, "valid")


@lru_cache(maxsize=8)
def _blur_kernel(step: float) -> Vector:
    """The error's distribution at places that are ``step`` apart in the log of the time ahead."""
    reach = math.ceil((3 * BLUR + SLOWER) / step)
    kernel = np.exp(-(((np.arange(-reach, reach + 1) * step - SLOWER) / BLUR) ** 2) / 2)
    return np.asarray(kernel / kernel.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """A posterior over the decays of a job's losses; k counts epochs, or steps where unknown."""

    decays: Posterior
    noise: float
    """Standard deviation of the log of a loss about its course."""
    start_loss: float
    """The loss at the start; a convergence threshold is a fraction of it."""
    start: float
    """The k from which the decays count: 0, or where the learning rate dropped last."""
    seen: float
    """The k up to which the losses are known."""
    spacing: float
    """The k between two checks of the goal: an epoch, or the steps between two losses."""
    in_epochs: bool
    points: int
    rule: ThresholdRule
    prior: PostDropPrior | None = None

    @classmethod
    def fit(cls, points: Sequence[LossPoint]) -> "LossCurve | NotReady":
        """Fit to losses in training order; not ready with fewer than 5 points (or epochs)."""
        segment = since_last_drop(points)
        if isinstance(segment, NotReady):
            return segment
        series, whole, drops = segment
        log_loss, spacing = series.log_loss, series.spacing
        start, seen = float(series.k[0]) - spacing, float(series.k[-1])
        start = start if drops else min(start, 0.0)
        x = (series.k - spacing / 2 - start) / (seen - start)
        decays = posterior(binned(x, log_loss), len(log_loss))
        noise, spacing = series.noise_and_spacing
        prior = None
        if drops:
            noise, prior = _from_before(points, drops, log_loss, noise)
        in_epochs, count = series.in_epochs, len(log_loss)
        rule = ThresholdRule.of(points, whole)
        return cls(
            *(decays, noise, whole.start_loss, start, seen, spacing, in_epochs, count, rule, prior)
        )

    def predict(self, k: ArrayLike) -> Vector:
        """The loss after k epochs (steps, where epochs are unknown): the posterior median."""
        (middle,) = self._quantiles(k, 0.5)
        return np.asarray(np.exp(middle), dtype=np.float64)

    def band(self, k: ArrayLike, probability: float = 0.8) -> tuple[Vector, Vector]:
        """The interval of an epoch's mean after k epochs with that probability, each (places,)."""
        noise = math.hypot(self.noise, INEXACT)
        low, high = self._quantiles(k, (1 - probability) / 2, (1 + probability) / 2)
        return np.exp(low - noise), np.exp(high + noise)

    def until(self, goal: LossGoal) -> TimeToGoal | NotReady:
        """When the goal, not met yet, is met; not ready where that is unlikely within the run."""
        if isinstance(goal, ConvergenceThreshold) and not self.in_epochs:
            return NO_EPOCHS
        found = self.time_to_goal(goal)
        if found is not None and not found.is_unlikely:
            return found
        what = (
            f"a loss of {goal.loss:g}"
            if isinstance(goal, TargetLoss)
            else f"a fall below {goal.fraction:g} an epoch"
        )
        end, unit = _FAR * self.seen, "epochs" if self.in_epochs else "steps"
        probability = 0.0 if found is None else found.probability_by(end)
        loss = float(self.predict(end)[0])
        return NotReady(
            f"{what} is not reachable at this rate: it is met within {end:.4g} {unit} with a "
            f"probability of {probability:.0%}, the loss being near {loss:.4g}"
        )

    def time_to_goal(self, goal: LossGoal) -> TimeToGoal | None:
        """When the goal is met, however unlikely; ``None``: never. A threshold needs epochs."""
        tables, span = decay_tables(), self.seen - self.start
        ahead = tables.ahead * span
        first = max(int(np.searchsorted(ahead, _SOON * self.spacing)) - 1, 0)
        end = int(np.searchsorted(ahead, HORIZON * max(self.seen, span))) + 1
        places = slice(first, end)
        ahead = ahead[places]
        courses = tables.future[self.decays.rows, places] + self.decays.levels[:, np.newaxis]
        if isinstance(goal, TargetLoss):
            cdf = self._target_cdf(goal.loss, courses, ahead)
            return self._distribution(ahead, cdf, self.spacing, is_rule=False)
        falls = tables.future_steepness[self.decays.rows, places] / span
        quiet = self._quiet_streak(goal.fraction, courses, falls)
        losses, later = np.exp(courses), ahead + QUIET_EPOCHS - 1
        may_hold = self.rule.may_hold(goal.fraction, self.seen + later, losses, falls * losses)
        quiet = np.where(may_hold, quiet, 0.0)
        cdf = self.decays.weights @ self._met_by(_hazard(quiet), ahead)
        least = max(QUIET_EPOCHS, self.rule.stage_ends(goal.fraction) - self.seen)
        return self._distribution(later, cdf, least, is_rule=True)

    def _distribution(
        self, ahead: Vector, cdf: Vector, least: float, *, is_rule: bool
    ) -> TimeToGoal | None:
        """From the decays' probabilities at ``ahead`` of now (geometric); ``None``: never met.

        A goal that is not met yet is met no sooner than ``least`` ahead; no user expects anything
        of a threshold's rule."""
        cdf, k = _blurred(ahead, cdf), np.maximum(self.seen + ahead, self.seen + least)
        parts, probability = np.diff(cdf, prepend=0.0) * self.seen / k, float(cdf[-1])
        if not is_rule and parts.sum() >= UNLIKELY:
            probability = expected(probability)
        parts *= (self.seen / k) ** (_DURATION_POWER - 1)
        if parts.sum() < _NEVER:
            return None
        parts += _NEVER * parts.sum()  # strictly rising, for the interpolation
        places = np.concatenate([[self.seen], k])
        return TimeToGoal.of(places, parts, probability, self.seen + least)

    def _target_cdf(self, loss: float, courses: Matrix, ahead: Vector) -> Vector:
        """The probability that the target is met by each place ahead, (places,)."""
        past = decay_tables().past[self.decays.rows] + self.decays.levels[:, np.newaxis]
        checks = self._checks(self.seen - self.start) / PAST_BINS
        missed = self._hazard_of(loss, past).sum(axis=1) * checks
        cdf = self.decays.weights @ self._met_by(self._hazard_of(loss, courses), ahead, missed)
        if self.prior is None:
            return cdf
        prior_courses, weights = self.prior.log_course(ahead)
        prior_cdf = weights @ self._met_by(
            self._hazard_of(loss, prior_courses), ahead, self.decays.weights @ missed
        )
        return np.asarray((1 - _PRIOR_WEIGHT) * cdf + _PRIOR_WEIGHT * prior_cdf, dtype=np.float64)

    def _quantiles(self, k: ArrayLike, *shares: float) -> list[Vector]:
        """Quantiles of the decays' log loss at k, (places,) for each share."""
        x = (np.atleast_1d(np.asarray(k, dtype=np.float64)) - self.start) / (self.seen - self.start)
        decays = decay_tables().decays[self.decays.rows]
        courses = decays.log_course(np.maximum(x, 0.0)) + self.decays.levels[:, np.newaxis]
        order = np.argsort(courses, axis=0)
        below = np.cumsum(self.decays.weights[order], axis=0)
        rows = (np.minimum((below < share).sum(axis=0), len(order) - 1) for share in shares)
        places = np.arange(courses.shape[1])
        return [courses[order[row, places], places] for row in rows]

    def _hazard_of(self, loss: float, courses: Matrix) -> Matrix:
        """The hazard that one check finds the loss at most that, (decays, places)."""
        noise = self.noise if self.in_epochs else self.noise * _MEDIAN_NOISE / np.sqrt(MEDIAN_OF)
        return normal_hazard(((np.log(loss) if loss > 0 else -np.inf) - courses) / noise)

    def _quiet_streak(self, fraction: float, courses: Matrix, falls: Matrix) -> Matrix:
        """The probability per epoch that the third quiet epoch in a row is reached."""
        return quiet_streak((fraction * self.start_loss / np.exp(courses) - falls) / self.noise)

    def _checks(self, ahead: ArrayLike) -> Vector:
        """How often the loss is compared with the target in so much training."""
        spacing = self.spacing if self.in_epochs else self.spacing * MEDIAN_OF
        return np.asarray(ahead, dtype=np.float64) / spacing

    def _met_by(self, hazard: Matrix, ahead: Vector, missed: ArrayLike = 0.0) -> Matrix:
        """From the hazard at each check to the probability of having met the goal by then.

        The true frequency is the expected one times a factor with a gamma prior of mean 1;
        ``missed``, how often the goal should have been met so far and was not, lowers it."""
        expected = np.cumsum(hazard * np.diff(self._checks(ahead), prepend=0.0), axis=1)
        rate = _GAMMA_SHAPE + np.asarray(missed, dtype=np.float64)[..., np.newaxis]
        return np.asarray(1 - (rate / (rate + expected)) ** _GAMMA_SHAPE, dtype=np.float64)


def quiet_streak(margin: Matrix) -> Matrix:
    """The probability per epoch that the third quiet epoch in a row is reached, given by how many
    standard deviations of a loss an epoch falls short of the threshold."""
    from scipy.special import ndtr  # late: it loads for half a second, see models/speed/curve.py

    sigmas = np.clip(margin / np.sqrt(2), -_MAX_SIGMAS, _MAX_SIGMAS)
    quiet = np.maximum(ndtr(sigmas), 1e-30)
    # The mean wait for three successes in a row is (1 + p + p^2) / p^3; two of the epochs are
    # no wait.
    wait = (1 + quiet + quiet**2) / quiet**3 - (QUIET_EPOCHS - 1)
    return np.asarray(1 / wait, dtype=np.float64)


def _hazard(probability: Matrix) -> Matrix:
    return np.asarray(-np.log1p(-np.minimum(probability, _SURE)), dtype=np.float64)


def normal_hazard(sigmas: Matrix) -> Matrix:
    """The hazard -log(1 - P) where P is the standard normal distribution at these ``sigmas``.

    Interpolated in a table, with a relative error below 2e-4: to evaluate the distribution and the
    logarithm at each place took a quarter of a job's forecast."""
    hazards, rises = _normal_hazards()
    at = sigmas * _PER_SIGMA
    np.clip(at, -_MAX_SIGMAS * _PER_SIGMA, _MAX_SIGMAS * _PER_SIGMA, out=at)
    at += _MAX_SIGMAS * _PER_SIGMA
    index = at.astype(np.int32)
    at -= index
    at *= rises.take(index)
    at += hazards.take(index)
    return at


@cache
def _normal_hazards() -> tuple[Vector, Vector]:
    """The hazards from -8 to 8 standard deviations, and the rise from each to the next."""
    from scipy.special import ndtr  # late: it loads for half a second, see models/speed/curve.py

    sigmas = np.linspace(-_MAX_SIGMAS, _MAX_SIGMAS, round(2 * _MAX_SIGMAS * _PER_SIGMA) + 1)
    hazards = _hazard(ndtr(sigmas))
    return hazards, np.diff(hazards, append=hazards[-1])


def _from_before(
    points: Sequence[LossPoint], drops: Sequence[Drop], log_loss: Vector, noise: float
) -> tuple[float, PostDropPrior | None]:
    """The noise pooled with that from before the last drop, and the prior of the course since."""
    former = drops[-2].index if len(drops) > 1 else 0
    before = LossSeries.of(points[former : drops[-1].index]).rising
    if not before.in_epochs or (before.loss < 0).any() or not (before.loss > 0).any():
        return noise, None
    log_before = before.log_loss
    if len(log_before) >= NEEDED_POINTS:
        former_noise = estimate_noise(log_before[-NOISE_LOOK_BACK:])
        noise = pooled_noise(noise, len(log_loss), former_noise)
    return noise, PostDropPrior.of(log_before, log_loss, drops[-1].ratio, noise)
