"""What earlier runs of a job's workload say before, and beside, its own measurements.

Speed: the earlier samples are weak observations of the job's own speed function.
1. The job is as fast as they say times a factor exp(d), d ~ N(0, 0.1^2): other nodes, other
   neighbours. Its best linear unbiased prediction from the job's own samples is
   d = (sum_i r_i / v_i) / (sum_i 1 / v_i + 1 / 0.1^2), where r_i is the log of (own speed / that of
   the model of the earlier samples) and v_i the variance of both (Robinson 1991, "That BLUP is a
   good thing").
2. Earlier samples, times that factor, join the fit with half their weight: a power prior with
   a0 = 1/2 (Ibrahim and Chen 2000). At counts at which the job was measured itself, on the same
   kind of nodes, they do not count any more.

Goal: the logs of the epochs (steps) after which the earlier runs met it follow one distribution.
Their variance has a prior of 0.15^2 that counts for two runs; the forecast of one more run has that
variance times 1 + 1/n. By Bayes' rule the job's own losses turn it into the answer.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from optimus.jobs import CountBounds, LossGoal, TargetLoss
from optimus.models.convergence import TotalPrior
from optimus.models.convergence.distribution import NOTHING_KNOWN, USUAL_EPOCHS
from optimus.models.goals import meets
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.model import SpeedModel, needed_counts, why_not_ready
from optimus.progress.types import EarlierRun, LossPoint, SpeedSample, TrainingProgress

RUN_SPREAD: Final = 0.1
"""Standard deviation of the log of (one run's speed / another's): other nodes and neighbours."""


class _SpeedPrior(NamedTuple):
    samples: MergedSamples
    model: SpeedModel


def samples_of(earlier: Iterable[EarlierRun]) -> tuple[SpeedSample, ...]:
    """All samples of earlier runs."""
    return tuple(sample for run in earlier for sample in run.samples)


def speed_is_known(earlier: Sequence[EarlierRun], bounds: CountBounds) -> bool:
    """Whether the samples of earlier runs are enough for a speed model: profiling is skipped."""
    measured = MergedSamples.of(samples_of(earlier))
    return why_not_ready(measured, needed_counts(bounds)) is None


def with_earlier(
    own: MergedSamples, earlier: Sequence[EarlierRun], terms: SpeedTerms
) -> MergedSamples:
    """The job's own samples and, where it has none, those of earlier runs."""
    known = _speed_prior(samples_of(earlier), terms) if earlier else None
    if known is None:
        return own
    past, factor = known.samples, math.exp(_log_factor(own, known.model))
    measured = set(zip(own.counts, own.kinds, strict=True))
    entries = [
        *own.entries(),
        *(
            (counts, kind, servers, factor * speed, 0.5 * runs, latest)
            for counts, kind, servers, speed, runs, latest in past.entries()
            if (counts, kind) not in measured
        ),
    ]
    counts, kinds, *figures = zip(*sorted(entries), strict=True)
    weights = np.array([len(own.counts), len(past.counts)], dtype=np.float64)
    noise = np.sqrt(weights @ np.array([own.noise**2, past.noise**2]) / weights.sum())
    servers, speeds, runs, latest = (np.array(each, dtype=np.float64) for each in figures)
    return MergedSamples(counts, kinds, speeds, runs, latest, float(noise), servers)


class SpeedDifference(NamedTuple):
    """One entry of the job's own samples beside the prediction of earlier runs."""

    entry: int
    log_ratio: float
    spread: float
    """Standard deviation of the log ratio."""
    expected: float
    """Steps per second."""


def speed_differences(
    own: MergedSamples, earlier: Sequence[EarlierRun], terms: SpeedTerms
) -> list[SpeedDifference]:
    """Each entry of the job's own samples against the model of the earlier ones; of those on
    kinds of nodes on which earlier jobs have run."""
    known = _speed_prior(samples_of(earlier), terms)
    if known is None:
        return []
    classes = {name for kind in known.samples.kinds for name in _classes(kind)}
    logs, variances = _log_ratios(own, known.model)
    spreads = np.sqrt(variances + RUN_SPREAD**2)
    return [
        SpeedDifference(index, log, spread, float(own.steps_per_second[index] / math.exp(log)))
        for index, (log, spread) in enumerate(zip(logs.tolist(), spreads.tolist(), strict=True))
        if classes.issuperset(_classes(own.kinds[index]))
    ]


