"""Classify: which jobs the policy may resize in this interval, and the record of a decision.

A job keeps its counts in this interval (*fixed*), holds no capacity (*suspended*), has no pods yet
(*waiting*), or has a forecast by which the policy may resize it (*resizable*). The first rule that
applies decides, in the order of ``_RULES``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from typing import Final

from optimus.allocation import Candidate, JobHistory
from optimus.allocation.deadline import Deadline, DeadlineOutlook
from optimus.allocation.fairness import Fairness, JobObjective
from optimus.allocation.problem import usual_price, why_backing_off, why_excluded
from optimus.errors import NotReady
from optimus.interval.growth import GrowthLimit, GrowthRule
from optimus.interval.worth import FOR_EVER, Loan, expected_gain, gain_at_ratio, training_at_risk
from optimus.jobs import NO_COUNTS, AtTarget, CountBounds, Counts, Job, JobKey, RescaleRule
from optimus.models.forecast import Forecast, NoWorkLeft
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingConfig:
    """The limits of what is spent on measuring."""

    runs: int = 4
    """Profiling runs of a job after that at its user's counts. Default: the paper's 5 combinations
    in all."""

    steady_seconds: float = 60.0
    """Steady training of one run, in seconds. Default: tens of seconds in the paper; noise of a
    minute is small."""

    first_steady_seconds: float = 30.0
    """Steady training at its user's counts after which a new job's counts are decided by what is to
    be expected of it, in seconds. Default: what two log lines need; which counts are best is more
    uncertain than the speed measured in that time."""

    run_limit_seconds: float = 300.0
    """A run ends after so long, whatever was measured, in seconds. Default: a minute of training
    and a slow start."""

    trained_limit_seconds: float = 600.0
    """A job that has trained for longer is not profiled. Default: a restart loses at most this,
    once."""

    jobs_at_once: int = 2
    """Jobs that are profiled at the same time. Default: the others' room stays theirs."""

    jobs_at_once_fraction: float = 1 / 3
    """Part of the running jobs that may be profiled at the same time, where that is more. Unit:
    none. Default: with a tenth most jobs of a large cluster got old before their turn; more than a
    third brings little (design note 0032). How many are stopped at once is limited apart."""

    max_replicas: int = 8
    """The most PSs, or workers, of a profiling run, and of any job that was not measured to be
    faster with more than it has; twice as many as it was measured to be faster with, where that is
    more. Default: what a model of 5 terms needs, at a bounded price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalConfig:
    """When a change of counts is worth a restart, and how often a job may be restarted."""

    rescale_seconds: float = 60.0
    """What one rescale costs a job until one of its own was measured: no training from the
    suspension until all its pods run again, and the steps since its checkpoint. Default: pods of
    cached images start in half a minute, and as much again is lost on both sides."""

    hysteresis_fraction: float = 0.05
    """A change must save this fraction of the job's remaining time beyond its own cost. Unit: none.
    Default: speeds are predicted to several percent, and a gain that may be noise is not worth a
    restart."""

    moves_per_hour: int = 5
    """After this many rescales within an hour a job does not grow; it still shrinks where a waiting
    job needs the room, which does not count. Default: the paper (section 7) asks for a cap and
    names none; 5 restarts of a minute are a twelfth of the time, and an interval in six is left
    out."""

    cooldown_seconds: float = 300.0
    """Least time between two rescales of a job, whatever the gain. Default: half an interval, so
    that two early intervals in a row do not restart a job twice."""

    young_cooldown_seconds: float = 60.0
    """The same of a young job, or what a rescale costs it where that is more. Default: its first
    counts are chosen by little, and what it shows next often says better ones."""

    replace_seconds: float = 60.0
    """How long a job that has lost replicas keeps its counts while they have no room. Default: a
    node that restarts, or a pod that another takes over from, needs less."""

    profiling: ProfilingConfig = field(default_factory=ProfilingConfig)
    """How much is spent on measuring: it decides when a job's profiling is over."""

    own_counts_first: bool = True
    """True where jobs go below their own counts, not below their minimum, where others would wait
    long."""

    takes_back: bool = True
    """True where growth that was measured to bring nothing is taken back while nobody waits."""

    fairness: Fairness | None = field(default_factory=Fairness)
    """Weights and the degree of fairness. Default: the sum of -2 / sqrt(remaining time).
    ``None``: the sum of remaining times, as in the paper."""

    def cooldown_of(self, progress: TrainingProgress, history: JobHistory) -> float:
        """Least time between two rescales of a job."""
        if trained_seconds(progress, history) >= self.profiling.trained_limit_seconds:
            return self.cooldown_seconds
        young = max(self.young_cooldown_seconds, self.price_seconds(history))
        return min(young, self.cooldown_seconds)

    def price_seconds(self, history: JobHistory) -> float:
        """Return what a rescale costs a job: as measured, else as configured."""
        return usual_price(history.prices, self.rescale_seconds)


