"""When a job would start and end if it came now, planned as an interval plans it.

1. It starts at once where free capacity and quotas hold it, behind the jobs that wait already.
2. Else plan an interval with the job among the waiting ones, by what the autoscaler decides by: it
   starts now where others shrink for it.
3. Else search for the first end of a running job, by their forecasts, after which the whole job has
   a place. This is done for the early, the median and the late ends: its start is as uncertain.
The running jobs are taken to keep their counts until they end; jobs without a forecast never end.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, Claim, headroom
from optimus.interval.classify import Action
from optimus.interval.decision_settings import DecisionSettings
from optimus.interval.inputs import IntervalInput, IntervalPlan, Strategies
from optimus.interval.plan import plan_interval
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast, TimeLeft, time_left
from optimus.progress.types import TrainingProgress
from optimus.snapshot import ClusterSnapshot
from optimus.what_if.counts import DecisionBasis

ARRIVING_UID = "what-if"
_MOST_TRIED = 8
"""Of more jobs that end before it, all are named."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """A job that comes now, and the cluster that it comes to.

    ``snapshot`` does not have the job; its quotas charge it under ``job.uid``. ``duration`` says
    how long it would train at some counts, ``None`` where that is not known."""

    job: Job
    snapshot: ClusterSnapshot
    settings: DecisionSettings
    running: Mapping[str, DecisionBasis] = field(default_factory=dict)
    """What is known of the jobs of the cluster, by their UIDs."""

    claims: Sequence[Claim] = ()
    """Room that is kept for rescales in progress."""

    duration: Callable[[Counts], TimeLeft | None] = lambda _: None
    most_planned: int = 5_000
    """On a cluster with more jobs it is not asked whether others would shrink for it: an interval
    is planned twice for that."""


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


def arriving(job: Job, name: str, at: float) -> Job:
    """A new job like this one."""
    key = job.key._replace(name=name)
    return replace(job, key=key, uid=ARRIVING_UID, created_at=at, suspended=False, paused=False)


def arrival(question: Arriving) -> Arrival:
    """When the job would start and end."""
    job, free = question.job, _Free.of(question)
    refusal = free.refusal(())
    if refusal is None:
        return _at_once(question, job.counts)
    now = _planned_now(question) if len(question.snapshot.jobs) <= question.most_planned else None
    if now is not None:
        counts, shrinks = now
        return replace(_at_once(question, counts), shrinks=shrinks)
    left = _left(question)
    by_end = [_start(free, left, pick) for pick in (_low, _median, _high)]
    found = TimeLeft(*(after for after, _ in by_end)) if math.isfinite(by_end[1][0]) else None
    return Arrival(
        counts=job.counts,
        starts=found,
        ends=None if found is None else _ends(found, question.duration(job.counts)),
        refusal=str(refusal),
        waits_for=free.named(free.needed(by_end[1][1])),
        without_end=free.named([uid for uid in free.holding if uid not in left]),
    )


def _low(left: TimeLeft) -> float:
    return left.low


def _median(left: TimeLeft) -> float:
    return left.median


def _high(left: TimeLeft) -> float:
    return left.high


def _at_once(question: Arriving, counts: Counts) -> Arrival:
    start = TimeLeft(0, 0, 0)
    return Arrival(counts=counts, starts=start, ends=_ends(start, question.duration(counts)))


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
    settings, running = question.settings, question.running
    progress = {uid: each.progress for uid, each in running.items()}
    history = {uid: each.history for uid, each in running.items()}

    def forecast(asked: Job, _: TrainingProgress, /) -> Forecast | NotReady:
        known = running.get(asked.uid)
        return settings.usable(None if known is None else known.forecast)

    def planned(on: ClusterSnapshot) -> IntervalPlan:
        may_pause = strategies.policy.traits.preempts
        inputs = IntervalInput(on, progress, history, may_pause=may_pause)
        return plan_interval("what-if", inputs, strategies, settings.interval)

    strategies = Strategies(settings.policy, settings.placement, forecast)
    with_it = replace(snapshot, jobs=tuple(sorted((*snapshot.jobs, job), key=lambda j: j.uid)))
    without, plan = planned(snapshot), planned(with_it)
    if not plan.capacity_plan.is_placed(job.uid):
        return None
    before = {decision.uid: decision.counts for decision in without.decisions}
    by_uid = {each.uid: each for each in plan.decisions}
    shrinks = [
        str(each.key)
        for each in plan.decisions
        if each.action in (Action.SHRINK, Action.CHANGE, Action.PAUSE, Action.SUSPEND)
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
    free: "_Free", left: Mapping[str, TimeLeft], pick: Callable[[TimeLeft], float]
) -> tuple[float, list[str]]:
    """After how many seconds the whole job has a place, and the UIDs of jobs that have ended. Room
    only grows as jobs end, so that the first end that is enough is found by bisection."""
    in_order = sorted(left, key=lambda uid: (pick(left[uid]), uid))
    if free.refusal(in_order) is not None:
        return math.inf, []
    numbers = range(len(in_order) + 1)
    first = bisect_left(numbers, True, key=lambda n: free.refusal(in_order[:n]) is None)
    return (pick(left[in_order[first - 1]]) if first else 0.0), in_order[:first]


@dataclass(frozen=True, slots=True)
class _Free:
    """The room now, and the jobs that go first for it: those that wait already, with the priority
    of the new one or a higher one, the oldest first."""

    question: Arriving
    plan: CapacityPlan
    waiting: tuple[Job, ...]

    @classmethod
    def of(cls, question: Arriving) -> Self:
        """Take the free capacity and the waiting jobs of the snapshot."""
        plan = headroom(question.snapshot, question.settings.placement, question.claims)
        waiting = [
            job
            for job in question.snapshot.jobs
            if job.priority >= question.job.priority
            and not job.suspended
            and not plan.is_placed(job.uid)
        ]
        waiting.sort(key=lambda each: (-each.priority, each.created_at, each.uid))
        return cls(question, plan, tuple(waiting))

    @property
    def holding(self) -> list[str]:
        """The UIDs of the jobs that hold room."""
        jobs = self.question.snapshot.jobs
        return [job.uid for job in jobs if self.plan.is_placed(job.uid)]

    def refusal(self, ended: Sequence[str]) -> str | None:
        """Why the job has no place once these jobs have ended; ``None`` where it has one."""
        job, plan = self.question.job, self.plan.copy()
        for uid in ended:
            plan.release(uid)
        alone = plan.move(job, job.counts)
        if alone is not None:
            return alone
        plan.release(job.uid)
        for each in self.waiting:
            plan.move(each, each.counts)
        beside = plan.move(job, job.counts)
        return None if beside is None else f"{beside} beside the jobs that wait already"

    def needed(self, ended: list[str]) -> list[str]:
        """The jobs, of those that have ended by its start, without whose end it has no place."""
        kept = ended
        for uid in ended if len(ended) <= _MOST_TRIED else ():
            others = [each for each in kept if each != uid]
            if self.refusal(others) is None:
                kept = others
        return kept

    def named(self, uids: Sequence[str]) -> tuple[str, ...]:
        """NAMESPACE/NAME of each."""
        names = {job.uid: str(job.key) for job in self.question.snapshot.jobs}
        return tuple(names[uid] for uid in uids)
