"""One interval: classify, ask, fit and settle, as one pure call (Optimus, sections 3 and 4).

Counts are a job's numbers of PSs and workers; a task is one PS or one worker.

1. Look at every job once: its forecast, its history, its pods. While no job waits, nobody is moved
   below its own counts. A job that would wait long instead starts with what others have of theirs:
   all are then between their minimum and their own counts. A short wait is cheaper than the
   restarts that would end it, at least two of some jobs each.
2. Classify the jobs, state the policy's problem, fit the answer on the nodes and settle it. How
   that is done depends on the policy's traits (``optimus.interval.settle``): changes are weighed
   against their restarts, or all counts are as decided.
3. Jobs whose profiling ended without a forecast return to the submitted counts.
The same snapshot gives the same plan whatever the order of its jobs, nodes and pods.
"""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from optimus.allocation import NO_HISTORY, Grant
from optimus.allocation.deadline import outlook
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, schedulable_capacity
from optimus.interval.classify import (
    Action,
    Decision,
    Eligibility,
    IntervalConfig,
    JobView,
    Recommendation,
    saved_seconds,
)
from optimus.interval.inputs import IntervalInput, IntervalPlan, Strategies
from optimus.interval.node_kinds import OnFastestKind, UsualFactors, measured_factors
from optimus.interval.profiling import decide_after_profiling
from optimus.interval.settle.settlement import Settlement, settle
from optimus.interval.settle.undecided import Undecided
from optimus.jobs import Job
from optimus.models.forecast import Forecast
from optimus.placement.first_kind import NO_ORDERS
from optimus.progress.types import NOTHING
from optimus.resources import Resources, total

_LONG_WAIT_PRICES: Final = 10.0
"""A wait is long from so many restarts on. Default: of 3, 7, 10, 20 and 40 the best in workloads
where jobs wait long, and no harm where they wait shortly (``benchmarks.heavy_tails``)."""


_SHORTER: Final = 0.25
"""The part of the jobs that take less. Default: where all take as long, letting one that waits go
first makes everybody late; where some are much longer, most that wait are short."""