def trained_seconds(progress: TrainingProgress, history: JobHistory) -> float:
    """Return how long a job may have trained: by its log, of which the beginning may be lost, and
    by its pods."""
    return max(progress.trained_seconds, history.running_seconds)


class Action(StrEnum):
    """The ways in which a job changes. ``change`` is more of one role and fewer of the other, or
    other nodes; ``pause`` stops a job until it is resumed, ``suspend`` for good."""

    SUSPEND = "suspend"
    PAUSE = "pause"
    SHRINK = "shrink"
    CHANGE = "change"
    KEEP = "keep"
    WAIT = "wait"
    GROW = "grow"
    RESUME = "resume"

    @classmethod
    def between(cls, current: Counts, counts: Counts) -> "Action":
        """The action that leads from one pair of counts to the other."""
        if counts == current:
            return cls.KEEP
        if counts.ps >= current.ps and counts.workers >= current.workers:
            return cls.GROW
        if counts.ps <= current.ps and counts.workers <= current.workers:
            return cls.SHRINK
        return cls.CHANGE


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The decision for a job if its counts were changed; ``str()`` is for its user.

    Seconds are those to its goal at its present counts and at the recommended ones; ``None``
    without a forecast. ``expected``: by what is to be expected of it, not by a fit."""

    current: Counts
    counts: Counts
    action: Action
    reason: str
    seconds_now: float | None = None
    seconds_then: float | None = None
    price_seconds: float = 0.0
    expected: bool = False

    @property
    def changes(self) -> bool:
        """Return whether it recommends a change."""
        return self.action not in {Action.KEEP, Action.WAIT}

    def __str__(self) -> str:
        """The counts, what they are expected to bring, and why."""
        if not self.changes:
            return f"recommended: {self.current}, as now; {self.reason}"
        if self.action in {Action.SUSPEND, Action.PAUSE}:
            return f"recommended: to {self.action} it; {self.reason}"
        parts = [f"recommended: {self.counts} instead of {self.current}"]
        if self.seconds_now is not None and self.seconds_then is not None:
            basis = "; this is expected, not fitted" if self.expected else ""
            parts.append(
                f"expected {self.seconds_then:.0f} s to its goal instead of "
                f"{self.seconds_now:.0f} s, after {self.price_seconds:.0f} s for the rescale{basis}"
            )
        return "; ".join([*parts, *([self.reason] if self.reason else [])])


@dataclass(frozen=True, slots=True)
class Decision:
    """One job's counts from now on. ``reason`` is a sentence with the numbers that decided."""

    key: JobKey
    uid: str
    current: Counts
    counts: Counts
    action: Action
    reason: str
    saves_seconds: float = 0.0
    """Forecast seconds that the job saves by it; negative where it shrinks for others."""
    worth: float = 0.0
    """The same by the objective: of rescales that wait, the one that is worth most begins first."""
    recommended: Recommendation | None = None
    """Of a job of which nothing is changed."""
    limited_by: str = ""
    """The quota or budget that its reason names."""
    deadline: DeadlineOutlook | None = None
    """Of a job with a deadline and a forecast."""
    is_expected: bool = False
    """Decided by what is to be expected of the job, and neither by a fit nor by its bounds."""
    kind: str | None = None
    """The kind of nodes that the job is bound to; ``None`` for any."""
    time_share: float = 0.0
    """The part of the time that a policy by which jobs take turns means it to get."""
    turn_at: float | None = None
    """When a job that waits for its turn may expect it."""

    @property
    def rescales(self) -> bool:
        """Return whether the job has to be rescaled for it."""
        return self.action in {Action.SHRINK, Action.CHANGE, Action.GROW, Action.RESUME}


