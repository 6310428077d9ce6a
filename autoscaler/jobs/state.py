"""The state of one managed job: its record, its pods, its forecasts and its profile."""

import dataclasses
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import is_
from typing import Final, NamedTuple, Self

from autoscaler.cluster import Observation
from autoscaler.jobs.forecasts import Forecasts
from autoscaler.jobs.gang import JobPods
from autoscaler.jobs.stored import JobProfile
from optimus import lifecycle
from optimus.allocation import FailedCounts, JobHistory, PlacementFailure
from optimus.allocation.problem import is_forced, recent_failures
from optimus.interval import Decision
from optimus.jobs import NO_COUNTS, TRAINERS, Counts, Job, RescaleRule, Role
from optimus.kube.contract import Phase
from optimus.kube.pod_failures import PodFailure, failure_of
from optimus.kube.profile_codec import SavedState, observed_job, unpack, unpack_rescale
from optimus.kube.profiles import TrainingProfile
from optimus.kube.suspension import Preemption, read_preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord, recorded_history
from optimus.lifecycle.books import Books, books_of
from optimus.lifecycle.workloads import UsualLengths
from optimus.models.earlier_runs import why_differs
from optimus.models.forecast import Forecast
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import RunStart, TrainingProgress
from optimus.rescale.checkpoints import awaits_next_checkpoint, must_wait_for_checkpoint
from optimus.rescale.disruption import rescale_order
from optimus.rescale.machine import Rescale, resume
from optimus.rescale.purpose import RescalePurpose, why_unwanted
from optimus.rescale.record import rescale_ended
from optimus.rescale.words import End, Outcome, PauseReason, PlacementFailed, RescaleRecord, Step

_LOG = logging.getLogger(__name__)

_STUCK_SECONDS: Final = 600.0
"""After which a job that is stopped holds back no other namespace's jobs. Default: longer than pods
take to end or, by default, to be placed."""

_COMPARE_SECONDS: Final = 15.0
"""Steady training after which a young job is compared with earlier runs again."""

_BOOKS_SECONDS: Final = 15.0
"""Training after which a job's books are worked out again."""

_MEASURED_AGAIN_SECONDS: Final = 120.0
"""How long after a profiling run that could not begin the next one may. Default: a young job still
has time for its runs, and a refusal that lasts costs little."""

_MOST_GANG_UIDS: Final = 16
"""Maximum number of UIDs kept of a gang: enough to recognise it when it has lost some pods."""

_NOT_BEGUN: Final = (Step.CHECKPOINT, Step.SUSPEND)


class BlockReason(Enum):
    """Why a job does not run or change, the most binding first; the values: until when."""

    PAUSED = "until its user removes the annotation"
    RECOMMENDED = "until its user and the operator let counts be changed"
    BRAKED = "until you have found the cause, and delete the TrainingProfiles of those jobs"
    NO_NODES = "until nodes have room for all its pods"
    NO_GANG_WAITS = "until its pause is withdrawn"
    STRAGGLER = "until its workers are about as fast"
    UNSETTLED = "until its Master is there, and its agents have stopped restarting"


_ORDER: Final = list(BlockReason)
_RECOMMENDS: Final = (BlockReason.RECOMMENDED, BlockReason.BRAKED)
_HOLDS: Final = (BlockReason.PAUSED, *_RECOMMENDS, BlockReason.UNSETTLED)


class Block(NamedTuple):
    """One reason, and the sentence that its user reads."""

    reason: BlockReason
    text: str

    @property
    def holds(self) -> bool:
        """Return whether nothing may begin for the job while this stands."""
        return self.reason in _HOLDS

    def __str__(self) -> str:
        return f"{self.text}, {self.reason.value}"


