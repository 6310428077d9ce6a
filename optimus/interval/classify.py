"""Predict: where each job stands before anything is decided.

A job is left at counts that are not up for decision (*fixed*), takes nothing (*absent*), waits for
its first room (*waiting*), or has a forecast by which the policy may choose its counts (*open*).
The first rule that applies decides, in the order of ``_RULES``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from optimus.allocation import Candidate, JobHistory
from optimus.allocation.placement_failures import PlacementFailures, why_barred, why_resting
from optimus.errors import NotReady
from optimus.interval.config import IntervalConfig
from optimus.jobs import AtTarget, CountBounds, Counts, Job, RescaleRule
from optimus.models.forecast import Forecast
from optimus.models.speed.model import NEEDED_COUNTS
from optimus.progress.types import TrainingProgress


class Eligibility(Enum):
    """What may happen to a job's counts in this interval."""

    FIXED = auto()
    ABSENT = auto()
    SUSPEND = auto()
    WAITING = auto()
    OPEN = auto()


@dataclass(frozen=True, slots=True)
class Classified:
    """One job before the decision.

    ``counts`` are what it is charged with unless decided otherwise; a waiting job is content with
    ``least``.
    ``forced`` counts differ from the present ones because its user's bounds do. ``moving`` is a job
    in a rescale,
    ``capped`` one that does not grow: rescaled too often, or in vain a while ago. ``setbacks`` bar
    counts.
    ``measure_at``: room for these counts is made, so that profiling can find out how fast the job
    is at others."""

    job: Job
    stance: Eligibility
    counts: Counts
    reason: str
    least: Counts
    candidate: Candidate | None = None
    forced: bool = False
    moving: bool = False
    capped: bool = False
    setbacks: PlacementFailures = ()
    measure_at: Counts | None = None

    def seconds(self, counts: Counts) -> float | None:
        """Forecast remaining seconds at these counts."""
        return self.candidate.forecast.at(counts) if self.candidate else None

    def why_barred(self, counts: Counts) -> str | None:
        """Why the job is not to go to these counts, since pods of it found no place."""
        return None if counts == self.job.counts else why_barred(self.setbacks, counts)


@dataclass(frozen=True, slots=True)
class JobView:
    """All that is known of one job.

    ``running``: some replica of it is bound. ``stranded``: some is, and for the rest there is no
    room around it.
    """

    job: Job
    running: bool
    forecast: Forecast | NotReady
    history: JobHistory
    progress: TrainingProgress
    rules: IntervalConfig
    at: float
    stranded: bool = False

    def fixed(self, reason: str, counts: Counts | None = None) -> Classified:
        """Not up for decision; without a bound pod it waits for just these counts."""
        counts = counts or self.job.counts
        stance = Eligibility.FIXED if self.running else Eligibility.WAITING
        return Classified(self.job, stance, counts, reason, counts, setbacks=self.history.setbacks)

    @property
    def why_resting(self) -> str | None:
        """Why the job is not to grow now: its pods found no place a while ago."""
        return why_resting(self.history.setbacks, self.at)


def stand(case: JobView) -> Classified:
    """The job's standing."""
    for rule in _RULES:
        standing = rule(case)
        if standing is not None:
            return standing
    return _open(case)


def _not_managed(case: JobView) -> Classified | None:
    if case.job.suspended and not case.job.managed:
        return _absent(case, "suspended by its user")
    return (
        None
        if case.job.managed
        else case.fixed(case.job.left_alone or "not managed: no goal is annotated")
    )


def _in_rescale(case: JobView) -> Classified | None:
    target = case.history.rescaling_to
    if target is None:
        return None
    if target == Counts(0, 0):
        return _absent(case, "being suspended: its goal is met")
    reason = f"in the middle of a rescale to {target}"
    standing = Classified(case.job, Eligibility.FIXED, target, reason, target, moving=True)
    back = _larger(target, case.history.own_counts or case.job.counts)
    return (
        replace(standing, measure_at=back) if case.history.measures and back != target else standing
    )


def _suspended(case: JobView) -> Classified | None:
    if not case.job.suspended:
        return None
    return _absent(
        case,
        "suspended: its goal is met"
        if case.history.suspended_at_target
        else "suspended by its user",
    )


def _no_checkpoint(case: JobView) -> Classified | None:
    if not case.running or not case.history.awaits_checkpoint:
        return None
    return case.fixed(
        "its last decision waited for a checkpoint in vain: it stays as it is until its log shows "
        "one"
    )


def _done(case: JobView) -> Classified | None:
    if isinstance(case.forecast, NotReady) or not case.forecast.goal_met:
        return None
    if case.job.at_target is not AtTarget.SUSPEND or case.history.suspended_at_target:
        return None  # suspended once already, and it runs: its user has resumed it
    return replace(
        _absent(case, "its goal is met, and at-target is suspend"), stance=Eligibility.SUSPEND
    )


def _never(case: JobView) -> Classified | None:
    return (
        case.fixed("its rescale annotation says never")
        if case.job.rescale is RescaleRule.NEVER
        else None
    )


