"""Profiling: which job is measured next, at which counts, and where it goes afterwards.

Optimus, sections 3.2 and 6.1: about 5 combinations a job.
1. A young job runs at its user's counts first, then at a few more that an optimal design chooses
   among the counts that fit on what is free now.
2. A job that has trained for long is not restarted for a measurement any more; only if its speed
   model is still not identified it may make one exploratory move per interval, after a checkpoint.
3. Once it is measured, the interval's allocation decides its counts where it has a forecast.
   Without one it returns to its user's counts, after a checkpoint.
4. A job whose log has never shown a checkpoint could not be moved again later. It is moved at once,
   without waiting for one: to the allocated counts unless the forecast says that its user's are
   faster, to its user's where there is no forecast.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.allocation.problem import why_backing_off, why_excluded
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import (
    Action,
    Decision,
    IntervalConfig,
    JobView,
    ProfilingConfig,
    steady_seconds,
    trained_seconds,
    why_moved_enough,
)
from optimus.interval.growth import twice_as_many
from optimus.jobs import Counts, Job, RescaleRule, alternating
from optimus.models.expectation import value_of_measuring
from optimus.models.experiment_design import next_sample
from optimus.models.forecast import Forecast, goal_is_met, why_never_ready
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.model import needed_counts, why_not_ready
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.snapshot import ClusterSnapshot

_MOST_LOOKED_AT = 100
"""Jobs for which a run is looked for at once."""


@dataclass(frozen=True, slots=True)
class ProfilingMove:
    """A job is to be rescaled to these counts to measure its speed there."""

    uid: str
    counts: Counts
    reason: str


@dataclass(frozen=True, slots=True)
class MeasuredJobs:
    """The measurements so far, by job UID; a job without an entry has nothing."""

    progress: Mapping[str, TrainingProgress]
    history: Mapping[str, JobHistory]

    def of(self, job: Job) -> tuple[TrainingProgress, JobHistory]:
        """One job's progress and history."""
        return self.progress.get(job.uid, NOTHING), self.history.get(job.uid, NO_HISTORY)


@dataclass(frozen=True, slots=True)
class Expected:
    """The forecast that is expected of a job, and what a restart has to bring beyond."""

    forecast: Forecast
    price_seconds: float
    hysteresis_fraction: float
    lasts_seconds: float = math.inf
    """How long what it gets beyond its own counts is likely to stay with it."""


ExpectedFn = Callable[[Job, TrainingProgress, JobHistory], Expected | NotReady | None]
"""What is to be expected of a job, or why it is not measured; ``None`` where jobs are measured
whatever is expected of them."""


def nothing_expected(_: Job, __: TrainingProgress, ___: JobHistory) -> None:
    """Nothing is known of any job before it is measured."""


def plan_profiling(
    snapshot: ClusterSnapshot,
    measured: MeasuredJobs,
    free: CapacityPlan,
    config: ProfilingConfig,
    expected: ExpectedFn = nothing_expected,
) -> tuple[ProfilingMove, ...]:
    """The profiling runs to begin now, oldest job first, together within the free capacity; among
    namespaces first those of which the fewest jobs are being profiled.

    A job of which something is expected is measured where that is likely to change its counts, and
    to save more than its restarts."""
    free, moves = free.copy(), list[ProfilingMove]()
    managed = [job for job in snapshot.jobs if job.managed]
    under_way = _under_way(managed, measured.history)
    left = _places(managed, under_way, snapshot, config) - len(under_way)
    eligible = [
        job
        for job in _oldest_first(snapshot.jobs)
        if (left > 0 or job.uid in under_way)
        and why_not_profiled(job, snapshot, measured, config) is None
    ]
    some = _some(eligible, int(snapshot.at))
    for job in _by_namespace(some, [job for job in managed if job.uid in under_way]):
        continues = job.uid in under_way
        if left <= 0 and not continues:
            continue
        move = _next_run(job, measured, free, config, expected)
        if move is not None:
            moves.append(move)
            left -= not continues
    return tuple(moves)


