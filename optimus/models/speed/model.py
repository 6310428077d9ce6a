"""Speed as a function of the counts of PSs and workers (Optimus, section 3.2, equations 3 and 4).

Samples are weighed and repeats put together (``speed_samples``); the curve of the time per step is
fitted by non-negative least squares on the relative error, averaged over shapes of the PSs' term
(``speed_curve``,
``speed_terms``); where a measured value lies beside it, the curve gives way smoothly
(``speed_deviation``); a factor tells kinds of nodes apart (``speed_kinds``). One fit answers all
queries of an interval, arrays at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import Batch, CountBounds, Counts, TrainingMode
from optimus.models.speed.curve import Curve
from optimus.models.speed.deviation import Deviation
from optimus.models.speed.node_factors import KindFactors
from optimus.models.speed.samples import Measured
from optimus.models.speed.terms import SpeedForm, SpeedTerms
from optimus.progress.types import SpeedSample

__all__ = [
    "NEEDED_COUNTS",
    "Measured",
    "SpeedForm",
    "SpeedModel",
    "SpeedTerms",
    "needed_counts",
    "why_not_ready",
]

NEEDED_COUNTS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class SpeedModel:
    """A fitted speed: implements ``models.forecast.Speed``.

    Every value comes from the same function, also where a speed was measured: a difference between
    a measured and a fitted value is mostly the error of the fit, and would be taken for a gain.
    ``anchored`` multiplies the whole function, so that it meets a measured value and all its ratios
    stay. ``samples`` is how many different counts (on different kinds of nodes) stand behind it.
    """

    curve: Curve
    deviation: Deviation
    kinds: KindFactors
    samples: int
    factor: float = 1.0
    node_factor: float = 1.0

    @classmethod
    def fit(
        cls,
        samples: Sequence[SpeedSample],
        mode: TrainingMode,
        batch: Batch | None = None,
        form: SpeedForm = SpeedForm.BLEND,
        needed: int = NEEDED_COUNTS,
    ) -> "SpeedModel | NotReady":
        """Fit to samples; not ready with fewer than ``needed`` different counts, or only such as
        have p = w.

        On the diagonal the terms 1 and w/p, and w and p, are the same, and the answer would be
        arbitrary."""
        measured = Measured.of(samples)
        return why_not_ready(measured, needed) or cls.of(measured, SpeedTerms(mode, batch, form))

    @classmethod
    def of(cls, measured: Measured, terms: SpeedTerms) -> "SpeedModel":
        """Fit to samples that are put together already, few though they may be; at least one."""
        kinds = KindFactors.fit(measured, terms)
        factors = kinds.each(measured)
        curve = Curve.fit(measured, terms, factors)
        ps, workers = measured.ps, measured.workers
        logs = np.zeros(len(ps))
        if terms.form is SpeedForm.BLEND:
            logs = np.log(
                terms.work(workers)
                / measured.steps_per_second
                * factors
                / curve.seconds(ps, workers)
            )
        return cls(
            curve, Deviation.of(ps, workers, logs, measured.variance), kinds, len(measured.counts)
        )

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
        """The job's steps per second at each pair of counts (arrays broadcast); see the class about
        what is given."""
        seconds = self.curve.seconds(ps, workers)
        if self.deviation.pulls.any():
            seconds = seconds * np.exp(self.deviation.log(ps, workers))
        with np.errstate(divide="ignore"):
            return np.asarray(
                self.factor * self.node_factor * self.terms.work(workers) / seconds,
                dtype=np.float64,
            )

    def at(self, counts: Counts) -> float:
        """Steps per second at these counts."""
        return float(self.steps_per_second(counts.ps, counts.workers))

    def uncertainty(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Relative standard deviation of the predicted speed at each pair of counts (arrays
        broadcast).

        Of the mean speed there, not of a single run. What the coefficients leave open, how far the
        shapes are apart, and how far the truth may lie beside all of them.
        """
        within, between = self.curve.variances(ps, workers)
        unknown = self.deviation.unknown(ps, workers)
        return np.asarray(np.sqrt(self.error**2 * (within + unknown) + between), dtype=np.float64)

    def anchored(self, counts: Counts, steps_per_second: float) -> "SpeedModel":
        """The same function, multiplied so that it gives this speed at these counts."""
        return replace(self, factor=self.factor * steps_per_second / self.at(counts))

    def on(self, node_kind: str) -> "SpeedModel":
        """The same job with its workers on nodes of this kind; of an average kind where it was not
        measured."""
        return replace(self, node_factor=self.kinds.of(node_kind))


def why_not_ready(measured: Measured, needed: int = NEEDED_COUNTS) -> NotReady | None:
    """Why no model can be fitted to what was measured; ``None`` if one can."""
    different = set(measured.counts)
    if len(different) < max(needed, 1):
        pairs = f"{len(different)} pair{'s' if len(different) != 1 else ''} of counts"
        return NotReady(f"speed was measured at {pairs}, {needed} needed")
    if needed > 1 and all(counts.ps == counts.workers for counts in different):
        return NotReady(
            "speed was measured only with as many PSs as workers, which cannot tell the two apart"
        )
    return None


def needed_counts(bounds: CountBounds) -> int:
    """At how many different counts a job's speed has to be measured: 3, or as many as its bounds
    allow."""
    if bounds.max_ps is None or bounds.max_workers is None:
        return NEEDED_COUNTS
    allowed = (bounds.max_ps - bounds.min_ps + 1) * (bounds.max_workers - bounds.min_workers + 1)
    return min(max(allowed, 1), NEEDED_COUNTS)
