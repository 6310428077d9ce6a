"""The time of a training step by counts: samples, terms, and the curve through them.

Optimus, section 3.2, equations 3 and 4:

Sync:   1/f = t0 * M/w + t1 + t2 * s(p, w) + t3 * w + t4 * p
Async:  w/f = t0 + t1 * s(p, w) + t2 * w + t3 * p

s is the time of the PSs and the links: w/p in the paper. A shape with knee r and update cost u is
max((w + u)/p, r (1 + u)): below the knee something other than the PSs limits, usually the worker's
own link (r = the ratio of the two bandwidths); u is the work of a PS once per step, in units of its
work for each worker (sync training: the update). Where PSs are known not to hold the same, p is
there the number of PSs that would each hold as much as the fullest. Where workers share cores, each
of more than c becomes slower: M/w becomes M max(1/w, 1/c), w becomes max(w, c).

Without PSs, n processes exchange gradients among themselves (all-reduce; the terms of a ring, as
in Patarasu and Yuan, 2009):  1/f = t0 * M/n + t1 + t2 * (n-1)/n / r + t3 * (n-1) / r
A shape with ``within`` r says how many times cheaper the exchange is within one server than between
several, where r is 1. A sample knows on how many servers it ran; a prediction is for the fewest.

Samples at the same counts and on the same kind of node are repeats: they become one entry, their
weighted mean. A sample's weight is seconds / (seconds + 20): its noise falls with time, but runs
differ however long they are. It halves for every half hour that a newer repeat is younger; without
a newer repeat it stays. The noise of a run, 3 % a priori, is estimated from repeats; an entry's
weight in a fit is 1 / (form^2 + noise^2 / runs).

For each shape non-negative least squares on the relative error gives the coefficients. Its
posterior weight is its prior times the likelihood of its residuals under an unknown scale: about
3 %, possibly much smaller. The weighted average of the shapes is again a curve of the same terms;
few samples leave the weights near the prior."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Batch, BatchScope, Counts, Job, TrainingMode
from optimus.models import Matrix, Vector
from optimus.models.nnls import nnls
from optimus.progress.types import SpeedSample

_Key = TypeVar("_Key")

_USUAL_ERROR: Final = 0.03
_USUAL_SAMPLES: Final = 2.0
"""Relative error of a curve around its samples a priori, and how many samples that counts for."""
_SMALLER_ERRORS: Final = np.array([1.0, 1 / 30, 1e-3, 1 / 30e3])
_SMALLER_PRIOR: Final = np.array([1.0, 0.01, 0.01, 0.01])
"""The error may be much smaller than usual; that shows only with more samples than coefficients."""
_RIDGE: Final = 1e-3
_LEAST_ERROR: Final = 0.05
_LEAST_SAMPLES: Final = 4.0
"""For the uncertainty: the error a priori, and how many samples that counts for."""
SPEEDS: Final = (1e-12, 1e12)
"""Steps per second of any training; what lies outside is a mistake, and would overflow."""
_NOISE: Final = 0.03
_NOISE_REPEATS: Final = 4.0
"""Relative noise of a run a priori, and how many repeats that counts for."""
_FORM: Final = 0.03
"""Relative error of the curve itself: many repeats at few counts must not bend it to meet them."""


def mixed_kind(workers: Mapping[str, int]) -> str:
    """A sample's ``node_kind`` where its workers ran on several: ``a*3,b*1``, in order.

    The star, as no node label has one."""
    several = {kind: count for kind, count in workers.items() if count > 0}
    if len(several) == 1:
        return next(iter(several))
    return ",".join(f"{kind}*{count}" for kind, count in sorted(several.items()))


class LatestSpeed(NamedTuple):
    """The speed at some counts, and the kind of node, and how many servers, that it is of."""

    steps_per_second: float
    node_kind: str
    servers: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class MergedSamples:
    """Samples merged by counts and kind of node: arrays of one length, in the order of counts."""

    counts: tuple[Counts, ...]
    kinds: tuple[str, ...]
    steps_per_second: Vector
    runs: Vector
    """How many long, recent runs an entry is worth."""
    latest: Vector
    """When an entry's newest sample ended, seconds since the epoch, UTC."""
    noise: float
    """Relative standard deviation of one such run."""
    servers: Vector
    """On how many servers an entry ran; 0: not known."""

    @classmethod
    def of(cls, samples: Iterable[SpeedSample]) -> Self:
        """Merge repeats, without failed runs (a speed of 0) and those shorter than 2 seconds."""
        low, high = SPEEDS
        good = [
            each for each in samples if low <= each.steps_per_second <= high and each.seconds >= 2.0
        ]
        good.sort(key=_entry_key)
        entries = [_Entry.of(list(repeats)) for _, repeats in groupby(good, key=_entry_key)]
        freedom = sum(entry.runs * (1 - 1 / entry.repeats) for entry in entries)
        scatter = sum(entry.scatter for entry in entries)
        noise = np.sqrt((_NOISE_REPEATS * _NOISE**2 + scatter) / (_NOISE_REPEATS + freedom))
        return cls(
            tuple(entry.first.counts for entry in entries),
            tuple(entry.first.node_kind for entry in entries),
            np.array([entry.mean for entry in entries], dtype=np.float64),
            np.array([entry.runs for entry in entries], dtype=np.float64),
            np.array([entry.latest for entry in entries], dtype=np.float64),
            float(noise),
            np.array([entry.first.servers for entry in entries], dtype=np.float64),
        )

    def entries(self) -> Iterator[tuple[Counts, str, float, float, float, float]]:
        """Counts, kind, servers, speed, runs and latest of each entry."""
        figures = self.servers, self.steps_per_second, self.runs, self.latest
        yield from zip(self.counts, self.kinds, *(each.tolist() for each in figures), strict=True)

    @property
    def ps(self) -> Vector:
        """PSs of each entry."""
        return np.array([counts.ps for counts in self.counts], dtype=np.float64)

    @property
    def workers(self) -> Vector:
        """Workers of each entry."""
        return np.array([counts.workers for counts in self.counts], dtype=np.float64)

    @property
    def variance(self) -> Vector:
        """Relative variance of each entry's mean, as far as runs differ from one another."""
        return self.noise**2 / self.runs

    @property
    def fit_weights(self) -> Vector:
        """Each entry's weight in a fit: 1 for one long run of the usual noise, always below 2."""
        return (_FORM**2 + _NOISE**2) / (_FORM**2 + self.variance)

    def latest_at(self, counts: Counts, kind: str | None = None) -> LatestSpeed | None:
        """Return what was measured at these counts, if anything.

        On this ``kind`` of node if measured on it, else on the one where it was measured last."""
        here = [index for index, each in enumerate(self.counts) if each == counts]
        if not here:
            return None
        best = max(here, key=lambda index: (self.kinds[index] == kind, self.latest[index]))
        speed, servers = float(self.steps_per_second[best]), float(self.servers[best])
        return LatestSpeed(speed, self.kinds[best], servers)