def saved_seconds(now: float | None, after: float | None) -> float:
    """Return what a change of counts saves, by the forecasts before and after; 0 without a
    forecast."""
    return 0.0 if now is None or after is None or now == after else now - after


class Eligibility(Enum):
    """Says what may happen to a job's counts in this interval."""

    FIXED = auto()
    SUSPENDED = auto()
    TO_SUSPEND = auto()
    WAITING = auto()
    RESIZABLE = auto()


@dataclass(frozen=True, slots=True)
class JobView:
    """One job: all that is known of it, and, once it is classified, what may happen to it.

    ``running``: some replica is bound. ``incomplete``: some is, and there is no room for the rest;
    ``placed`` are those that are.

    ``counts`` are what it is charged with unless decided otherwise; a waiting job can start at
    ``minimum``. ``forced``: its counts must change, as its user moved the bounds or replicas lost
    their room. ``rescaling``: a rescale is in progress. ``lost_replicas``: some of its replicas
    have no room any more. ``capped``: it does not grow, as it was rescaled too often, or its last
    placement failed."""

    job: Job
    running: bool
    forecast: Forecast | NotReady
    history: JobHistory
    progress: TrainingProgress
    config: IntervalConfig
    at: float
    incomplete: bool = False
    placed: Counts = NO_COUNTS
    contended: bool = False
    """Another job waits long, or one of a higher priority waits, and gets what this one has of its
    own counts."""

    eligibility: Eligibility = Eligibility.FIXED
    counts: Counts = NO_COUNTS
    reason: str = ""
    minimum: Counts = NO_COUNTS
    candidate: Candidate | None = None
    forced: bool = False
    rescaling: bool = False
    lost_replicas: bool = False
    capped: bool = False
    starts_smaller: bool = False
    """It waits, and starts with fewer than its own counts where no nodes could hold these."""

    returns_to: Counts | None = None
    """Its user's counts, to which a job without a forecast shrinks where another job waits."""

    def fixed(self, reason: str, counts: Counts | None = None) -> "JobView":
        """Not up for decision; without a bound pod it waits for just these counts."""
        counts = counts or self.job.counts
        eligibility = Eligibility.FIXED if self.running else Eligibility.WAITING
        return self.as_(eligibility, reason, counts)

    def suspended(self, reason: str, eligibility: Eligibility = Eligibility.SUSPENDED) -> "JobView":
        """Suspended, or to be suspended: its room is free for others."""
        return self.as_(eligibility, reason, self.job.counts)

    def as_(self, eligibility: Eligibility, reason: str, counts: Counts) -> "JobView":
        """The job with this eligibility, at these counts and no fewer."""
        return replace(self, eligibility=eligibility, reason=reason, counts=counts, minimum=counts)

    @property
    def price_seconds(self) -> float:
        """Return what a rescale costs the job: its stop and start, and the training that it does
        again.

        One that is decided by a fit waits for a checkpoint, if the job asks for one."""
        price_seconds = self.config.price_seconds(self.history)
        is_fitted = isinstance(self.forecast, Forecast) and not self.forecast.is_expected
        if is_fitted and self.job.rescale is RescaleRule.CHECKPOINT:
            return price_seconds
        return price_seconds + training_at_risk(self.history, self.progress, self.at)

    @property
    def age_seconds(self) -> float:
        """Since it was submitted."""
        return self.at - self.job.created_at

    @property
    def is_provisional(self) -> bool:
        """Return whether its counts are not up for decision, but will be in a moment."""
        return self.history.rescaling_to is not None or self.cooling

    @property
    def deadline(self) -> Deadline | None:
        """Return how long it has, where it has a deadline and a forecast and is not done."""
        finish_by, forecast = self.job.finish_by, self.forecast
        if finish_by is None or isinstance(forecast, NotReady) or forecast.goal_met:
            return None
        is_told = self.is_half_over or why_in_time(self.job, forecast, self.at) is not None
        if forecast.is_expected and not is_told:
            return None
        return Deadline(
            finish_by - self.at,
            self.job.counts if self.running else None,
            self.price_seconds,
            self.config.hysteresis_fraction,
        )

    @property
    def is_half_over(self) -> bool:
        """Return whether half of the time up to its deadline has passed: it is judged by what is
        known."""
        finish_by = self.job.finish_by
        return finish_by is not None and self.at >= (self.job.created_at + finish_by) / 2

    @property
    def own(self) -> Counts | None:
        """The counts that its user set, within its bounds, where they are known."""
        own = self.history.user_counts
        return None if own is None else self.job.bounds.clamp(own)

    @property
    def kept(self) -> CountBounds:
        """Its bounds, own counts first: while no job waits, no fewer than it has of its own counts;
        while one does, at least its minimum and at most its own counts.

        Where each of fewer workers would get a larger part of the batch, which may exceed its
        memory, it keeps its own workers, but for a minimum that its user has set."""
        own, now, bounds = self.own, self.job.counts, self.job.bounds
        if own is None:
            return bounds
        has = Counts(min(own.ps, now.ps), min(own.workers, now.workers)) if self.running else own
        if not self.contended:
            return bounds.above(has)
        if self.job.splits_batch:
            bounds = bounds.above(Counts(bounds.min_ps, has.workers))
        return bounds.below(own)

    @property
    def lends(self) -> bool:
        """Return whether it holds more than its own counts, and loses nothing where it is
        stopped."""
        job, own = self.job, self.own
        if own is None:
            return False
        has_grown = job.counts.ps > own.ps or job.counts.workers > own.workers
        return has_grown and (job.rescale is RescaleRule.ANY or self.history.saves_on_stop)

    @property
    def why_backing_off(self) -> str | None:
        """Return why the job may not grow now: its pods were not placed at its last rescale."""
        return why_backing_off(self.history.placement_failures, self.at)

    @property
    def cooling(self) -> bool:
        """Rescaled a moment ago, or being measured: it gives back what it has borrowed, no more."""
        return _why_cooling(self) is not None

    def on_servers(self, counts: Counts, servers: int) -> "JobView":
        """The job, whose processes would be on so many servers at these counts."""
        found = self.candidate
        if found is None or not isinstance(found.forecast.speed, SpeedModel):
            return self
        speed = found.forecast.speed.on_servers(counts, servers)
        if speed is found.forecast.speed:
            return self
        forecast = replace(found.forecast, speed=speed)
        return replace(self, candidate=replace(found, forecast=forecast))

    def with_objective(self, fairness: Fairness) -> "JobView":
        """The job with its objective, where the policy chooses its counts."""
        if self.candidate is None:
            return self
        objective = JobObjective(fairness.of_class(self.job), fairness.alpha)
        return replace(self, candidate=replace(self.candidate, objective=objective))

    def seconds(self, counts: Counts) -> float | None:
        """Forecast remaining seconds at these counts."""
        return self.candidate.forecast.at(counts) if self.candidate else None

    def saving(self, counts: Counts) -> float:
        """Forecast seconds that these counts save; 0 without a forecast."""
        if counts == self.job.counts:
            return 0.0
        return saved_seconds(self.seconds(self.job.counts), self.seconds(counts))

    def gain(self, counts: Counts, loan: Loan) -> float:
        """The part of the time that these counts replace that they are expected to save; what is
        beyond its own is lent."""
        if self.candidate is None:
            return 0.0
        return expected_gain(
            self.candidate.forecast,
            self.job.counts,
            counts,
            self.price_seconds,
            self.age_seconds,
            FOR_EVER if self.is_within_own(counts) else loan,
        )

    def is_within_own(self, counts: Counts) -> bool:
        """Return whether these are no more than its own counts."""
        own = self.own
        return own is not None and counts.ps <= own.ps and counts.workers <= own.workers

    def own_of(self, wanted: Counts) -> Counts:
        """The part of wanted counts that is its own, and what it has now where it has that."""
        now, own = self.job.counts, self.own or self.job.counts
        least = (min(each) for each in zip(wanted, own, strict=True))
        return Counts(*(max(each) for each in zip(now, least, strict=True)))

    def keeps_deadline(self, counts: Counts) -> bool:
        """Return whether these counts meet its deadline."""
        found = self.candidate
        if found is None or found.deadline is None:
            return False
        return found.deadline.is_met(found.forecast, counts)

    def rescues_deadline(self, counts: Counts) -> bool:
        """Return whether these counts meet a deadline that its present ones do not."""
        return self.keeps_deadline(counts) and not self.keeps_deadline(self.job.counts)

    @property
    def is_expected(self) -> bool:
        """Return whether it is decided by what is to be expected of it, and not by a fit."""
        return self.candidate is not None and self.candidate.forecast.is_expected

    @property
    def objective(self) -> JobObjective | None:
        """Return what its remaining time costs, where that is not simply its seconds."""
        return None if self.candidate is None else self.candidate.objective

    def worth(self, counts: Counts, price_seconds: float = 0.0) -> float:
        """Return what these counts save beyond a price, by the objective: seconds by default."""
        saving = self.saving(counts)
        if self.objective is None or not math.isfinite(saving):
            return saving - price_seconds
        now = self.seconds(self.job.counts) or 0.0
        return self.cost(now) - self.cost(now - saving + price_seconds)

    def cost(self, seconds: float) -> float:
        """Return what so many remaining seconds cost, by the objective."""
        return seconds if self.objective is None else self.objective.cost(seconds)

    def why_excluded(self, counts: Counts) -> str | None:
        """Return why the job may not go to these counts: its pods found no place there, or
        failed."""
        if not self.job.bounds.shares_evenly(counts):
            return self.job.bounds.why_not(counts)
        excluded = self.history.excluded
        if not excluded or counts == self.job.counts:
            return None
        return why_excluded(excluded, counts)


