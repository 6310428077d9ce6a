"""The managed jobs and what is known about each between two observations of the cluster."""

import dataclasses
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from operator import is_
from typing import Final, NamedTuple, Self

from msgspec.structs import replace

from autoscaler.cluster import Observation
from autoscaler.logs.poller import Run, run_of
from autoscaler.windows import Window, why_closed
from optimus import lifecycle
from optimus.allocation import FailedCounts, JobHistory, PlacementFailure
from optimus.allocation.problem import is_forced, recent_failures
from optimus.errors import NotReady
from optimus.interval import Decision
from optimus.interval.driver import (
    RescalePurpose,
    awaits_next_checkpoint,
    must_wait_for_checkpoint,
    rescale_order,
    why_unwanted,
)
from optimus.jobs import NO_COUNTS, Counts, Job, Manage, RescaleRule, Role
from optimus.kube.contract import Phase
from optimus.kube.pods import Pod
from optimus.kube.profile_codec import SavedState, observed_job, unpack, unpack_rescale
from optimus.kube.profiles import ProfileStatus, TrainingProfile
from optimus.kube.suspension import SuspensionMark
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord, recorded_history
from optimus.lifecycle.workloads import Provided, provided
from optimus.models.earlier_runs import why_differs
from optimus.models.expectation import presentable
from optimus.models.forecast import Forecast
from optimus.nodes import Node, label_keys, what_is_offered
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import EarlierRun, TrainingProgress
from optimus.rescale.machine import Rescale, adopt, resume
from optimus.rescale.words import (
    End,
    Outcome,
    PauseReason,
    PlacementFailed,
    RescaleRecord,
    Step,
)

_LOG = logging.getLogger(__name__)

FOREIGN_SUSPENSION_SECONDS: Final = 60.0
"""How long a suspension by another instance is left to that one, if it appears while this leads."""

_STUCK_SECONDS: Final = 600.0
"""After which a job that is stopped holds back no other namespace's jobs. Default: longer than pods
take to end or, by default, to be placed."""

_COMPARE_SECONDS: Final = 15.0
"""Steady training after which a young job is compared with earlier runs again."""

_MEASURED_AGAIN_SECONDS: Final = 60.0
"""How long after a profiling run that could not begin the next one may; doubled by each that
follows. Default: a young job still has time for its runs, and a refusal that lasts costs little."""

_MOST_DOUBLED: Final = 10

_MOST_GANG_UIDS: Final = 16
"""Maximum number of UIDs kept of a gang: enough to recognise it when it has lost some pods."""

_NOT_BEGUN: Final = (Step.CHECKPOINT, Step.SUSPEND)
_LAST_PHASES: Final = (Phase.COMPLETED, Phase.FAILED, Phase.LEFT_ALONE)


