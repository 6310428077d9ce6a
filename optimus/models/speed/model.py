"""The speed model: steps per second by counts of PSs and workers (Optimus, section 3.2).

1. Samples are weighted and repeats merged (``curve``).
2. A factor for each kind of nodes and a curve of the time per step (``curve``) are fitted in
   turns: the curve to speeds divided by the factors, then each factor as the mean of measured /
   curve, shrunk towards 1 by a prior (its log has a standard deviation of 0.3).
3. A Gaussian process over (log2 PSs, log2 workers) models the deviation: about
   4 % at any counts, correlated within a factor of two of both, observed at the samples through
   their noise. Its mean is part of every prediction, so that a gain is never the difference of a
   measured and a fitted value, and one noisy sample moves its neighbours only part of the way.

One fit answers all queries of an interval, arrays at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import Batch, CountBounds, Counts, TrainingMode
from optimus.models import Matrix, Vector
from optimus.models.speed.curve import (
    MergedSamples,
    SpeedForm,
    SpeedTerms,
    StepTimeCurve,
    fit_relative,
)
from optimus.models.speed.hypotheses import ERROR, with_hypotheses
from optimus.progress.types import SpeedSample

NEEDED_COUNTS: Final = 3
_PRIOR_SAMPLES: Final = (0.05 / 0.3) ** 2
"""The relative error of a sample around the curve and the spread of factors make these."""
_LARGEST_LOG: Final = math.log(1e6)
"""Of a kind's factor: speeds that a log makes up may differ by any amount."""