def _places(
    managed: Sequence[Job],
    under_way: Collection[str],
    snapshot: ClusterSnapshot,
    config: ProfilingConfig,
) -> int:
    """Return how many jobs may be profiled at once."""
    running = sum(job.uid in under_way or any(snapshot.bound_counts(job.uid)) for job in managed)
    return max(config.jobs_at_once, int(config.jobs_at_once_fraction * running))


def has_place(
    snapshot: ClusterSnapshot, history: Mapping[str, JobHistory], config: ProfilingConfig
) -> bool:
    """Return whether one more job may be profiled now."""
    managed = [job for job in snapshot.jobs if job.managed]
    under_way = _under_way(managed, history)
    return len(under_way) < _places(managed, under_way, snapshot, config)


def plan_exploration(
    snapshot: ClusterSnapshot,
    measured: MeasuredJobs,
    free: CapacityPlan,
    config: IntervalConfig,
    expected: ExpectedFn = nothing_expected,
    turn: int = 0,
) -> ProfilingMove | None:
    """The one exploratory move of an interval: of the oldest job without an identified model, of
    the namespace whose ``turn`` it is, else of the next one that has such a job.

    Where something is expected of it, as for a profiling run."""
    namespaces = sorted({job.key.namespace for job in snapshot.jobs if job.managed})
    order = {name: (at - turn) % len(namespaces) for at, name in enumerate(namespaces)}
    managed = [job for job in _oldest_first(snapshot.jobs) if job.managed]
    for job in sorted(managed, key=lambda each: order[each.key.namespace]):
        if _may_explore(job, snapshot, measured, config):
            move = _next_run(job, measured, free.copy(), config.profiling, expected)
            if move is not None:
                return replace(move, reason=f"to measure its speed: {move.reason}")
    return None


def _some(jobs: list[Job], turn: int) -> list[Job]:
    """As many as can be looked at, of each namespace some; others at another turn."""
    if len(jobs) <= _MOST_LOOKED_AT:
        return jobs
    start = turn * _MOST_LOOKED_AT % len(jobs)
    return alternating(jobs[start:] + jobs[:start], lambda job: job.key.namespace)[:_MOST_LOOKED_AT]


def _may_explore(
    job: Job, snapshot: ClusterSnapshot, measured: MeasuredJobs, config: IntervalConfig
) -> bool:
    (progress, history), profiling = measured.of(job), config.profiling
    last, at = history.last_rescaled_at, snapshot.at
    is_measured_first = may_be_measured(progress, history, profiling)
    # In the order of what they cost: the last ones look at all samples and losses.
    return not (
        _cannot_move(job, snapshot, history)
        or history.profiling_since is not None
        or history.awaits_checkpoint
        or history.workload_known
        or _why_paused(history, at) is not None
        or (last is not None and at - last < config.cooldown_of(progress, history))
        or why_moved_enough(history, at, config) is not None
        or is_measured_first
        or steady_seconds(job, progress) < profiling.steady_seconds
        or why_not_ready(
            MergedSamples.of(progress.samples), needed_counts(history.bounded(job).bounds)
        )
        is None
        or _is_goal_met(job, progress)
        or why_never_ready(job.goal, progress) is not None
    )


def run_is_over(job: Job, at: float, measured: MeasuredJobs, config: ProfilingConfig) -> str | None:
    """Return why the job's profiling run has ended by the instant ``at``, or ``None`` while it goes
    on."""
    progress, history = measured.of(job)
    steady, since = steady_seconds(job, progress), history.profiling_since
    if steady >= config.steady_seconds:
        return f"{steady:.0f} s of steady training at {job.counts}"
    if since is None or at - since <= config.run_limit_seconds:
        return None
    wanted = f"no {config.steady_seconds:.0f} s of steady training at {job.counts}"
    return f"{wanted} within {at - since:.0f} s"