@dataclass(frozen=True, slots=True)
class Holds:
    """When and of which jobs nothing may begin: an operator's settings, and the jobs' own."""

    recommend: bool = False
    """Nothing is changed in the whole cluster."""

    windows: tuple[Window, ...] = ()
    pauses: frozenset[PauseReason] = frozenset()
    """Why jobs are paused here, beside a goal that is met: others that are paused are resumed."""

    def recommends(self, job: Job) -> bool:
        """Whether it is only said what would be decided for the job."""
        return self.recommend or job.manage is Manage.RECOMMEND

    def why(self, job: Job, at: float) -> str:
        """Why nothing may begin for a job at an instant; empty where it may."""
        if job.paused:
            return "paused by its user: optimus.dl/pause"
        if self.recommends(job):
            return "nothing is changed: recommendations only"
        return why_closed(self.windows, at) if self.windows else ""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What holds for every job, in seconds."""

    age_seconds: float = 600.0
    """A job that has run for longer is not rescaled without a checkpoint."""

    completion_seconds: float = 600.0
    """How long it has to end after that was requested."""

    assumed_price_seconds: float = 60.0
    """What a rescale is assumed to cost before that was measured."""


class Shown(NamedTuple):
    """What a profile should show, until an instant or until what it is made of is other values."""

    status: ProfileStatus
    inputs: tuple[object, ...]
    until: float


@dataclass(slots=True)
class JobState:
    """One managed job."""

    training_job: TrainingJob
    """The job as last observed."""

    job: Job
    """The valid part of it."""

    log: ProgressLog
    record: JobRecord = field(default_factory=JobRecord)
    rescale: Rescale | None = None
    run: Run | None = None
    run_started_at: float | None = None
    """When the first of the run's pods that are read began to train; ``None`` where nothing shows
    it."""

    profile: TrainingProfile | None = None
    stored: ProfileStatus | None = None
    """What the profile shows, without the saved state."""

    stored_at: float | None = None
    decision: Decision | None = None
    """The last interval's, made at ``decided_at`` under ``interval_id``."""

    interval_id: str = ""
    decided_at: float | None = None
    forecast: Forecast | NotReady | None = None
    forecast_of: tuple[Job, TrainingProgress] | None = None
    """What the forecast was made from, without what no forecast reads."""

    expected: tuple[tuple[Job, TrainingProgress], Forecast | NotReady] | None = None
    """What is to be expected of a job without a forecast, and what that was made from: before it,
    as that is what says whether it is out of date."""

    half_bound_since: float | None = None
    """Since when some of its pods have a node, but not all."""

    is_placed: bool = False
    """Whether all pods of its present counts have nodes, or have finished."""

    was_fully_bound: bool = False
    """Whether all pods of this run had a node at some time."""

    is_ending: bool = False
    """Whether one of its trainers has Succeeded."""

    is_new: bool = False
    """Whether nothing was known of it before, and it has not been observed yet."""

    limits: JobLimits = JobLimits()
    completion_requested_at: float | None = None
    """Since when its pods carry the annotation that requests them to end, as its goal is met."""

    waits_for: str = ""
    """Why its pods wait for nodes, as the extender says, while any does."""

    held: str = ""
    """Why nothing may begin for it now; empty where it may."""

    refused: str = ""
    """Why its pods could not be made again; empty where they could."""

    recommends: bool = False
    """Whether it is only said what would be decided for it."""

    may_stop: bool = True
    """Whether the disruption budget lets a rescale of it begin now."""

    changed_from: Counts | None = None
    """The counts that its pods were made for, where others were set while they ran."""

    name_taken_at: float | None = None
    """When another job's profile was last found to hold the name."""

    straggler: str = ""
    """Which worker is far slower than the others, and what is done about it; empty: none."""

    measured_again_at: float = -math.inf
    """When it may be moved to be measured again, after such a move could not begin."""

    not_measured: int = 0
    """How many such moves in a row could not begin."""

    goal_changed: bool = False
    """Whether its user has set another goal since the rescale in progress began."""

    checkpoint_at: float | None = None
    """The last checkpoint of a job whose wait for one timed out, by the kubelet's clock; minus
    infinity before its first."""

    checkpoint_seen_at: float | None = None

    unwritten: str = ""
    """Why its profile could not be written last; empty where it was."""

    refused_version: str = ""
    """The version of its profile of which a write was refused."""

    superseded_by: TrainingProfile | None = None
    """Its profile, where another instance has written it since it was read: what is remembered here
    is older."""

    marked_since: float | None = None
    """When the mark of another instance was first seen on it."""

    earlier: tuple[EarlierRun, ...] = ()
    """What earlier jobs of its workload have shown, under its conditions."""

    speed_is_known: bool = False
    """Whether that is enough for a speed model."""

    compared: object = None
    """How much it had shown when it was last compared with them between two intervals."""

    earlier_source: tuple[object, Job] | None = None
    """What ``earlier`` was made of."""

    seen: tuple[object, ...] | None = None
    """The job, its pods and what else was looked at when its pods were last taken in."""

    waits: bool = False
    """Whether one of its pods has no node yet."""

    with_earlier: tuple[TrainingProgress, TrainingProgress] | None = None
    """The last progress, without and with ``earlier``."""

    shown: Shown | None = None
    """What its profile should show."""

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
        state.profile, state.stored = profile, profile.status
        state.is_new = saved.record == JobRecord() and saved.log.run is None
        record = unpack_rescale(profile.status.rescale, job.key, at)
        if record is not None:
            # Written again first: the profile is this instance's before it acts, or is found stale.
            state.rescale = Rescale(record, needs_checkpoint=True)
        return state

    def update(self, observation: Observation, *, nodes_changed: bool) -> None:
        """Take in what the caches show of the job now."""
        failures = self.record.placement_failures
        recent = recent_failures(failures, observation.at, lifted=nodes_changed)
        if recent != failures:
            self.record = replace(self.record, placement_failures=recent)
        before = self.job.counts
        self.refresh(observation.jobs[self.job.uid])
        self._update_checkpoint(observation.at)
        pods = observation.pods.get(self.job.uid, ())
        seen = self.training_job, pods, observation.node_kinds, self.rescale is None
        is_same = self.seen is not None and all(map(is_, seen, self.seen))
        if not is_same or self.changed_from is not None or before != self.job.counts:
            self._update_pods(pods, observation, before)
            self.seen = seen
        self._update_age()
        self._update_floor()
        self._update_earlier(observation)
        self._update_user_counts()
        self.waits_for = observation.waits.get(self.job.uid, "") if self.waits else ""

    def _update_pods(self, pods: Sequence[Pod], observation: Observation, before: Counts) -> None:
        """Take in the job's pods. Of a hundred thousand few have changed since the last tick."""
        self.changed_from = self._changed_from(pods, before)
        self.run = run_of(pods, self.job.counts, observation.node_kinds)
        starts = (pod.container.started_at for pod in (self.run.pods if self.run else ()))
        self.run_started_at = min((start for start in starts if start is not None), default=None)
        self.is_ending = any(pod.has_trained for pod in pods)
        staying = [pod for pod in pods if not pod.leaving and not pod.finished]
        self._update_gang(staying, observation.at)
        here = [pod for pod in pods if pod.finished or (pod.node and not pod.leaving)]
        self.is_placed = len(here) >= self._gang_size
        self._update_service(here, observation)
        self.waits = any(pod.node is None for pod in staying)

    def _update_service(self, here: Sequence[Pod], observation: Observation) -> None:
        """Record since when it holds its nodes, and until when it did."""
        record, at = self.record, observation.at
        if self.is_placed and record.served_since is None:
            nodes = (pod.node or "" for pod in here if is_worker(pod))
            kinds = Counter(observation.node_kinds.get(node, "") for node in nodes)
            self.record = lifecycle.service_began(record, at, kinds)
        elif not here and record.served_since is not None:
            self.record = lifecycle.service_ended(record, at)
        if self.training_job.outcome is not None and record.ended_at is None:
            self.record = replace(lifecycle.service_ended(self.record, at), ended_at=at)

    def _changed_from(self, pods: Sequence[Pod], before: Counts) -> Counts | None:
        """Counts other than the job's, with which it has pods although it is not suspended.

        Its pods list them, unless the operator has failed the job and removed them by now."""
        job = self.training_job
        if job.suspended or self.rescale is not None or job.job is None:
            return None
        if job.outcome is not None:
            was_changed = job.outcome == "Failed" and job.job.counts != before
            return before if was_changed else None
        return other_gang(pods, job.job.counts)

    def refresh(self, training_job: TrainingJob) -> None:
        """Take in the job as it is stored now."""
        self.training_job = training_job
        if training_job.active is None:
            return
        if training_job.active != self.job:
            self.log.options = LogFormatOptions.of(training_job.active, time.thread_time)
        if training_job.active.goal != self.job.goal:
            # Another goal is not met yet: a job that was suspended at the old one may be resumed.
            self.record = replace(self.record, suspended_at_target=False)
            self.goal_changed = True
        self.job = training_job.active

    def _update_age(self) -> None:
        """Of a job that ran before it was first seen only its status shows how long."""
        if self.is_new and self.run is not None:
            starts = [self.run_started_at, self.training_job.started_at]
            since = min((start for start in starts if start is not None), default=None)
            self.record = replace(self.record, ran_since=since)
        self.is_new = False

    def _update_earlier(self, observation: Observation) -> None:
        """Take in what its workload's profile has for it now, unless it was found to differ."""
        workload = self.job.workload
        key = self.job.key.namespace, workload or ""
        found = observation.workloads.get(key) if workload and not self.record.differs else None
        known = self.earlier_source
        if known is not None and known[0] is found and known[1] == self.job:
            return
        self.earlier_source = found, self.job
        known_by_it = provided(found.runs, self.job, observation.at) if found else Provided()
        self.earlier, self.speed_is_known = known_by_it

    def compare(self, progress: TrainingProgress) -> TrainingProgress:
        """The progress without earlier runs where it shows that the job differs from them."""
        differs = why_differs(self.job, progress)
        if differs is None:
            return progress
        # Shown to others at once: from now on they use what the job itself has shown.
        self.record = replace(self.record, differs=differs, shared=0)
        self.earlier, self.speed_is_known = (), False
        return dataclasses.replace(progress, earlier=())

    def compare_if_young(self, at: float) -> None:
        """Compare a job that could still be profiled; later, each interval does."""
        if not self.earlier or self._is_old(at):
            return
        progress = self.progress(at)
        steady_seconds = sum(sample.seconds for sample in progress.samples)
        shown = len(progress.losses), steady_seconds // _COMPARE_SECONDS
        if shown != self.compared:
            self.compared = shown
            self.compare(progress)

    @property
    def shown_forecast(self) -> Forecast | None:
        """The forecast that its user is shown."""
        if isinstance(self.forecast, Forecast):
            return self.forecast
        if self.expected is None or self.expected[0] is not self.forecast_of:
            return None
        (_, progress), found = self.expected
        return presentable(self.job, progress, found)

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
        """Counts that no rescale has set are its user's."""
        if self.rescale is not None or self.training_job.suspended_by is not None:
            return
        if self.job.counts not in (*self.record.rescaled_counts, self.record.user_counts):
            self.record = replace(self.record, user_counts=self.job.counts)

    def running_seconds(self, at: float) -> float:
        """Lower bound of its running time, by its pods, whatever of its log is left."""
        starts = (self.run_started_at, self.record.ran_since)
        return max((at - start for start in starts if start is not None), default=0.0)

    def _is_old(self, at: float) -> bool:
        """Whether more training may be lost than a profiling run may lose."""
        return self.running_seconds(at) >= self.limits.age_seconds

    def has_unknown_past(self, at: float) -> bool:
        """Whether it ran for long before it was first seen: all its pods may have had nodes."""
        since = self.record.ran_since
        return since is not None and at - since >= self.limits.age_seconds

    def is_overdue(self, at: float) -> bool:
        """Whether it has not ended in time after its completion was requested."""
        return (
            self.completion_requested_at is not None
            and at - self.completion_requested_at >= self.limits.completion_seconds
        )

    @property
    def _gang_size(self) -> int:
        return sum(self.job.counts) + sum(role.count for role in self.job.fixed)

    def _update_gang(self, pods: Sequence[Pod], at: float) -> None:
        bound = [pod.node is not None for pod in pods]
        is_half_bound = any(bound) and not all(bound)
        self.half_bound_since = (self.half_bound_since or at) if is_half_bound else None
        gang = tuple(pod.uid for pod in pods)[:_MOST_GANG_UIDS]
        if all(bound) and len(pods) >= self._gang_size and gang != self.record.gang_uids:
            self.record = replace(self.record, gang_uids=gang)
        self.was_fully_bound = any(pod.uid in self.record.gang_uids for pod in pods)

    def _update_checkpoint(self, at: float) -> None:
        if not self.record.checkpoint_missed:
            return
        progress = self.progress(at)
        latest = progress.checkpoint_at or -math.inf
        if progress.checkpoint_at is not None and progress.checkpoint_since is None:
            return  # the log is read behind: its age is unknown
        if self.checkpoint_at is not None and latest > self.checkpoint_at:
            self.checkpoint_seen_at = at
        self.checkpoint_at = latest

    def must_wait_for_checkpoint(self, record: RescaleRecord, at: float) -> bool:
        """Whether this rescale has to wait for a checkpoint now.

        Not where there is nothing to lose, or no log in which one could show. Nor when it only
        measures a young job's speed or ends that, or takes back a gang that never became whole.
        """
        return must_wait_for_checkpoint(
            self.job.rescale,
            record.purpose,
            may_train=self._may_train(at),
            is_old=self._is_old(at),
        )

    def awaits_checkpoint(self, at: float) -> bool:
        """Whether the job is not moved before its next checkpoint: its wait for one timed out."""
        if (
            not self.record.checkpoint_missed
            or self.job.rescale is not RescaleRule.CHECKPOINT
            or not self._may_train(at)
        ):
            return False
        interval_seconds = self.progress(at).read_interval_seconds
        return awaits_next_checkpoint(self.checkpoint_seen_at, at, interval_seconds)

    @property
    def watches_for_checkpoint(self) -> bool:
        """Whether a decision hangs on the job's next checkpoint: its log is read first."""
        waits = self.rescale is not None and self.rescale.record.step is Step.CHECKPOINT
        return waits or self.record.checkpoint_missed

    def _may_train(self, at: float) -> bool:
        """Whether its pods may train; a part of a gang that never was whole must have shown it."""
        if self.run is None:
            return False
        if self.half_bound_since is None or self.was_fully_bound or self.has_unknown_past(at):
            return True
        made_at = min(pod.created_at for pod in self.run.pods)
        return any(sample.at > made_at for sample in self.progress(at).samples)

    def _lost_seconds(self, at: float) -> float:
        """For how long replicas of a job that trained have been lost; without limit for a gang that
        never was whole, which has none to replace."""
        if self.half_bound_since is None:
            return 0.0
        return at - self.half_bound_since if self._may_train(at) else math.inf

    def why_unwanted(self, before: Counts, target: Counts) -> str | None:
        """Why a rescale is not what the job's user wants now, as a sentence; ``None`` if it may be.

        Where the counts stay there is nothing to undo, unless it is not to be stopped at all.
        """
        record = None if self.rescale is None else self.rescale.record
        replaces = record is not None and record.purpose is RescalePurpose.STRAGGLER
        if before == target and not replaces:
            return None
        if self.held and record is not None and record.step in _NOT_BEGUN:
            return self.held
        if record is not None and record.pause is not None and not record.pause.is_final:
            target = before if record.pauses else target  # no goal is a reason for it
        return why_unwanted(self.job, target, goal_changed=self.goal_changed)

    @property
    def saved(self) -> SavedState:
        """What the next autoscaler needs to continue."""
        return SavedState(self.log.to_state(), self.record)

    @property
    def start_seconds(self) -> float:
        """Its own start time: the longest of the last times from the placement of all its pods
        until they ran."""
        return max(self.record.starts, default=self.limits.assumed_price_seconds)

    @property
    def is_stopped(self) -> bool:
        """Whether it does not train for the rescale in progress."""
        return self.rescale is not None and self.rescale.record.is_stopped

    def is_stuck(self, at: float) -> bool:
        """Whether it has been stopped in one step of a rescale for longer than any step lasts by
        itself: its pods do not end."""
        return (
            self.is_stopped
            and self.rescale is not None
            and (at - self.rescale.record.step_at > _STUCK_SECONDS)
        )

    @property
    def awaits_stop(self) -> bool:
        """Whether a rescale of it has begun and nothing has been done to it."""
        return self.rescale is not None and self.rescale.record.step is Step.CHECKPOINT

    @property
    def rescaling_to(self) -> Counts | None:
        """The target of the rescale in progress."""
        return None if self.rescale is None else self.rescale.record.current_target

    def history(self, at: float) -> JobHistory:
        """What was done to the job, as decisions need it at an instant."""
        return JobHistory(
            **recorded_history(self.record, self.job),
            held=self.held,
            recommends=self.recommends,
            rescaling_to=self.rescaling_to,
            measures=self.rescale is not None
            and self.rescale.record.purpose is RescalePurpose.PROFILING
            and not self.is_stuck(at),
            awaits_checkpoint=self.awaits_checkpoint(at),
            running_seconds=self.running_seconds(at),
            is_ending=self.is_ending,
            measured_again_at=self.measured_again_at,
            lost_seconds=self._lost_seconds(at),
            workload_known=self.speed_is_known,
            completion_overdue=self.is_overdue(at),
        )

    def progress(self, now: float) -> TrainingProgress:
        """The training so far, by its log, with what earlier jobs of its workload have shown."""
        progress = self.log.progress(now)
        if not self.earlier:
            return progress
        known = self.with_earlier
        if known is None or known[0] is not progress or known[1].earlier is not self.earlier:
            with_earlier = dataclasses.replace(progress, earlier=self.earlier)
            known = self.with_earlier = progress, with_earlier
        return known[1]

    @property
    def pause(self) -> PauseReason | None:
        """Why it is paused; ``None`` where it is not, or its user has suspended it."""
        mark = self.training_job.suspension if self.training_job.suspended else None
        if mark is None or (mark.pause is PauseReason.GOAL and not self.record.suspended_at_target):
            return None  # at its goal: since then it has another one
        return mark.pause

    def begin(
        self, rescale_id: str, at: float, target: Counts, why: str, purpose: RescalePurpose
    ) -> None:
        """Begin a rescale; of a job that is paused, its resume."""
        self.goal_changed = False
        if self.pause is not None:
            self.rescale = resume(observed_job(self.training_job), self.pause, at, target, why)
            return
        before, pause = self.job.counts, PauseReason.GOAL if target == NO_COUNTS else None
        record = RescaleRecord(
            rescale_id, at, before, target, why, Step.CHECKPOINT, at, purpose=purpose, pause=pause
        )
        self.rescale = Rescale(record, self.must_wait_for_checkpoint(record, at))

    def begin_pause(self, pause_id: str, at: float, pause: PauseReason, why: str) -> None:
        """Begin to pause it."""
        self.begin(pause_id, at, NO_COUNTS, why, RescalePurpose.INTERVAL)
        if self.rescale is not None:
            self.rescale = dataclasses.replace(
                self.rescale, record=dataclasses.replace(self.rescale.record, pause=pause)
            )

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

    def counts_failed(self, why: str) -> None:
        """Record that the job's containers end with an error at the target of the rescale."""
        if self.rescale is not None:
            rescale = self.rescale.record
            failed = FailedCounts(rescale.target, rescale.before, why)
            self.record = lifecycle.counts_failed(self.record, failed)

    def withdraw_rescale(self, at: float) -> None:
        """End a rescale for which nothing was done to the job."""
        if self.rescale is not None:
            self._count_as_not_measured(self.rescale.record, at)
        self.rescale = None

    def _count_as_not_measured(self, rescale: RescaleRecord, at: float) -> None:
        """The job was not stopped to be measured: that counts as no profiling run, and is tried
        again after a while."""
        if not rescale.purpose.measures:
            return
        profiled = list(self.record.profiled)
        if rescale.target in profiled:
            profiled.remove(rescale.target)
        self.record = replace(self.record, profiled=tuple(profiled))
        self.measured_again_at = at + _MEASURED_AGAIN_SECONDS * 2.0**self.not_measured
        self.not_measured = min(self.not_measured + 1, _MOST_DOUBLED)

    def rescale_ended(self, end: End, at: float) -> None:
        """Record how a rescale ended."""
        self.rescale = None
        if end.outcome is Outcome.ABANDONED:
            self._count_as_not_measured(end.record, at)
        happened = end.outcome in (Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.PAUSED)
        self.not_measured = 0 if happened else self.not_measured
        self.record = lifecycle.rescale_ended(self.record, _for_record(end, at, happened=happened))