class _Entry(NamedTuple):
    """The repeats of one entry."""

    first: SpeedSample
    mean: float
    runs: float
    repeats: int
    scatter: float
    """The weighted sum of squared relative distances from the mean."""
    latest: float

    @classmethod
    def of(cls, samples: Sequence[SpeedSample]) -> Self:
        if len(samples) == 1:
            (one,) = samples
            return cls(one, one.steps_per_second, _weight(one, one.at), 1, 0.0, one.at)
        latest = max(sample.at for sample in samples)
        weights = [_weight(sample, latest) for sample in samples]
        total = sum(weights)
        pairs = list(zip(weights, samples, strict=True))
        # Parts of the whole first: a sum of speeds may overflow where none of them does.
        mean = sum(weight / total * each.steps_per_second for weight, each in pairs)
        scatter = sum(weight * (each.steps_per_second / mean - 1) ** 2 for weight, each in pairs)
        return cls(samples[0], mean, total, len(samples), scatter, latest)


def _entry_key(sample: SpeedSample) -> tuple[Counts, str, int]:
    return sample.counts, sample.node_kind, sample.servers


def _weight(sample: SpeedSample, latest: float) -> float:
    # Within three intervals other jobs have come and gone, and a newer repeat is more accurate.
    # Weights stay positive: the newest sample of an entry may be the shortest.
    half_lives = min((latest - sample.at) / 1800.0, 50.0)
    infinite = math.isinf(sample.seconds)
    # A sample of 20 s weighs half as much as a very long one.
    steady = 1.0 if infinite else sample.seconds / (sample.seconds + 20.0)
    return float(steady * 0.5**half_lives)


