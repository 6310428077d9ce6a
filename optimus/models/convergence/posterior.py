"""Which laws of the family the losses so far speak for: Bayes' rule over the tables, a few matrix
products per curve.

For each law the level comes in closed form: the mean of log loss - course. What is left over has a
mean square s; with an unknown scale its likelihood is (s + s0)^(-n/2), s0 the square of how exactly
any law can hold. n is far smaller than the number of points: a residual is much like its neighbour.
The past is taken twice, from 40 % and from 70 % of it on, as the beginning of a run follows laws of
its own; the two answers count half each."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.models.convergence.family import PAST_BINS, family
from optimus.models.nnls import Vector

_WINDOWS: Final = (0.4, 0.7)
_FEW: Final = 8
"""With fewer points all of them are fitted, the later ones weighing more."""
_FIRST_WEIGHT: Final = 0.3
_TEMPER: Final = 0.15
"""How many independent residuals a point is worth."""
_LEAST_WORTH: Final = 2.0
INEXACT: Final = 0.003
"""No law describes a loss more exactly than this, relatively."""
LEAST_WEIGHT: Final = 0.01
"""Laws below this part of the likeliest one's weight are left out."""


class Posterior(NamedTuple):
    """The laws that count: ``rows`` in the family, weights that sum to 1, and levels, the logs of
    the loss at x = 1."""

    rows: NDArray[np.intp]
    weights: Vector
    levels: Vector


class Binned(NamedTuple):
    """The logs of the losses on the family's bins of x; ``known`` is 1 for bins that the points
    cover, else 0."""

    log_loss: Vector
    known: Vector


def binned(x: Vector, log_loss: Vector) -> Binned:
    """Points at rising ``x`` in (0, 1] brought onto the bins: interpolated between few, averaged of
    many."""
    edges = family().past_edges
    if len(x) <= 2 * PAST_BINS:
        centres = (edges[1:] + edges[:-1]) / 2
        covered = (centres >= x[0] - 0.5 / PAST_BINS) & (centres <= x[-1] + 0.5 / PAST_BINS)
        return Binned(np.interp(centres, x, log_loss), covered.astype(np.float64))
    places = np.clip((x * PAST_BINS).astype(np.intp), 0, PAST_BINS - 1)
    counts = np.bincount(places, minlength=PAST_BINS)
    sums = np.bincount(places, log_loss, minlength=PAST_BINS)
    return Binned(sums / np.maximum(counts, 1), (counts > 0).astype(np.float64))


def posterior(past: Binned, points: int, least: float = LEAST_WEIGHT) -> Posterior:
    """The laws' posterior, of losses known at so many points, without those of less than ``least``
    of the most."""
    windows = [_weights(past, begin, points) for begin in _WINDOWS]
    found = [_of_window(past.log_loss, weights, points * share) for weights, share in windows]
    weights = np.concatenate([each / len(found) for each, _ in found])
    levels = np.concatenate([each for _, each in found])
    kept = np.flatnonzero(weights >= least * weights.max())
    return Posterior(
        kept % len(family().log_prior), weights[kept] / weights[kept].sum(), levels[kept]
    )


def _weights(past: Binned, begin: float, points: int) -> tuple[Vector, float]:
    """Each bin's weight in the window that begins there, and the part of all points that lie in
    it."""
    centres = (np.arange(PAST_BINS) + 0.5) / PAST_BINS
    if points <= _FEW:
        return past.known * (_FIRST_WEIGHT + (1 - _FIRST_WEIGHT) * centres), 1.0
    weights = past.known * (centres >= begin)
    # Where training paused for long, nothing may lie in the window but the last point.
    return (weights, 1 - begin) if weights.any() else (past.known, 1.0)


def _of_window(log_loss: Vector, weights: Vector, points: float) -> tuple[Vector, Vector]:
    tables = family()
    weights = weights / weights.sum()
    weighted = weights * log_loss
    mean = float(weighted.sum())
    levels = mean - tables.past @ weights
    centred = log_loss - mean  # the products below would lose their digits to a mean far from 0
    products = tables.past @ (weights * centred)
    square = (
        float(weights @ centred**2)
        - 2 * products
        + tables.past_squared @ weights
        - (levels - mean) ** 2
    )
    worth = max(_TEMPER * points, _LEAST_WORTH)
    log_weights = tables.log_prior - worth / 2 * np.log(np.maximum(square, 0) + INEXACT**2)
    likelihood = np.exp(log_weights - log_weights.max())
    return likelihood / likelihood.sum(), levels
