"""Remaining seconds of many jobs at once, each at counts of its own.

Forecasts are opaque. Where all of them are of one class that offers ``stacked``, that answers for
all rows in one go. Otherwise each is evaluated on a grid from the job's minimum upwards, which
doubles where more is asked for, and queries are look-ups: one call of a forecast stands for
hundreds."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.demand import Counted
from optimus.models.forecast import Forecast

Seconds = NDArray[np.float64]

_FIRST_SIDE = 16


class RemainingSeconds(Protocol):
    """Remaining seconds of row ``rows[i]`` at ``ps[i]`` and ``workers[i]``; the arrays
    broadcast."""

    def __call__(self, rows: Counted, ps: Counted, workers: Counted, /) -> Seconds:
        """The seconds, in the broadcast shape."""
        ...


@runtime_checkable
class Stackable(Protocol):
    """A class of forecasts of one form, which can be evaluated for many jobs at once."""

    @classmethod
    def stacked(cls, forecasts: Sequence[Any]) -> RemainingSeconds:
        """The same answers as ``remaining_seconds`` of each, all of this class, to the last bit."""
        ...


def remaining_seconds(
    forecasts: Sequence[Forecast], ps: Counted, workers: Counted
) -> RemainingSeconds:
    """The forecasts as one; no row is asked below its ``ps`` and ``workers``."""
    kinds = {type(forecast) for forecast in forecasts}
    if len(kinds) == 1:
        kind = kinds.pop()
        if issubclass(kind, Stackable):
            return kind.stacked(forecasts)
    return Tables(forecasts, ps, workers)


class Tables:
    """A grid of seconds per forecast, all in one array: that of row i begins at ``_begin[i]``."""

    def __init__(self, forecasts: Sequence[Forecast], ps: Counted, workers: Counted) -> None:
        self._forecasts = forecasts
        self._ps, self._workers = ps, workers
        self._height = np.full(len(forecasts), _FIRST_SIDE, dtype=np.int64)
        self._width = np.full(len(forecasts), _FIRST_SIDE, dtype=np.int64)
        self._begin = np.zeros(len(forecasts), dtype=np.int64)
        self._seconds = np.empty(len(forecasts) * _FIRST_SIDE**2)
        self._end = 0
        for row in range(len(forecasts)):
            self._evaluate(row)

    def __call__(self, rows: Counted, ps: Counted, workers: Counted, /) -> Seconds:
        """The seconds, in the broadcast shape."""
        down, right = ps - self._ps[rows], workers - self._workers[rows]
        outside = (down >= self._height[rows]) | (right >= self._width[rows])
        if outside.any():
            self._grow(*(each[outside] for each in np.broadcast_arrays(rows, down, right)))
        return np.asarray(self._seconds[self._begin[rows] + down * self._width[rows] + right])

    def _grow(self, rows: Counted, down: Counted, right: Counted) -> None:
        for row in np.unique(rows).tolist():
            here = rows == row
            while self._height[row] <= down[here].max():
                self._height[row] *= 2
            while self._width[row] <= right[here].max():
                self._width[row] *= 2
            self._evaluate(row)

    def _evaluate(self, row: int) -> None:
        height, width = int(self._height[row]), int(self._width[row])
        ps = self._ps[row] + np.arange(height)[:, None]
        workers = self._workers[row] + np.arange(width)[None, :]
        end = self._end + height * width
        if end > len(self._seconds):
            self._seconds = np.concatenate([self._seconds, np.empty(max(end, len(self._seconds)))])
        self._seconds[self._end : end] = self._forecasts[row].remaining_seconds(ps, workers).ravel()
        self._begin[row], self._end = self._end, end