def _bounds_in_vain(case: JobView) -> Classified | None:
    """What the moved bounds ask for was tried, and found no place: it is tried again, but not at
    once."""
    wanted = case.job.bounds.clamp(case.job.counts)
    barred = why_barred(case.history.setbacks, wanted)
    if wanted == case.job.counts or not case.running or barred is None or case.why_resting is None:
        return None
    return case.fixed(f"its bounds do not allow its {case.job.counts}, but {case.why_resting}")


def _out_of_bounds(case: JobView) -> Classified | None:
    """The user's bounds moved past the present counts: that asks for a rescale, with or without a
    forecast."""
    job, wanted = case.job, case.job.bounds.clamp(case.job.counts)
    if wanted == job.counts or not isinstance(case.forecast, NotReady):
        return None
    standing = case.fixed(f"its bounds do not allow its {job.counts}", wanted)
    return replace(standing, forced=True, least=job.bounds.minimum if not case.running else wanted)


def _stranded(case: JobView) -> Classified | None:
    """Pods were lost, and their room too: a smaller job that trains is better than one that waits
    for them."""
    least = case.job.bounds.minimum
    if not case.stranded or least == case.job.counts:
        return None
    return replace(
        case.fixed(f"not all of its {case.job.counts} are placed, nor can they be", least),
        forced=True,
    )


def _unpredicted(case: JobView) -> Classified | None:
    if not isinstance(case.forecast, NotReady):
        return None
    standing = case.fixed(f"no forecast yet: {case.forecast.reason}")
    if not case.running:
        return replace(standing, least=case.job.bounds.minimum)
    return replace(standing, measure_at=_measure_at(case))


def _measure_at(case: JobView) -> Counts | None:
    """Room in which the job can be measured, and go back to where it was before.

    One task of each kind above the minimum: that and what is below tells PSs and workers apart.
    Only for a job that trains already and has not been measured often enough; otherwise one that
    came to a full cluster would stay at its minimum for ever, unmeasured for want of room and
    without room for want of a forecast."""
    job, least = case.job, case.job.bounds.minimum
    wanted = (
        job.counts
        if case.history.own_counts is None
        else _larger(job.counts, case.history.own_counts)
    )
    measured_counts = len({each.counts for each in case.progress.samples})
    if 0 < measured_counts < NEEDED_COUNTS and not case.history.workload_known:
        wanted = _larger(wanted, Counts(least.ps + 1, least.workers + 1))
    return None if job.bounds.clamp(wanted) == job.counts else job.bounds.clamp(wanted)


def _larger(one: Counts, other: Counts) -> Counts:
    return Counts(max(one.ps, other.ps), max(one.workers, other.workers))


def _profiling(case: JobView) -> Classified | None:
    return (
        case.fixed("being profiled at these counts")
        if case.history.profiling_since is not None
        else None
    )


def _just_rescaled(case: JobView) -> Classified | None:
    last, least = case.history.last_rescaled_at, case.rules.least_seconds_between_rescales
    if last is None or case.at - last >= least or not case.job.bounds.allow(case.job.counts):
        return None
    return case.fixed(
        f"rescaled {max(case.at - last, 0):.0f} s ago: left in peace for {least:.0f} s"
    )


_RULES: tuple[Callable[[JobView], Classified | None], ...] = (
    _not_managed,
    _in_rescale,
    _suspended,
    _no_checkpoint,
    _done,
    _never,
    _bounds_in_vain,
    _out_of_bounds,
    _stranded,
    _unpredicted,
    _profiling,
    _just_rescaled,
)


def _absent(case: JobView, reason: str) -> Classified:
    return Classified(case.job, Eligibility.ABSENT, case.job.counts, reason, case.job.counts)


def _open(case: JobView) -> Classified:
    assert not isinstance(case.forecast, NotReady)
    job, goal_met = case.job, case.forecast.goal_met
    forced = not job.bounds.allow(job.counts)
    worn = case.history.rescales >= case.rules.most_rescales or case.why_resting is not None
    capped = worn and not forced
    bounded = replace(job, bounds=_no_more_than(job.counts, job.bounds)) if capped else job
    candidate = Candidate(bounded, case.forecast, not goal_met, case.running)
    stance = Eligibility.OPEN if case.running else Eligibility.WAITING
    reason = _open_reason(case, forced, capped)
    least = job.bounds.minimum
    standing = Classified(
        job, stance, job.counts, reason, least, candidate=candidate, forced=forced, capped=capped
    )
    return replace(standing, setbacks=case.history.setbacks)


def _open_reason(case: JobView, forced: bool, capped: bool) -> str:
    assert not isinstance(case.forecast, NotReady)
    if forced:
        return f"its bounds do not allow its {case.job.counts}"
    if capped:
        return case.why_resting or f"rescaled {case.history.rescales} times: it does not grow again"
    return "its goal is met: it does not grow again" if case.forecast.goal_met else ""


def _no_more_than(counts: Counts, bounds: CountBounds) -> CountBounds:
    return replace(bounds, max_ps=counts.ps, max_workers=counts.workers)