class Blocks(tuple[Block, ...]):
    """The blocks of one job, most binding first. Immutable; ``with_text`` gives another."""

    __slots__ = ()

    def with_text(self, reason: BlockReason, text: str) -> "Blocks":
        """These with a reason's text, or without it where that is empty; itself if unchanged."""
        if self.text(reason) == text:
            return self
        others = [block for block in self if block.reason is not reason]
        added = [Block(reason, text)] if text else []
        return Blocks(sorted([*others, *added], key=lambda block: _ORDER.index(block.reason)))

    def text(self, reason: BlockReason) -> str:
        """The sentence of a reason; empty where the job is not blocked by it."""
        return next((block.text for block in self if block.reason is reason), "")


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of every job, in seconds."""

    age_seconds: float = 600.0
    """A job that has run for longer is not rescaled without a checkpoint."""

    completion_seconds: float = 600.0
    """How long a job has to end after that was requested, as its goal is met; after that it is
    treated as one that trains on."""

    assumed_price_seconds: float = 60.0
    """What a rescale is assumed to cost before that was measured."""


@dataclass(slots=True)
class TrackedJob:
    """One managed job."""

    training_job: TrainingJob
    """The job as last observed."""

    job: Job
    """The valid part of it."""

    log: ProgressLog
    record: JobRecord = field(default_factory=JobRecord)
    rescale: Rescale | None = None
    gang: JobPods = field(default_factory=JobPods)
    forecasts: Forecasts = field(default_factory=Forecasts)
    profile: JobProfile = field(default_factory=JobProfile)
    decision: Decision | None = None
    """The last interval's, made at ``decided_at`` under ``interval_id``."""

    interval_id: str = ""
    decided_at: float | None = None
    is_new: bool = False
    """Whether nothing was known of it before, and it has not been observed yet."""

    limits: JobLimits = JobLimits()
    completion_requested_at: float | None = None
    """Since when its pods carry the annotation that requests them to end, as its goal is met."""

    failure: PodFailure | None = None
    """Why its pods do not run as they should, or did not when it failed."""

    last_words: Mapping[str, str] = field(default_factory=dict)
    """The end of the log of each pod that has failed, by its UID."""

    last_words_awaited: bool = False
    """Whether the log of a pod that has failed is being read, or is about to be."""

    memory: str | None = None
    """How near its pods' memory is to their limits, and when it will be full; empty: it is not
    near. ``None``: not known."""

    most_memory: tuple[int, int] = (0, 0)
    """The most that a PS and a worker have used, in bytes."""

    blocks: Blocks = field(default_factory=Blocks)
    """What keeps it from running or from being changed."""

    bound_at: float | None = None
    """Since when its pods have waited for nodes of the kind that they are held to."""

    released: str = ""
    """Why its workers are not held to a kind of nodes until they run; empty: they may be."""

    may_stop: bool = True
    """Whether the disruption budget lets a rescale of it begin now."""

    measured_again_at: float = -math.inf
    """When it may be moved to be measured again, after such a move could not begin."""

    goal_changed: bool = False
    """Whether its user has set another goal since the rescale in progress began."""

    marked_since: float | None = None
    """When the mark of another instance was first seen on it."""

    known_books: tuple[object, Books | None] | None = None
    """What its books were last made of, and they."""

    preempted_by: str = ""
    """The id of the pause for a gang in which it is, by this autoscaler or the leader before it:
    anybody may write such a mark on a job of his own."""

    @classmethod
    def first_seen(
        cls, training_job: TrainingJob, job: Job, profile: TrainingProfile | None, at: float
    ) -> Self:
        """The state of a job that is new to this process, from what its profile has stored."""
        options = LogFormatOptions.of(job, time.thread_time)
        if profile is None:
            return cls(training_job, job, ProgressLog(options), is_new=True)
        saved = unpack(profile.status.state, job.key, at)
        state = cls(training_job, job, ProgressLog.from_state(options, saved.log), saved.record)
        state.profile.stored, state.profile.status = profile, profile.status
        state.is_new = saved.record == JobRecord() and saved.log.run is None
        record = unpack_rescale(profile.status.rescale, job.key, at)
        if record is not None:
            # Written again first: the profile is this instance's before it acts, or is found stale.
            state.rescale = Rescale(record, needs_checkpoint=True)
        if profile.status.phase is Phase.PAUSED:
            state.preempted_by = training_job.suspended_by or ""
        return state

    def update(self, observation: Observation, *, nodes_changed: bool) -> None:
        """Take in what the caches show of the job now."""
        failures = self.record.placement_failures
        recent = recent_failures(failures, observation.at, lifted=nodes_changed)
        if recent != failures:
            self.record = replace(self.record, placement_failures=recent)
        before = self.job.counts
        self.refresh(observation.jobs[self.job.uid])
        per_server = observation.per_server.get(self.job.uid, 0)
        if per_server != self.job.per_server:
            self.job = replace(self.job, per_server=per_server)
        pods = observation.pods.get(self.job.uid, ())
        seen = self.training_job, pods, observation.node_kinds, self.rescale is None
        gang = self.gang
        is_same = gang.seen is not None and all(map(is_, seen, gang.seen))
        if not is_same or gang.changed_from is not None or before != self.job.counts:
            is_rescaled = self.rescale is not None
            gang.note_changed_counts(pods, self.training_job, before, is_rescaled=is_rescaled)
            gang.update(pods, self.job, observation.node_kinds, observation.at)
            self._update_record(observation)
            gang.seen = seen
        self._update_age()
        self._update_floor()
        self._update_user_counts()
        wait = observation.waits.get(self.job.uid) if self.gang.waits else None
        self.block(BlockReason.NO_NODES, "" if wait is None else wait.text)
        meets = self.job.all_reduce and self.record.served_since is not None
        self.block(BlockReason.UNSETTLED, self.gang.why_unsettled(observation.at) if meets else "")
        self.update_failure(observation.at)

    def update_failure(self, at: float) -> None:
        """Take in why its pods fail; of a job that has failed the reason stays when they go."""
        if not self.gang.failing:
            self.failure = self.failure if self.training_job.outcome == "Failed" else None
            return
        trained_at = max((each.at for each in self.progress(at).samples), default=0.0)
        found = failure_of(self.gang.failing, at, trained_at, self.last_words)
        self.failure = self.failure if found == self.failure else found

    def note_memory(self, role: Role, used: int) -> None:
        """Take in how many bytes a pod uses."""
        ps, worker = self.most_memory
        if role is Role.PS:
            self.most_memory = max(ps, used), worker
        elif role in TRAINERS:
            self.most_memory = ps, max(worker, used)

    def _update_record(self, observation: Observation) -> None:
        """Record which pods were a whole gang, since when it holds nodes and until when it did."""
        record, gang, at = self.record, self.gang, observation.at
        uids = gang.uids[:_MOST_GANG_UIDS]
        if gang.is_whole and uids != record.gang_uids:
            record = replace(record, gang_uids=uids)
        if gang.is_placed and record.served_since is None:
            workers = gang.workers_by_kind(observation.node_kinds)
            record = lifecycle.service_began(record, at, workers)
        elif not gang.here:
            record = lifecycle.service_ended(record, at)
        if self.training_job.outcome is not None and record.ended_at is None:
            record = replace(lifecycle.service_ended(record, at), ended_at=at)
        self.record = record

    def block(self, reason: BlockReason, text: str) -> None:
        """Say what blocks it, or with an empty text that this does not any more."""
        self.blocks = self.blocks.with_text(reason, text)

    @property
    def held(self) -> str:
        """Reason nothing may begin for it now; empty if something may."""
        return next((block.text for block in self.blocks if block.holds), "")

    def refresh(self, training_job: TrainingJob) -> None:
        """Take in the job as it is stored now."""
        self.training_job = training_job
        if training_job.active is None:
            return
        job = training_job.active
        if self.job.per_server:
            job = replace(job, per_server=self.job.per_server)
        if job.goal != self.job.goal:
            # Another goal is not met yet: a job that was suspended at the old one may be resumed.
            self.record = replace(self.record, suspended_at_target=False)
            self.goal_changed = True
        if job != self.job:
            self.log.options = LogFormatOptions.of(job, time.thread_time)
            self.job = job

    def _update_age(self) -> None:
        """Note since when a job has run that ran before it was first seen, as its status says."""
        if self.is_new and self.gang.run is not None:
            starts = [self.gang.run_started_at, self.training_job.started_at]
            since = min((start for start in starts if start is not None), default=None)
            self.record = replace(self.record, ran_since=since)
        self.is_new = False

    def update_earlier(self, observation: Observation, usual: UsualLengths) -> None:
        """Take in what ended jobs have for it now: those of its workload unless it was found to
        differ from them, and how long others took."""
        workload = self.job.workload
        key = self.job.key.namespace, workload or ""
        profile = observation.workloads.get(key) if workload and not self.record.differs else None
        if observation.workloads or self.forecasts.earlier_source is not None:
            self.forecasts.take_earlier(profile, self.job, observation.at, usual)

    def compare(self, progress: TrainingProgress) -> TrainingProgress:
        """The progress without earlier runs where it shows that the job differs from them."""
        differs = why_differs(self.job, progress)
        if differs is None:
            return progress
        # Shown to others at once: from now on they use what the job itself has shown.
        self.record = replace(self.record, differs=differs, shared=0)
        self.forecasts.earlier = self.forecasts.earlier.of_others
        return dataclasses.replace(progress, earlier=())

    def compare_if_young(self, at: float) -> None:
        """Compare a job that could still be profiled; later, each interval does."""
        if not self.forecasts.earlier.earlier or self._is_old(at):
            return
        progress = self.progress(at)
        steady_seconds = sum(sample.seconds for sample in progress.samples)
        shown = len(progress.losses), steady_seconds // _COMPARE_SECONDS
        if shown != self.forecasts.compared:
            self.forecasts.compared = shown
            self.compare(progress)

    @property
    def shown_forecast(self) -> Forecast | None:
        """The forecast that its user is shown."""
        return self.forecasts.shown(self.job)

    def _update_floor(self) -> None:
        """Counts of a job that is not being rescaled are its user's, or such as it trains at."""
        if self.rescale is not None:
            return
        floor, known = self.record.floor, {self.job.counts}
        known |= self.log.measured_counts() if floor is None else {floor}
        least = Counts(min(each.ps for each in known), min(each.workers for each in known))
        if least != floor:
            self.record = replace(self.record, floor=least)

    def _update_user_counts(self) -> None:
        """Counts that no rescale has set are its user's, also those of a job that is paused."""
        is_ours = self.training_job.suspended_by is not None and self.pause is None
        if self.rescale is not None or is_ours:
            return
        if self.job.counts not in (*self.record.rescaled_counts, self.record.user_counts):
            self.record = replace(self.record, user_counts=self.job.counts)

    @property
    def was_fully_bound(self) -> bool:
        """Return whether all pods of this run had a node at some time."""
        return any(uid in self.record.gang_uids for uid in self.gang.uids)

    def running_seconds(self, at: float) -> float:
        """Lower bound of its running time, by its pods, whatever of its log is left."""
        starts = (self.gang.run_started_at, self.record.ran_since)
        return max((at - start for start in starts if start is not None), default=0.0)

    def _is_old(self, at: float) -> bool:
        """Return whether more training may be lost than a profiling run may lose."""
        return self.running_seconds(at) >= self.limits.age_seconds

    def has_unknown_past(self, at: float) -> bool:
        """Return whether it ran for long before it was first seen."""
        since = self.record.ran_since
        return since is not None and at - since >= self.limits.age_seconds

    def is_overdue(self, at: float) -> bool:
        """Return whether it has not ended in time after its completion was requested."""
        return (
            self.completion_requested_at is not None
            and at - self.completion_requested_at >= self.limits.completion_seconds
        )

    def must_wait_for_checkpoint(self, record: RescaleRecord, at: float) -> bool:
        """Return whether this rescale has to wait for a checkpoint now.

        Not where there is nothing to lose, or no log in which one could show. Nor when it only
        measures a young job's speed or ends that, or takes back a gang that never became whole.
        """
        return must_wait_for_checkpoint(
            self.job.rescale,
            record.purpose,
            may_lose=self._may_train(at) and not self.saves_on_stop,
            is_old=self._is_old(at),
        )

    def awaits_checkpoint(self, at: float) -> bool:
        """Return whether it waits for its next checkpoint, as a rescale's wait timed out."""
        if (
            not self.record.checkpoint_missed
            or self.job.rescale is not RescaleRule.CHECKPOINT
            or self.saves_on_stop
            or not self._may_train(at)
        ):
            return False
        progress = self.progress(at)
        since, interval_seconds = progress.checkpoint_since, progress.read_interval_seconds
        return awaits_next_checkpoint(since, at, interval_seconds)

    @property
    def saves_on_stop(self) -> bool:
        """Return whether it is trusted to save when it is stopped."""
        return lifecycle.saves_on_stop(self.record, self.job.saves_on_stop)

    @property
    def watches_for_checkpoint(self) -> bool:
        """Return whether a decision hangs on the job's next checkpoint: its log is read first."""
        waits = self.rescale is not None and self.rescale.record.step is Step.CHECKPOINT
        return waits or self.record.checkpoint_missed

    def _may_train(self, at: float) -> bool:
        """Return whether its pods may train; those of a partial gang must have shown it."""
        if self.gang.run is None:
            return False
        if self.gang.half_bound_since is None or self.was_fully_bound or self.has_unknown_past(at):
            return True
        made_at = min(pod.created_at for pod in self.gang.run.pods)
        return any(sample.at > made_at for sample in self.progress(at).samples)

    def _lost_seconds(self, at: float) -> float:
        """For how long replicas of a job that trained have been lost; without limit for a gang that
        never was whole, which has none to replace."""
        if self.gang.half_bound_since is None:
            return 0.0
        return at - self.gang.half_bound_since if self._may_train(at) else math.inf

    def why_unwanted(self, before: Counts, target: Counts) -> str | None:
        """Why a rescale is not what the job's user wants now, as a sentence; ``None`` if it may be.

        Where the counts stay there is nothing to undo, unless it is stopped for its speed alone.
        """
        record = None if self.rescale is None else self.rescale.record
        if record is not None and record.pauses and record.pause is PauseReason.GANG:
            # What its user wants protects a job no more than its priority does.
            over = self.blocks.text(BlockReason.NO_GANG_WAITS)
            return (over or None) if record.step in _NOT_BEGUN else None
        is_chosen = record is not None and record.purpose.is_chosen
        if before == target and not is_chosen:
            return None
        if self.held and record is not None and record.step in _NOT_BEGUN:
            return self.held
        if record is not None and record.pause is not None and not record.pause.is_final:
            target = before if record.pauses else target  # no goal is a reason for it
        return why_unwanted(self.job, target, goal_changed=self.goal_changed)

    @property
    def saved(self) -> SavedState:
        """Return what the next autoscaler needs to continue."""
        return SavedState(self.log.to_state(), self.record)

    @property
    def bound_job(self) -> Job:
        """The job with its workers on the kind of nodes that they are held to."""
        return self.job.bound_to(self.record.binding)

    def release_kind(self, at: float, most_seconds: float) -> None:
        """Let it go to any nodes where those of its kind have had no room for so long."""
        binding = self.record.binding
        if self.gang.is_placed or self.training_job.suspended:
            self.bound_at, self.released = None, "" if self.gang.is_placed else self.released
        elif binding is not None and self.bound_at is None:
            self.bound_at = at
        elif binding is not None and self.bound_at is not None:
            waited = at - self.bound_at
            if waited >= most_seconds:
                self.released = f"nodes of the kind {binding.kind} had no room for {waited:.0f} s"
                self.record = replace(self.record, binding=None)

    @property
    def start_seconds(self) -> float:
        """The longest of its last times from the placement of all its pods until they ran."""
        return max(self.record.starts, default=self.limits.assumed_price_seconds)

    @property
    def is_stopped(self) -> bool:
        """Return whether it does not train for the rescale in progress."""
        return self.rescale is not None and self.rescale.record.is_stopped

    @property
    def counts_as_stopped(self) -> bool:
        """Return whether it is stopped by what counts in the disruption budget."""
        rescale = self.rescale
        return self.is_stopped and rescale is not None and rescale.record.purpose.is_disruption

    def is_stuck(self, at: float) -> bool:
        """Return whether its pods do not end: one step of its rescale lasts too long."""
        return (
            self.is_stopped
            and self.rescale is not None
            and (at - self.rescale.record.step_at > _STUCK_SECONDS)
        )

    @property
    def awaits_stop(self) -> bool:
        """Return whether a rescale of it has begun and nothing has been done to it."""
        return self.rescale is not None and self.rescale.record.step is Step.CHECKPOINT

    @property
    def rescaling_to(self) -> Counts | None:
        """The target of the rescale in progress."""
        return None if self.rescale is None else self.rescale.record.current_target

    def history(self, at: float) -> JobHistory:
        """Return what was done to the job, as decisions need it at an instant."""
        return JobHistory(
            **recorded_history(self.record, self.job),
            held=self.held,
            recommends=any(self.blocks.text(each) for each in _RECOMMENDS),
            rescaling_to=self.rescaling_to,
            measures=self.rescale is not None
            and self.rescale.record.purpose is RescalePurpose.PROFILING
            and not self.is_stuck(at),
            awaits_checkpoint=self.awaits_checkpoint(at),
            running_seconds=self.running_seconds(at),
            is_ending=self.gang.is_ending,
            measured_again_at=self.measured_again_at,
            lost_seconds=self._lost_seconds(at),
            workload_known=self.forecasts.earlier.speed_is_known,
            completion_overdue=self.is_overdue(at),
            paused=self.is_paused,
        )

    def progress(self, now: float) -> TrainingProgress:
        """The training so far, by its log, with what earlier jobs of its workload have shown."""
        return self.forecasts.progress(self.log.progress(now))

    def books(self) -> Books | None:
        """Return what moving it has saved; ``None`` where it was never moved, or nothing is known.
        Worked out again where a run has ended or a move was recorded."""
        record = self.record
        if not (record.rescales or record.profiled):
            return None
        progress = self.log.progress(0.0)
        last = progress.samples[-1] if progress.samples else None
        grown = None if last is None else last.seconds // _BOOKS_SECONDS
        made_of = record, len(progress.samples), grown
        if self.known_books is None or self.known_books[0] != made_of:
            self.known_books = made_of, books_of(self.job, record, progress)
        return self.known_books[1]

    @property
    def pause(self) -> PauseReason | None:
        """Why it is paused; ``None`` where it is not, or its user has suspended it."""
        mark = self.training_job.suspension if self.training_job.suspended else None
        if mark is None or (mark.pause is PauseReason.GOAL and not self.record.suspended_at_target):
            return None  # at its goal: since then it has another one
        is_for_gang = mark.pause is PauseReason.GANG
        return None if is_for_gang and mark.id != self.preempted_by else mark.pause

    @property
    def preemption(self) -> Preemption | None:
        """For which gang it is paused, or about to be."""
        record = None if self.rescale is None else self.rescale.record
        if record is not None:
            is_for_gang = record.pauses and record.pause is PauseReason.GANG
            return read_preemption(record.id) if is_for_gang else None
        mark = self.training_job.suspension
        return mark.preemption if mark is not None and self.pause is PauseReason.GANG else None

    @property
    def is_paused(self) -> bool:
        """Return whether its policy has paused it, or is about to."""
        record = None if self.rescale is None else self.rescale.record
        pause = record.pause if record is not None and record.pauses else self.pause
        return pause is PauseReason.POLICY

    def begin(
        self,
        rescale_id: str,
        at: float,
        target: Counts,
        why: str,
        purpose: RescalePurpose,
        pause: PauseReason | None = None,
    ) -> None:
        """Begin a rescale; of a job that is paused, its resume. ``pause``: why it is to have no
        counts; by default its goal is met."""
        self.goal_changed, before = False, self.job.counts
        if self.pause is not None and target != NO_COUNTS:
            job = observed_job(self.training_job)
            self.rescale = resume(job, self.pause, at, target, why, purpose)
            return
        usual = PauseReason.GOAL if target == NO_COUNTS else None
        record = RescaleRecord(
            rescale_id,
            at,
            before,
            target,
            why,
            Step.CHECKPOINT,
            at,
            purpose=purpose,
            pause=pause or usual,
        )
        self.rescale = Rescale(record, self.must_wait_for_checkpoint(record, at))

    def placement_failed(self, failed: PlacementFailed, at: float) -> None:
        """Record that the target of the rescale in progress was not placed in time."""
        if self.rescale is not None:
            record = self.rescale.record
            if record.purpose is RescalePurpose.STRAGGLER:
                # It had room at these counts before: it may have its old nodes again.
                self.record = replace(self.record, avoided=())
                return
            # Of counts for which there was room before only the back-off counts.
            may_try = failed.lost or is_forced(record.before, record.target)
            failure = PlacementFailure(
                record.target, record.before, at, failed.waited_seconds, lifted=may_try
            )
            self.record = replace(
                self.record,
                placement_failures=recent_failures((*self.record.placement_failures, failure), at),
            )

    def counts_failed(self, why: str, *, everywhere: bool) -> None:
        """Record that the job's containers end with an error at the target of the rescale, or would
        at any other counts."""
        if self.rescale is not None:
            rescale = self.rescale.record
            failed = FailedCounts(rescale.target, rescale.before, why, everywhere)
            self.record = lifecycle.counts_failed(self.record, failed)

    def run_start(self, at: float) -> RunStart | None:
        """Return how its run went on from the one before; ``None`` while unknown."""
        start, run = self.progress(at).run_start, self.gang.run
        return start if start is not None and run is not None and start.run == run.name else None

    def why_unloaded(self, at: float) -> str:
        """Why its current run does not go on from its newest checkpoint, where it has no PSs: the
        parts of a checkpoint may have been saved for one number of processes. Empty if it may."""
        start = self.run_start(at) if self.job.all_reduce else None
        if start is None or start.unloaded_step is None:
            return ""
        return f"it began anew, and not from its checkpoint of step {start.unloaded_step}"

    def withdraw_rescale(self, at: float) -> None:
        """End a rescale for which nothing was done to the job."""
        if self.rescale is not None:
            self._count_as_not_measured(self.rescale.record, at)
        self.rescale = None

    def _count_as_not_measured(self, rescale: RescaleRecord, at: float) -> None:
        """Count no profiling run: the job was not stopped for it; it is tried again later."""
        if not rescale.purpose.measures:
            return
        self.record = lifecycle.not_profiled(self.record, rescale.target)
        self.measured_again_at = at + _MEASURED_AGAIN_SECONDS

    def rescale_ended(self, end: End, at: float, start: RunStart | None = None) -> None:
        """Record how a rescale ended; ``start`` is how the job went on after it, where seen."""
        self.rescale = None
        is_for_gang = end.record.pause is PauseReason.GANG
        self.preempted_by = end.record.id if is_for_gang and end.outcome is Outcome.PAUSED else ""
        if end.outcome is Outcome.ABANDONED:
            self._count_as_not_measured(end.record, at)
        if start is not None:
            self.record = lifecycle.went_on(self.record, start, self.job.saves_on_stop, at)
        if start is not None and not start.lost and end.price_seconds is not None:
            price_seconds = end.price_seconds - end.redone_seconds
            end = replace(end, price_seconds=price_seconds, redone_seconds=0.0)
        self.record = rescale_ended(self.record, end, at)


def begin_order(state: TrackedJob) -> tuple[bool, float]:
    """The order in which rescales begin."""
    if state.rescale is None:
        return True, 0.0
    record = state.rescale.record
    worth = 0.0 if state.decision is None else state.decision.worth
    return rescale_order(record.purpose, record.before, record.target, worth)
