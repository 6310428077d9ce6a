"""The posterior over a family of decays, given the losses so far.

    y(k) = Y (f + (1 - f) g(x) / g(1)), g(x) = (1 + q c x)^(-1/q), x = (k - start) / (seen - start)

Y is the level now (x = 1), f the part of it that is floor (the paper's b2), c how fast the loss
falls, q the form: q = 1 is the paper's hyperbola (Optimus, section 3.1, equation 1), q -> 0 the
exponential, q > 1 slower powers of k, q = -1 a straight line, which ends at its floor. As x counts
the training seen as 1, the decays' tables are the same for every curve.

Bayes' rule over the tables costs a few matrix products per curve. For each decay the level comes in
closed form: the mean of log loss - course. The residuals have a mean square s; with an unknown
scale their likelihood is (s + s0)^(-n/2), s0 the square of how exactly any decay can hold. n is far
smaller than the number of points, as residuals are autocorrelated. The past is taken twice, from
40 % and from 70 % of it on, since the beginning of a run follows another course; the two posteriors
count half each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.models import Matrix, Vector

_FORMS: Final = (-1.0, -0.5, -0.2, 0.02, 0.33, 0.66, 1.0, 1.5, 2.5, 4.0)
_SPEEDS: Final = tuple(np.geomspace(0.03, 200.0, 18))
_NO_FLOOR: Final = 0.5
"""Prior probability of no floor: a few noisy points never show the absence of one."""
_FORM_SPREAD: Final = (1.0, 3.0)
"""The prior of q is normal about the exponential, with these standard deviations below and above
it: few losses end at their floor."""
PAST_BINS: Final = 48
CENTRES: Final = (np.arange(PAST_BINS) + 0.5) / PAST_BINS

PAST_WINDOWS: Final = (0.4, 0.7)
_FIRST_WEIGHT: Final = 0.3
_TEMPER: Final = 0.25
"""How many independent residuals a point counts for."""
INEXACT: Final = 0.002
"""No decay describes a loss more exactly than this, relatively."""


@dataclass(frozen=True, slots=True)
class Decays:
    """Decays, one per row: their form q, speed c and floor f, each (decays, 1)."""

    form: Matrix
    speed: Matrix
    floor: Matrix

    def log_course(self, x: Vector) -> Matrix:
        """log y(x) - log Y for each decay and each x (places,); shape (decays, places)."""
        above = (1 - self.floor) * np.exp(self._log_decay(x))
        return np.asarray(np.log(self.floor + above), dtype=np.float64)

    def _log_decay(self, x: Vector) -> Matrix:
        inner, now = 1 + self.form * self.speed * x, 1 + self.form * self.speed
        return np.maximum(-np.log(np.maximum(inner, 1e-9) / now) / self.form, -40.0)

    def __getitem__(self, rows: NDArray[np.intp]) -> "Decays":
        return Decays(self.form[rows], self.speed[rows], self.floor[rows])


@dataclass(frozen=True, slots=True, eq=False)
class DecayTables:
    """The whole family with its prior, and the decays' courses over the past."""

    decays: Decays
    log_prior: Vector
    past: Matrix
    """(decays, 48); ``past_squared`` likewise."""
    past_squared: Matrix

    def residuals(self, log_losses: Matrix, weights: Vector) -> tuple[Matrix, Matrix]:
        """The best level of each decay for each row of logs of losses (rows, 48), and the weighted
        mean square of what remains; both (decays, rows). The weights of the bins sum to 1."""
        mean = log_losses @ weights
        past, past_squared = _weighted_past(self, weights.tobytes())
        levels = mean - past[:, np.newaxis]
        # The products below would lose their digits to a mean far from 0.
        centred = log_losses - mean[:, np.newaxis]
        total, products = centred**2 @ weights, self.past @ (centred * weights).T
        squares = total - 2 * products + past_squared[:, np.newaxis] - (levels - mean) ** 2
        return levels, np.maximum(squares, 0.0)


@lru_cache(maxsize=64)
def _weighted_past(tables: DecayTables, weights: bytes) -> tuple[Vector, Vector]:
    """The weighted mean of each decay's course and of its square. Most jobs' losses cover all bins:
    their weights are the same."""
    of_bins = np.frombuffer(weights)
    return tables.past @ of_bins, tables.past_squared @ of_bins


def make_decay_tables(
    forms: Sequence[float], speeds: Sequence[float], floors: Sequence[float]
) -> DecayTables:
    """The tables of the decays with each form, speed and floor; the first floor is 0."""
    form, speed, floor = (
        each.ravel() for each in np.meshgrid(forms, speeds, floors, indexing="ij")
    )
    # A line that has reached its floor is no course of a loss that is still falling.
    running = 1 + 1.02 * form * speed > 0
    form, speed, floor = form[running], speed[running], floor[running]
    with_floor = (1 - _NO_FLOOR) / max(len(floors) - 1, 1)
    spread = np.where(form < 0, *_FORM_SPREAD)
    log_prior = np.log(np.where(floor > 0, with_floor, _NO_FLOOR)) - (form / spread) ** 2 / 2
    decays = Decays(form[:, np.newaxis], speed[:, np.newaxis], floor[:, np.newaxis])
    past = decays.log_course(CENTRES)
    return DecayTables(decays, log_prior, past, past**2)


class Binned(NamedTuple):
    """The logs of the losses on the tables' bins of x."""

    log_loss: Vector
    known: Vector
    """1 for bins that the points cover, else 0."""


def binned(x: Vector, log_loss: Vector) -> Binned:
    """Points at rising ``x`` in (0, 1], interpolated onto the bins if few, averaged if many."""
    if len(x) <= 2 * PAST_BINS:
        covered = (x[0] - 0.5 / PAST_BINS <= CENTRES) & (x[-1] + 0.5 / PAST_BINS >= CENTRES)
        return Binned(np.interp(CENTRES, x, log_loss), covered.astype(np.float64))
    bins = np.clip((x * PAST_BINS).astype(np.intp), 0, PAST_BINS - 1)
    counts = np.bincount(bins, minlength=PAST_BINS)
    sums = np.bincount(bins, log_loss, minlength=PAST_BINS)
    return Binned(sums / np.maximum(counts, 1), (counts > 0).astype(np.float64))


def bin_weights(past: Binned, begin: float, points: int) -> tuple[Vector, float]:
    """Each bin's weight in the window that begins there, and the share of all points in it."""
    # All of them are fitted, the later ones weighing more.
    if points <= 8:
        return past.known * (_FIRST_WEIGHT + (1 - _FIRST_WEIGHT) * CENTRES), 1.0
    weights = past.known * (begin <= CENTRES)
    # Where training paused for long, nothing may lie in the window but the last point.
    return (weights, 1 - begin) if weights.any() else (past.known, 1.0)


def independent_residuals(points: float) -> float:
    """Return how many independent residuals so many points count for."""
    return max(_TEMPER * points, 2.0)
