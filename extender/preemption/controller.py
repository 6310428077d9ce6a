"""Makes room for whole gangs by suspending whole gangs of a lower priority, and resumes those.

Every second, while this process leads:
1. For each gang that others are suspended for, by the annotations on those: keep its room reserved.
   Once it is bound or gone, or its time is over, resume them.
2. For the first gang in the queue that lacks capacity: choose victims, reserve its room on what
   they will leave, suspend them.
What has been done stands in the annotations alone, so that any extender goes on with it.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from extender.preemption.candidates import (
    RunningGangs,
    is_moving,
    lowest_priority,
    running_gangs,
    why_no_victim,
)
from extender.preemption.trial import Trial, TrialPlan, leaving_pods, plan_again, reserve
from extender.preemption.victims import Victims, choose_victims
from extender.settings import Settings
from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from extender.state.future_room import Awaited
from extender.state.gang_queue import QueuedGang
from optimus.jobs import JobKey, alternating
from optimus.kube.budgets import Budget
from optimus.kube.events import EventType
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.suspension import PreemptionMark, read_preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.nodes import refusal as admission_refusal
from optimus.placement.queue.order import Instant, order_key
from optimus.resources import total

_LOG = logging.getLogger(__name__)

STEP_SECONDS: Final = 1.0

LOOK_AGAIN_SECONDS: Final = 10.0
"""A gang for which no victims were found is considered again after this time."""

BACK_OFF_SECONDS: Final = 60.0
"""Back-off of a gang after a preemption that did not help; doubled each time."""

MOST_BACK_OFF_SECONDS: Final = 3600.0

GRACE_SECONDS: Final = 1.0
"""Between the end of a victim's last pod and its resumption: the operator watches pods and jobs
separately, and a pod that its copy still shows would fail the resumed job."""

_MOST_LOOKED_AT: Final = 4
"""Maximum number of waiting gangs considered in one step: each takes some searches."""

_MOST_AHEAD_SECONDS: Final = 60.0
"""How far another process's clock may be ahead."""

_MOST_STRANGERS: Final = 16
"""Maximum number of jobs whose marks nobody here has set that are unmarked in one step."""

_MOST_MISFITS: Final = 3
"""Misfits in a row, on what its victims leave, after which a preemption is given up."""


class Reader(Protocol):
    """Uncached reads; ``optimus.kube.live_reader.LiveReader`` is one."""

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        """The job as it is stored now."""
        ...

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        """Every pod of the job that is there now."""
        ...


class Writer(Protocol):
    """The writes to jobs; ``optimus.kube.writer.JobWriter`` is one."""

    def preempt(self, job: TrainingJob, mark: str) -> Written | Refused:
        """Suspend the job and mark it."""
        ...

    def end_preemption(self, job: TrainingJob, *, resume: bool) -> Written | Refused:
        """Remove the mark, and resume the job."""
        ...


