"""When the next interval is due: after ``interval_seconds``, or earlier where something changed.

A policy that decides all counts anew is asked once in each whole round of that length. Where jobs
take turns, a round is as long as their restarts make it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.errors import NotReady
from optimus.interval.classify import trained_seconds
from optimus.interval.profiling import is_first_measured
from optimus.interval.state import Moment
from optimus.jobs import AmountGoal, Goal, Job
from optimus.models.forecast import goal_is_met
from optimus.nodes import Node, label_keys, what_is_offered
from optimus.progress.types import TrainingProgress

ROUND_SLACK: Final = 1e-9
"""Part of a round by which its beginning may be missed by rounding."""


class Trigger(NamedTuple):
    """The facts that cause an early interval when they change."""

    cluster: object
    readiness: Mapping[str, object]
    """Of each managed job, by UID."""


@dataclass(slots=True)
class Timetable:
    """Says when intervals are due. What it keeps is only not worked out again."""

    offered: tuple[tuple[Node, ...], object] | None = None
    goals: dict[str, tuple[object, bool]] | None = None
    """For each job: what its goal was judged on since the last interval, and whether it is met."""

    def forget(self) -> None:
        """An interval begins: jobs may ask for other labels by now."""
        self.offered, self.goals = None, None

    def next_at(self, now: Moment) -> float:
        """Return when the next interval is due by the timer, if nothing else changes."""
        planned_at = now.state.planned_at
        if planned_at is None:
            return -math.inf
        if now.weighs_restarts:
            return planned_at + self._wait_seconds(now)
        if now.strategies.policy.traits.time_shared:
            return planned_at + now.round_seconds
        seconds = now.config.interval_seconds
        return (_round(planned_at, seconds) + 1) * seconds

    def is_due(self, now: Moment) -> bool:
        """Return whether an interval is to be decided now."""
        config, planned_at = now.config, now.state.planned_at
        if planned_at is None:
            return _takes_over(now)
        passed = now.timer - planned_at
        if now.strategies.policy.traits.time_shared:
            return passed >= now.round_seconds * (1 - ROUND_SLACK)
        if not now.weighs_restarts:
            seconds = config.interval_seconds
            return _round(now.timer, seconds) > _round(planned_at, seconds)
        if passed >= config.interval_seconds:
            return True
        if passed < min(config.young_interval_seconds, config.early_interval_seconds):
            return False
        return passed >= self._wait_seconds(now)

    def _wait_seconds(self, now: Moment) -> float:
        """Return how long after the last interval the next one is due, as far as is known by
        now."""
        config, planned_for, trigger = now.config, now.state.planned_for, self.trigger(now)
        if trigger == planned_for:
            return config.interval_seconds
        early = config.early_interval_seconds
        young = max(config.young_interval_seconds, 0.2 * len(now.histories))
        if young >= early or not isinstance(planned_for, Trigger):
            return early
        limit, before = config.interval.profiling.trained_limit_seconds, planned_for.readiness
        is_young = any(
            trained_seconds(now.progress(uid), now.histories[uid]) < limit
            for uid, readiness in trigger.readiness.items()
            if readiness != before.get(uid)
        )
        return young if is_young else early

    def trigger(self, now: Moment) -> Trigger:
        """Return what causes an early interval when it changes: the capacity of nodes and which
        jobs they admit, quotas, jobs, what their users ask for, and which of them have been
        measured, have met their goal or may be moved again."""

        def is_suspended(job: Job) -> bool:
            history = now.histories.get(job.uid, NO_HISTORY)
            return job.suspended and history.rescaling_to is None

        cluster = now.cluster
        jobs = tuple(
            (job.uid, job.bounds, job.goal, job.finish_by, is_suspended(job))
            for job in cluster.submitted
        )
        readiness = {
            uid: (
                _is_measured(now, uid, history),
                self._goal_met(now, uid),
                history.awaits_checkpoint,
                history.held,
                history.placement_failures[-1:],
            )
            for uid, history in now.histories.items()
        }
        offer = self._offer(cluster.nodes, cluster.submitted)
        return Trigger((offer, cluster.allowed, jobs), readiness)

    def _offer(self, nodes: tuple[Node, ...], jobs: Iterable[Job]) -> object:
        """Return what the nodes offer to these jobs; worked out again only where a node has
        changed."""
        if self.offered is None or self.offered[0] != nodes:
            self.offered = nodes, what_is_offered(nodes, label_keys(jobs))
        return self.offered[1]

    def _goal_met(self, now: Moment, uid: str) -> bool:
        """Return whether the goal was met at the last interval, or is met by now."""
        forecast = now.state.forecasts.get(uid)
        if not isinstance(forecast, NotReady | None) and forecast.goal_met:
            return True
        goal, progress = now.cluster.managed[uid].job.goal, now.progress(uid)
        if goal is None:
            return False
        if self.goals is None:
            self.goals = {}
        judged_on = _judged_on(goal, progress)
        known = self.goals.get(uid)
        if known is None or known[0] != judged_on:
            # A threshold takes milliseconds to judge: not at every tick.
            known = self.goals[uid] = judged_on, goal_is_met(goal, progress)
        return known[1]


def _round(timer: float, seconds: float) -> int:
    """Return the number of the whole round that an instant is in."""
    return math.floor(timer / seconds + ROUND_SLACK)


def _takes_over(now: Moment) -> bool:
    """Return whether the first interval is due: turns that an earlier leader has begun end first,
    for a round at most, as a job that stops or starts takes no part in the next."""
    if now.state.began_at is None:
        now.state.began_at = now.timer
    is_moving = any(each.rescaling_to is not None for each in now.histories.values())
    waits = is_moving and now.takes_turns
    return not waits or now.timer - now.state.began_at >= now.config.interval_seconds


def _is_measured(now: Moment, uid: str, history: JobHistory) -> bool:
    """Return whether the job's speed was measured where it is, as far as that is worth an
    interval."""
    is_moved = history.profiling_since is not None or history.rescaling_to is not None
    if history.profiled and not is_moved:
        return True
    if not now.config.expects or history.profiled or history.rescales:
        return False
    job, profiling = now.cluster.managed[uid].job, now.config.interval.profiling
    return is_first_measured(job, now.progress(uid), history, profiling)


def _judged_on(goal: Goal, progress: TrainingProgress) -> object:
    """Equal for two states of a training between which nothing was logged that may meet the
    goal."""
    if isinstance(goal, AmountGoal):
        return goal, progress.epoch, progress.step
    losses, metrics = progress.losses, progress.metrics
    newest = [each.points[-1:] for each in metrics]
    return goal, len(losses), losses[-1:], [len(each.points) for each in metrics], newest