def too_little_text(job: JobView, counts: Counts, gain: float, least: float) -> str:
    """Return why a job is not moved: the gain is no more than the least, both parts of the time."""
    saves, price = f"{gain:.1%}" if gain > 0 else "nothing", job.price_seconds
    of, back = "what is left", ""
    if job.own is not None and not job.is_within_own(counts):
        of, back = "the time for which it would borrow them", ", and as much to return them"
    return (
        f"{counts} would save {saves} of {of}; a move needs more than {least:.0%} "
        f"(a restart costs {price:.0f} s{back})"
    )


def why_moved_enough(history: JobHistory, at: float, config: IntervalConfig) -> str | None:
    """Return why the job does not grow: it was rescaled too often within the last hour."""
    recent = [each for each in history.moves if at - each < 3600.0]
    if len(recent) < config.moves_per_hour:
        return None
    left_seconds = recent[-config.moves_per_hour] + 3600.0 - at
    return f"rescaled {len(recent)} times within an hour: it may grow in {left_seconds:.0f} s"


def classify(view: JobView) -> JobView:
    """Return what may happen to the job's counts where each change is weighed against its
    restart."""
    return _first(_RULES, view) or _resizable(view)


def classify_anew(view: JobView, *, reads_forecasts: bool) -> JobView:
    """The same where all counts are decided anew.

    A candidate has the counts that its user set last: no earlier decision counts. Nothing limits
    how often it is moved, or how far."""
    classified = _first(_RULES_ANEW, view)
    if classified is None and reads_forecasts:
        classified = _no_forecast(view)
    if classified is not None:
        return classified
    job, forecast = view.job, view.forecast
    as_submitted = replace(job, counts=view.history.user_counts or job.counts)
    if isinstance(forecast, NotReady):
        forecast = NOT_READ
    return replace(
        view,
        eligibility=Eligibility.RESIZABLE if view.running else Eligibility.WAITING,
        counts=job.counts,
        minimum=job.bounds.minimum,
        candidate=Candidate(as_submitted, forecast, running=view.running),
        lost_replicas=view.incomplete and view.history.lost_seconds >= view.config.replace_seconds,
    )


