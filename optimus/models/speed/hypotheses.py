"""What is assumed of a job's speed where few samples say anything: the mean over hypotheses.

A hypothesis says where the time of a step goes with one PS and one worker, in the terms of Optimus,
section 3.2 (eq 3 and 4): computing, which is split among the workers where they share a batch;
constant work; transfer; what each further worker and each further PS add. All are equally likely a
priori, but for how long an exchange without PSs takes.
1. Each hypothesis is scaled to the samples, by the mean of the logs of measured / its own time.
2. It is weighed by the likelihood of what is left, under a relative error of 10 %.
3. The time per step is the weighted mean of all: minimising it minimises the expected time.
``with_hypotheses`` adds what they expect to the samples of a fit, as weak observations (a power
prior, Ibrahim and Chen 2000). ``values_of_measuring`` says what one more sample is worth: how much
less time is expected where the counts are chosen once it is known (Raiffa and Schlaifer 1961,
preposterior analysis)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Batch, BatchScope, Counts
from optimus.models import Matrix, Vector
from optimus.models.speed.curve import MergedSamples, SpeedForm, SpeedTerms
from optimus.progress.types import SpeedSample

_PARTS: Final = 5
"""A hypothesis gives computing and transfer so many parts, together."""
_CONSTANTS: Final = (0.0, 0.1)
"""What is neither, as a part of the three."""
_OVERHEADS: Final = (0.003, 0.03)
"""What each worker, or each PS, adds, as a part of the three."""
_FORMS: Final = (SpeedForm.PAPER, SpeedForm.KNEE)
"""Transfer: as many workers per PS as there are, or as where all links are equal."""
ERROR: Final = 0.1
"""Relative error of a hypothesis at a pair of counts: more than that of a fitted curve."""
_EXPECTED_ERROR: Final = 0.4
"""Relative error of their mean where nothing was measured."""
_EXPECTED_AT: Final = tuple(Counts(2**ps, 2**workers) for ps in range(5) for workers in range(5))
_WORKERS_ALONE: Final = tuple(Counts(0, 2**workers) for workers in range(7))
_EXCHANGES: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
_LATENCIES: Final = (0.0, 0.0003, 0.003)
_OVERLAPS: Final = (0.0, 0.8)


@lru_cache(maxsize=2)
def _mixtures(batch_is_shared: bool) -> Matrix:
    """Seconds of each term with one PS and one worker, where computing, constant work and transfer
    take 1 s together: (hypotheses, terms)."""
    found = [
        ((1 - constant) * part / _PARTS, constant, (1 - constant) * (1 - part / _PARTS), worker, ps)
        for part in range(_PARTS + 1)
        for constant in _CONSTANTS
        for worker in _OVERHEADS
        for ps in _OVERHEADS
    ]
    computing, constant, *others = np.array(found, dtype=np.float64).T
    first = [computing, constant] if batch_is_shared else [computing + constant]
    return np.column_stack([*first, *others])


def _plain(terms: SpeedTerms) -> SpeedTerms:
    """The terms without the size of the batch, which no hypothesis depends on."""
    return replace(terms, batch=None if terms.batch_is_shared else Batch(1, BatchScope.WORKER))


@lru_cache(maxsize=1)
def _exchanges() -> Matrix:
    """Of a job without PSs, where computing takes 1 s with one process: the seconds of constant
    work, of the exchange of all gradients between servers and of what each further process adds,
    and which part of the exchange lies behind computing: (hypotheses, 4)."""
    return np.array([*product(_CONSTANTS, _EXCHANGES, _LATENCIES, _OVERLAPS)], dtype=np.float64)


def _exchange_seconds(columns: Matrix, *, batch_is_shared: bool) -> NDArray[np.float64]:
    """The same as ``_seconds`` by the columns of a job without PSs."""
    constant, exchange, latency, overlap = _exchanges().T
    computing = columns[..., :1] if batch_is_shared else np.ones_like(columns[..., :1])
    exchanged = columns[..., -2:-1] * exchange + columns[..., -1:] * latency
    hidden = overlap * np.minimum(computing, exchanged)
    return np.asarray(computing + constant + exchanged - hidden)


def _seconds(
    terms: SpeedTerms, ps: ArrayLike, workers: ArrayLike, servers: ArrayLike | None = None
) -> NDArray[np.float64]:
    """What each hypothesis takes at each pair of counts, by form: (forms, counts, hypotheses)."""
    if terms.processes is not None:
        columns = terms.columns(ps, workers, servers)
        return _exchange_seconds(columns, batch_is_shared=terms.batch_is_shared)
    forms = (replace(terms, form=form).columns(ps, workers) for form in _FORMS)
    return np.concatenate(list(forms)) @ _mixtures(terms.batch_is_shared).T


class _Weighed(NamedTuple):
    """Hypotheses after some samples: their weights, and the factors on their seconds. Both are
    (forms, hypotheses)."""

    weights: Matrix
    scales: Matrix

    @classmethod
    def by(cls, measured: MergedSamples, terms: SpeedTerms) -> "_Weighed":
        """From samples at one pair of counts at least."""
        seconds = terms.steps(measured.workers) / measured.steps_per_second
        each = _seconds(terms, measured.ps, measured.workers, measured.servers)
        logs = np.log(seconds[:, np.newaxis] / each)
        precisions = 1 / (ERROR**2 + measured.variance)
        scales = np.einsum("fnh,n->fh", logs, precisions) / precisions.sum()
        squares = np.einsum("fnh,n->fh", np.square(logs - scales[:, np.newaxis]), precisions)
        if terms.processes is not None:
            # Between servers it takes 1 s, however long computing takes: the model's size counts.
            # Each pair of counts that is measured tells more of the exchange itself.
            exchanges = np.log(_exchanges()[:, 1]) + scales
            told = len(set(measured.counts))
            squares = squares + np.square(exchanges / 1.4) / told
        weights = np.exp(-(squares - squares.min()) / 2)
        return cls(weights / weights.sum(), np.exp(scales))


def with_hypotheses(measured: MergedSamples, terms: SpeedTerms) -> MergedSamples:
    """The samples, one at least, and after them what the hypotheses expect at other counts."""
    expected_at = _EXPECTED_AT if terms.processes is None else _WORKERS_ALONE
    terms, open_counts = _plain(terms), tuple(set(expected_at).difference(measured.counts))
    ps, workers = np.array(sorted(open_counts), dtype=np.float64).T
    weights, scales = _Weighed.by(measured, terms)
    seconds = np.einsum("fh,fnh->n", weights * scales, _seconds(terms, ps, workers))
    number = len(open_counts)
    return MergedSamples(
        (*measured.counts, *sorted(open_counts)),
        (*measured.kinds, *[""] * number),
        np.append(measured.steps_per_second, terms.steps(workers) / seconds),
        np.append(measured.runs, [(measured.noise / _EXPECTED_ERROR) ** 2] * number),
        np.append(measured.latest, [0.0] * number),
        measured.noise,
        np.append(measured.servers, [0.0] * number),
    )


def values_of_measuring(
    measured: MergedSamples,
    terms: SpeedTerms,
    allowed: Sequence[Counts],
    *,
    batch_per_worker: bool = False,
) -> Vector:
    """Return what a sample at each of the counts is worth, as a part of the least expected time.

    Under each hypothesis in turn, the sample shows its time at these counts; the hypotheses are
    weighed again, and the counts that are best then take the time that this hypothesis says.
    ``batch_per_worker``: a step of more workers covers more examples. No restart is counted."""
    unit = measured.steps_per_second[0] if terms.processes is None else 1.0
    logs = np.log(measured.steps_per_second / unit)
    # To 1 %, less than noise.
    known = tuple(zip(measured.counts, np.round(logs, 2).tolist(), strict=True))
    return _values(_plain(terms), known, tuple(allowed), batch_per_worker)


@lru_cache(maxsize=1024)
def _values(
    terms: SpeedTerms,
    measured: tuple[tuple[Counts, float], ...],
    allowed: tuple[Counts, ...],
    batch_per_worker: bool,
) -> Vector:
    """The same from logs of speeds: most jobs are measured once, at equal counts."""
    samples = MergedSamples.of(
        SpeedSample(counts, math.exp(log), math.inf, 0.0) for counts, log in measured
    )
    weights, scales = (each.ravel() for each in _Weighed.by(samples, terms))
    # Others do not count in the value of a measurement.
    likely = weights > 1e-4
    weights, scales = weights[likely] / weights[likely].sum(), scales[likely]
    ps, workers = np.array(allowed, dtype=np.float64).T
    each = np.swapaxes(_seconds(terms, ps, workers), 1, 2).reshape(-1, len(allowed))
    seconds = each[likely] * scales[:, np.newaxis]
    left = seconds / terms.steps(workers) / (workers if batch_per_worker else 1.0)
    logs, values, least = np.log(seconds), np.empty(len(allowed)), (weights @ left).min()
    for index in range(len(allowed)):
        apart = logs[:, [index]] - logs[:, index]
        after = weights * np.exp(-np.square(apart / ERROR) / 2)
        chosen = (after @ left).argmin(axis=1)
        values[index] = 1 - weights @ left[np.arange(len(left)), chosen] / least
    return values