def why_not_profiled(
    job: Job, snapshot: ClusterSnapshot, measured: MeasuredJobs, config: ProfilingConfig
) -> str | None:
    """Return why no profiling run of this job may begin now, as a sentence; ``None`` if one may."""
    progress, history = measured.of(job)
    if _cannot_move(job, snapshot, history):
        return "it may not be rescaled now"
    paused = _why_paused(history, snapshot.at)
    if paused is not None:
        return paused
    if history.workload_known:
        return "its speed is known from earlier runs of its workload"
    if len(history.profiled) >= config.runs:
        return f"{config.runs} profiling runs were made"
    if is_too_old(progress, history, config):
        return f"it has trained {trained_seconds(progress, history):.0f} s"
    # What follows looks at all losses and samples: too much to do for thousands of old jobs in
    # every tick.
    pointless = _why_pointless(job, progress)
    if pointless is not None:
        return pointless
    if not run_is_over(job, snapshot.at, measured, config):
        return f"its speed at {job.counts} is being measured"
    return None


def _why_paused(history: JobHistory, at: float) -> str | None:
    if why_backing_off(history.placement_failures, at) is not None:
        return "its pods were not placed at its last rescale"
    return "its last profiling run could not begin" if at < history.measured_again_at else None


def is_too_old(progress: TrainingProgress, history: JobHistory, config: ProfilingConfig) -> bool:
    """Return whether a stop may lose more training than a profiling run may; a job that saves when
    it is stopped loses none, however old it is."""
    is_old = trained_seconds(progress, history) >= config.trained_limit_seconds
    return is_old and not history.saves_on_stop


def is_fully_profiled(job: Job, measured: MeasuredJobs, config: ProfilingConfig) -> bool:
    """Return whether the job has had all its profiling runs; where its bounds are narrow, a few."""
    progress, history = measured.of(job)
    if history.profiling_since is not None:
        return False
    is_old = history.workload_known or is_too_old(progress, history, config)
    return is_old or len(history.profiled) >= config.runs or not _untried(job, measured, config)


def decide_after_profiling(view: JobView, decision: Decision) -> Decision:
    """The decision, or the return to the user's counts in its place."""
    history, job = view.history, view.job
    target = return_counts(job, history)
    if target is None or _must_keep_counts(view, target):
        return decision
    if _needs_checkpoint(job, history, view.progress):
        why = _why_return_without_checkpoints(view, decision, target)
    elif _has_no_forecast_after_profiling(view, decision):
        why = f"there is no forecast ({view.forecast})"
    else:
        return decision
    if why is None or target == job.counts:
        return decision
    return replace(
        decision,
        counts=target,
        is_expected=False,
        action=Action.between(job.counts, target),
        reason=f"its speed is measured; {why}: it returns to the submitted {target}",
    )


def may_skip_checkpoint(
    job: Job, history: JobHistory, progress: TrainingProgress, at: float, config: ProfilingConfig
) -> bool:
    """Return whether the job may leave its last profiling run without a checkpoint.

    Its log shows none, and no more is lost than a profiling run may lose."""
    since = history.measured_at
    limit_seconds = config.trained_limit_seconds
    is_short = since is not None and max(at - since, history.running_seconds) < limit_seconds
    was_moved = return_counts(job, history) is not None
    return is_short and was_moved and _needs_checkpoint(job, history, progress)


def is_admission(history: JobHistory, progress: TrainingProgress, config: ProfilingConfig) -> bool:
    """Return whether a decision moves a new job to the counts that earlier runs let choose, which
    stands in place of its profiling runs: it may lose as much training as one of them lasts,
    once."""
    was_moved = history.rescales > 0 or history.profiled
    trained = trained_seconds(progress, history)
    return history.workload_known and not was_moved and trained < config.run_limit_seconds


def is_first_measured(
    job: Job, progress: TrainingProgress, history: JobHistory, config: ProfilingConfig
) -> bool:
    """Return whether a young job that was never moved has just been measured at its counts."""
    is_young = trained_seconds(progress, history) < config.trained_limit_seconds
    return is_young and steady_seconds(job, progress) >= config.first_steady_seconds


def may_be_measured(
    progress: TrainingProgress, history: JobHistory, config: ProfilingConfig
) -> bool:
    """Return whether a move of this job may be a profiling run, at counts that an interval has
    chosen: as for every other run, it is not too old and has had fewer than all of them."""
    return not is_too_old(progress, history, config) and len(history.profiled) < config.runs