NOT_READ: Final = Forecast(NoWorkLeft(), 1.0)
"""The forecast of a job that has none, for policies that read no forecasts."""

_Rule = Callable[[JobView], JobView | None]


def _first(rules: Sequence[_Rule], view: JobView) -> JobView | None:
    return next((found for rule in rules if (found := rule(view)) is not None), None)


def _unplaceable(view: JobView) -> JobView | None:
    """Something else than room keeps its pods from being placed: a scheduling gate, a volume."""
    if view.running or view.job.suspended or not view.history.unplaceable:
        return None
    why = "its pods are not placed although there was room for them"
    return view.suspended(f"{why}: no other job is made smaller for it for a while")


def _not_managed(view: JobView) -> JobView | None:
    if view.job.managed:
        return None
    if view.job.suspended:
        return view.suspended(why_suspended(view.job))
    return view.fixed(view.job.left_alone or "not managed: no goal is annotated")


def _in_rescale(view: JobView) -> JobView | None:
    target = view.history.rescaling_to
    if target is None:
        return None
    if target == Counts(0, 0):
        why = "being paused" if view.history.paused else "being suspended: its goal is met"
        return view.suspended(why)
    reason = f"in the middle of a rescale to {target}"
    return replace(view.as_(Eligibility.FIXED, reason, target), rescaling=True)


