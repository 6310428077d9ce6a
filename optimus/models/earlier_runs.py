"""Recurring jobs learn from one another: what is kept of each, what applies, what differs.

A job's run is kept with the conditions under which it was measured. It applies to a later job of
the workload under the same conditions, for 30 days. A run that is found to differ is not predicted
from the others any more, and those after it are not predicted from the ones before it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from optimus.jobs import Job, LossGoal, ReplicaSpec
from optimus.models import Vector
from optimus.models.convergence import MEDIAN_OF, LossSeries
from optimus.models.convergence.series import estimate_noise
from optimus.models.forecast import batch_rule, goal_is_met, losses_with_epochs
from optimus.models.goals import meets
from optimus.models.prior import goal_logs, speed_differences
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.progress.types import EarlierRun, LossPoint, SpeedSample, TrainingProgress

MOST_RUNS: Final = 16
"""Maximum number of runs kept of a workload, those under other conditions included."""
MOST_USED: Final = 8
"""Maximum number of runs, the newest, that are a later job's prior."""
MOST_SAMPLES: Final = 24
MOST_LOSSES: Final = 128
KEPT_SECONDS: Final = 30 * 86_400.0

STEADY_SECONDS: Final = 60.0
"""A speed that was measured for less time is not held against earlier runs."""
SIGMAS: Final = 3.0
"""How many standard deviations a run may be off the prediction of earlier runs."""
_POINTS_OUTSIDE: Final = 3
"""How many losses in a row have to be on one side."""
_BETWEEN_RUNS: Final = 0.1
"""Standard deviation of the log of (one run's loss / another's) a priori, and for how many runs
that counts."""
_BETWEEN_RUNS_COUNT: Final = 4.0


def conditions_of(job: Job) -> str:
    """Return what has to be the same for one job's samples to hold for another: the kind, the mode,
    the batch, the image of the workers, and what each replica requests."""
    batch = "unknown" if job.batch is None else f"{job.batch.size} of the {job.batch.scope}"
    roles = {"ps": job.ps, "worker": job.worker}
    roles |= {str(each.role): each.spec for each in job.fixed}
    requests = "; ".join(f"{role} {_requests(spec)}" for role, spec in roles.items())
    text = f"{job.kind}; {job.mode}; batch {batch}; image {job.image or 'unknown'}; {requests}"
    return text[:1024]


def _requests(spec: ReplicaSpec) -> str:
    return " ".join(f"{name}={amount}" for name, amount in spec.resources.items())


def run_of(
    job: Job,
    progress: TrainingProgress,
    at: float,
    *,
    succeeded: bool,
    differed: bool = False,
    most_memory: tuple[int, int] = (0, 0),
) -> EarlierRun:
    """Return what a job's training has shown by the instant ``at``; losses only of one that
    succeeded or has met its goal. ``most_memory``: of a PS and of a worker, in bytes."""
    run = EarlierRun(
        uid=job.uid,
        job=job.key.name,
        at=at,
        conditions=conditions_of(job),
        samples=_samples(progress),
        goal=job.goal,
        steps_per_epoch=_steps_per_epoch(job, progress),
        differed=differed,
        ps_memory=most_memory[0],
        worker_memory=most_memory[1],
    )
    return _with_losses(run, losses_with_epochs(progress)) if succeeded else run


def _samples(progress: TrainingProgress) -> tuple[SpeedSample, ...]:
    """The means of the samples at each counts and kind of nodes, the newest ones."""
    measured = MergedSamples.of(progress.samples)
    seconds: dict[tuple[object, str, float], float] = {}
    for each in progress.samples:
        key = each.counts, each.node_kind, each.servers
        seconds[key] = seconds.get(key, 0.0) + min(each.seconds, 1e6)
    found = [
        SpeedSample(counts, speed, round(seconds[counts, kind, on], 1), latest, kind, int(on))
        for counts, kind, on, speed, _, latest in measured.entries()
    ]
    return tuple(sorted(found, key=lambda each: (each.at, each.counts))[-MOST_SAMPLES:])


