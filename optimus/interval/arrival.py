"""When a job would start and end if it came now, planned as an interval plans it.

1. Plan an interval on the cluster with the job among the waiting ones, by the policy of the
   autoscaler: it starts now where free capacity and quotas hold it, or where others shrink for it.
2. Else take the running jobs out one after the other, at the ends that their forecasts give, and
   try the whole job after each, behind the jobs that wait already.
3. Do so for the early, the median and the late ends: its start is as uncertain as those are.
The running jobs are taken to keep their counts until they end; jobs without a forecast never end.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, headroom
from optimus.interval.classify import Action, IntervalConfig
from optimus.interval.plan import IntervalInput, Strategies, plan_interval
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast, TimeLeft, time_left
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.progress.types import TrainingProgress
from optimus.snapshot import ClusterSnapshot

ARRIVING_UID = "what-if"
_MOST_TRIED = 32
"""Of more jobs that end before it, all are named."""


@dataclass(frozen=True, slots=True)
class Running:
    """What is known of a job of the cluster: its forecast, made at ``forecast_at``."""

    forecast: Forecast | NotReady
    forecast_at: float


@dataclass(frozen=True, slots=True)
class Arriving:
    """A job that comes now, and the cluster that it comes to.

    ``snapshot`` does not have the job; its quotas charge it under ``job.uid``. ``duration`` says
    how long it would train at some counts, ``None`` where that is not known."""

    job: Job
    snapshot: ClusterSnapshot
    running: Mapping[str, Running] = field(default_factory=dict)
    duration: Callable[[Counts], TimeLeft | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When the job would start and end, in seconds from now; 80 % around the medians.

    ``starts`` is ``None`` where no ends that are known make room for it; ``refusal`` says why it
    does not start now. ``high`` is infinite where the late ends of the others make no room."""

    counts: Counts
    starts: TimeLeft | None
    ends: TimeLeft | None = None
    refusal: str = ""
    waits_for: tuple[str, ...] = ()
    """The running jobs, NAMESPACE/NAME, whose ends make room for it, by the medians."""

    shrinks: tuple[str, ...] = ()
    """The running jobs that would give room to it now."""

    without_end: tuple[str, ...] = ()
    """Running jobs of which no end is known: their room is not counted on."""


def arrival(question: Arriving) -> Arrival:
    """When the job would start and end."""
    now = _planned_now(question)
    if now is not None:
        counts, shrinks = now
        start = TimeLeft(0, 0, 0)
        return Arrival(
            counts=counts,
            starts=start,
            ends=_ends(start, question.duration(counts)),
            shrinks=shrinks,
        )
    left = _left(question)
    starts: list[float] = []
    by_median: list[str] = []
    for pick in (lambda each: each.low, lambda each: each.median, lambda each: each.high):
        at, ended = _start(question, left, pick)
        starts.append(at)
        by_median = ended if len(starts) == 2 else by_median
    found = TimeLeft(*starts) if math.isfinite(starts[1]) else None
    free = headroom(question.snapshot, Theorem1(), ())
    holding = [job for job in question.snapshot.jobs if free.is_placed(job.uid)]
    return Arrival(
        counts=question.job.counts,
        starts=found,
        ends=None if found is None else _ends(found, question.duration(question.job.counts)),
        refusal=free.move(question.job, question.job.counts) or "jobs that wait already go first",
        waits_for=_needed(question, by_median),
        without_end=tuple(str(job.key) for job in holding if job.uid not in left),
    )


def duration_of(
    forecast: Forecast | NotReady | None, counts: Counts, trained_seconds: float
) -> TimeLeft | None:
    """How long a job trains from its first step to its goal, by what is known of one like it: what
    that has done and has left, at these counts; of one at its goal, how long it has trained."""
    if not isinstance(forecast, Forecast) or forecast.is_expected:
        return None
    done = forecast.progress_fraction
    if forecast.goal_met or done >= 1:
        whole = trained_seconds
        return TimeLeft(whole, whole, whole) if whole > 0 else None
    left = time_left(forecast, counts)
    if left is None:
        return None
    before = left.median * done / (1 - done)
    return TimeLeft(*(round(each + before, 1) for each in (left.low, left.median, left.high)))


def _ends(starts: TimeLeft, duration: TimeLeft | None) -> TimeLeft | None:
    if duration is None:
        return None
    return TimeLeft(
        starts.low + duration.low,
        starts.median + duration.median,
        starts.high + duration.high,
    )


