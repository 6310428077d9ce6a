"""How much epoch means scatter about their smooth course, from the differences of their logarithms.

A second difference of independent noise of standard deviation s has sqrt(6) s, a third one sqrt(20)
s, and hardly any of a smooth course; the smaller answer is the one that the course disturbs less.
The median of the absolute values is not moved by a few outliers. Few points hardly tell it: their
mean square is mixed in."""

from typing import Final

import numpy as np

from optimus.models.nnls import Vector

_SIGMAS_OF_MEDIAN: Final = 1.4826
"""The standard deviation of a normal distribution over the median of its absolute values."""
_FEW: Final = 9
_DIFFERENCES: Final = ((2, np.sqrt(6)), (3, np.sqrt(20)))
LEAST_NOISE: Final = 1e-4
"""No log tells its losses more exactly than this."""
_USUAL: Final = 0.01
NOISE_LOOK_BACK: Final = 20
"""So many epochs before a drop tell its noise."""
_FORMER_PART: Final = 0.8
"""The noise after a drop of the learning rate as a part of that before it."""
_FORMER_WORTH: Final = 4.0
"""So many points after a drop tell the noise as well as all of those before."""


def noise_of(log_loss: Vector) -> float:
    """The standard deviation of the noise in these logs of losses, one for each epoch; at least
    1e-4."""
    if len(log_loss) < 4:
        return _USUAL
    return max(
        min(_scatter(np.diff(log_loss, order) / norm) for order, norm in _DIFFERENCES), LEAST_NOISE
    )


def _scatter(differences: Vector) -> float:
    usual = _SIGMAS_OF_MEDIAN * float(np.median(np.abs(differences)))
    if len(differences) > _FEW:
        return usual
    return float(np.sqrt((usual**2 + float(np.mean(differences**2))) / 2))


def pooled(noise: float, points: int, before: float) -> float:
    """The noise after a drop of the learning rate, of so many points, together with the noise from
    before it."""
    share = max(points - 2, 0) / (max(points - 2, 0) + _FORMER_WORTH)
    return float(
        np.exp(
            share * np.log(noise) + (1 - share) * np.log(max(_FORMER_PART * before, LEAST_NOISE))
        )
    )


def sliding_noise(log_loss: Vector, window: int) -> Vector:
    """The noise of each stretch of ``window`` points, which is short; (points - window + 1,)."""
    second = (log_loss[2:] - 2 * log_loss[1:-1] + log_loss[:-2]) / np.sqrt(6)
    stretches = np.lib.stride_tricks.sliding_window_view(np.abs(second), window - 2)
    median, square = np.median(stretches, axis=1), np.mean(stretches**2, axis=1)
    noise = np.sqrt(((_SIGMAS_OF_MEDIAN * median) ** 2 + square) / 2)
    return np.maximum(np.asarray(noise, dtype=np.float64), LEAST_NOISE)
