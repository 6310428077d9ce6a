"""Which job is measured next, and at which counts (Optimus, sections 3.2 and 6.1: about 5
combinations a job).

A young job runs at its user's counts first, then at a few more that an optimal design chooses among
what fits in room that is free now. Once a job has trained for long it is not restarted for a
measurement any more; only if its speed model is still not identified it may make one exploratory
move per interval, right after a checkpoint."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.allocation.problem import why_backing_off, why_excluded
from optimus.jobs import Counts, Job, JobKey, RescaleRule
from optimus.models.experiment_design import next_sample
from optimus.models.forecast import goal_is_met
from optimus.models.speed.model import needed_counts, why_not_ready
from optimus.models.speed.samples import Measured as SpeedMeasured
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingRules:
    """How much is spent on measuring."""

    runs: int = 4
    """Profiling runs of a job after that at its user's counts. Default: the paper's 5 combinations
    in all."""

    steady_seconds: float = 60.0
    """Steady training of one run, in seconds. Default: tens of seconds in the paper; noise of a
    minute is small."""

    run_limit_seconds: float = 300.0
    """A run ends after so long, whatever was measured, in seconds. Default: a minute of training
    and a slow start."""

    trained_limit_seconds: float = 600.0
    """A job that has trained for longer is not profiled. Default: a restart loses at most this,
    once."""

    jobs_at_once: int = 2
    """Jobs that are profiled at the same time. Default: the others' room stays theirs."""

    jobs_at_once_fraction: float = 0.1
    """Part of all jobs that may be profiled at the same time, where that is more. Unit: none.
    Default: as above."""

    most_rescales: int = 20
    """A job that was rescaled so often makes no exploratory move. Default: as for an interval."""

    least_seconds_between_rescales: float = 300.0
    """A job that was just rescaled makes no exploratory move, in seconds. Default: as for an
    interval."""

    widest: int = 8
    """The most PSs, or workers, of a profiling run. Default: what a model of 5 terms needs, at a
    bounded price."""


@dataclass(frozen=True, slots=True)
class ProfilingMove:
    """A job is to be rescaled to these counts to measure its speed there.

    An ``exploratory`` move is made by a job past its profiling age, and has to wait for a
    checkpoint."""

    key: JobKey
    uid: str
    counts: Counts
    reason: str
    exploratory: bool = False


class Room(Protocol):
    """The free room of the cluster, on which something can be tried."""

    def copy(self) -> Self:
        """The same room, to try something on."""
        ...

    def move(self, job: Job, counts: Counts, /) -> str | None:
        """Place the whole job at these counts instead of where it is, or say why that is
        impossible."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """What has been measured so far, by job UID; a job without an entry has nothing."""

    progress: Mapping[str, TrainingProgress]
    history: Mapping[str, JobHistory]

    def of(self, job: Job) -> tuple[TrainingProgress, JobHistory]:
        """One job's progress and history."""
        return self.progress.get(job.uid, NOTHING), self.history.get(job.uid, NO_HISTORY)


def plan_profiling(
    snapshot: ClusterSnapshot, measured: Measured, room: Room, rules: ProfilingRules
) -> tuple[ProfilingMove, ...]:
    """The profiling runs to begin now, the oldest job first, together within the room that is
    free."""
    free = room.copy()
    moves: list[ProfilingMove] = []
    places = _places(snapshot, measured, rules)
    for job in _oldest_first(snapshot.jobs):
        goes_on = _is_under_way(job, measured)
        if (places <= 0 and not goes_on) or why_not_profiled(
            job, snapshot, measured, rules
        ) is not None:
            continue
        for move in _next_run(job, measured, free, rules):
            moves.append(move)
            places -= not goes_on
    return tuple(moves)


def plan_exploration(
    snapshot: ClusterSnapshot, measured: Measured, room: Room, rules: ProfilingRules
) -> ProfilingMove | None:
    """The one exploratory move of an interval: for the oldest job whose speed model is still not
    identified."""
    for job in _oldest_first(snapshot.jobs):
        progress, history = measured.of(job)
        if _cannot_move(job, snapshot, history) or history.profiling_since is not None:
            continue
        resting = why_backing_off(history.placement_failures, snapshot.at) is not None
        if resting or history.awaits_checkpoint or _is_worn(history, snapshot.at, rules):
            continue
        if _is_young(progress, history, rules) or not _has_run(job, progress, rules):
            continue
        if _is_identified(job, progress) or _is_done(job, progress):
            continue
        for move in _next_run(job, measured, room.copy(), rules):
            return ProfilingMove(
                move.key, move.uid, move.counts, f"to learn its speed: {move.reason}", True
            )
    return None


def run_is_over(job: Job, at: float, measured: Measured, rules: ProfilingRules) -> str | None:
    """Why the job's profiling run has ended by the instant ``at``, or ``None`` while it goes on."""
    progress, history = measured.of(job)
    if _has_run(job, progress, rules):
        return f"{_steady_seconds(job, progress):.0f} s of steady training at {job.counts}"
    since = history.profiling_since
    if since is not None and at - since > rules.run_limit_seconds:
        return (
            f"no {rules.steady_seconds:.0f} s of steady training at {job.counts} within "
            f"{at - since:.0f} s"
        )
    return None


