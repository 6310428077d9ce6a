"""Losses as points of a log."""

import numpy as np

from scheduling.progress.record import LossPoint


def epochs(losses: np.ndarray) -> list[LossPoint]:
    return [LossPoint(float(loss), epoch=n + 1.0) for n, loss in enumerate(losses)]
