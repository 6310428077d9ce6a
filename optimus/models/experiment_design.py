"""Which counts to measure next: the sample that says most about the speed model.

Sequential design for the linear model of Optimus, section 3.2: of the counts allowed, the one at
which the prediction made from the samples so far varies most. That is x' A^-1 x with rows relative
to the predicted time (D-optimal), plus how far the shapes of the curve are apart there, plus how
far the truth may lie beside them so far from any sample. Terms that the fit has set to zero stay
in. Counts with p = w alone cannot identify the model: one off them is forced."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from optimus.jobs import Batch, Counts, TrainingMode
from optimus.models.nnls import Vector
from optimus.models.speed.curve import Curve
from optimus.models.speed.deviation import Deviation
from optimus.models.speed.node_factors import KindFactors
from optimus.models.speed.samples import Measured
from optimus.models.speed.terms import SpeedForm, SpeedTerms
from optimus.progress.types import SpeedSample

_PRIOR: Final = 1e-3
_ERROR: Final = 0.1
"""Relative error of a sample, against which all else counts: a cautious one, which goes to the
corners first."""
_BESIDE: Final = 0.05
"""How far the truth lies beside every shape, relatively, where nothing was measured."""


def next_sample(
    samples: Sequence[SpeedSample],
    allowed: Sequence[Counts],
    mode: TrainingMode,
    batch: Batch | None = None,
    form: SpeedForm = SpeedForm.BLEND,
) -> Counts | None:
    """The counts among ``allowed`` to measure next, or ``None`` where all of them are measured.

    Without a sample it is the smallest one allowed. Ties go to the smaller counts.
    """
    measured = Measured.of(samples)
    open_counts = sorted(
        set(allowed) - set(measured.counts), key=lambda counts: (sum(counts), counts)
    )
    if not open_counts or not measured.counts:
        return open_counts[0] if open_counts else None
    variance = _variances(measured, open_counts, SpeedTerms(mode, batch, form))
    off_diagonal = np.array([counts.ps != counts.workers for counts in open_counts])
    if off_diagonal.any() and all(counts.ps == counts.workers for counts in measured.counts):
        variance = np.where(off_diagonal, variance, -np.inf)
    return open_counts[int(np.argmax(np.round(variance / variance.max(), 9)))]


def _variances(measured: Measured, candidates: Sequence[Counts], terms: SpeedTerms) -> Vector:
    """The relative variance of the prediction at each candidate."""
    curve = Curve.fit(measured, terms, KindFactors.fit(measured, terms).each(measured))
    ps, workers = np.array(candidates, dtype=np.float64).T
    columns, seen = terms.columns(ps, workers), terms.columns(measured.ps, measured.workers)
    times = np.einsum("snk,sk->sn", columns, curve.coefficients)
    rows = columns / times[..., np.newaxis]
    seen_rows = seen / np.einsum("snk,sk->sn", seen, curve.coefficients)[..., np.newaxis]
    scale = np.sqrt(np.mean(np.concatenate([rows, seen_rows], axis=1) ** 2, axis=1))[:, np.newaxis]
    rows, seen_rows = rows / scale, seen_rows / scale
    information = np.einsum("sni,snj->sij", seen_rows, seen_rows) + _PRIOR * np.eye(rows.shape[-1])
    within = np.einsum(
        "s,sni,sij,snj->n", curve.weights, rows, np.linalg.inv(information), rows, optimize=True
    )
    mean = curve.weights @ times
    between = curve.weights @ (times / mean - 1) ** 2
    beside = np.zeros(len(ps))
    if terms.form is SpeedForm.BLEND:
        none = np.zeros(len(measured.counts))
        beside = Deviation.of(measured.ps, measured.workers, none, measured.variance).unknown(
            ps, workers
        )
    return np.asarray(_ERROR**2 * within + between + _BESIDE**2 * beside, dtype=np.float64)
