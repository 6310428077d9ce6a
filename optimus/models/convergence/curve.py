"""The product's convergence model: a Bayesian average over a family of decays, and when a goal is
met under it.

Optimus, section 3.1, with its one form replaced by many (module ``family``), weighted by what the
losses say (``posterior``). After a drop of the learning rate only the points since then count, and
the descent before it tells of the one to come (``steady``). About its course the log of a loss
scatters; the goal is met by the first epoch whose mean meets it, which is sooner than the course
does: each epoch ahead meets it with a probability, and those multiply up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Goal, TargetLoss
from optimus.models.convergence.family import PAST_BINS, family
from optimus.models.convergence.noise import NOISE_LOOK_BACK, noise_of, pooled
from optimus.models.convergence.post_drop_prior import SteadyDescent
from optimus.models.convergence.posterior import INEXACT, Posterior, binned, posterior
from optimus.models.convergence.rates import Drop, since_last_drop
from optimus.models.convergence.series import MEDIAN_OF, NEEDED_POINTS, QUIET_EPOCHS, LossSeries
from optimus.models.convergence.time_to_goal import TimeToGoal
from optimus.models.nnls import Matrix, Vector
from optimus.progress.types import LossPoint

HORIZON: Final = 20.0
"""How far ahead is looked, in times the training seen."""
UNLIKELY: Final = 0.02
"""A goal that is met before the run ends with less than this probability is not reachable at this
rate."""
_SOON: Final = 0.7
"""How far ahead, in epochs, the table's first place may lie: the next epoch's mean comes at 1."""
_FAR: Final = 10.0
"""How far ahead, in times the training seen, a refusal tells the loss."""
_STEADY_SHARE: Final = 1 / 3
"""The probability that after a drop the descent from before it, slowed, says more than the points
since."""
_MEDIAN_NOISE: Final = float(np.sqrt(np.pi / 2))
"""The standard deviation of a median over that of a mean."""
_TRUST: Final = 2.0
"""So many missed meetings that were expected halve the trust in how often a law expects one."""
_SURE: Final = 1 - 1e-12
_MOST_SIGMAS: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """The laws that a job's losses may follow, with their weights; k counts epochs, or steps where
    these are unknown.

    ``start`` is the k from which the laws count: 0, or where the learning rate dropped last;
    ``seen`` is the k up to which the losses are known, ``spacing`` that between two of them.
    ``noise`` is the standard deviation of the log of a loss about its course, ``largest`` the
    largest loss, ``steady`` the descent known from before a drop."""

    laws: Posterior
    noise: float
    largest: float
    start: float
    seen: float
    spacing: float
    in_epochs: bool
    points: int
    steady: SteadyDescent | None = None

    @classmethod
    def fit(cls, points: Sequence[LossPoint]) -> "LossCurve | NotReady":
        """Fit to losses in training order; not ready with fewer than 5 of them (epochs, where these
        are known)."""
        segment = since_last_drop(points)
        if isinstance(segment, NotReady):
            return segment
        series, _, drops = segment
        log_loss, spacing = series.log_loss, series.spacing
        start, seen = float(series.k[0]) - spacing, float(series.k[-1])
        start = start if drops else min(start, 0.0)
        laws = posterior(
            binned((series.k - spacing / 2 - start) / (seen - start), log_loss), len(log_loss)
        )
        noise, largest, steady = noise_of(log_loss), float(series.loss.max()), None
        if drops:
            largest = max(largest, *(point.loss for point in points))
            noise, steady = _from_before(points, drops, log_loss, noise)
        return cls(
            laws, noise, largest, start, seen, spacing, series.in_epochs, len(log_loss), steady
        )

    def predict(self, k: ArrayLike) -> Vector:
        """The loss after k epochs (steps, where epochs are unknown): the laws' weighted median."""
        (middle,) = self._quantiles(k, 0.5)
        return np.asarray(np.exp(middle), dtype=np.float64)

    def band(self, k: ArrayLike, probability: float = 0.8) -> tuple[Vector, Vector]:
        """Between which losses an epoch's mean after k epochs lies with that probability, each
        (places,)."""
        noise = math.hypot(self.noise, INEXACT)
        low, high = self._quantiles(k, (1 - probability) / 2, (1 + probability) / 2)
        return np.exp(low - noise), np.exp(high + noise)

    def until(self, goal: Goal) -> TimeToGoal | NotReady:
        """When the goal is met, if it is not met yet; not ready where that is unlikely before the
        run ends."""
        if isinstance(goal, ConvergenceThreshold) and not self.in_epochs:
            return NotReady(
                "a convergence threshold needs epochs: the annotation optimus.dl/steps-per-epoch "
                "tells them"
            )
        time_to_goal = self.time_to_goal(goal)
        if time_to_goal is None or time_to_goal.in_run < UNLIKELY:
            return NotReady(
                f"{_words(goal)} is not reachable at this rate: {self._far(time_to_goal)}"
            )
        return time_to_goal

    def time_to_goal(self, goal: Goal) -> TimeToGoal | None:
        """When the goal is met, however unlikely that is; ``None`` where it never is. A threshold
        needs epochs."""
        tables, span = family(), self.seen - self.start
        ahead = tables.ahead * span
        first = int(np.searchsorted(ahead, _SOON * self.spacing))
        places = slice(
            max(first - 1, 0), int(np.searchsorted(ahead, HORIZON * max(self.seen, span))) + 1
        )
        ahead = ahead[places]
        courses = tables.future[self.laws.rows, places] + self.laws.levels[:, np.newaxis]
        if isinstance(goal, TargetLoss):
            return TimeToGoal.of(
                self.seen, ahead, self._chance_of_target(goal.loss, courses, ahead), self.spacing
            )
        falls = tables.future_steepness[self.laws.rows, places] / span
        chance = self.laws.weights @ self._chance(self._quiet(goal.fraction, courses, falls), ahead)
        return TimeToGoal.of(self.seen, ahead + QUIET_EPOCHS - 1, chance, QUIET_EPOCHS)

    def _chance_of_target(self, loss: float, courses: Matrix, ahead: Vector) -> Vector:
        """The probability that the target is met by each place ahead, (places,)."""
        past = family().past[self.laws.rows] + self.laws.levels[:, np.newaxis]
        looks = self._looks(self.seen - self.start) / PAST_BINS
        missed = _hazard(self._at_most(loss, past)).sum(axis=1) * looks
        chance = self.laws.weights @ self._chance(self._at_most(loss, courses), ahead, missed)
        if self.steady is None:
            return chance
        others, weights = self.steady.log_course(ahead)
        steadily = weights @ self._chance(
            self._at_most(loss, others), ahead, self.laws.weights @ missed
        )
        return np.asarray((1 - _STEADY_SHARE) * chance + _STEADY_SHARE * steadily, dtype=np.float64)

    def _quantiles(self, k: ArrayLike, *shares: float) -> list[Vector]:
        """The logs of the loss below which the laws are with these probabilities, (places,)
        each."""
        x = (np.atleast_1d(np.asarray(k, dtype=np.float64)) - self.start) / (self.seen - self.start)
        courses = (
            family().laws[self.laws.rows].log_course(np.maximum(x, 0.0))
            + self.laws.levels[:, np.newaxis]
        )
        order = np.argsort(courses, axis=0)
        below = np.cumsum(self.laws.weights[order], axis=0)
        rows = (np.minimum((below < share).sum(axis=0), len(order) - 1) for share in shares)
        places = np.arange(courses.shape[1])
        return [courses[order[row, places], places] for row in rows]

    def _at_most(self, loss: float, courses: Matrix) -> Matrix:
        """The probability that one look at the loss finds it at most that, (laws, places)."""
        noise = self.noise if self.in_epochs else self.noise * _MEDIAN_NOISE / np.sqrt(MEDIAN_OF)
        sigmas = (np.log(loss) if loss > 0 else -np.inf) - courses
        return np.asarray(
            ndtr(np.clip(sigmas / noise, -_MOST_SIGMAS, _MOST_SIGMAS)), dtype=np.float64
        )

    def _quiet(self, fraction: float, courses: Matrix, falls: Matrix) -> Matrix:
        """The probability that several quiet epochs in a row end with one, where the last did
        not."""
        loss = np.exp(courses)
        sigmas = (fraction * self.largest / loss - falls) / (np.sqrt(2) * self.noise)
        quiet = np.maximum(ndtr(np.clip(sigmas, -_MOST_SIGMAS, _MOST_SIGMAS)), 1e-30)
        # The mean wait for three successes in a row is (1 + p + p^2) / p^3; two of the epochs are
        # no wait.
        return np.asarray(
            1 / ((1 + quiet + quiet**2) / quiet**3 - (QUIET_EPOCHS - 1)), dtype=np.float64
        )

    def _looks(self, ahead: ArrayLike) -> Vector:
        """How many looks at the loss so much training has."""
        return np.asarray(ahead, dtype=np.float64) / (
            self.spacing if self.in_epochs else self.spacing * MEDIAN_OF
        )

    def _chance(self, each: Matrix, ahead: Vector, missed: ArrayLike = 0.0) -> Matrix:
        """From the probability at each look to that of having met the goal by then.

        ``missed`` is how often it should have been met so far, and was not. The true frequency is
        the expected one times a factor with a gamma prior of mean 1; what was missed lowers it.
        """
        expected = np.cumsum(_hazard(each) * np.diff(self._looks(ahead), prepend=0.0), axis=1)
        trust = _TRUST + np.asarray(missed, dtype=np.float64)[..., np.newaxis]
        return np.asarray(1 - (trust / (trust + expected)) ** _TRUST, dtype=np.float64)

    def _far(self, time_to_goal: TimeToGoal | None) -> str:
        end = _FAR * self.seen
        unit, loss = "epochs" if self.in_epochs else "steps", float(self.predict(end)[0])
        chance = 0.0 if time_to_goal is None else time_to_goal.probability_by(end)
        return (
            f"it is met within {end:.4g} {unit} with a probability of {chance:.0%}, the loss "
            f"being near {loss:.4g}"
        )


def _hazard(probability: Matrix) -> Matrix:
    return np.asarray(-np.log1p(-np.minimum(probability, _SURE)), dtype=np.float64)


def _words(goal: Goal) -> str:
    return (
        f"a loss of {goal.loss:g}"
        if isinstance(goal, TargetLoss)
        else f"a fall below {goal.fraction:g} an epoch"
    )


def _from_before(
    points: Sequence[LossPoint], drops: Sequence[Drop], log_loss: Vector, noise: float
) -> tuple[float, SteadyDescent | None]:
    """What the training between the last drop and the one before tells of the noise, and of the
    descent since."""
    former = drops[-2].index if len(drops) > 1 else 0
    before = LossSeries.of(points[former : drops[-1].index]).rising
    if not before.in_epochs or (before.loss < 0).any() or not (before.loss > 0).any():
        return noise, None
    log_before = before.log_loss
    if len(log_before) >= NEEDED_POINTS:
        noise = pooled(noise, len(log_loss), noise_of(log_before[-NOISE_LOOK_BACK:]))
    return noise, SteadyDescent.of(log_before, log_loss, drops[-1].ratio, noise)