def _classes(kind: str) -> list[str]:
    """The kinds of nodes of one sample, as ``mixed_kind`` writes several."""
    return [part.rpartition("*")[0] or part for part in kind.split(",")]


@lru_cache(maxsize=1024)
def _speed_prior(samples: tuple[SpeedSample, ...], terms: SpeedTerms) -> _SpeedPrior | None:
    merged = MergedSamples.of(samples)
    return _SpeedPrior(merged, SpeedModel.of(merged, terms)) if merged.counts else None


def _log_ratios(own: MergedSamples, model: SpeedModel) -> tuple[np.ndarray, np.ndarray]:
    """The logs of own speed / the model's, and their variances without that of whole runs."""
    expected = model.steps_per_second(own.ps, own.workers) * model.nodes.each(own)
    uncertainty = model.uncertainty(own.ps, own.workers)
    return np.log(own.steps_per_second / expected), own.variance + uncertainty**2


def _log_factor(own: MergedSamples, model: SpeedModel) -> float:
    if not own.counts:
        return 0.0
    logs, variances = _log_ratios(own, model)
    precisions = 1 / variances
    return float(precisions @ logs / (precisions.sum() + 1 / RUN_SPREAD**2))


@lru_cache(maxsize=4096)
def met_at(run: EarlierRun, goal: LossGoal) -> float | None:
    """After how many epochs (steps) an earlier run met a goal; ``None`` if it did not, or where
    its losses do not show it."""
    if goal == run.goal and run.met_at is not None:
        return run.met_at
    if not run.losses or not (run.every_epoch or isinstance(goal, TargetLoss)):
        return None
    if not run.in_epochs:
        return _first_at_most(run, goal)
    points = [
        LossPoint(loss, epoch=place) for place, loss in zip(run.places, run.losses, strict=True)
    ]
    ends = (end for end in range(1, len(points) + 1) if meets(goal, points[:end]))
    return next((run.places[end - 1] for end in ends), None)


def _first_at_most(run: EarlierRun, goal: LossGoal) -> float | None:
    if not isinstance(goal, TargetLoss):
        return None
    pairs = zip(run.places, run.losses, strict=True)
    return next((place for place, loss in pairs if loss <= goal.loss), None)


def earlier_total(
    progress: TrainingProgress, goal: LossGoal, *, in_epochs: bool
) -> TotalPrior | None:
    """Return when the goal is met by one more run of the workload; ``None`` where no earlier one
    shows it."""
    logs = goal_logs(progress.earlier, goal, in_epochs=in_epochs)
    if not len(logs):
        return None
    others = usual_total(progress, in_epochs=in_epochs) or NOTHING_KNOWN
    # The spread of the log of (one run's epochs to the goal / another's) a priori counts as 2 runs.
    return others.given(logs, 0.15, 2.0)


def usual_total(progress: TrainingProgress, *, in_epochs: bool) -> TotalPrior | None:
    """Return how long a run takes by those of the cluster and of its namespace; ``None`` where none
    of them is known."""
    groups = [each.epochs if in_epochs else each.steps for each in progress.lengths]
    known = [np.log(group) for group in groups if group]
    if not known:
        return None
    prior = USUAL_EPOCHS if in_epochs else NOTHING_KNOWN
    for logs in known:
        # The spread of runs of which nothing is known counts as 4 runs of a group.
        prior = prior.given(logs, USUAL_EPOCHS.spread, 4.0)
    return prior


def goal_logs(earlier: Sequence[EarlierRun], goal: LossGoal, *, in_epochs: bool) -> np.ndarray:
    """The logs of the epochs (steps) after which earlier runs met a goal, (runs,)."""
    found = (met_at(run, goal) for run in earlier if run.in_epochs == in_epochs)
    return np.log([place for place in found if place is not None and place > 0])