def _for_record(end: End, at: float, *, happened: bool) -> lifecycle.EndedRescale:
    record = end.record
    purpose = record.purpose
    is_turn = record.pause is not None and not record.pause.is_final
    is_profiling = purpose is RescalePurpose.PROFILING
    return lifecycle.EndedRescale(
        at=at,
        before=record.before,
        target=record.target,
        happened=happened,
        reached=end.outcome is Outcome.REACHED,
        # Profiling runs have a limit of their own.
        is_counted=not is_profiling
        and not (is_turn and record.target in (NO_COUNTS, record.before)),
        is_profiling=is_profiling,
        measures=purpose.measures,
        is_chosen=purpose.is_chosen,
        replaces=purpose is RescalePurpose.STRAGGLER,
        is_pause=end.outcome is Outcome.PAUSED,
        suspended_at_target=_was_suspended_at_target(end),
        price_seconds=end.price_seconds,
        redone_seconds=end.redone_seconds,
        start_seconds=end.start_seconds,
    )


def _was_suspended_at_target(end: End) -> bool:
    """Whether the job was suspended at its goal: also where its user resumed it at once."""
    if end.record.pause is not PauseReason.GOAL or end.record.resumes:
        return False
    by_user = end.outcome is Outcome.USER and end.record.step in (Step.EMPTY, Step.YIELD)
    return by_user or end.outcome is Outcome.PAUSED


