"""Pauses whole gangs of a lower priority for a gang that does not fit, until it has its nodes.

At every tick:
1. Each preemption that is under way is looked at: once its gang is placed or gone, its time is over
   or its gang does not fit after all, it ends, and ``ManagedJobs`` resumes the jobs.
2. For the first gang in the queue that lacks capacity, jobs are chosen and their pauses begin.
The mark on a paused job, and the record in the profile of one that is about to be, say for which
gang and since when, so that any leader goes on with it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from autoscaler.cluster import Observation
from autoscaler.jobs.managed import ManagedJobs
from autoscaler.jobs.state import JobState
from autoscaler.metrics import Metrics
from autoscaler.preemption.candidates import PresentJobs, RunningGangs, WaitingJob
from autoscaler.profile.events import JobEvent, JobEvents
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.gang_trial import GangTrial
from optimus.interval.victims import Victims, choose_victims
from optimus.kube.budgets import Budget
from optimus.kube.events import EventType
from optimus.kube.results import Refused
from optimus.kube.suspension import Preemption
from optimus.nodes import refusal as admission_refusal
from optimus.placement.gang import Gang
from optimus.rescale.words import PauseReason

_LOG = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS: Final = 10.0
"""A gang for which no jobs were found is considered again after this time."""

BACK_OFF_SECONDS: Final = 60.0
"""Back-off of a gang after a preemption that did not help; doubled each time."""

MOST_BACK_OFF_SECONDS: Final = 3600.0

_MOST_CONSIDERED: Final = 4
"""Maximum number of waiting gangs considered in one tick: each takes some searches."""

_MOST_AHEAD_SECONDS: Final = 60.0
"""How far another process's clock may be ahead."""

