"""Experiment design: which counts to measure next, the sample most informative on the speed model.

Sequential design for the linear model of Optimus, section 3.2: of the counts allowed, the one with
the largest variance of the prediction from the samples so far. That is x' A^-1 x with rows relative
to the predicted time (D-optimal), plus the variance between the shapes of the curve, plus that of
the deviation from them. Terms that the fit has set to zero stay in. It counts in proportion to the
speed there, for the second sample to its square: what is known of counts at which no job would run
serves no choice. Counts with p = w alone cannot identify the model: one off the diagonal is
forced."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from optimus.jobs import Counts
from optimus.models import Vector
from optimus.models.speed.curve import MergedSamples, SpeedForm, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

_FIRST_POWER: Final = 2.0
_LATER_POWER: Final = 1.0
"""Of the speed, by which the variance is multiplied: the first after one pair of counts."""


def next_sample(
    samples: Sequence[SpeedSample],
    allowed: Sequence[Counts],
    terms: SpeedTerms,
) -> Counts | None:
    """The counts among ``allowed`` to measure next, or ``None`` where all of them are measured.

    Without a sample it is the smallest one allowed. Ties go to the smaller counts."""
    measured = MergedSamples.of(samples)
    open_counts = sorted(
        set(allowed) - set(measured.counts), key=lambda counts: (sum(counts), counts)
    )
    if not open_counts or not measured.counts:
        return open_counts[0] if open_counts else None
    variance = _variances(measured, open_counts, terms)
    off_diagonal = np.array([counts.ps != counts.workers for counts in open_counts])
    if off_diagonal.any() and all(counts.ps == counts.workers for counts in measured.counts):
        variance = np.where(off_diagonal, variance, -np.inf)
    return open_counts[int(np.argmax(np.round(variance, 9)))]


def _variances(measured: MergedSamples, candidates: Sequence[Counts], terms: SpeedTerms) -> Vector:
    """The relative variance of the prediction at each candidate, and what it counts."""
    model = SpeedModel.of(measured, terms)
    curve = model.curve
    ps, workers = np.array(candidates, dtype=np.float64).T
    columns = terms.columns(ps, workers)
    known = terms.columns(measured.ps, measured.workers, measured.servers)
    times = np.einsum("snk,sk->sn", columns, curve.coefficients)
    rows = columns / times[..., np.newaxis]
    known_rows = known / np.einsum("snk,sk->sn", known, curve.coefficients)[..., np.newaxis]
    scale = np.sqrt(np.mean(np.concatenate([rows, known_rows], axis=1) ** 2, axis=1))
    rows, known_rows = rows / scale[:, np.newaxis], known_rows / scale[:, np.newaxis]
    information = np.einsum("sni,snj->sij", known_rows, known_rows)
    inverse = np.linalg.inv(information + 1e-3 * np.eye(rows.shape[-1]))
    within = np.einsum("s,sni,sij,snj->n", curve.weights, rows, inverse, rows, optimize=True)
    between = curve.weights @ (times / (curve.weights @ times) - 1) ** 2
    # A cautious error of a sample makes the design go to the corners first.
    variance = 0.1**2 * within + between
    if terms.form is SpeedForm.BLEND:
        variance += 0.05**2 * model.deviation.variance(ps, workers)
        power = _FIRST_POWER if len(set(measured.counts)) == 1 else _LATER_POWER
        variance *= model.examples_per_second(ps, workers) ** power
    return np.asarray(variance / variance.max(), dtype=np.float64)
