"""Losses as points of a log."""

import numpy as np

from optimus.progress.types import LossPoint


def epochs(losses: np.ndarray) -> list[LossPoint]:
    return [LossPoint(float(loss), epoch=n + 1.0) for n, loss in enumerate(losses)]
