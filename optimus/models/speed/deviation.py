"""What was measured beside the curve: a smooth deviation from it, so that measured values are
believed where they are.

No curve of a few terms meets every cluster. The deviation is a Gaussian process over (log2 PSs,
log2 workers): about 4 % at any counts, alike where both counts agree within a factor of two,
observed at the samples through their noise. Its mean is part of the prediction at every pair of
counts, so that a gain is never the difference between a measured value and a fitted one, and one
noisy sample moves its neighbours along with it, part of the way."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.models.nnls import Matrix, Vector

_SPREAD: Final = 0.04
_REACH: Final = 1.0
"""In doublings of a count."""


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """The log of (true time / time of the curve), given the samples; ``places`` are (samples, 2)
    logs of counts."""

    places: Matrix
    pulls: Vector
    knowledge: Matrix

    @classmethod
    def of(cls, ps: Vector, workers: Vector, logs: Vector, variance: Vector) -> Self:
        """From the logs of measured time / the curve's time at some counts, and the variance of
        their noise."""
        places = _places(ps, workers)
        covariance = _likeness(places, places) + np.diag(variance / _SPREAD**2)
        knowledge = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        return cls(places, knowledge @ logs, knowledge)

    def log(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The log of the factor on the curve's time at each pair of counts (arrays broadcast)."""
        # The likeness is a product of one along each count: a grid needs no row for each of its
        # pairs and samples.
        along_ps, along_workers = (
            _likeness(_places(each), self.places[:, [n]]) for n, each in enumerate((ps, workers))
        )
        return np.asarray(np.einsum("...i,...i,i->...", along_ps, along_workers, self.pulls))

    def unknown(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The part of the deviation's variance that the samples leave, at each pair of counts.

        Beside a sample it is near 0; it grows with the square of the distance to the nearest one:
        where a curve was never held to anything it goes astray by more than it does between its
        samples."""
        places = _places(ps, workers)
        near = _likeness(places, self.places)
        known = np.einsum("...i,ij,...j->...", near, self.knowledge, near, optimize=True)
        apart = np.linalg.norm(places[..., np.newaxis, :] - self.places, axis=-1).min(axis=-1)
        return np.asarray(np.maximum(1 - known, 0.0) * (1 + apart) ** 2)


def _places(*counts: ArrayLike) -> Matrix:
    """The logs of the counts, as the last axis."""
    each = np.broadcast_arrays(*(np.asarray(count, dtype=np.float64) for count in counts))
    return np.stack([np.log2(one) for one in each], axis=-1)


def _likeness(places: Matrix, others: Matrix) -> Matrix:
    apart = (places[..., np.newaxis, :] - others) / _REACH
    return np.asarray(np.exp(-np.sum(apart**2, axis=-1) / 2))
