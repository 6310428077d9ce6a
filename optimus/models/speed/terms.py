"""The terms of the two speed equations (Optimus, section 3.2, equations 3 and 4), and the shapes of
the middle one.

Sync:   1/f = t0 * M/w + t1 + t2 * s(p, w) + t3 * w + t4 * p
Async:  w/f = t0 + t1 * s(p, w) + t2 * w + t3 * p
s is what the PSs and the links do: w/p in the paper. A shape with knee r and share k is max((w +
k)/p, r (1 + k)): below the knee something else than the PSs binds, first of all the worker's own
link (r = the ratio of the two bandwidths); k is what a PS does once a step, in units of what it
does once for each worker (sync training: the update). Where workers share cores, a crowd of more
than c makes each one slower: M/w becomes M max(1/w, 1/c), or w max(w, c)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Batch, BatchScope, TrainingMode
from optimus.models.nnls import Matrix, Vector

_Key = TypeVar("_Key")


class SpeedForm(StrEnum):
    """Which shapes the terms may have.

    ``PAPER``: w/p alone. ``KNEE``: max(w/p, 1) alone, the knee where workers and PSs have links of
    one bandwidth.
    ``BLEND``: several shapes, each fitted, averaged by how well they explain the samples.
    """

    PAPER = "paper"
    KNEE = "knee"
    BLEND = "blend"


class Shape(NamedTuple):
    """One shape of the terms; ``odds`` is how likely it is before anything is measured, up to a
    factor.

    A ``crowd`` of 0: workers do not share cores.
    """

    knee: float
    share: float = 0.0
    odds: float = 1.0
    crowd: float = 0.0


_KNEES: Final = (0.35, 0.7, 1.0, 1.4, 2.8)
_KNEE_SPREAD: Final = 0.8
"""Standard deviation of log(knee) around log(1): two in three clusters have a knee between 0.45 and
2.2."""
_NO_KNEE_ODDS: Final = 0.15
_UPDATE_SHARE: Final = 4.0
_UPDATE_KNEES: Final = (0.25, 1.0)
_UPDATE_ODDS: Final = 0.5
_CROWDS: Final = (2.0, 3.0, 5.0)
_CROWD_KNEES: Final = (0.7, 1.4)
_CROWD_ODDS: Final = 0.2


def _odds(knee: float) -> float:
    return math.exp(-((math.log(knee) / _KNEE_SPREAD) ** 2) / 2)


_PAPER: Final = (Shape(0.0),)
_KNEE: Final = (Shape(1.0),)
_BLEND_ASYNC: Final = (
    Shape(0.0, 0.0, _NO_KNEE_ODDS),
    *(Shape(knee, 0.0, _odds(knee)) for knee in _KNEES),
    *(
        Shape(knee, 0.0, _CROWD_ODDS * _odds(knee), crowd)
        for crowd in _CROWDS
        for knee in _CROWD_KNEES
    ),
)
_BLEND_SYNC: Final = (
    *_BLEND_ASYNC,
    *(Shape(knee, _UPDATE_SHARE, _UPDATE_ODDS * _odds(knee)) for knee in _UPDATE_KNEES),
)


@dataclass(frozen=True, slots=True)
class SpeedTerms:
    """The terms of the linear model for one kind of job."""

    mode: TrainingMode
    batch: Batch | None = None
    form: SpeedForm = SpeedForm.BLEND

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that the PSs' term may have."""
        if self.form is SpeedForm.PAPER:
            return _PAPER
        if self.form is SpeedForm.KNEE:
            return _KNEE
        return _BLEND_SYNC if self.mode is TrainingMode.SYNC else _BLEND_ASYNC

    def columns(self, ps: ArrayLike, workers: ArrayLike) -> Matrix:
        """The columns of every shape at each pair of counts (broadcast): shape (shapes, ...,
        terms)."""
        p, w = np.broadcast_arrays(
            np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        )
        knees, shares, _, crowds = np.array(self.shapes).T.reshape(4, -1, *(1,) * p.ndim)
        shaped = np.maximum((w + shares) / p, knees * (1 + shares))
        if not self._batch_is_shared:
            return _stacked(shaped.shape, [1.0, shaped, np.maximum(w, crowds), p])
        batch = self.batch.size if self.batch else 1
        part = np.maximum(
            1 / w, np.divide(1.0, crowds, where=crowds > 0, out=np.zeros_like(crowds))
        )
        return _stacked(shaped.shape, [batch * part, 1.0, shaped, w, p])

    def total(self, ps: ArrayLike, workers: ArrayLike, coefficients: Matrix) -> NDArray[np.float64]:
        """The sum over shapes and terms of coefficient times column, (shapes, terms), at each pair
        of counts.

        The same as with ``columns``, which would hold them all at once: at 1,000 by 1,000 counts
        half a gigabyte."""
        p, w = np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        *parts, constant, shaped, linear, servers = coefficients.T
        total = constant.sum() + servers.sum() * p + np.zeros_like(w)
        for (knee, share), factor in _summed(
            ((each.knee, each.share) for each in self.shapes), shaped
        ):
            total = total + factor * np.maximum((w + share) / p, knee * (1 + share))
        crowds = [each.crowd for each in self.shapes]
        if not parts:
            return np.asarray(
                total
                + sum(factor * np.maximum(w, crowd) for crowd, factor in _summed(crowds, linear))
            )
        batch = self.batch.size if self.batch else 1
        for crowd, factor in _summed(crowds, parts[0]):
            total = total + batch * factor * np.maximum(1 / w, 1 / crowd if crowd else 0.0)
        return np.asarray(total + linear.sum() * w)

    def work(self, workers: ArrayLike) -> Vector:
        """The steps that the linear model gives the time of: 1 (sync: of all workers) or w (async:
        one of each)."""
        w = np.asarray(workers, dtype=np.float64)
        return w if self.mode is TrainingMode.ASYNC else np.ones_like(w)

    @property
    def _batch_is_shared(self) -> bool:
        """Whether more workers make each one's part smaller; taken as possible where the batch is
        unknown."""
        own = self.batch is not None and self.batch.scope is BatchScope.WORKER
        return self.mode is TrainingMode.SYNC and not own


def _stacked(shape: tuple[int, ...], columns: Sequence[ArrayLike]) -> Matrix:
    stacked = np.empty((*shape, len(columns)))
    for place, column in enumerate(columns):
        stacked[..., place] = column
    return stacked


def _summed(keys: Iterable[_Key], factors: Vector) -> Iterable[tuple[_Key, float]]:
    """The sum of the factors of each key, where it is not 0."""
    sums: dict[_Key, float] = {}
    for key, factor in zip(keys, factors.tolist(), strict=True):
        sums[key] = sums.get(key, 0.0) + factor
    return [(key, factor) for key, factor in sums.items() if factor]
