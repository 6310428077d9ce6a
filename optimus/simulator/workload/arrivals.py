"""When jobs arrive: the three patterns of Optimus, sections 6.1 and 6.3, in ascending seconds."""

from typing import Final, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

WINDOW_SECONDS: Final = 12_000.0
"""Jobs arrive within so long (section 6.1)."""
SLOT_SECONDS: Final = 600.0
JOBS_PER_SLOT: Final = 3.0
"""Mean number of jobs that arrive in an interval (section 6.3)."""
_BURSTINESS: Final = 1.2
_MEMORY: Final = 0.5


class Arrivals(Protocol):
    """A pattern."""

    def __call__(self, jobs: int, rng: Generator, /) -> NDArray[np.float64]:
        """The instants, in ascending seconds, at which so many jobs arrive."""
        ...


def uniform(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Any instant of the window is as likely."""
    return np.sort(rng.uniform(0, WINDOW_SECONDS, jobs))


def poisson(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Times between arrivals are exponential, three jobs an interval."""
    return np.cumsum(rng.exponential(SLOT_SECONDS / JOBS_PER_SLOT, jobs))


def at_intervals(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """As ``uniform``, but each at the beginning of its interval: nobody waits for a decision."""
    return np.floor(uniform(jobs, rng) / SLOT_SECONDS) * SLOT_SECONDS


def bursts(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Quiet and crowded intervals, as clusters' own traces have them.

    The logarithm of an interval's rate is normal and half of it is carried over to the next
    interval, so that the busiest of the window's 20 intervals has some five times the mean, and
    crowded intervals follow one another."""
    slots = int(WINDOW_SECONDS / SLOT_SECONDS)
    level, levels = rng.normal(), np.empty(slots)
    for slot in range(slots):
        levels[slot] = level
        level = _MEMORY * level + np.sqrt(1 - _MEMORY**2) * rng.normal()
    rates = np.exp(_BURSTINESS * levels)
    slot_of = rng.choice(slots, jobs, p=rates / rates.sum())
    return np.sort((slot_of + rng.uniform(0, 1, jobs)) * SLOT_SECONDS)