def _suspended(view: JobView) -> JobView | None:
    if not view.job.suspended or view.history.paused:
        return None
    met = view.history.suspended_at_target
    return view.suspended("suspended: its goal is met" if met else why_suspended(view.job))


def why_suspended(job: Job) -> str:
    """Return who suspended a job that this process did not suspend."""
    if job.preempted_for:
        return f"paused for {job.preempted_for}; resumed by itself"
    return "suspended by its user"


def _ending(view: JobView) -> JobView | None:
    """Return what is suspended would begin again, although its training is done."""
    if not view.history.is_ending:
        return None
    return view.fixed("one of its trainers has succeeded: it is about to end")


def _held(view: JobView) -> JobView | None:
    return view.fixed(view.history.held) if view.history.held else None


def _no_checkpoint(view: JobView) -> JobView | None:
    if not view.running or not view.history.awaits_checkpoint:
        return None
    return view.fixed(
        "its last decision expired waiting for a checkpoint; counts stay until its log shows one"
    )


def _goal_met(view: JobView) -> JobView | None:
    if isinstance(view.forecast, NotReady) or not view.forecast.goal_met:
        return None
    if view.job.at_target is AtTarget.COMPLETE and not view.history.completion_overdue:
        return view.fixed("its goal is met, and it is requested to end")
    if view.job.at_target is not AtTarget.SUSPEND or view.history.suspended_at_target:
        return None  # suspended once already, and it runs: its user has resumed it
    if view.history.paused:
        return view.suspended("paused, and its goal is met")
    return view.suspended("its goal is met, and at-target is suspend", Eligibility.TO_SUSPEND)


def _never(view: JobView) -> JobView | None:
    if view.job.rescale is not RescaleRule.NEVER:
        return None
    return view.fixed("its rescale annotation says never")


def _bounds_backing_off(view: JobView) -> JobView | None:
    """Return what the moved bounds ask for found no place; it is tried again after the back-off."""
    failures, counts = view.history.placement_failures, view.job.counts
    if not failures and not view.history.failed_counts:
        return None
    wanted = view.job.bounds.clamp(counts)
    failed = None if wanted == counts else why_excluded(view.history.failed_counts, wanted)
    if failed is not None and view.running:
        return view.fixed(f"its bounds do not allow its {counts}, but {failed}")
    if not failures or not view.running:
        return None
    excluded = wanted != view.job.counts and why_excluded(failures, wanted) is not None
    if not excluded or view.why_backing_off is None:
        return None
    return view.fixed(f"its bounds do not allow its {view.job.counts}, but {view.why_backing_off}")