_ORDER = {action: number for number, action in enumerate(Action)}
"""Decisions that free capacity come before those that use it."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing here makes cycles worth looking for among some hundred thousand small objects."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_no_collection()
def plan_interval(
    interval_id: str, inputs: IntervalInput, strategies: Strategies, config: IntervalConfig
) -> IntervalPlan:
    """Decide the counts of every managed job; a pure function.

    A second plan says what is recommended for jobs that are not changed, as if they were."""
    plan = _plan(interval_id, inputs, strategies, config)
    advised = {uid for uid, each in inputs.history.items() if each.recommends}
    if not advised:
        return plan
    history = {
        uid: replace(each, held="") if uid in advised else each
        for uid, each in inputs.history.items()
    }
    other = _plan(interval_id, replace(inputs, history=history), strategies, config)
    jobs = {job.uid: job for job in inputs.snapshot.jobs}
    recommended = dict[str, Recommendation]()
    for each in other.decisions:
        if each.uid in advised:
            progress = inputs.progress.get(each.uid, NOTHING)
            forecast = strategies.forecast(jobs[each.uid], progress)
            price_seconds = config.price_seconds(history[each.uid])
            recommended[each.uid] = _recommendation(each, forecast, price_seconds)
    decisions = tuple(
        replace(each, recommended=recommended.get(each.uid)) for each in plan.decisions
    )
    return replace(plan, decisions=decisions)


def _recommendation(
    decision: Decision, forecast: Forecast | NotReady, price_seconds: float
) -> Recommendation:
    """Return what a decision would have been, with the forecast by which it was made."""
    what = Recommendation(decision.current, decision.counts, decision.action, decision.reason)
    if isinstance(forecast, NotReady) or forecast.goal_met or not what.changes:
        return what
    return replace(
        what,
        seconds_now=forecast.at(decision.current),
        seconds_then=forecast.at(decision.counts),
        price_seconds=price_seconds,
        expected=forecast.is_expected,
    )


def _plan(
    interval_id: str, inputs: IntervalInput, strategies: Strategies, config: IntervalConfig
) -> IntervalPlan:
    plan, policy = CapacityPlan.of(inputs.snapshot, strategies.placement), strategies.policy
    # 1. Look at every job
    views = _views(inputs, strategies, config, plan)
    factors, label, orders = inputs.kind_factors, inputs.kind_label, NO_ORDERS
    kinds = {kind for node in plan.nodes if (kind := node.labels.get(label))}
    if policy.traits.weighs_restarts and len(kinds) > 1:
        factors = measured_factors(factors, views, kinds)
        usual = UsualFactors.of(list(factors.values()))
        plan.rule = OnFastestKind.of(plan, label, factors, usual, views)
        orders = usual.orders(label, inputs.kind_orders, factors, views)
    # 2. Classify, ask, fit and settle
    settled = settle(Undecided(inputs, policy, config, views, plan))
    # 3. After profiling
    decisions = [
        (job, replace(_decision(job, settled, plan), turn_at=_turn_at(job, settled, inputs)))
        for job in settled.jobs
        if job.job.goal is not None
    ]
    # A return keeps the position of the decision that it replaces.
    decisions.sort(key=lambda each: (_ORDER[each[1].action], each[1].uid))
    capacity = cache(lambda: schedulable_capacity(plan.nodes))
    decided = tuple(
        _with_deadline(decide_after_profiling(job, decision), job, capacity)
        for job, decision in decisions
    )
    at = inputs.snapshot.at
    return IntervalPlan(
        interval_id,
        at,
        decided,
        plan,
        settled.memory,
        settled.answer,
        settled.loan,
        factors,
        orders,
    )


def _views(
    inputs: IntervalInput,
    strategies: Strategies,
    config: IntervalConfig,
    plan: CapacityPlan,
) -> Sequence[JobView]:
    """All that is known of every job; one with some pods bound takes capacity for the others."""
    jobs = sorted(inputs.snapshot.jobs, key=lambda job: job.uid)
    incomplete = {
        job.uid for job in jobs if plan.is_placed(job.uid) and plan.complete(job) is not None
    }

    def view(submitted: Job) -> JobView:
        history = inputs.history.get(submitted.uid, NO_HISTORY)
        job = history.bounded(submitted)
        progress = inputs.progress.get(job.uid, NOTHING)
        forecast, runs = strategies.forecast(job, progress), plan.is_placed(job.uid)
        at, lacks_pods = inputs.snapshot.at, job.uid in incomplete
        placed = inputs.snapshot.bound_counts(job.uid)
        return JobView(job, runs, forecast, history, progress, config, at, lacks_pods, placed)

    views = [view(job) for job in jobs]
    if not config.own_counts_first:
        return views
    return _own_counts_first(views, plan, config.rescale_seconds)


def _own_counts_first(
    views: Sequence[JobView], plan: CapacityPlan, price_seconds: float
) -> Sequence[JobView]:
    """The jobs, contended where another of a higher priority waits, and all where the first that
    waits would wait long for those that run to end: longer than ten restarts take, and than the
    shorter of those that run."""
    waiting = [view.job for view in views if _waits(view, plan)]
    if not waiting:
        return views
    seconds = _wait_seconds(waiting, views, plan)
    is_long = seconds > max(_LONG_WAIT_PRICES * price_seconds, _usual_seconds(views, plan))
    highest = max(job.priority for job in waiting)
    return [replace(view, contended=is_long or view.job.priority < highest) for view in views]


def _usual_seconds(views: Sequence[JobView], plan: CapacityPlan) -> float:
    """Return how long a shorter job of those that run takes; 0 where nothing is known of any."""
    known = [
        view.history.running_seconds + _seconds_left(view)
        for view in views
        if plan.is_placed(view.job.uid) and math.isfinite(_seconds_left(view))
    ]
    return float(np.quantile(known, _SHORTER)) if known else 0.0


def _wait_seconds(waiting: Sequence[Job], views: Sequence[JobView], plan: CapacityPlan) -> float:
    """Return how long the first job that waits would wait, by the forecasts of those that run; 0
    where all the nodes could hold none of them."""
    running = [view for view in views if plan.is_placed(view.job.uid)]
    free = total(
        plan.capacity.resources_of(vector) * count
        for vector, count in plan.capacity.count_free().items()
    )
    most = free + total(plan.usage(view.job.uid) for view in running)
    possible = [job for job in waiting if job.demand().fits_in(most)]
    if not possible:
        return 0.0
    first = min(possible, key=lambda job: (-job.priority, job.created_at, job.uid)).demand()
    for view in sorted(running, key=_seconds_left):
        free = free + plan.usage(view.job.uid)
        if first.fits_in(free):
            return _seconds_left(view)
    return math.inf


def _seconds_left(view: JobView) -> float:
    forecast = view.forecast
    return math.inf if isinstance(forecast, NotReady) else forecast.at(view.job.counts)


def _waits(view: JobView, plan: CapacityPlan) -> bool:
    """Return whether a job wants nodes, and has none and no place on those that are free."""
    job, history = view.job, view.history
    is_absent = job.suspended or plan.is_placed(job.uid) or history.rescaling_to is not None
    return not (is_absent or history.unplaceable or plan.fits(job, job.counts))


def _with_deadline(
    decision: Decision, view: JobView, capacity: Callable[[], Resources]
) -> Decision:
    """The decision with what it means for the job's deadline, whatever the policy."""
    deadline = view.deadline
    if deadline is None or isinstance(view.forecast, NotReady):
        return decision
    found = outlook(view.job, view.forecast, deadline, decision.counts, capacity())
    provisional = view.is_provisional and not view.is_half_over
    return replace(decision, deadline=replace(found, provisional=provisional))