@dataclass(frozen=True, slots=True)
class NodeFactors:
    """The factor of each kind of nodes on the curve's speed; 1 for an unknown one."""

    mode: TrainingMode
    factors: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def fit(cls, measured: MergedSamples, terms: SpeedTerms) -> "NodeFactors":
        """Fit to entries of several classes; those of mixed nodes only shape the curve."""
        kinds = sorted({kind for kind in measured.kinds if kind and "*" not in kind})
        fitted = cls(terms.mode)
        if len(set(measured.kinds)) < 2 or not kinds:
            return fitted
        # One shape is enough to distinguish classes.
        form = SpeedForm.KNEE if terms.form is SpeedForm.BLEND else terms.form
        plain = replace(terms, form=form)
        columns = plain.columns(measured.ps, measured.workers, measured.servers)
        steps, fit_weights = terms.steps(measured.workers), measured.fit_weights
        for _ in range(30):
            seconds = steps / measured.steps_per_second * fitted.each(measured)
            (coefficients,) = fit_relative(columns, seconds, fit_weights)
            logs = np.log(measured.steps_per_second * (columns[0] @ coefficients) / steps)
            factors = {}
            for kind in kinds:
                here = np.array([each == kind for each in measured.kinds])
                weights = fit_weights[here]
                mean = weights @ logs[here] / (weights.sum() + _PRIOR_SAMPLES)
                factors[kind] = float(np.exp(np.clip(mean, -_LARGEST_LOG, _LARGEST_LOG)))
            former, fitted = fitted, cls(terms.mode, MappingProxyType(factors))
            if max(abs(math.log(fitted.of(k) / former.of(k))) for k in kinds) < 1e-3:
                break
        return fitted

    def of(self, kind: str) -> float:
        """The factor of one class, or of several as ``mixed_kind`` writes them.

        Sync training is as fast as the slowest worker's nodes, async training sums."""
        if "*" not in kind:
            return self.factors.get(kind, 1.0)
        parts = [part.rpartition("*") for part in kind.split(",")]
        factors = [self.factors.get(name, 1.0) for name, _, _ in parts]
        if self.mode is TrainingMode.SYNC:
            return min(factors)
        counts = [float(count) if count.isdecimal() else 1.0 for _, _, count in parts]
        return float(np.average(factors, weights=counts)) if any(counts) else 1.0

    def each(self, measured: MergedSamples) -> Vector:
        """The factor of each entry."""
        return np.array([self.of(kind) for kind in measured.kinds], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """The log of (true time / time of the curve) given the samples: a Gaussian process."""

    log_counts: Matrix
    """Of the samples, (samples, 2)."""
    alpha: Vector
    """Precision times observations, (samples,)."""
    precision: Matrix
    """The inverse of the samples' covariance, in units of the prior variance."""

    @classmethod
    def of(cls, ps: Vector, workers: Vector, logs: Vector, variance: Vector) -> Self:
        """From the logs of measured time / the curve's time, and the variance of their noise."""
        log_counts = _log_counts(ps, workers)
        covariance = _kernel(log_counts, log_counts) + np.diag(variance / 0.04**2)
        precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        return cls(log_counts, precision @ logs, precision)

    def mean(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The mean log of the factor on the curve's time at each pair of counts (broadcast)."""
        # The kernel is a product of one along each count, so a grid needs no row for each of its
        # pairs and samples.
        along_ps, along_workers = (
            _kernel(_log_counts(each), self.log_counts[:, [n]])
            for n, each in enumerate((ps, workers))
        )
        return np.asarray(np.einsum("...i,...i,i->...", along_ps, along_workers, self.alpha))

    def variance(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The posterior part of the deviation's variance at each pair of counts.

        It also grows with the square of the distance to the nearest sample: a curve errs more in
        extrapolation than between its samples."""
        log_counts = _log_counts(ps, workers)
        near = _kernel(log_counts, self.log_counts)
        known = np.einsum("...i,ij,...j->...", near, self.precision, near, optimize=True)
        return np.asarray(np.maximum(1 - known, 0.0) * self._growth(log_counts) ** 2)

    def covariance(self, ps: ArrayLike, workers: ArrayLike) -> Matrix:
        """The same between several pairs of counts, of shape (pairs, pairs)."""
        log_counts = _log_counts(ps, workers)
        near, growth = _kernel(log_counts, self.log_counts), self._growth(log_counts)
        unknown = _kernel(log_counts, log_counts)
        unknown = unknown - near @ self.precision @ near.T
        return np.asarray(unknown * np.outer(growth, growth))

    def _growth(self, log_counts: Matrix) -> NDArray[np.float64]:
        apart = np.linalg.norm(log_counts[..., np.newaxis, :] - self.log_counts, axis=-1)
        return np.asarray(1 + apart.min(axis=-1))


def _log_counts(*counts: ArrayLike) -> Matrix:
    """The logs of the counts, as the last axis."""
    each = np.broadcast_arrays(*(np.asarray(count, dtype=np.float64) for count in counts))
    return np.stack([np.log2(np.maximum(one, 1.0)) for one in each], axis=-1)


def _kernel(points: Matrix, others: Matrix) -> Matrix:
    apart = points[..., np.newaxis, :] - others  # in doublings of a count
    return np.asarray(np.exp(-np.sum(apart**2, axis=-1) / 2))


@dataclass(frozen=True, slots=True, eq=False)
class SpeedModel:
    """A fitted speed: implements ``models.forecast.Speed``.

    Every value comes from the same function, also where a speed was measured: the difference of a
    measured and a fitted value is mostly the error of the fit, and would be taken for a gain."""

    curve: StepTimeCurve
    deviation: Deviation
    nodes: NodeFactors
    measured: MergedSamples
    """What it was fitted to, without hypotheses."""
    factor: float = 1.0
    """Multiplies the whole function, so that ``anchored`` keeps its ratios."""
    node_factor: float = 1.0
    spread: Mapping[Counts, float] = field(default_factory=lambda: MappingProxyType({}))
    """How many times as long a step takes at counts that are not on the fewest servers."""

    @classmethod
    def fit(
        cls,
        samples: Sequence[SpeedSample],
        mode: TrainingMode,
        batch: Batch | None = None,
        form: SpeedForm = SpeedForm.BLEND,
        needed: int = NEEDED_COUNTS,
    ) -> "SpeedModel | NotReady":
        """Fit to samples; not ready with fewer than ``needed`` different counts, or all p = w.

        With p = w the terms 1 and w/p, and w and p, are the same: the fit would be arbitrary."""
        measured = MergedSamples.of(samples)
        return why_not_ready(measured, needed) or cls.of(measured, SpeedTerms(mode, batch, form))

    @classmethod
    def of(cls, measured: MergedSamples, terms: SpeedTerms) -> "SpeedModel":
        """Fit to merged samples, at least one; few of them together with the hypotheses."""
        nodes, is_blend = NodeFactors.fit(measured, terms), terms.form is SpeedForm.BLEND
        speeds = measured.steps_per_second / nodes.each(measured)
        entries = replace(measured, steps_per_second=speeds)
        # So many entries are fewer than the coefficients of a shape and its choice.
        is_few = is_blend and (len(speeds) <= 4 or why_not_ready(measured) is not None)
        curve = StepTimeCurve.fit(with_hypotheses(entries, terms) if is_few else entries, terms)
        if is_few:
            curve = replace(curve, error=max(curve.error, ERROR))
        logs = curve.deviations[: len(speeds)] * is_blend
        deviation = Deviation.of(measured.ps, measured.workers, logs, measured.variance)
        return cls(curve, deviation, nodes, measured)

    @property
    def terms(self) -> SpeedTerms:
        """The terms of the curve."""
        return self.curve.terms

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The paper's t of the curve: averaged over the shapes where there are several."""
        return tuple(map(float, self.curve.weights @ self.curve.coefficients))

    @property
    def error(self) -> float:
        """Relative error of the samples around the curve."""
        return self.curve.error

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The job's steps per second at each pair of counts (arrays broadcast).

        Workers beyond the most that share a step equally make it no faster."""
        if self.terms.processes is not None:
            workers = self.terms.processes.sharing(workers)
        seconds = self.curve.seconds(ps, workers)
        if self.deviation.alpha.any():
            seconds = seconds * np.exp(self.deviation.mean(ps, workers))
        for counts, times in self.spread.items():
            is_here = np.equal(ps, counts.ps) & np.equal(workers, counts.workers)
            seconds = np.where(is_here, times * seconds, seconds)
        factor = self.factor * self.node_factor
        with np.errstate(divide="ignore"):
            return np.asarray(factor * self.terms.steps(workers) / seconds, dtype=np.float64)

    def examples_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Return how fast the job gets on at each pair of counts, up to a common factor."""
        return self.steps_per_second(ps, workers) * self.terms.examples(workers)

    def at(self, counts: Counts) -> float:
        """Steps per second at these counts."""
        return float(self.steps_per_second(counts.ps, counts.workers))

    def uncertainty(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Relative standard deviation of the mean speed at each pair of counts (broadcast).

        From the coefficients, the difference between shapes, and the deviation from all of them."""
        within, between = self.curve.variances(ps, workers)
        variance = self.error**2 * (within + self.deviation.variance(ps, workers)) + between
        return np.asarray(np.sqrt(variance), dtype=np.float64)

    def ratio_uncertainty(self, now: Counts, ps: ArrayLike, workers: ArrayLike) -> Vector:
        """The relative standard deviation of the ratio of the speeds at each pair of counts to that
        at these, (pairs,). What is wrong at both, as the scale or the law, cancels."""
        ps, workers = np.append(now.ps, ps), np.append(now.workers, workers)
        within, between = self.curve.covariances(ps, workers)
        covariance = self.error**2 * (within + self.deviation.covariance(ps, workers)) + between
        variance = covariance[0, 0] + covariance.diagonal()[1:] - 2 * covariance[0, 1:]
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def anchored(self, counts: Counts, steps_per_second: float) -> "SpeedModel":
        """The same function, multiplied so that it gives this speed at these counts."""
        return replace(self, factor=self.factor * steps_per_second / self.at(counts))

    def where_it_ran(self, node_kind: str | None = None) -> "SpeedModel":
        """The same where counts that were measured are on the servers on which they ran last, on
        this kind of node if they did: they stay there, and are not sure to get fewer next time."""
        found = self
        for counts in sorted(set(self.measured.counts)):
            latest = self.measured.latest_at(counts, node_kind)
            found = found if latest is None else found.on_servers(counts, latest.servers)
        return found

    def on_servers(self, counts: Counts, servers: float) -> "SpeedModel":
        """The same where these counts are on so many servers; itself where others would make no
        difference, or are fewer than it needs."""
        processes = self.terms.processes
        if processes is None or servers <= processes.servers(counts.workers):
            return self
        sharing = Counts(counts.ps, int(np.asarray(processes.sharing(counts.workers))))
        times = self.curve.seconds(*sharing, servers) / self.curve.seconds(*sharing)
        return replace(self, spread={**self.spread, sharing: float(times)})

    def on(self, node_kind: str) -> "SpeedModel":
        """The same job with its workers on nodes of this class; of factor 1 if not measured."""
        return replace(self, node_factor=self.nodes.of(node_kind))


def why_not_ready(measured: MergedSamples, needed: int = NEEDED_COUNTS) -> NotReady | None:
    """Return why no model can be fitted to what was measured; ``None`` if one can."""
    different = set(measured.counts)
    if len(different) < max(needed, 1):
        pairs = f"{len(different)} pair{'s' if len(different) != 1 else ''} of counts"
        return NotReady(f"speed was measured at {pairs}, {needed} needed")
    if needed > 1 and all(counts.ps == counts.workers for counts in different):
        return NotReady(
            "speed was measured only with as many PSs as workers, which cannot distinguish the two"
        )
    return None


def needed_counts(bounds: CountBounds) -> int:
    """Return how many different counts have to be measured: 3, or as many as the bounds allow."""
    if bounds.max_ps is None or bounds.max_workers is None:
        return NEEDED_COUNTS
    allowed = (bounds.max_ps - bounds.min_ps + 1) * (bounds.max_workers - bounds.min_workers + 1)
    return min(max(allowed, 1), NEEDED_COUNTS)