def return_counts(job: Job, history: JobHistory) -> Counts | None:
    """The user's counts of a job that a profiling run has moved, within its present bounds.

    ``None`` for a job that is where its user or an interval's decision has put it: only at
    profiled counts it is neither."""
    own = history.own_counts
    return None if own is None or job.counts not in history.profiled else job.bounds.clamp(own)


def _must_keep_counts(view: JobView, target: Counts) -> bool:
    """Return whether the job cannot be moved now, or just could not be placed at these counts."""
    history = view.history
    if history.rescaling_to is not None or history.profiling_since is not None or history.held:
        return True
    excluded = why_excluded(history.placement_failures, target) is not None
    return history.awaits_checkpoint or (excluded and view.why_backing_off is not None)


def _has_no_forecast_after_profiling(view: JobView, decision: Decision) -> bool:
    """Return whether all runs are made, and yet there is no forecast and nothing else moves the
    job."""
    measured = MeasuredJobs({view.job.uid: view.progress}, {view.job.uid: view.history})
    unforecast = isinstance(view.forecast, NotReady) and decision.action is Action.KEEP
    return unforecast and is_fully_profiled(view.job, measured, view.config.profiling)


def _why_return_without_checkpoints(
    view: JobView, decision: Decision, target: Counts
) -> str | None:
    """Return why a job without checkpoints returns now: later rescales would wait for a
    checkpoint."""
    if decision.action is Action.SUSPEND or not view.job.bounds.allow(view.job.counts):
        return None
    if isinstance(view.forecast, NotReady):
        if decision.action is not Action.KEEP:
            return None
        return f"there is no forecast, and its log shows no checkpoint ({view.forecast})"
    seconds = view.forecast.at
    if seconds(decision.counts) <= seconds(target) or not math.isfinite(seconds(target)):
        return None
    return f"its log shows no checkpoint after which it could leave {decision.counts} again"


def _needs_checkpoint(job: Job, history: JobHistory, progress: TrainingProgress) -> bool:
    """Return whether it may be moved right after a checkpoint only, and its log has shown none."""
    may_move = job.rescale is not RescaleRule.CHECKPOINT or history.saves_on_stop
    return not may_move and progress.checkpoint_at is None


def _oldest_first(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.created_at, job.uid))


def _by_namespace(eligible: Sequence[Job], under_way: Sequence[Job]) -> list[Job]:
    """The jobs in turn: a namespace with many old jobs leaves places to the others."""
    places = Counter(job.key.namespace for job in under_way)
    turns, running = dict[str, int](), {job.uid for job in under_way}
    for job in eligible:
        namespace = job.key.namespace
        turns[job.uid] = places[namespace] - (job.uid in running)
        places[namespace] += job.uid not in running
    several = len({job.key.namespace for job in eligible}) > 1
    return sorted(eligible, key=lambda job: turns[job.uid]) if several else list(eligible)


def _under_way(jobs: Iterable[Job], history: Mapping[str, JobHistory]) -> set[str]:
    """The UIDs of the jobs that are being measured or are about to be."""
    known = ((job.uid, history.get(job.uid, NO_HISTORY)) for job in jobs)
    return {uid for uid, each in known if each.profiling_since is not None or each.measures}


def _cannot_move(job: Job, snapshot: ClusterSnapshot, history: JobHistory) -> bool:
    if not job.managed or job.suspended or job.rescale is RescaleRule.NEVER:
        return True
    if history.is_ending or history.held:
        return True
    # Where the user moved the bounds, the next interval follows, after a checkpoint where the job
    # asks for one.
    if history.rescaling_to is not None or not job.bounds.allow(job.counts):
        return True
    return snapshot.bound_counts(job.uid) != job.counts


def _is_goal_met(job: Job, progress: TrainingProgress) -> bool:
    return job.goal is not None and goal_is_met(job.goal, progress)


def _why_pointless(job: Job, progress: TrainingProgress) -> str | None:
    if progress.diverged:
        return "its loss is no number any more"
    if _is_goal_met(job, progress):
        return "its goal is met"
    return why_never_ready(job.goal, progress)