def why_not_profiled(
    job: Job, snapshot: ClusterSnapshot, measured: Measured, rules: ProfilingRules
) -> str | None:
    """Why no profiling run of this job may begin now, as a sentence; ``None`` if one may."""
    progress, history = measured.of(job)
    if _cannot_move(job, snapshot, history):
        return "it may not be rescaled now"
    if why_backing_off(history.placement_failures, snapshot.at) is not None:
        return "its pods found no place a while ago"
    if history.workload_known:
        return "its workload is known"
    if len(history.profiled) >= rules.runs:
        return f"{rules.runs} profiling runs were made"
    if progress.trained_seconds >= rules.trained_limit_seconds:
        return f"it has trained {progress.trained_seconds:.0f} s"
    # What follows looks at all losses and samples: of thousands of old jobs, asked every tick, it
    # is not to be asked.
    if _is_done(job, progress):
        return "its goal is met"
    return (
        None
        if run_is_over(job, snapshot.at, measured, rules)
        else f"its speed at {job.counts} is being measured"
    )


def no_run_follows(job: Job, measured: Measured, rules: ProfilingRules) -> bool:
    """Whether the job has had all profiling runs that it gets, few though they may be where its
    bounds are narrow."""
    progress, history = measured.of(job)
    if history.profiling_since is not None:
        return False
    is_old = history.workload_known or progress.trained_seconds >= rules.trained_limit_seconds
    return is_old or len(history.profiled) >= rules.runs or not _untried(job, measured, rules)


def counts_before_profiling(
    job: Job, own_counts: Counts | None, profiled: Collection[Counts]
) -> Counts | None:
    """The counts that its user wants of a job that was moved to be measured, as far as its bounds
    allow them now.

    ``None`` for a job that is where an interval has put it, or its user: only at ``profiled``
    counts it is neither."""
    return (
        None if own_counts is None or job.counts not in profiled else job.bounds.clamp(own_counts)
    )


def _oldest_first(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.created_at, job.uid))


def _places(snapshot: ClusterSnapshot, measured: Measured, rules: ProfilingRules) -> int:
    """How many more jobs may begin to be profiled."""
    managed = [job for job in snapshot.jobs if job.managed]
    at_once = max(rules.jobs_at_once, int(rules.jobs_at_once_fraction * len(managed)))
    return at_once - sum(_is_under_way(job, measured) for job in managed)


def _is_under_way(job: Job, measured: Measured) -> bool:
    _, history = measured.of(job)
    return history.profiling_since is not None or history.measures


def _cannot_move(job: Job, snapshot: ClusterSnapshot, history: JobHistory) -> bool:
    if (
        not job.managed
        or job.suspended
        or job.rescale is RescaleRule.NEVER
        or history.rescaling_to is not None
    ):
        return True
    if not job.bounds.allow(job.counts):
        # its user moved the bounds: the next interval follows, after a checkpoint where the job
        # asks for one
        return True
    return snapshot.bound_counts(job.uid) != job.counts


def _is_worn(history: JobHistory, at: float, rules: ProfilingRules) -> bool:
    last = history.last_rescaled_at
    just_moved = last is not None and at - last < rules.least_seconds_between_rescales
    return just_moved or history.rescales >= rules.most_rescales


def _is_done(job: Job, progress: TrainingProgress) -> bool:
    return job.goal is not None and goal_is_met(job.goal, progress)


def _is_young(progress: TrainingProgress, history: JobHistory, rules: ProfilingRules) -> bool:
    return (
        progress.trained_seconds < rules.trained_limit_seconds
        and len(history.profiled) < rules.runs
    )


def _is_identified(job: Job, progress: TrainingProgress) -> bool:
    return why_not_ready(SpeedMeasured.of(progress.samples), needed_counts(job.bounds)) is None


def _steady_seconds(job: Job, progress: TrainingProgress) -> float:
    return sum(sample.seconds for sample in progress.samples if sample.counts == job.counts)


def _has_run(job: Job, progress: TrainingProgress, rules: ProfilingRules) -> bool:
    return _steady_seconds(job, progress) >= rules.steady_seconds


def _next_run(
    job: Job, measured: Measured, free: Room, rules: ProfilingRules
) -> Iterator[ProfilingMove]:
    """The counts that say most about the job's speed among those that fit; takes their room."""
    progress, history = measured.of(job)
    allowed = _untried(job, measured, rules)
    while allowed:
        counts = next_sample(progress.samples, allowed, job.mode, job.batch)
        if counts is None:
            return
        if free.move(job, counts) is None:
            run = len(history.profiled) + 1
            yield ProfilingMove(
                job.key, job.uid, counts, f"run {run} measures its speed at {counts}"
            )
            return
        allowed = [each for each in allowed if not _needs_as_much(each, counts)]


def _untried(job: Job, measured: Measured, rules: ProfilingRules) -> list[Counts]:
    progress, history = measured.of(job)
    tried = {*history.profiled, job.counts, *(sample.counts for sample in progress.samples)}
    left = [counts for counts in _within(job, rules.widest) if counts not in tried]
    return [counts for counts in left if why_excluded(history.placement_failures, counts) is None]


def _within(job: Job, widest: int) -> list[Counts]:
    bounds = job.bounds
    most = bounds.clamp(Counts(max(widest, bounds.min_ps), max(widest, bounds.min_workers)))
    return [
        Counts(ps, workers)
        for ps in range(bounds.min_ps, most.ps + 1)
        for workers in range(bounds.min_workers, most.workers + 1)
    ]


def _needs_as_much(counts: Counts, refused: Counts) -> bool:
    return counts.ps >= refused.ps and counts.workers >= refused.workers