_MOST_MISFITS: Final = 3
"""Misfits in a row, on what the paused jobs have left, after which a preemption is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionConfig:
    """For whom and whom not jobs are paused, and how long that may take."""

    scheduler_name: str
    protected: frozenset[str] = frozenset()
    """PriorityClasses whose jobs are never paused for others."""

    seconds: float = 300.0
    """How long a gang has to get its nodes once jobs are paused for it."""

    shrink_seconds: float = 180.0
    """How long managed jobs get to shrink first, where that is enough."""

    rescale_seconds: float = 600.0
    """How long one that is being rescaled is waited for."""


ReadBudgets = Callable[[], Sequence[Budget] | Refused]
"""Reads every PodDisruptionBudget as it is now."""

MakePlan = Callable[[], CapacityPlan]
"""The free capacity at an observation, less what is kept for rescales in progress."""


class GangStatus(Enum):
    """The status of a gang that jobs are paused for."""

    WAITS = auto()
    PLACED = auto()
    GONE = auto()
    """Or suspended."""


_STATUS_TEXTS: Final = {
    GangStatus.WAITS: "waits for its nodes",
    GangStatus.PLACED: "has its nodes",
    GangStatus.GONE: "is gone or suspended",
}


class _Tick(NamedTuple):
    """What one tick works on."""

    managed: ManagedJobs
    present: PresentJobs
    make_plan: MakePlan


class _BackOff(NamedTuple):
    ends_at: float
    seconds: float


@dataclass(slots=True)
class _Memory:
    """What is remembered of one waiting gang."""

    next_at: float = float("-inf")
    """When it is considered again."""

    back_off: _BackOff | None = None
    given_up_at: float = float("-inf")
    """Preemptions that were decided up to this instant are over."""

    misfits: int = 0
    shrinks_since: float | None = None
    is_chosen: bool = False
    """Whether this process has chosen the jobs that are paused for it."""

    begun: Preemption | None = None
    """The preemption under way."""

    paused: int = 0
    """So many jobs have been paused by it."""


@dataclass(slots=True)
class _Leaving:
    """Since when pods have been seen to be deleted, by UID."""

    since: dict[str, float] = field(default_factory=dict)

    def note(self, observation: Observation) -> None:
        leaving = (pod.uid for pods in observation.pods.values() for pod in pods if pod.leaving)
        self.since = {uid: self.since.get(uid, observation.at) for uid in leaving}

    def stuck(self, at: float, seconds: float) -> frozenset[str]:
        """Those that have not ended for so long: their capacity is not counted on."""
        return frozenset(uid for uid, since in self.since.items() if at - since > seconds)


class GangPreemption:
    """Called once in each tick: ``observe`` before the managed jobs are updated, then ``step``."""

    def __init__(
        self, config: PreemptionConfig, budgets: ReadBudgets, events: JobEvents, metrics: Metrics
    ) -> None:
        self._config, self._budgets = config, budgets
        self._events, self._metrics = events, metrics
        self._memory: dict[str, _Memory] = {}
        """By the UID of the gang's job."""
        self._leaving = _Leaving()
        self._observation: Observation | None = None

    def goes_on(self, preemption: Preemption) -> bool:
        """Whether jobs are still to be paused for a gang, at the last observation."""
        observation, known = self._observation, self._memory.get(preemption.uid)
        if observation is None:
            return False
        if known is not None and preemption.at <= known.given_up_at:
            return False
        age_seconds = observation.at - preemption.at
        is_young = -_MOST_AHEAD_SECONDS <= age_seconds < self._config.seconds
        return is_young and _status(observation, preemption.uid) is GangStatus.WAITS

    def observe(self, observation: Observation) -> None:
        """Take in an observation: preemptions whose gang has its nodes, or is gone, are over."""
        self._observation = observation
        self._leaving.note(observation)
        for uid, known in list(self._memory.items()):
            if known.begun is not None and not self.goes_on(known.begun):
                self._end(known, known.begun)
            if uid not in observation.jobs:
                del self._memory[uid]

    def step(
        self,
        managed: ManagedJobs,
        observation: Observation,
        make_plan: MakePlan,
        *,
        may_begin: bool,
    ) -> None:
        """Go on with the preemptions under way, and begin another where one is needed."""
        config = self._config
        present = PresentJobs(observation, managed.states, config.scheduler_name, config.protected)
        tick = _Tick(managed, present, make_plan)
        self._take_over(managed)
        for known in list(self._memory.values()):
            if known.begun is not None:
                self._continue(known, known.begun, tick)
        considered = 0
        for waiting in present.waiting_jobs() if may_begin else ():
            if considered == _MOST_CONSIDERED:
                return
            if not self._is_due(waiting.job.uid, observation.at):
                continue
            considered += 1
            if self._preempt_for(waiting, tick):
                return

    # --- preemptions under way

    def _take_over(self, managed: Iterable[JobState]) -> None:
        """Those that the leader before this one has begun."""
        for state in managed:
            preemption = state.preemption
            if preemption is not None and self.goes_on(preemption):
                known = self._memory.setdefault(preemption.uid, _Memory())
                known.begun = known.begun or preemption

    def _continue(self, known: _Memory, preemption: Preemption, tick: _Tick) -> None:
        """Give a preemption up where its gang does not fit on what the paused jobs have left."""
        uid, observation = preemption.uid, tick.present.observation
        paused = [state for state in tick.managed if _is_for(state, uid)]
        known.paused = max(known.paused, len(paused))
        waiting = _waiting(observation, uid)
        if waiting is None or any(state.rescale is not None for state in paused):
            known.misfits = 0
            return
        trial = self._trial(waiting, tick)
        if trial.fits():
            known.misfits = 0
            return
        known.misfits += 1
        # The leader before this one may have ended before all of them were paused.
        is_chosen = known.is_chosen or self._choose(waiting, preemption, trial, tick)
        if is_chosen and known.misfits >= _MOST_MISFITS:
            self._end(known, preemption)

    def _end(self, known: _Memory, preemption: Preemption) -> None:
        """The preemption is over: its jobs are resumed when ``ManagedJobs`` looks next."""
        observation = self._observation
        assert observation is not None
        at, status = observation.at, _status(observation, preemption.uid)
        known.begun, known.misfits, known.is_chosen = None, 0, False
        known.given_up_at = max(at, preemption.at)
        failed = status is GangStatus.WAITS
        self._metrics.preemptions.labels("failed" if failed else status.name.lower()).inc()
        self._metrics.preempted.inc(known.paused)
        known.paused = 0
        _LOG.info(
            "preemption for job %s is over: the job %s", preemption.job, _STATUS_TEXTS[status]
        )
        if failed:
            seconds = BACK_OFF_SECONDS if known.back_off is None else known.back_off.seconds * 2
            seconds = min(seconds, MOST_BACK_OFF_SECONDS)
            known.back_off = _BackOff(at + seconds, seconds)
            message = (
                "jobs of a lower priority were paused for it, but its pods have not been placed: "
                f"they are resumed; tried again after {seconds:.0f} s"
            )
            event = JobEvent(EventType.WARNING, "PreemptionFailed", message)
            self._events.emit_on(observation.jobs[preemption.uid], event)

    # --- a preemption that begins

    def _is_due(self, uid: str, at: float) -> bool:
        known = self._memory.get(uid)
        if known is None:
            return True
        backs_off = known.back_off is not None and at < known.back_off.ends_at
        return known.begun is None and at >= known.next_at and not backs_off

    def _preempt_for(self, waiting: WaitingJob, tick: _Tick) -> bool:
        """Pause jobs for one gang; returns whether any are."""
        job, observation = waiting.job, tick.present.observation
        known = self._memory.setdefault(job.uid, _Memory())
        known.next_at = observation.at + LOOK_AGAIN_SECONDS
        if self._overlaps_another(waiting, observation):
            return False
        trial = self._trial(waiting, tick)
        if trial.fits():
            known.shrinks_since = None
            return False
        preemption = Preemption(str(job.key), job.uid, observation.at)
        return self._choose(waiting, preemption, trial, tick)

    def _choose(
        self, waiting: WaitingJob, preemption: Preemption, trial: GangTrial, tick: _Tick
    ) -> bool:
        """Choose the jobs that are paused for a gang, and begin that."""
        budgets = self._budgets()
        if isinstance(budgets, Refused):
            self._events.refused(budgets)
            return False
        known, observation = self._memory[waiting.job.uid], tick.present.observation
        running = tick.present.running_below(waiting.priority, budgets)
        if self._awaits_shrinking(known, trial, running, observation.at):
            return False
        victims = choose_victims(
            running.candidates, lambda some: trial.fits(each.takes for each in some)
        )
        if not victims:
            return False
        known.begun, known.is_chosen, known.shrinks_since = preemption, True, None
        self._begin(waiting, preemption, victims, tick)
        return True

    def _begin(
        self,
        waiting: WaitingJob,
        preemption: Preemption,
        victims: Victims,
        tick: _Tick,
    ) -> None:
        job, observation, managed = waiting.job, tick.present.observation, tick.managed
        why = (
            f"paused to make room for {job.key}, of priority {waiting.priority}; it is resumed by"
            f" itself once that job has its nodes, or after {self._config.seconds:.0f} s, and"
            " continues when there is capacity"
        )
        for victim in victims:
            state = managed.take_up(observation.jobs[victim.job_uid], observation)
            state.begin_pause(preemption.text, observation.at, PauseReason.GANG, why)
        names = ", ".join(f"{each.key} (priority {each.priority})" for each in victims)
        unplaced = sum(pod.node is None for pod in waiting.pods)
        message = (
            f"preempts {names} for its {unplaced} pods, which do not fit beside them at priority"
            f" {waiting.priority}"
        )
        event = JobEvent(EventType.NORMAL, "Preempting", message)
        self._events.emit_on(observation.jobs[job.uid], event)

    def _awaits_shrinking(
        self, known: _Memory, trial: GangTrial, running: RunningGangs, at: float
    ) -> bool:
        """Whether managed jobs of a lower priority may still give enough back by shrinking."""
        if known.begun is not None:
            return False
        fits = running.surplus is not None and trial.fits([running.surplus])
        if not fits and not (running.rescaling and known.shrinks_since is not None):
            known.shrinks_since = None
            return False
        if known.shrinks_since is None:
            known.shrinks_since = at
        limit = self._config.shrink_seconds
        if running.rescaling:
            limit = max(limit, self._config.rescale_seconds)
        left = known.shrinks_since + limit - at
        known.next_at = min(known.next_at, at + left) if left > 0 else known.next_at
        return left > 0

    def _trial(self, waiting: WaitingJob, tick: _Tick) -> GangTrial:
        """A trial of a gang on what is free, and on what leaving pods still take."""
        uid, present = waiting.job.uid, tick.present
        placed = {
            pod.replica: pod.node
            for pod in waiting.pods
            if pod.replica is not None and pod.node is not None
        }
        trial = GangTrial(tick.make_plan(), waiting.job, placed)
        trial.take(present.nominated(uid))
        trial.give(
            present.leaving(uid, self._leaving.stuck(present.observation.at, self._config.seconds))
        )
        return trial

    def _overlaps_another(self, waiting: WaitingJob, observation: Observation) -> bool:
        """Whether a gang may use nodes of one that jobs are paused for now."""
        begun = [uid for uid, known in self._memory.items() if known.begun is not None]
        others = (_waiting(observation, uid) for uid in begun)
        taken = {name for each in others if each for name in _nodes(each, observation)}
        return not taken.isdisjoint(_nodes(waiting, observation)) if taken else bool(begun)


def _status(observation: Observation, uid: str) -> GangStatus:
    job = observation.jobs.get(uid)
    pods = [pod for pod in observation.pods.get(uid, ()) if not pod.leaving]
    if job is None or job.active is None or job.suspended or not pods:
        return GangStatus.GONE
    waits = any(pod.node is None and not pod.finished for pod in pods)
    return GangStatus.WAITS if waits else GangStatus.PLACED


def _waiting(observation: Observation, uid: str) -> WaitingJob | None:
    job = observation.jobs.get(uid)
    if job is None or job.active is None:
        return None
    pods = [pod for pod in observation.pods.get(uid, ()) if not pod.leaving]
    return WaitingJob(job.active, pods)


def _is_for(state: JobState, uid: str) -> bool:
    """Whether a job is paused for this gang, or about to be."""
    preemption = state.preemption
    return preemption is not None and preemption.uid == uid


def _nodes(waiting: WaitingJob, observation: Observation) -> set[str]:
    """The nodes that admit a replica of a gang."""
    choices = {member.spec.constraints for member in Gang.of(waiting.job).members}
    return {
        node.name
        for node in observation.snapshot.nodes
        if any(admission_refusal(node, constraints) is None for constraints in choices)
    }