def _next_run(
    job: Job,
    measured: MeasuredJobs,
    free: CapacityPlan,
    config: ProfilingConfig,
    expected: ExpectedFn,
) -> ProfilingMove | None:
    """The counts that say most about the job's speed among those that fit; takes their room."""
    progress, history = measured.of(job)
    allowed = _untried(job, measured, config)
    # Where no run fits, as on a full cluster, nothing is worked out of how much each would say.
    if not any(free.fits(job, each) for each in _smallest(allowed)):
        return None
    known = expected(job, progress, history)
    if isinstance(known, NotReady):
        return None
    if known is not None:
        return _worthwhile_run(job, measured, free, config, known)
    while allowed:
        counts = next_sample(progress.samples, allowed, SpeedTerms.of(job))
        if counts is None:
            break
        if free.move(job, counts) is None:
            run = len(history.profiled) + 1
            return ProfilingMove(job.uid, counts, f"run {run} measures its speed at {counts}")
        # Counts with at least as much of both do not fit either.
        allowed = [each for each in allowed if each.ps < counts.ps or each.workers < counts.workers]
    return None


def _worthwhile_run(
    job: Job, measured: MeasuredJobs, free: CapacityPlan, config: ProfilingConfig, known: Expected
) -> ProfilingMove | None:
    """The counts whose measurement is expected to save most among those that fit, if it saves more
    than it costs; takes their room.

    Only counts at which the job is expected to be faster: there it may stay, where a run at slower
    ones costs two restarts and slow training whatever it shows."""
    progress, history = measured.of(job)
    # Powers of two: counts between them add little information.
    untried = [
        each
        for each in _untried(job, measured, config)
        if not (each.ps & (each.ps - 1) or _trainers(job, each) & (_trainers(job, each) - 1))
    ]
    allowed = [job.counts, *untried]
    left = known.forecast.remaining_seconds(*np.array(allowed).T)
    now = float(left.min())
    cost = 2 * known.price_seconds + known.hysteresis_fraction * now
    values = (
        min(now, known.lasts_seconds)
        * value_of_measuring(job, progress, known.forecast, allowed)[1:]
    )
    values[left[1:] > (1 - known.hysteresis_fraction) * left[0]] = 0.0
    for index in np.argsort(cost - values, kind="stable").tolist():
        if values[index] <= cost:
            break
        counts = untried[index]
        if free.move(job, counts) is None:
            run = f"run {len(history.profiled) + 1} measures its speed at {counts}"
            saves = f"which is expected to save {values[index]:.0f} s"
            return ProfilingMove(job.uid, counts, f"{run}, {saves}")
    return None


def _untried(job: Job, measured: MeasuredJobs, config: ProfilingConfig) -> list[Counts]:
    progress, history = measured.of(job)
    bounds = history.bounded(job).bounds
    tried = {*history.profiled, job.counts, *(sample.counts for sample in progress.samples)}
    least, excluded = bounds.minimum, history.excluded
    widest = twice_as_many(job.counts, bounds) if bounds.shares else _widest(least, config)
    most = bounds.clamp(widest)
    within = (
        Counts(ps, workers)
        for ps in _values(least.ps, most.ps)
        for workers in _values(least.workers, most.workers)
    )
    return [
        each
        for each in within
        if each not in tried and bounds.allow(each) and why_excluded(excluded, each) is None
    ]


def _trainers(job: Job, counts: Counts) -> int:
    return counts.workers + job.bounds.leads


def _values(least: int, most: int) -> range:
    """Return what a run may have of one role: of a large range, as of a job with a large minimum,
    counts that are apart from one another."""
    return range(least, most + 1, max(math.ceil((most - least) / 16), 1))


def _smallest(allowed: Sequence[Counts]) -> list[Counts]:
    """Those that have no other with at most as much of both."""
    smallest = list[Counts]()
    for each in sorted(allowed):
        if not smallest or each.workers < smallest[-1].workers:
            smallest.append(each)
    return smallest


def _widest(minimum: Counts, config: ProfilingConfig) -> Counts:
    """The most PSs and workers of a run: beyond a large minimum there must be some to choose."""
    ps, workers = (
        max(config.max_replicas, math.ceil(1.5 * each)) if each > 1 else config.max_replicas
        for each in minimum
    )
    return Counts(ps, workers)
