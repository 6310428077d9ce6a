"""Which counts to measure next: the sample that says most about the speed model.

Sequential D-optimal design for the linear model of Optimus, section 3.2: of the counts allowed, the one at which
the prediction made from the samples so far varies most, x' A^-1 x, with rows relative to the predicted time. Terms
that the fit has set to zero stay in the design. Counts with p = w alone cannot identify the model, and the design
leaves that diagonal by itself, as the variance is largest off it.
"""

from collections.abc import Sequence

import numpy as np

from scheduling.jobs import Batch, Counts, TrainingMode
from scheduling.models.nnls import Matrix, Vector, fit_relative
from scheduling.models.speed import Measured, SpeedForm, SpeedTerms, information_inverse
from scheduling.progress.record import SpeedSample


def next_sample(
    samples: Sequence[SpeedSample],
    allowed: Sequence[Counts],
    mode: TrainingMode,
    batch: Batch | None = None,
    form: SpeedForm = SpeedForm.KNEE,
) -> Counts | None:
    """The counts among ``allowed`` to measure next, or ``None`` where all of them are measured.

    Without a sample it is the smallest one allowed. Ties go to the smaller counts.
    """
    measured = Measured.of(samples)
    open_counts = sorted(set(allowed) - set(measured.counts), key=lambda counts: (sum(counts), counts))
    if not open_counts or not measured.counts:
        return open_counts[0] if open_counts else None
    variance = _variances(measured, open_counts, SpeedTerms(mode, batch, form))
    off_diagonal = np.array([counts.ps != counts.workers for counts in open_counts])
    if off_diagonal.any() and all(counts.ps == counts.workers for counts in measured.counts):
        variance = np.where(off_diagonal, variance, -np.inf)
    return open_counts[int(np.argmax(np.round(variance / variance.max(), 9)))]


def _variances(measured: Measured, candidates: Sequence[Counts], terms: SpeedTerms) -> Vector:
    """The relative variance of the prediction at each candidate, up to a factor."""
    ps, workers = np.array(candidates, dtype=np.float64).T
    columns, seen = terms.columns(ps, workers), terms.columns(measured.ps, measured.workers)
    target = terms.inverse(measured.workers) / measured.steps_per_second
    coefficients = fit_relative(seen, target, measured.weights)
    rows, seen_rows = _relative(columns, coefficients), _relative(seen, coefficients)
    scale = np.sqrt(np.mean(np.concatenate([rows, seen_rows]) ** 2, axis=0))
    spread, _ = information_inverse(seen_rows, np.ones(len(seen_rows)), scale)
    scaled = rows / scale
    return np.asarray(np.einsum("ni,ij,nj->n", scaled, spread, scaled), dtype=np.float64)


def _relative(columns: Matrix, coefficients: Vector) -> Matrix:
    return columns / (columns @ coefficients)[:, np.newaxis]