class Emit(Protocol):
    """``optimus.kube.events.EventWriter.emit``; see there."""

    def __call__(self, job: TrainingJob, kind: EventType, reason: str, message: str) -> object:
        """Write an Event."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """What the controller reads and writes."""

    jobs: Callable[[], Iterable[TrainingJob]]
    """From a watch."""

    reader: Reader
    writer: Writer
    budgets: Callable[[], Sequence[Budget] | Refused]
    emit: Emit
    count: Callable[[str, int], None] = lambda _outcome, _victims: None
    """Counts preemptions by how they ended, with their victims."""


class PreemptorState(StrEnum):
    """The state of the gang that others were preempted for."""

    WAITS = "waits for its nodes"
    BINDING = "is being bound to its nodes"
    PLACED = "has its nodes"
    GONE = "is gone or suspended"


@dataclass(slots=True)
class _BackOff:
    ends_at: float
    """Monotonic."""

    seconds: float


class _Choice(NamedTuple):
    """Who makes room for a gang, and where it fits then."""

    victims: Victims
    planned: TrialPlan
    awaited: frozenset[str]
    """The UIDs of the pods that leave the room."""


class PreemptionController:
    """``step`` is called by one thread; ``adopt`` by the one that begins to lead."""

    def __init__(self, state: ExtenderState, access: Access, settings: Settings) -> None:
        self._state, self._access = state, access
        self._settings = settings
        self._rule = state.rule
        self._begun: dict[str, tuple[PreemptionMark, Victims]] = {}
        """By the preempting job's UID, what this process has begun and not ended."""
        self._look_at: dict[str, float] = {}
        self._back_off: dict[str, _BackOff] = {}
        self._given_up: dict[str, float] = {}
        """By the preempting job's UID, the instant (epoch) up to which its victims are resumed."""
        self._misfits: dict[str, int] = {}
        self._shrinks_since: dict[str, float] = {}
        self._stuck: set[str] = set()
        """Pods that did not end while they were waited for."""
        self._empty_since: dict[str, float] = {}
        self._victims: set[str] = set()
        self._leads = False

    def step(self) -> None:
        """Everything that is to be done now."""
        if not self._state.leads:
            self._begun.clear()
            self._leads = False
            return
        if self._state.why_too_old() is not None:
            return  # the caches are old: what they show may be over
        jobs = {job.uid: job for job in self._access.jobs()}
        every = [job for job in jobs.values() if job.preempted_for and job.active is not None]
        marked = _marked(self._victims_among(every))
        # 1. What has been begun.
        for uid in sorted(marked.keys() | self._begun.keys()):
            self._continue(uid, marked.get(uid, []), jobs)
        strangers = [job for job in every if job.uid not in self._victims]
        for job in alternating(strangers, lambda job: job.namespace)[:_MOST_STRANGERS]:
            self._resume(job, None, PreemptorState.GONE, self._state.clock())
        # 2. What is to be completed, or begun.
        self._forget({*jobs, *marked}, {job.uid for job in every})
        if self._settings.preempt:
            for uid in sorted(self._misfits.keys() & marked.keys()):
                self._complete(uid, marked[uid], jobs)
            for queued in self._lacking_capacity():
                if self._preempt_for(queued, jobs):
                    break

    def _victims_among(self, marked: Sequence[TrainingJob]) -> list[TrainingJob]:
        """The jobs that this process has suspended, or had found suspended when it began to lead.

        Anybody may write a mark on a job of his own: one that turns up later is no preemption."""
        uids = {job.uid for job in marked}
        if not self._leads:
            self._leads, self._victims = True, uids
        self._victims &= uids | {
            each.job_uid for _, victims in self._begun.values() for each in victims
        }
        return [job for job in marked if job.uid in self._victims]

    def adopt(self, now: Instant) -> None:
        """Reserve room for gangs that others are suspended for, before anything is planned; under
        the lock."""
        marked = _marked(self._access.jobs())
        for uid, victims in sorted(marked.items()):
            mark = _mark(victims)
            if mark is None or self._is_over(mark, now):
                continue
            if self._preemptor_state(uid) is PreemptorState.WAITS:
                self._keep_room(uid, victims, mark, now)

    # --- what has been begun

    def _continue(
        self, uid: str, victims: Sequence[TrainingJob], jobs: Mapping[str, TrainingJob]
    ) -> None:
        begun = self._begun.get(uid)
        mark = begun[0] if begun is not None else _mark(victims)
        is_new, count = False, max(len(victims), len(self._victims_of(uid)))
        with self._state.locked() as now:
            state = self._preemptor_state(uid)
            if mark is not None:
                if self._may_continue(mark, state, victims, now):
                    self._begun.setdefault(uid, (mark, ()))
                    return
                failed = state is PreemptorState.WAITS and count > 0
                is_new = self._end(uid, failed=failed, now=now)
        if is_new and mark is not None and count:
            self._report_end(mark, state, jobs.get(uid), count)
        for victim in victims:
            self._resume(victim, mark, state, now)

    def _may_continue(
        self,
        mark: PreemptionMark,
        state: PreemptorState,
        victims: Sequence[TrainingJob],
        now: Instant,
    ) -> bool:
        """Whether the gang may still get its nodes by this preemption; under the lock."""
        if state not in (PreemptorState.WAITS, PreemptorState.BINDING) or self._is_over(mark, now):
            return False
        if self._keep_room(mark.uid, victims, mark, now):
            return True
        self._misfits[mark.uid] = self._misfits.get(mark.uid, 0) + 1
        return self._misfits[mark.uid] < _MOST_MISFITS

    def _preemptor_state(self, uid: str) -> PreemptorState:
        """Where a gang stands; under the lock."""
        state, cluster = self._state, self._state.cluster
        job = cluster.jobs.get(uid)
        pods = [pod for pod in cluster.pods_of(uid).values() if not pod.leaving]
        if not cluster.may_run(uid) or not pods or (job is not None and job.suspended):
            return PreemptorState.GONE
        if not any(is_waiting(pod) for pod in pods):
            return PreemptorState.PLACED
        found = state.queue.find(uid)
        if found is None or state.future_room.awaits(uid) is not None:
            return PreemptorState.WAITS
        return (
            PreemptorState.BINDING if state.queue.is_held(found.observed) else PreemptorState.WAITS
        )

    def _is_over(self, mark: PreemptionMark, now: Instant) -> bool:
        given_up = mark.at <= self._given_up.get(mark.uid, float("-inf"))
        age_seconds = now.epoch - mark.at
        is_young = -_MOST_AHEAD_SECONDS <= age_seconds < self._settings.preempt_seconds
        return given_up or not is_young

    def _keep_room(
        self, uid: str, victims: Sequence[TrainingJob], mark: PreemptionMark, now: Instant
    ) -> bool:
        """Reserve the room where it is not reserved; false where the gang does not fit; under the
        lock."""
        state = self._state
        found = state.queue.find(uid)
        if found is None or not found.observed.complete or state.queue.is_held(found.observed):
            self._misfits.pop(uid, None)
            return True  # it is about to be bound, or its pods are about to be made
        pods = {pod.uid for victim in victims for pod in self._old_pods(victim)}
        pods |= {pod for each in self._victims_of(uid) for pod in each.pods}
        pods |= {pod.uid for pod in leaving_pods(state, self._stuck)}
        names = {str(victim.key) for victim in victims}
        names |= {str(each.key) for each in self._victims_of(uid)}
        awaited = Awaited(frozenset(pods), tuple(sorted(names)))
        planned = plan_again(state, self._rule, found, awaited)
        left = max(self._settings.preempt_seconds - (now.epoch - mark.at), 1.0)
        return planned is not None and reserve(state, planned, awaited, now.monotonic + left)

    def _victims_of(self, uid: str) -> Victims:
        begun = self._begun.get(uid)
        return () if begun is None else begun[1]

    def _old_pods(self, victim: TrainingJob) -> list[Pod]:
        """The pods that a suspended job still has; under the lock."""
        pods = self._state.cluster.pods_of(victim.uid).values()
        return [pod for pod in pods if victim.suspended or pod.leaving]

    def _end(self, uid: str, *, failed: bool, now: Instant) -> bool:
        """The preemption is over; returns whether that is new; under the lock."""
        state = self._state
        begun = self._begun.pop(uid, None)
        if begun is None and uid in self._given_up:
            return False
        self._given_up[uid] = now.epoch
        self._misfits.pop(uid, None)
        awaited = state.future_room.awaits(uid)
        state.future_room.forget(uid)
        if awaited is not None:
            self._stuck |= awaited.pods
            state.break_plan(uid)
        if failed:
            known = self._back_off.get(uid)
            seconds = BACK_OFF_SECONDS if known is None else known.seconds * 2
            seconds = min(seconds, MOST_BACK_OFF_SECONDS)
            self._back_off[uid] = _BackOff(now.monotonic + seconds, seconds)
        state.changes.notify()
        return True

    def _report_end(
        self, mark: PreemptionMark, state: PreemptorState, job: TrainingJob | None, victims: int
    ) -> None:
        outcome = "failed" if state is PreemptorState.WAITS else state.name.lower()
        self._access.count(outcome, victims)
        _LOG.info("preemption for job %s is over: the job %s", mark.job, state)
        if state is PreemptorState.WAITS and job is not None:
            back_off = self._back_off.get(mark.uid)
            again = "" if back_off is None else f"; tried again after {back_off.seconds:.0f} s"
            message = (
                "jobs of a lower priority were suspended, but its pods could not be placed in"
                f" {self._settings.preempt_seconds:.0f} s: they are resumed{again}"
            )
            self._access.emit(job, EventType.WARNING, "PreemptionFailed", message)

    def _resume(
        self, victim: TrainingJob, mark: PreemptionMark | None, state: PreemptorState, now: Instant
    ) -> None:
        """Resume a job once none of its pods is left; a copy may lag, so the last word is a list.

        Suspended=True and active=0 do not prove that no pod is left."""
        with self._state.lock:
            if victim.suspended and self._state.cluster.pods_of(victim.uid):
                self._empty_since.pop(victim.uid, None)
                return
        since = self._empty_since.setdefault(victim.uid, now.monotonic)
        if victim.suspended and now.monotonic - since < GRACE_SECONDS:
            return
        access = self._access
        fresh = access.reader.job(victim.kind, victim.key)
        if isinstance(fresh, Refused) or fresh.uid != victim.uid or fresh.preempted_for is None:
            return  # gone, done already, or read again in the next step
        if fresh.suspended:
            pods = access.reader.pods_of(fresh)
            if isinstance(pods, Refused) or pods or "Suspended" not in fresh.conditions:
                self._empty_since.pop(victim.uid, None)
                return
        outcome = access.writer.end_preemption(fresh, resume=fresh.suspended)
        if isinstance(outcome, Refused):
            _LOG.warning("%s", outcome)
            return
        self._empty_since.pop(victim.uid, None)
        _LOG.info("job %s: resumed after its preemption", victim.key)
        if fresh.suspended:
            why = "the job that preempted it" if mark is None else f"{mark.job}"
            message = f"resumed: {why} {state}; its pods wait for capacity as a whole again"
            access.emit(fresh, EventType.NORMAL, "Resumed", message)

    # --- what is to be begun

    def _lacking_capacity(self) -> list[QueuedGang]:
        """The gangs that wait for capacity alone and may preempt, in order."""
        state = self._state
        with state.locked() as now:
            if not state.cluster.waiting_jobs():
                return []
            found = [each for each in state.queue.waiting(now) if self._may_preempt(each, now)]
            lowest = lowest_priority(state) if found else None
            nodes = tuple(state.cluster.nodes.values()) if found else ()
        found = [each for each in found if lowest is not None and each.waiting.priority > lowest]
        capacity, limit = (
            total(node.allocatable for node in nodes),
            self._settings.age_limit_seconds,
        )
        found.sort(key=lambda each: order_key(each.waiting, capacity, now.epoch, limit))
        return found[:_MOST_LOOKED_AT]

    def _may_preempt(self, queued: QueuedGang, now: Instant) -> bool:
        state, uid = self._state, queued.waiting.job_uid
        refusal = state.refusals.get(uid)
        back_off = self._back_off.get(uid)
        if refusal is None or refusal.blocked_by or state.offers.has_refused(uid):
            return False  # more capacity is not what it lacks, or not all
        if now.monotonic < self._look_at.get(uid, float("-inf")) or is_moving(state, uid):
            return False
        if uid in self._begun or (back_off is not None and now.monotonic < back_off.ends_at):
            return False
        return all(pod.may_preempt for pod in queued.observed.pods.values())

    def _preempt_for(self, queued: QueuedGang, jobs: Mapping[str, TrainingJob]) -> bool:
        """Make room for one gang; returns whether anything was begun."""
        state, uid = self._state, queued.waiting.job_uid
        job = jobs.get(uid)
        with state.locked() as now:
            self._look_at[uid] = now.monotonic + LOOK_AGAIN_SECONDS
            if job is None or self._overlaps_another(queued):
                return False
        trial = Trial.of(state, self._rule, queued, self._stuck)
        planned = trial.plan()
        if planned is not None:
            # Without such pods the state is about to find that out.
            return bool(trial.leaving) and self._await_leaving(queued, trial, planned)
        running = self._running_below(queued, jobs)
        if running is None or self._awaits_shrinking(uid, trial, running, now):
            return False
        choice = _choose(trial, running)
        mark = PreemptionMark(str(job.key), uid, now.epoch)
        return choice is not None and self._preempt(queued, job, choice, mark, jobs)

    def _complete(
        self, uid: str, victims: Sequence[TrainingJob], jobs: Mapping[str, TrainingJob]
    ) -> None:
        """Another process has chosen victims, suspended some of them, and ended before it had
        suspended the others: choose those again."""
        state, begun, job = self._state, self._begun.get(uid), jobs.get(uid)
        if begun is None or begun[1] or job is None:
            return  # this process has chosen them itself
        with state.lock:
            queued = state.queue.find(uid)
            ending = [pod for victim in victims for pod in self._old_pods(victim)]
        if queued is None:
            return
        trial = Trial.of(state, self._rule, queued, self._stuck, ending)
        running = self._running_below(queued, jobs)
        choice = None if running is None else _choose(trial, running)
        if choice is not None and choice.victims:
            self._preempt(queued, job, choice, begun[0], jobs)

    def _running_below(
        self, queued: QueuedGang, jobs: Mapping[str, TrainingJob]
    ) -> RunningGangs | None:
        """The gangs of a lower priority; ``None`` where the budgets cannot be read."""
        budgets = self._access.budgets()
        if isinstance(budgets, Refused):
            _LOG.warning("%s", budgets)
            return None
        protected, priority = self._settings.protected_classes, queued.waiting.priority
        return running_gangs(self._state, priority, jobs, budgets, protected)

    def _overlaps_another(self, queued: QueuedGang) -> bool:
        """Whether a gang may use nodes of one for which others are preempted now; under the
        lock."""
        state = self._state
        others = (state.queue.find(uid) for uid in self._begun)
        taken = {name for each in others if each is not None for name in _nodes(state, each)}
        return not taken.isdisjoint(_nodes(state, queued)) if taken else bool(self._begun)

    def _await_leaving(self, queued: QueuedGang, trial: Trial, planned: TrialPlan) -> bool:
        """Pods that are being deleted make room: reserve it, so that no other gang takes it."""
        state, uid = self._state, queued.waiting.job_uid
        with state.locked() as now:
            if not self._is_current(queued):
                return False
            mark = PreemptionMark(str(queued.observed.gang.key), uid, now.epoch)
            expires_at = now.monotonic + self._settings.preempt_seconds
            if not reserve(state, planned, Awaited(trial.leaving, ()), expires_at):
                return False
            self._begun[uid] = mark, ()
        return True

    def _awaits_shrinking(
        self, uid: str, trial: Trial, running: RunningGangs, now: Instant
    ) -> bool:
        """Whether managed jobs of a lower priority may still make the room by shrinking."""
        settings, since = self._settings, self._shrinks_since.get(uid)
        surplus = running.surplus
        fits = surplus is not None and trial.plan_with([surplus], trial.leaving) is not None
        if not fits and not (running.rescaling and since is not None):
            self._shrinks_since.pop(uid, None)
            return False
        since = self._shrinks_since.setdefault(uid, now.monotonic)
        limit = settings.preempt_shrink_seconds
        if running.rescaling:
            limit = max(limit, settings.rescale_hold_seconds)
        left = since + limit - now.monotonic
        with self._state.lock:
            if left > 0:
                self._state.future_room.shrinks_until[uid] = now.epoch + left
                self._look_at[uid] = now.monotonic + min(left, LOOK_AGAIN_SECONDS)
            else:
                self._state.future_room.shrinks_until.pop(uid, None)
        return left > 0

    def _preempt(
        self,
        queued: QueuedGang,
        job: TrainingJob,
        choice: _Choice,
        mark: PreemptionMark,
        jobs: Mapping[str, TrainingJob],
    ) -> bool:
        state, uid, victims = self._state, queued.waiting.job_uid, choice.victims
        # 1. Reserve the room that the victims will leave.
        with state.locked() as now:
            if not self._is_current(queued) or not self._are_current(victims, jobs):
                return False
            awaited = Awaited(choice.awaited, tuple(sorted(str(each.key) for each in victims)))
            left = self._settings.preempt_seconds - (now.epoch - mark.at)
            if not reserve(state, choice.planned, awaited, now.monotonic + max(left, 1.0)):
                return False
            self._begun[uid] = mark, victims
        # 2. Suspend them; where one cannot be, the others are resumed.
        self._shrinks_since.pop(uid, None)
        for victim in victims:
            self._victims.add(victim.job_uid)
            refused = self._suspend(jobs[victim.job_uid], mark, queued.waiting.priority)
            if refused is not None:
                _LOG.warning("job %s preempts nobody: %s", job.key, refused)
                with state.locked() as now:
                    self._end(uid, failed=True, now=now)
                self._access.count("failed", 0)
                return True
        names = ", ".join(f"{each.key} (priority {each.priority})" for each in victims)
        message = (
            f"preempts {names} for its {len(queued.observed.gang.unbound)} pods, which do not fit"
            f" beside them at priority {queued.waiting.priority}"
        )
        _LOG.info("job %s %s", job.key, message)
        self._access.emit(job, EventType.NORMAL, "Preempting", message)
        return True

    def _suspend(self, job: TrainingJob, mark: PreemptionMark, priority: int) -> str | None:
        """Suspend one victim; returns why it could not be."""
        fresh = self._access.reader.job(job.kind, job.key)
        if isinstance(fresh, Refused):
            return str(fresh)
        with self._state.lock:
            pods = self._state.cluster.pods_of(job.uid).values()
            why = why_no_victim(self._state, fresh, pods, self._settings.protected_classes)
        if fresh.uid != job.uid or why is not None:
            return f"{job.key}: {why or 'it was created again'}"
        outcome = self._access.writer.preempt(fresh, mark.text)
        if isinstance(outcome, Refused):
            return str(outcome)
        message = (
            f"suspended to make room for {mark.job}, of priority {priority}; it is resumed by"
            " itself once that job has its nodes, or after"
            f" {self._settings.preempt_seconds:.0f} s, and continues when there is capacity"
        )
        self._access.emit(fresh, EventType.NORMAL, "Preempted", message)
        return None

    def _is_current(self, queued: QueuedGang) -> bool:
        """Whether a gang still waits as it did; under the lock."""
        state, uid = self._state, queued.waiting.job_uid
        return (
            state.leads
            and state.queue.find(uid) is queued
            and state.refusals.get(uid) is not None
            and not state.queue.is_held(queued.observed)
        )

    def _are_current(self, victims: Victims, jobs: Mapping[str, TrainingJob]) -> bool:
        """Whether the victims still run as they did; under the lock."""
        for victim in victims:
            pods = self._state.cluster.pods_of(victim.job_uid).values()
            protected = self._settings.protected_classes
            if why_no_victim(self._state, jobs[victim.job_uid], pods, protected) is not None:
                return False
            if victim.pods != {pod.uid for pod in pods if pod.bound() is not None}:
                return False
        return True

    def _forget(self, job_uids: Collection[str], victims: Collection[str]) -> None:
        """Drop what is kept about other jobs than these, about others as victims, and about pods
        that are gone."""
        kept: tuple[dict[str, Any], ...] = (
            self._look_at,
            self._back_off,
            self._given_up,
            self._misfits,
            self._shrinks_since,
        )
        for known in kept:
            for uid in known.keys() - job_uids:
                del known[uid]
        for uid in self._empty_since.keys() - victims:
            del self._empty_since[uid]
        with self._state.lock:
            self._stuck &= self._state.cluster.pods.keys()
            future = self._state.future_room
            for uid in future.shrinks_until.keys() - self._shrinks_since.keys():
                del future.shrinks_until[uid]


