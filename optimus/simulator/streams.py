"""Random numbers: one stream for each purpose and job, so that no decision shifts another's draws.

The same seed gives a job the same losses under every policy."""

import hashlib
from enum import IntEnum

import numpy as np
from numpy.random import Generator, SeedSequence


class Purpose(IntEnum):
    """What numbers are drawn for."""

    WORKLOAD = 0
    LOSS = 1
    SPEED = 2
    STRAGGLING = 3
    FORECAST_ERROR = 4
    RESTART = 5


def stream(seed: int, purpose: Purpose, uid: str = "") -> Generator:
    """The generator of one job for one purpose."""
    words = np.frombuffer(hashlib.sha256(uid.encode()).digest()[:16], dtype="<u4")
    return np.random.default_rng(SeedSequence(seed, spawn_key=(int(purpose), *map(int, words))))


def lognormal_factor(rng: Generator, deviation: float) -> float:
    """A positive factor of mean 1 and about this relative standard deviation (log-normal)."""
    return float(np.exp(deviation * rng.standard_normal() - deviation**2 / 2))