class SpeedForm(StrEnum):
    """Which shapes the PSs' term may have."""

    PAPER = "paper"
    """w/p alone."""
    KNEE = "knee"
    """max(w/p, 1) alone: workers and PSs have links of one bandwidth."""
    BLEND = "blend"
    """Several shapes, averaged by how well they explain the samples."""


class Shape(NamedTuple):
    """One shape of the terms."""

    knee: float
    update: float = 0.0
    prior: float = 1.0
    """Prior weight, up to a common factor."""
    cores: float = 0.0
    """Workers beyond which they share cores; 0: never."""
    within: float = 1.0
    """How many times cheaper an exchange among all workers is within one server."""


_KNEES: Final = (0.35, 0.7, 1.0, 1.4, 2.8)


def _knee_prior(knee: float) -> float:
    """Of a standard deviation of log(knee) around 0: two thirds of clusters are in 0.45 to 2.2."""
    return math.exp(-((math.log(knee) / 0.8) ** 2) / 2)


_BLEND_ASYNC: Final = (
    Shape(0.0, 0.0, 0.15),
    *(Shape(knee, 0.0, _knee_prior(knee)) for knee in _KNEES),
    *(
        Shape(knee, 0.0, 0.2 * _knee_prior(knee), cores)
        for cores in (2.0, 3.0, 5.0)
        for knee in (0.7, 1.4)
    ),
)
_BLEND_SYNC: Final = (
    *_BLEND_ASYNC,
    *(Shape(knee, 4.0, 0.5 * _knee_prior(knee)) for knee in (0.25, 1.0)),
)
_ALL_REDUCE: Final = tuple(Shape(0.0, within=times) for times in (1.0, 3.0, 10.0))


@dataclass(frozen=True, slots=True)
class Processes:
    """What trains a job without PSs: its workers, and as many ``leads`` beside them.

    ``shares``: equal parts of a step, of which each takes as many (0: as it comes).
    ``per_server``: the most workers that a server holds; 0: not known."""

    leads: int = 0
    shares: int = 0
    per_server: int = 0

    def servers(self, workers: ArrayLike) -> Vector:
        """Return the fewest servers that hold so many workers, and what trains beside them."""
        trainers = np.asarray(workers, dtype=np.float64) + self.leads
        return np.ceil(trainers / self.per_server) if self.per_server else trainers

    def sharing(self, workers: ArrayLike) -> ArrayLike:
        """Return the most workers up to each of these numbers that take equal parts of a step."""
        if not self.shares:
            return workers
        even = _even_workers(self.shares, self.leads)
        at = np.searchsorted(even, np.asarray(workers), side="right")
        return even[np.maximum(at - 1, 0)]


