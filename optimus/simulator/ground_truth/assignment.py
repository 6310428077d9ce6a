"""Which PS holds which part of a model: MXNet's default rule, and the parameter assignment of
Optimus, section 5.3.

Default: a block of less than a million parameters goes whole to a random PS, a larger one is sliced
over all. Optimus (PAA): blocks by size descending, avg = all / p. Below 1 % of avg: to the PS with
the fewest requests; up to avg: best fit into what each PS lacks to avg; above: slices of avg, each
to the PS that holds least. The PS with the largest share is the last to be done: how uneven the
shares are slows every step down."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np

_SLICED_FROM: Final = 1_000_000
"""MXNet's default of MXNET_KVSTORE_BIGARRAY_BOUND."""
_TINY: Final = 0.01


class ParameterAssignment(Protocol):
    """How a model's parameters are assigned to PSs."""

    def shares(self, ps: int, /) -> tuple[float, ...]:
        """The part of the model that each of so many PSs holds; they sum to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Even:
    """Every PS holds as much, which equation 2 takes for granted."""

    def shares(self, ps: int) -> tuple[float, ...]:
        """The same part for each."""
        return (1 / ps,) * ps


@dataclass(frozen=True, slots=True)
class MxnetDefault:
    """The random rule; ``blocks`` are numbers of parameters, ``seed`` the job's own draw."""

    blocks: tuple[int, ...]
    seed: int

    def shares(self, ps: int) -> tuple[float, ...]:
        """The same answer for the same seed and number of PSs."""
        return _by_chance(self.blocks, self.seed, ps)


@dataclass(frozen=True, slots=True)
class Paa:
    """The assignment of Optimus."""

    blocks: tuple[int, ...]

    def shares(self, ps: int) -> tuple[float, ...]:
        """Nearly even wherever blocks are many or large."""
        return _best_fit(self.blocks, ps)


@cache
def _by_chance(blocks: tuple[int, ...], seed: int, ps: int) -> tuple[float, ...]:
    rng = np.random.default_rng((seed, ps))
    held = np.zeros(ps)
    for size in blocks:
        if size < _SLICED_FROM:
            held[rng.integers(ps)] += size
        else:
            held += size / ps
    return _parts(held)


@cache
def _best_fit(blocks: tuple[int, ...], ps: int) -> tuple[float, ...]:
    held, requests = np.zeros(ps), np.zeros(ps, dtype=np.int64)
    average = sum(blocks) / ps
    for size in sorted(blocks, reverse=True):
        for part in _slices(size, average):
            chosen = _choose(part, average, held, requests)
            held[chosen] += part
            requests[chosen] += 1
    return _parts(held)


def _slices(size: float, average: float) -> list[float]:
    whole = int(size // average)
    rest = size - whole * average
    return [average] * whole + ([rest] if rest > 0 else [])


def _choose(part: float, average: float, held: np.ndarray, requests: np.ndarray) -> int:
    if part < _TINY * average:
        return int(np.lexsort((held, requests))[0])
    lacking = average - held - part
    fitting = np.flatnonzero(lacking >= 0)
    return int(fitting[np.argmin(lacking[fitting])]) if fitting.size else int(np.argmin(held))


def _parts(held: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    whole = float(np.sum(held))
    return tuple(float(each) / whole for each in held)