def is_worker(pod: Pod) -> bool:
    """Whether a pod is a worker."""
    return pod.replica is not None and pod.replica.role is Role.WORKER


def other_gang(pods: Sequence[Pod], counts: Counts) -> Counts | None:
    """The counts that some pod was made for, where they are not these; ``None`` if there is none.

    A pod's own TF_CONFIG or MX_CONFIG lists the job as it was when the pod was made."""
    right: object = None  # one mapping for all pods of a gang
    for pod in pods:
        if pod.gang is None or pod.gang is right or pod.leaving or pod.finished:
            continue
        made_for = Counts(pod.gang.get(Role.PS, 0), pod.gang.get(Role.WORKER, 0))
        if made_for != counts:
            return made_for
        right = pod.gang
    return None


def begin_order(state: JobState) -> tuple[bool, float]:
    """The order in which rescales begin."""
    if state.rescale is None:
        return True, 0.0
    record = state.rescale.record
    worth = 0.0 if state.decision is None else state.decision.worth
    return rescale_order(record.purpose, record.before, record.target, worth)


Guard = Callable[[str, JobState | None], AbstractContextManager[None]]
"""Contains a fault that concerns one job."""


class ManagedJobs:
    """The state of every managed job, by UID."""

    def __init__(
        self,
        guard: Guard,
        *,
        dry_run: bool,
        limits: JobLimits,
        holds: Holds,
        instance: str = "",
    ) -> None:
        """``instance`` is this autoscaler, as the marks that it sets name it."""
        self._guard = guard
        self._holds = holds
        self._instance = instance
        self._dry_run = dry_run
        self._limits = limits
        self.states: dict[str, JobState] = {}
        self._nodes: tuple[Node, ...] | None = None

    def __iter__(self) -> Iterator[JobState]:
        return iter(list(self.states.values()))

    def forget_time(self, seconds: float) -> None:
        """Let no wait have lasted through a time in which nothing was observed."""
        for state in self.states.values():
            if state.half_bound_since is not None:
                state.half_bound_since += seconds

    def update(self, observation: Observation) -> list[JobState]:
        """Take in an observation; returns the jobs that have ended or are no longer managed, to be
        reported a last time."""
        for uid in self.states.keys() - observation.jobs.keys():
            _LOG.info("job %s is gone", self.states.pop(uid).job.key)
        self._drop_superseded(observation.at)
        for training_job in observation.jobs.values():
            if training_job.uid not in self.states and _is_tracked(
                training_job, observation.profiles.get(training_job.uid)
            ):
                with self._guard("observe", None):
                    self._add(training_job, observation)
        nodes_changed = self._nodes_changed(observation)
        for state in self:
            with self._guard("observe", state):
                state.update(observation, nodes_changed=nodes_changed)
                state.refused = observation.refused.get(state.job.uid, "")
                state.held = self._holds.why(state.job, observation.at) or state.refused
                state.recommends = self._holds.recommends(state.job)
            self._adopt(state, observation.at)
        leaving = [
            state for state in self if not _is_managed(state.training_job) and state.rescale is None
        ]
        for state in leaving:
            del self.states[state.job.uid]
        return leaving

    def _drop_superseded(self, at: float) -> None:
        """Start again from what another instance has stored."""
        for state in self:
            found = state.superseded_by
            if found is not None:
                _LOG.warning(
                    "job %s: its profile was written by %s since it was read: taken up as stored",
                    state.job.key,
                    found.status.written_by or "another instance",
                )
                own = found if found.job.uid == state.job.uid else None
                self._begin(state.training_job, state.job, own, at)

    def _begin(
        self, training_job: TrainingJob, job: Job, profile: TrainingProfile | None, at: float
    ) -> None:
        state = JobState.first_seen(training_job, job, profile, at)
        state.limits = self._limits
        mark = training_job.suspension
        if mark is not None:
            state.marked_since = -math.inf  # by an instance that does not lead any more
            if mark.pause is PauseReason.GOAL and training_job.suspended and profile is None:
                state.record = replace(state.record, suspended_at_target=True)
        self.states[training_job.uid] = state

    def _nodes_changed(self, observation: Observation) -> bool:
        """Whether capacity, or what nodes admit, is another than at the last observation."""
        nodes, before = observation.snapshot.nodes, self._nodes
        self._nodes = nodes
        if before is None or before == nodes:
            return False
        keys = label_keys(observation.snapshot.jobs)
        return what_is_offered(before, keys) != what_is_offered(nodes, keys)

    def _add(self, training_job: TrainingJob, observation: Observation) -> None:
        assert training_job.job is not None
        profile = observation.profiles.get(training_job.uid)
        self._begin(training_job, training_job.job, profile, observation.at)
        known = "new" if profile is None else "known from its profile"
        _LOG.info("job %s is managed (%s), at %s", training_job.key, known, training_job.job.counts)

    def _adopt(self, state: JobState, at: float) -> None:
        job = state.training_job
        if self._dry_run or state.rescale is not None or job.active is None:
            return
        mark = job.suspension
        if mark is None:
            state.marked_since = None
            return
        pause = state.pause
        if pause is not None and self._is_kept(state, pause, at):
            return  # the annotation stays until it is resumed
        if mark.instance not in ("", self._instance) and not self._is_abandoned(state, mark, at):
            return
        if pause is not None:
            why = "nothing pauses it any more"
            state.rescale = resume(observed_job(job), pause, at, state.job.counts, why)
            _LOG.info("job %s: paused, and %s: resumed", state.job.key, why)
            return
        state.rescale = adopt(observed_job(job), at)
        form = "job %s: annotated as suspended by %s, without a record of a rescale"
        _LOG.warning(form, state.job.key, mark.instance or "the autoscaler")

    def _is_kept(self, state: JobState, pause: PauseReason, at: float) -> bool:
        """Whether this autoscaler, as it is configured, may have paused the job and may end that.

        Else nobody would: a job whose user wants nothing changed is not paused either."""
        if pause.is_final:
            return True
        may_pause = state.job.managed and pause in self._holds.pauses
        return may_pause and not self._holds.why(state.job, at)

    @staticmethod
    def _is_abandoned(state: JobState, mark: SuspensionMark, at: float) -> bool:
        """Whether another instance has left its suspension as it is."""
        if state.marked_since is None:
            state.marked_since = at
            _LOG.warning(
                "job %s: suspended by %s, although this instance leads: is there an autoscaler "
                "with another --leader-lease? It is resumed in %.0f s",
                state.job.key,
                mark.instance,
                FOREIGN_SUSPENSION_SECONDS,
            )
        return at - state.marked_since >= FOREIGN_SUSPENSION_SECONDS


def _is_tracked(training_job: TrainingJob, profile: TrainingProfile | None) -> bool:
    """Whether a job is managed, or an earlier process left something to be ended with it."""
    if _is_managed(training_job):
        return True
    if training_job.job is None or training_job.deleted:
        return False
    if profile is None:
        # Its profile is gone, and it is no longer managed: all that is left is to resume it.
        is_over = training_job.outcome is not None
        return not is_over and training_job.suspended and _is_to_be_resumed(training_job)
    if training_job.outcome is not None:
        return profile.status.phase not in _LAST_PHASES
    if training_job.suspended_by is None:
        return False
    is_paused = training_job.suspended and profile.status.phase is Phase.PAUSED
    return profile.status.rescale is not None or is_paused


def _is_to_be_resumed(training_job: TrainingJob) -> bool:
    mark = training_job.suspension
    return mark is not None and not (mark.pause is not None and mark.pause.is_final)


def _is_managed(training_job: TrainingJob) -> bool:
    return training_job.active is not None and training_job.active.managed