@lru_cache(maxsize=1024)
def _even_workers(shares: int, leads: int) -> Vector:
    trainers = np.arange(1 + leads, min(shares, 20_000) + 1)
    even = trainers[shares % trainers == 0] - leads
    return np.asarray(even if len(even) else [1], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SpeedTerms:
    """The terms of the linear model for one kind of job."""

    mode: TrainingMode
    batch: Batch | None = None
    form: SpeedForm = SpeedForm.BLEND
    ps_unevenness: tuple[float, ...] = ()
    """The largest part divided by the mean for 1, 2, ... PSs; the last also for more; empty: 1."""
    processes: Processes | None = None
    """Of a job without PSs."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Those of this job."""
        processes = Processes(job.leads, job.bounds.shares, job.per_server)
        without_ps = processes if job.all_reduce else None
        return cls(job.mode, job.batch, ps_unevenness=job.ps_unevenness, processes=without_ps)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that the PSs' term may have."""
        if self.processes is not None:
            return _ALL_REDUCE if self.form is SpeedForm.BLEND else _ALL_REDUCE[1:2]
        if self.form is not SpeedForm.BLEND:
            return (Shape(0.0 if self.form is SpeedForm.PAPER else 1.0),)
        return _BLEND_SYNC if self.mode is TrainingMode.SYNC else _BLEND_ASYNC

    def columns(
        self, ps: ArrayLike, workers: ArrayLike, servers: ArrayLike | None = None
    ) -> Matrix:
        """Columns of each shape at each pair of counts (broadcast): (shapes, ..., terms).

        ``servers`` says on how many the counts ran, 0 where that is not known; default: the
        fewest."""
        if self.processes is not None:
            return self._exchanging(self.processes, ps, workers, servers)
        p, w = np.broadcast_arrays(
            np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        )
        knees, updates, _, cores, _ = np.array(self.shapes).T.reshape(5, -1, *(1,) * p.ndim)
        shaped = np.maximum((w + updates) / self._even(p), knees * (1 + updates))
        columns: tuple[ArrayLike, ...]
        if self.batch_is_shared:
            least = np.divide(1.0, cores, where=cores > 0, out=np.zeros_like(cores))
            columns = (self._examples * np.maximum(1 / w, least), 1.0, shaped, w, p)
        else:
            columns = (1.0, shaped, np.maximum(w, cores), p)
        stacked = np.empty((*shaped.shape, len(columns)))
        for index, column in enumerate(columns):
            stacked[..., index] = column
        return stacked

    def _exchanging(
        self,
        processes: Processes,
        ps: ArrayLike,
        workers: ArrayLike,
        servers: ArrayLike | None,
    ) -> Matrix:
        """The columns of a job without PSs."""
        fewest = processes.servers(workers)
        given = fewest if servers is None else np.where(np.asarray(servers) > 0, servers, fewest)
        w, several, _ = np.broadcast_arrays(np.asarray(workers, dtype=np.float64), given > 1, ps)
        n = np.maximum(w + processes.leads, 1.0)
        within = np.array([each.within for each in self.shapes]).reshape(-1, *(1,) * n.ndim)
        exchanged = (n - 1) / np.where(several, 1.0, within)
        columns = [np.ones_like(exchanged), exchanged / n, exchanged]
        if self.batch_is_shared:
            columns.insert(0, np.broadcast_to(self._examples / n, exchanged.shape))
        return np.stack(columns, axis=-1)

    def total(self, ps: ArrayLike, workers: ArrayLike, coefficients: Matrix) -> NDArray[np.float64]:
        """Sum over shapes and terms of coefficient (shapes, terms) times column, at each counts.

        ``columns`` would hold them all at once: at 1,000 by 1,000 counts half a gigabyte."""
        if self.processes is not None:
            return np.asarray(np.einsum("s...k,sk->...", self.columns(ps, workers), coefficients))
        p, w = np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        *parts, constant, shaped, linear, servers = coefficients.T
        total = constant.sum() + servers.sum() * p + np.zeros_like(w)
        even = self._even(p)
        knees = ((each.knee, each.update) for each in self.shapes)
        for (knee, update), factor in _summed(knees, shaped):
            total = total + factor * np.maximum((w + update) / even, knee * (1 + update))
        cores = [each.cores for each in self.shapes]
        if not parts:
            slowed = sum(factor * np.maximum(w, most) for most, factor in _summed(cores, linear))
            return np.asarray(total + slowed)
        for most, factor in _summed(cores, parts[0]):
            part = np.maximum(1 / w, 1 / most if most else 0.0)
            total = total + self._examples * factor * part
        return np.asarray(total + linear.sum() * w)

    def _even(self, ps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many PSs would each hold as much as the fullest of these."""
        if not self.ps_unevenness:
            return ps
        given = np.array(self.ps_unevenness)
        each: NDArray[np.float64] = given[np.clip(ps.astype(int), 1, len(given)) - 1]
        return np.asarray(np.maximum(ps / each, 1.0), dtype=np.float64)

    def steps(self, workers: ArrayLike) -> Vector:
        """Steps in the modelled time: 1 (sync: of all workers) or w (async: one of each)."""
        w = np.asarray(workers, dtype=np.float64)
        return w if self.mode is TrainingMode.ASYNC else np.ones_like(w)

    def examples(self, workers: ArrayLike) -> Vector:
        """Examples of one step, up to a common factor: each worker may bring its own batch."""
        w = np.asarray(workers, dtype=np.float64)
        is_shared = self.batch_is_shared or self.mode is TrainingMode.ASYNC
        return np.ones_like(w) if is_shared else w

    @property
    def _examples(self) -> int:
        return self.batch.size if self.batch else 1

    @property
    def batch_is_shared(self) -> bool:
        """Whether more workers make each one's part of a step smaller; assumed if unknown."""
        own = self.batch is not None and self.batch.scope is BatchScope.WORKER
        return self.mode is TrainingMode.SYNC and not own


def _summed(keys: Iterable[_Key], factors: Vector) -> Iterable[tuple[_Key, float]]:
    """The sum of the factors of each key, where it is not 0."""
    sums: dict[_Key, float] = {}
    for key, factor in zip(keys, factors.tolist(), strict=True):
        sums[key] = sums.get(key, 0.0) + factor
    return [(key, factor) for key, factor in sums.items() if factor]


def fit_relative(columns: Matrix, target: Vector, weights: Vector) -> Matrix:
    """Coefficients >= 0 that minimise the weighted sum of squared relative errors.

    ``columns`` is (sets, rows, coefficients), ``target`` (rows,) and > 0, ``weights`` (rows,) and
    >= 0; each set is fitted alone: (sets, coefficients). Columns are scaled to unit norm, so that
    the order in which they enter does not depend on their units."""
    roots = np.sqrt(weights)
    scaled = columns * (roots / target)[:, np.newaxis]
    norms = np.sqrt(np.einsum("sij,sij->sj", scaled, scaled))
    norms = np.where(norms > 0, norms, 1.0)
    scaled /= norms[:, np.newaxis]
    return np.asarray(nnls(scaled, roots) / norms, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class StepTimeCurve:
    """Seconds per step, as a weighted average over shapes."""

    terms: SpeedTerms
    weights: Vector
    """Posterior weights, (shapes,)."""
    coefficients: Matrix
    """(shapes, terms)."""
    error: float
    """Relative error of the samples around the curve."""
    deviations: Vector
    """The log of each fitted entry's time / the curve's, (entries,)."""
    measured: MergedSamples
    """The entries that were fitted."""
    target: Vector
    """Their times, (entries,)."""

    @classmethod
    def fit(cls, measured: MergedSamples, terms: SpeedTerms) -> "StepTimeCurve":
        """Fit to all entries, as if all were measured on nodes of one kind."""
        columns = terms.columns(measured.ps, measured.workers, measured.servers)
        target = terms.steps(measured.workers) / measured.steps_per_second
        fit_weights = measured.fit_weights
        coefficients = fit_relative(columns, target, fit_weights)
        fitted = np.einsum("snk,sk->sn", columns, coefficients) / target
        errors = fitted - 1
        weights = _posterior_weights(errors**2 @ fit_weights, fit_weights, columns.shape[-1], terms)
        freedom = max(len(target) - columns.shape[-1], 0)
        squares = fit_weights @ (weights @ errors) ** 2
        error = np.sqrt((_LEAST_SAMPLES * _LEAST_ERROR**2 + squares) / (_LEAST_SAMPLES + freedom))
        # A curve may say 0 s where a sample and the others contradict one another.
        logs = -np.log(np.maximum(weights @ fitted, 1e-3))
        return cls(terms, weights, coefficients, float(error), logs, measured, target)

    def seconds(
        self, ps: ArrayLike, workers: ArrayLike, servers: float | None = None
    ) -> NDArray[np.float64]:
        """Seconds of one step of all workers (sync) or of each (async), arrays broadcast."""
        # At a single pair the columns of all shapes at once take less time than a sum over them.
        if np.ndim(ps) == np.ndim(workers) == 0:
            columns = self.terms.columns(ps, workers, servers)
            return np.asarray(self.weights @ np.einsum("sk,sk->s", columns, self.coefficients))
        return self.terms.total(ps, workers, self.weights[:, np.newaxis] * self.coefficients)

    def variances(
        self, ps: ArrayLike, workers: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Relative variance of the time: within the shapes per squared error, and between them.

        The first is x'A^-1 x with A the information and a weak prior, averaged over the shapes."""
        information, scale = self._information()
        columns = self.terms.columns(ps, workers)
        each = np.einsum("s...k,sk->s...", columns, self.coefficients)
        mean = np.tensordot(self.weights, each, 1)
        inverse = np.linalg.inv(information + _RIDGE * np.eye(columns.shape[-1]))
        lead = (slice(None), *(np.newaxis,) * np.ndim(mean), slice(None))
        rows = columns / mean[..., np.newaxis] / scale[lead]
        within = np.einsum(
            "s,s...i,sij,s...j->...", self.weights, rows, inverse, rows, optimize=True
        )
        between = np.tensordot(self.weights, (each / mean - 1) ** 2, 1)
        return np.asarray(within), np.asarray(between)

    def covariances(self, ps: Vector, workers: Vector) -> tuple[Matrix, Matrix]:
        """The same between several pairs of counts, (pairs, pairs) each."""
        information, scale = self._information()
        columns = self.terms.columns(ps, workers)
        each = np.einsum("snk,sk->sn", columns, self.coefficients)
        mean = self.weights @ each
        inverse = np.linalg.inv(information + _RIDGE * np.eye(columns.shape[-1]))
        rows = columns / mean[:, np.newaxis] / scale[:, np.newaxis]
        within = np.einsum("s,sni,sij,smj->nm", self.weights, rows, inverse, rows, optimize=True)
        off = each / mean - 1
        return np.asarray(within), np.asarray(np.einsum("s,sn,sm->nm", self.weights, off, off))

    def _information(self) -> tuple[Matrix, Matrix]:
        """X'WX of the entries' rows relative to their times, (shapes, terms, terms), with columns
        divided by the second, (shapes, terms). Few forecasts are asked for their variance."""
        of = self.measured
        columns = self.terms.columns(of.ps, of.workers, of.servers)
        rows = columns / self.target[:, np.newaxis]
        scale = np.sqrt(np.mean(rows**2, axis=1))
        scaled = rows / scale[:, np.newaxis]
        fit_weights = self.measured.fit_weights
        return np.einsum("sni,n,snj->sij", scaled, fit_weights, scaled), scale


def _posterior_weights(
    squares: Vector, fit_weights: Vector, coefficients: int, terms: SpeedTerms
) -> Vector:
    """The shapes' posterior weights from their weighted sums of squared relative errors."""
    prior = np.array([shape.prior for shape in terms.shapes])
    if len(prior) == 1:
        return np.ones(1)
    spare = max(len(fit_weights) - coefficients, 0)
    scales = _USUAL_SAMPLES * (_USUAL_ERROR * _SMALLER_ERRORS) ** 2
    exponent = -(_USUAL_SAMPLES + fit_weights.sum()) / 2
    log_likelihoods = exponent * np.log1p(squares[:, None] / scales)
    log_scales = np.log(_SMALLER_PRIOR) - spare * np.log(_SMALLER_ERRORS)
    logs = np.log(prior) + np.logaddexp.reduce(log_scales + log_likelihoods, axis=1)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