def _planned_now(question: Arriving) -> tuple[Counts, tuple[str, ...]] | None:
    """The counts at which an interval that is planned now would start it, and who would shrink for
    it; ``None`` where it waits."""
    job, snapshot = question.job, question.snapshot
    forecasts = {uid: each.forecast for uid, each in question.running.items()}

    def forecast(asked: Job, _: TrainingProgress, /) -> Forecast | NotReady:
        return forecasts.get(asked.uid, NotReady("there is no forecast of it"))

    def expected(_: Job, __: TrainingProgress, refusal: NotReady, /) -> NotReady:
        return refusal

    strategies = Strategies(OptimusPolicy(), Theorem1(), forecast, expected_forecast=expected)
    with_it = replace(snapshot, jobs=tuple(sorted((*snapshot.jobs, job), key=lambda j: j.uid)))
    without = plan_interval("what-if", IntervalInput(snapshot), strategies, IntervalConfig())
    plan = plan_interval("what-if", IntervalInput(with_it), strategies, IntervalConfig())
    if not plan.capacity_plan.is_placed(job.uid):
        return None
    before = {each.uid: each.counts for each in without.decisions}
    by_uid = {each.uid: each for each in plan.decisions}
    shrinks = [
        str(each.key)
        for each in plan.decisions
        if each.action in (Action.SHRINK, Action.CHANGE, Action.SUSPEND)
        and each.uid != job.uid
        and before.get(each.uid) != each.counts
    ]
    own = by_uid.get(job.uid)
    return job.counts if own is None else own.counts, tuple(shrinks)


def _left(question: Arriving) -> dict[str, TimeLeft]:
    """How long each running job still trains at its counts, from now on."""
    at, found = question.snapshot.at, dict[str, TimeLeft]()
    for job in question.snapshot.jobs:
        known = question.running.get(job.uid)
        if known is None or not isinstance(known.forecast, Forecast) or known.forecast.goal_met:
            continue
        left = time_left(known.forecast, job.counts)
        if left is not None:
            since = max(at - known.forecast_at, 0.0)
            low, median, high = (
                max(each - since, 0.0) for each in (left.low, left.median, left.high)
            )
            found[job.uid] = TimeLeft(low, median, high)
    return found


def _start(
    question: Arriving, left: Mapping[str, TimeLeft], pick: Callable[[TimeLeft], float]
) -> tuple[float, list[str]]:
    """After how many seconds the whole job has a place, and the UIDs of jobs that have ended."""
    job, plan = question.job, headroom(question.snapshot, Theorem1(), ())
    waiting = _waiting(question.snapshot, plan, job.priority)
    ended: list[str] = []
    in_order = sorted(left, key=lambda uid: (pick(left[uid]), uid))
    for uid, after in [("", 0.0), *((uid, pick(left[uid])) for uid in in_order)]:
        if uid:
            plan.release(uid)
            ended.append(uid)
        waiting = [each for each in waiting if plan.move(each, each.counts) is not None]
        if plan.fits(job, job.counts):
            return after, ended
    return math.inf, []


def _needed(question: Arriving, ended: list[str]) -> tuple[str, ...]:
    """Of the jobs that have ended by its start, those without whose end it has no place."""
    needed = ended
    for uid in ended if len(ended) <= _MOST_TRIED else ():
        others = [each for each in needed if each != uid]
        if _fits_after(question, others):
            needed = others
    names = {each.uid: str(each.key) for each in question.snapshot.jobs}
    return tuple(names[uid] for uid in needed)


def _fits_after(question: Arriving, ended: list[str]) -> bool:
    plan = headroom(question.snapshot, Theorem1(), ())
    waiting = _waiting(question.snapshot, plan, question.job.priority)
    for uid in ended:
        plan.release(uid)
    for each in waiting:
        plan.move(each, each.counts)
    return plan.fits(question.job, question.job.counts)


def _waiting(snapshot: ClusterSnapshot, plan: CapacityPlan, priority: int) -> list[Job]:
    """The jobs that wait for room already and go first: of this priority or a higher one, the
    oldest first."""
    found = [
        each
        for each in snapshot.jobs
        if each.priority >= priority and not each.suspended and not plan.is_placed(each.uid)
    ]
    return sorted(found, key=lambda each: (-each.priority, each.created_at, each.uid))