def _turn_at(view: JobView, settled: Settlement, inputs: IntervalInput) -> float | None:
    """When a job that waits for its turn may expect it: it has waited since its last one for the
    time that others get, and one that is late comes in the next round."""
    answer, seconds = settled.answer.get(view.job.uid), inputs.round_seconds
    if answer is None or isinstance(answer, Grant) or answer.time_share <= 0:
        return None
    waits_since = max(view.history.turns, default=view.job.created_at)
    wait_seconds = seconds * (1 / answer.time_share - 1)
    return max(waits_since + wait_seconds, inputs.snapshot.at + seconds)


def _decision(job: JobView, settled: Settlement, plan: CapacityPlan) -> Decision:
    of, answer = job.job, settled.answer.get(job.job.uid)
    counts = settled.counts.get(of.uid, of.counts)
    now = job.seconds(of.counts)
    after = now if counts == of.counts else job.seconds(counts)
    reason = settled.reasons.get(of.uid) or job.reason
    if now is not None and after is not None and now != after:
        left = "expected" if job.is_expected else "remaining"
        reason = f"{reason}; {left} {now:.0f} s become {after:.0f} s"
    action = settled.actions.get(of.uid, Action.between(of.counts, counts))
    if job.eligibility is Eligibility.TO_SUSPEND:
        action = Action.SUSPEND
    elif action is Action.KEEP and job.eligibility is Eligibility.WAITING:
        action = Action.WAIT
    return Decision(
        of.key,
        of.uid,
        of.counts,
        counts,
        action,
        reason,
        saves_seconds=saved_seconds(now, after),
        worth=job.worth(counts),
        is_expected=job.is_expected and not job.forced,
        limited_by=plan.quotas.named_in(of.uid, reason),
        kind=settled.kinds.get(of.uid),
        time_share=answer.time_share if answer is not None else 0.0,
    )