def _out_of_bounds(view: JobView) -> JobView | None:
    """Bounds that moved past the present counts ask for a rescale, with or without a forecast."""
    if not isinstance(view.forecast, NotReady):
        return None
    job, wanted = view.job, view.job.bounds.clamp(view.job.counts)
    if wanted == job.counts:
        return None
    classified = view.fixed(f"its bounds do not allow its {job.counts}", wanted)
    return replace(classified, forced=True, minimum=wanted if view.running else job.bounds.minimum)


def _incomplete(view: JobView) -> JobView | None:
    """Replicas were lost, and their room too. They are replaced at the same counts where that is
    possible; else a smaller job trains, where a larger one would only wait."""
    if not view.incomplete:
        return None
    reason = f"not all of its {view.job.counts} are placed, and the others do not fit"
    if isinstance(view.forecast, NotReady):
        classified = view.fixed(reason)
        fewest = view.job.bounds.clamp(view.placed)
    else:
        classified = replace(_resizable(view), reason=reason)
        fewest = view.job.bounds.minimum
    if view.history.lost_seconds < view.config.replace_seconds:
        fewest = view.job.counts  # it may be placed again in a moment
    return replace(classified, minimum=fewest, forced=True, lost_replicas=True)


def _no_forecast(view: JobView) -> JobView | None:
    if not isinstance(view.forecast, NotReady):
        return None
    classified = view.fixed(f"no forecast yet: {view.forecast.reason}")
    if not view.running:
        return replace(classified, minimum=view.kept.minimum, starts_smaller=view.own is not None)
    return replace(classified, returns_to=_returns_to(view))


def _returns_to(view: JobView) -> Counts | None:
    """Its user's counts, where it has grown beyond them and may be moved.

    What it grew to was worth it by a forecast that it no longer has: it is not known what the other
    jobs wait for. Below its user's counts it does not shrink without one."""
    own, now = view.history.user_counts, view.job.counts
    if own is None or view.cooling:
        return None
    fewer = view.job.bounds.clamp(Counts(min(own.ps, now.ps), min(own.workers, now.workers)))
    is_less = fewer.ps <= now.ps and fewer.workers <= now.workers and fewer != now
    return fewer if is_less else None


_PROFILED: Final = "being profiled at these counts"


def _profiling(view: JobView) -> JobView | None:
    if view.history.profiling_since is None or view.lends:
        return None
    return view.fixed(_PROFILED)


def _in_time(view: JobView) -> JobView | None:
    """A job that meets its deadline at its own counts is not moved: a move can only endanger it."""
    if not view.running or view.job.counts != view.own:
        return None
    found = why_in_time(view.job, view.forecast, view.at)
    return None if found is None else view.fixed(found.reason)


def why_in_time(job: Job, forecast: Forecast | NotReady, at: float) -> NotReady | None:
    """That a job meets its deadline where it is, by what is known of it; ``None``: it may not."""
    if job.finish_by is None or isinstance(forecast, NotReady) or forecast.goal_met:
        return None
    if float(forecast.late_seconds(*job.counts)) > job.finish_by - at:
        return None
    return NotReady(f"its deadline is met at its own {job.counts}")


def _cooldown(view: JobView) -> JobView | None:
    why = _why_cooling(view)
    # For a job that waits it shrinks all the same.
    return None if why is None or view.lends else view.fixed(why)


def _why_cooling(view: JobView) -> str | None:
    if view.history.profiling_since is not None:
        return _PROFILED
    last = view.history.last_rescaled_at
    if last is None or not view.job.bounds.allow(view.job.counts):
        return None
    cooldown = view.config.cooldown_of(view.progress, view.history)
    if view.at - last >= cooldown:
        return None
    ago = max(view.at - last, 0)
    left = cooldown - ago
    return f"cooldown: rescaled {ago:.0f} s ago; next change possible in {left:.0f} s"


_UP_TO_OTHERS: Final[Sequence[_Rule]] = (
    _unplaceable,
    _not_managed,
    _in_rescale,
    _suspended,
    _ending,
    _held,
    _no_checkpoint,
    _goal_met,
    _never,
)
"""Rules under which no policy changes a job's counts."""