def _marked(jobs: Iterable[TrainingJob]) -> dict[str, list[TrainingJob]]:
    """The preempted jobs, by the UID of the job that they make room for; "" where that cannot be
    read."""
    found: dict[str, list[TrainingJob]] = {}
    for job in jobs:
        if job.preempted_for is not None and job.active is not None:
            mark = read_preemption(job.preempted_for)
            found.setdefault("" if mark is None else mark.uid, []).append(job)
    return found


def _mark(victims: Iterable[TrainingJob]) -> PreemptionMark | None:
    """The first mark of one preemption."""
    marks = (read_preemption(each.preempted_for) for each in victims if each.preempted_for)
    return min((each for each in marks if each is not None), key=lambda each: each.at, default=None)


def _choose(trial: Trial, running: RunningGangs) -> _Choice | None:
    """Who makes room for the gang of a trial, and where it fits then."""
    victims = choose_victims(running.candidates, trial.fits)
    planned = None if victims is None else trial.plan(victims)
    if victims is None or planned is None:
        return None
    return _Choice(victims, planned, trial.leaving.union(*(each.pods for each in victims)))


def _nodes(state: ExtenderState, queued: QueuedGang) -> set[str]:
    """The nodes that admit a replica of a gang."""
    each = {member.spec.constraints for member in queued.observed.gang.members}
    return {
        name
        for name, node in state.cluster.nodes.items()
        if any(admission_refusal(node, constraints) is None for constraints in each)
    }


class PreemptionThread:
    """Steps every second."""

    def __init__(self, controller: PreemptionController) -> None:
        self._controller = controller
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preemption", daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopping.wait(STEP_SECONDS):
            try:
                self._controller.step()
            except Exception:  # noqa: BLE001 - the thread goes on: the next step starts from what is there then
                _LOG.exception("preemption failed")