def _steps_per_epoch(job: Job, progress: TrainingProgress) -> float | None:
    own = progress.steps_per_epoch or progress.units_per_epoch or job.steps_per_epoch
    per_worker, workers = batch_rule(job, progress, of_epoch=True)
    return own * workers if own is not None and per_worker else own


def _with_losses(run: EarlierRun, losses: Sequence[LossPoint]) -> EarlierRun:
    if not losses:
        return run
    series = LossSeries.of(losses).rising
    if not series.complete or not np.isfinite(series.loss).all():
        return run
    places, means = series.k, series.loss
    every_epoch = series.in_epochs and len(places) <= MOST_LOSSES
    if len(places) > MOST_LOSSES:
        ends = np.linspace(0, len(places), MOST_LOSSES + 1).astype(np.int64)
        means = np.array([means[low:high].mean() for low, high in pairwise(ends)])
        places = places[ends[1:] - 1]
    return replace(
        run,
        in_epochs=series.in_epochs,
        places=tuple(float(f"{each:.7g}") for each in places.tolist()),
        losses=tuple(float(f"{each:.5g}") for each in means.tolist()),
        every_epoch=every_epoch,
        met_at=_met_at(run, losses, series),
    )


def _met_at(run: EarlierRun, losses: Sequence[LossPoint], series: LossSeries) -> float | None:
    """After how many epochs (steps) the run met its own goal first."""
    goal = run.goal
    if not isinstance(goal, LossGoal):
        return None
    if not series.in_epochs:
        windows = range(MEDIAN_OF, len(losses) + 1)
        ends = (end for end in windows if meets(goal, losses[end - MEDIAN_OF : end]))
        return next((float(losses[end - 1].step or end) for end in ends), None)
    # Of a very long run only so many epochs are looked at: each look is at all before it.
    grid = np.unique(np.linspace(0, len(series.k) - 1, MOST_LOSSES).astype(np.int64))
    for place in series.k[grid].tolist():
        seen = [point for point in losses if (point.epoch or 0.0) <= place]
        if seen and meets(goal, seen):
            return float(place)
    return None


def kept(runs: Iterable[EarlierRun], run: EarlierRun | None, at: float) -> tuple[EarlierRun, ...]:
    """The runs of a workload to keep at ``at``, oldest first, with ``run`` in place of what was
    known of the same job."""
    others = [each for each in runs if run is None or each.uid != run.uid]
    if run is not None:
        others.append(run)
    young = [each for each in others if at - each.at < KEPT_SECONDS]
    return tuple(sorted(young, key=lambda each: (each.at, each.uid))[-MOST_RUNS:])


def applicable(runs: Iterable[EarlierRun], job: Job, at: float) -> tuple[EarlierRun, ...]:
    """The runs that say something about a job: of others, under its conditions, since the last one
    that differed; the newest few, oldest first."""
    conditions = conditions_of(job)
    found: list[EarlierRun] = []
    for run in reversed(kept(runs, None, at)):
        if run.uid == job.uid or run.conditions != conditions:
            continue
        found.append(run)
        if run.differed or len(found) == MOST_USED:
            break
    return tuple(reversed(found))


def why_differs(job: Job, progress: TrainingProgress) -> str | None:
    """Return why a job differs from the prediction of earlier runs of its workload: a sentence with
    both figures; ``None`` while it is.

    1. Speed: at some counts, measured for a minute at least, the log of own / expected speed is
       farther from 0 than 3 standard deviations: those of the earlier model, of the own sample, and
       of whole runs (10 %).
    2. Loss: three epochs (points) in a row lie on one side of the earlier runs' mean, in logs, by
       more than 3 standard deviations: those between runs, and of one epoch's noise.
    3. Goal: not met after twice the epochs (steps) of the slowest earlier run."""
    if not progress.earlier:
        return None
    return _why_speed(job, progress) or _why_loss(progress) or _why_late(job, progress)