_RULES_ANEW: Final[Sequence[_Rule]] = (*_UP_TO_OTHERS, _profiling)

_RULES: Final[Sequence[_Rule]] = (
    *_UP_TO_OTHERS,
    _bounds_backing_off,
    _out_of_bounds,
    _incomplete,
    _no_forecast,
    _profiling,
    _in_time,
    _cooldown,
)


_EXPECTED = "estimated from its first measurements"


def _growth_limit(view: JobView) -> GrowthLimit | None:
    """Return how far it may grow; ``None`` where nothing was measured and the forecast is given."""
    assert not isinstance(view.forecast, NotReady)
    is_measured = view.progress.samples or view.progress.earlier
    if not (view.forecast.is_expected or is_measured):
        return None
    config = view.config
    rule = GrowthRule(config.profiling.max_replicas, config.hysteresis_fraction)
    return rule.limit(view.job, view.history.user_counts, view.progress)


def steady_seconds(job: Job, progress: TrainingProgress) -> float:
    """Return how long it has trained at its present counts."""
    return sum(sample.seconds for sample in progress.samples if sample.counts == job.counts)


def _why_gives_back(view: JobView, limit: GrowthLimit) -> str | None:
    """Return why it gives capacity back that nobody else may want; ``None`` where it keeps it.

    It loses less by that than a move has to gain: as little as what nobody is moved for."""
    assert not isinstance(view.forecast, NotReady)
    times, now, least = limit.times, view.job.counts, view.config.hysteresis_fraction
    keeps = times is None or limit.returning(view.job.bounds).allow(now)
    if keeps or times is None or not view.config.takes_back or view.cooling:
        return None
    if steady_seconds(view.job, view.progress) < view.config.profiling.steady_seconds:
        return None  # the first seconds after a start are slow
    price, age = view.price_seconds, view.age_seconds
    gain = gain_at_ratio(view.forecast, now, (math.log(times), 0.0), price, age)
    if gain <= -least or view.forecast.goal_met:
        return None
    return (
        f"with its {now} it was measured to be not {least:.0%} faster than with {limit.confirmed}, "
        f"and the return costs it less than {least:.0%} of what is left: it gives back what brings "
        f"nothing"
    )


def _why_not_growing(view: JobView) -> str | None:
    """Return why it may only shrink now."""
    too_often = why_moved_enough(view.history, view.at, view.config)
    return view.why_backing_off or too_often or _why_cooling(view)


def _resizable(view: JobView) -> JobView:
    assert not isinstance(view.forecast, NotReady)
    job = view.job
    forced, capped, reason = not job.bounds.allow(job.counts), False, ""
    if forced:
        reason = f"its bounds do not allow its {job.counts}"
    elif (not_growing := _why_not_growing(view)) is not None:
        capped, reason = True, not_growing
    elif view.forecast.goal_met:
        reason = "its goal is met: it does not grow again"
    bounded, limit = job, _growth_limit(view)
    if limit is not None:
        why_back = None if forced else _why_gives_back(view, limit)
        forced, reason = forced or why_back is not None, why_back or reason
        allowed = limit.within(job.bounds) if why_back is None else limit.returning(job.bounds)
        bounded = replace(job, bounds=allowed)
    is_limited = not capped and bounded.bounds != job.bounds
    if view.forecast.is_expected:
        reason = "; ".join(part for part in (reason, _EXPECTED) if part)
    if capped and not forced:
        bounds = replace(job.bounds, max_ps=job.counts.ps, max_workers=job.counts.workers)
        bounded = replace(job, bounds=bounds)
    if not forced:
        bounded = replace(bounded, bounds=bounded.bounds.within(view.kept))
    return replace(
        view,
        eligibility=Eligibility.RESIZABLE if view.running else Eligibility.WAITING,
        counts=job.counts,
        reason=reason,
        minimum=bounded.bounds.minimum,
        candidate=Candidate(
            bounded,
            view.forecast,
            running=view.running,
            deadline=view.deadline,
            limited=str(limit) if is_limited else "",
        ),
        forced=forced,
        capped=capped,
        starts_smaller=not view.running and view.own is not None,
    )
