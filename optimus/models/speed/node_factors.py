"""How much faster a job is on one kind of node than on another, where its samples come from
several.

A job's speed at given counts is a factor of its nodes' kind times the curve. The factors and the
curve are found in turns: the curve through speeds divided by the factors, then each factor as the
mean of measured / curve, drawn towards 1 as if one weak sample said so (its log has a standard
deviation of 0.3 before anything is measured). Where the workers of one job ran on several kinds,
sync training is as fast as the slowest of them, and async training sums."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from optimus.jobs import TrainingMode
from optimus.models.nnls import Matrix, Vector, fit_relative
from optimus.models.speed.samples import Measured
from optimus.models.speed.terms import SpeedForm, SpeedTerms

_SPREAD: Final = 0.3
_ERROR: Final = 0.05
"""Relative error of a sample around the curve."""
_WEAK: Final = (_ERROR / _SPREAD) ** 2
_ROUNDS: Final = 30
_CLOSE: Final = 1e-3


def mixed_kind(workers: Mapping[str, int]) -> str:
    """How a sample's ``node_kind`` is written where its workers ran on several kinds: ``a*3,b*1``,
    in order.

    A star, as no label of a node has one.
    """
    several = {kind: count for kind, count in workers.items() if count > 0}
    if len(several) == 1:
        return next(iter(several))
    return ",".join(f"{kind}*{count}" for kind, count in sorted(several.items()))


@dataclass(frozen=True, slots=True)
class KindFactors:
    """The factor of each kind of node on the curve's speed; 1 for a kind that was not seen, and for
    an unknown one."""

    mode: TrainingMode
    factors: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, kind: str) -> float:
        """The factor of one kind, or of several as ``mixed_kind`` writes them."""
        if "*" not in kind:
            return self.factors.get(kind, 1.0)
        parts = [part.rpartition("*") for part in kind.split(",")]
        factors = [self.factors.get(name, 1.0) for name, _, _ in parts]
        if self.mode is TrainingMode.SYNC:
            return min(factors)
        counts = [float(count) if count.isdecimal() else 1.0 for _, _, count in parts]
        return float(np.average(factors, weights=counts)) if any(counts) else 1.0

    @classmethod
    def fit(cls, measured: Measured, terms: SpeedTerms) -> "KindFactors":
        """Fit to entries of several kinds. Those of mixed or unknown nodes shape the curve, not the
        factors."""
        kinds = sorted({kind for kind in measured.kinds if kind and "*" not in kind})
        if len(set(measured.kinds)) < 2 or not kinds:
            return cls(terms.mode)
        columns = SpeedTerms(terms.mode, terms.batch, _plain(terms.form)).columns(
            measured.ps, measured.workers
        )[0]
        fitted = cls(terms.mode)
        for _ in range(_ROUNDS):
            better = cls(
                terms.mode, _better(measured, columns, terms.work(measured.workers), fitted)
            )
            change = max(abs(math.log(better.of(kind) / fitted.of(kind))) for kind in kinds)
            fitted = better
            if change < _CLOSE:
                break
        return fitted

    def each(self, measured: Measured) -> Vector:
        """The factor of each entry."""
        return np.array([self.of(kind) for kind in measured.kinds], dtype=np.float64)


def _plain(form: SpeedForm) -> SpeedForm:
    """One shape is enough to tell kinds apart."""
    return SpeedForm.KNEE if form is SpeedForm.BLEND else form


def _better(
    measured: Measured, columns: Matrix, work: Vector, fitted: KindFactors
) -> Mapping[str, float]:
    """The factors by the curve through the speeds divided by the factors so far."""
    reference = work / measured.steps_per_second * fitted.each(measured)
    coefficients = fit_relative(columns, reference, measured.worth)
    logs = np.log(measured.steps_per_second * (columns @ coefficients) / work)
    factors = {}
    for kind in sorted(set(measured.kinds)):
        if kind and "*" not in kind:
            here = np.array([each == kind for each in measured.kinds])
            worth = measured.worth[here]
            factors[kind] = float(np.exp(worth @ logs[here] / (worth.sum() + _WEAK)))
    return MappingProxyType(factors)