def _why_speed(job: Job, progress: TrainingProgress) -> str | None:
    seconds: dict[object, float] = {}
    for each in progress.samples:
        seconds[each.counts] = seconds.get(each.counts, 0.0) + each.seconds
    own = MergedSamples.of(
        each for each in progress.samples if seconds[each.counts] >= STEADY_SECONDS
    )
    if not own.counts:
        return None
    terms = SpeedTerms.of(job)
    for found in speed_differences(own, progress.earlier, terms):
        if abs(found.log_ratio) > SIGMAS * found.spread:
            counts, speed = own.counts[found.entry], own.steps_per_second[found.entry]
            return (
                f"{speed:.3g} {progress.speed_unit} at {counts}; earlier runs predict "
                f"{found.expected:.3g} within {math.expm1(SIGMAS * found.spread):.0%}"
            )
    return None


def _why_loss(progress: TrainingProgress) -> str | None:
    if not progress.losses:
        return None
    series = LossSeries.of(losses_with_epochs(progress)).rising
    known = len(series.complete_loss)
    runs = [
        run
        for run in progress.earlier
        if run.in_epochs == series.in_epochs
        and sum(loss > 0 for loss in run.losses) >= _POINTS_OUTSIDE
    ]
    if known < _POINTS_OUTSIDE or not runs or not (series.complete_loss > 0).all():
        return None
    places, logs = series.k[:known], np.log(series.complete_loss)
    expected, spread = _band(runs, places)
    inside = ~np.isnan(expected)
    off = np.where(inside, (logs - np.nan_to_num(expected)) / spread, 0.0)
    for end in range(_POINTS_OUTSIDE, known + 1):
        last = off[end - _POINTS_OUTSIDE : end]
        if last.min() > SIGMAS or last.max() < -SIGMAS:
            loss, course = math.exp(logs[end - 1]), math.exp(expected[end - 1])
            return (
                f"a loss of {loss:.4g} after {places[end - 1]:.4g} {series.unit}; earlier runs "
                f"predict {course:.4g} within {math.expm1(SIGMAS * spread):.0%}"
            )
    return None


class _Course(NamedTuple):
    """One run's log losses, and their noise."""

    places: Vector
    logs: Vector
    noise: float


@lru_cache(maxsize=4096)
def _course(run: EarlierRun) -> _Course:
    places, losses = np.array(run.places), np.array(run.losses)
    logs = np.log(losses[losses > 0])
    return _Course(places[losses > 0], logs, estimate_noise(logs))


def _band(runs: Sequence[EarlierRun], places: Vector) -> tuple[Vector, float]:
    """The mean log loss of earlier runs at these places (NaN beyond all of them), and the standard
    deviation of one more run's epoch about it."""
    courses, noise = np.empty((len(runs), len(places))), 0.0
    for row, run in enumerate(runs):
        course = _course(run)
        courses[row] = np.interp(places, course.places, course.logs, left=np.nan, right=np.nan)
        noise = max(noise, course.noise)
    squares = 0.0
    known = ~np.isnan(courses)
    number = known.sum(axis=0)
    sums = np.where(known, courses, 0.0).sum(axis=0)
    expected = np.where(number > 0, sums / np.maximum(number, 1), np.nan)
    for row in range(len(runs)):
        here = known[row] & (number > 1)
        if here.any():
            squares += float(np.mean((courses[row, here] - expected[here]) ** 2))
    freedom = _BETWEEN_RUNS_COUNT + len(runs) - 1
    between = (squares + _BETWEEN_RUNS_COUNT * _BETWEEN_RUNS**2) / freedom
    return expected, math.sqrt(between * (1 + 1 / len(runs)) + noise**2)


def _why_late(job: Job, progress: TrainingProgress) -> str | None:
    if not isinstance(job.goal, LossGoal):
        return None
    for in_epochs, done in ((True, progress.epoch), (False, progress.step)):
        logs = goal_logs(progress.earlier, job.goal, in_epochs=in_epochs)
        slowest = math.exp(logs.max()) if len(logs) else math.inf
        is_late = done is not None and done > 2 * slowest * (1 + 1e-9)
        if is_late and not goal_is_met(job.goal, progress):
            unit = "epochs" if in_epochs else "steps"
            return (
                f"its goal is not met after {done:.4g} {unit}; the slowest earlier run needed "
                f"{slowest:.4g}"
            )
    return None
