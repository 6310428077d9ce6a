"""Assignment of parameters to PSs: evenly, MXNet's default, and that of Optimus, section 5.3.

Default: a block of less than a million parameters goes whole to a random PS, a larger one is sliced
over all. Optimus (PAA): the code that jobs train with, ``optimus_trainer.parameters``. The PS with
the largest share is the last to be done: how uneven the shares are slows every step down."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

import numpy as np

from optimus_trainer.parameters import assign


class AssignmentRule(StrEnum):
    """How a job's parameters are assigned to its PSs."""

    EVEN = "even"
    """The same share for every PS, as equation 2 assumes."""
    MXNET = "mxnet"
    """MXNet's default: large arrays sliced, small ones each to a random PS."""
    PAA = "paa"
    """The assignment of Optimus: nearly even wherever arrays are many or large."""


@dataclass(frozen=True, slots=True)
class ParameterAssignment:
    """A rule for one model: ``blocks`` are its arrays' sizes, ``seed`` is for the random rule."""

    rule: AssignmentRule
    blocks: tuple[int, ...] = ()
    seed: int = 0

    def shares(self, ps: int, /) -> tuple[float, ...]:
        """The part of the model that each of so many PSs holds; they sum to 1."""
        match self.rule:
            case AssignmentRule.EVEN:
                return (1 / ps,) * ps
            case AssignmentRule.MXNET:
                return _mxnet_shares(self.blocks, self.seed, ps)
            case AssignmentRule.PAA:
                return _paa_shares(self.blocks, ps)


EVEN: Final = ParameterAssignment(AssignmentRule.EVEN)


@cache
def _mxnet_shares(blocks: tuple[int, ...], seed: int, ps: int) -> tuple[float, ...]:
    rng = np.random.default_rng((seed, ps))
    held = np.zeros(ps)
    for size in blocks:
        # MXNet's default of MXNET_KVSTORE_BIGARRAY_BOUND.
        if size < 1_000_000:
            held[rng.integers(ps)] += size
        else:
            held += size / ps
    return _parts(held)


@cache
def _paa_shares(blocks: tuple[int, ...], ps: int) -> tuple[float, ...]:
    held = np.zeros(ps)
    for part in assign(blocks, ps):
        held[part.ps] += part.size
    return _parts(held)


def _parts(held: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    whole = float(np.sum(held))
    return tuple(float(each) / whole for each in held)
