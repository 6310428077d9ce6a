"""What the autoscaler knows and does about one job between two looks at the cluster."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from autoscaler.logs.poller import Run, run_of
from autoscaler.observation import Observation
from autoscaler.profile.codec import JobRecord, SavedState, unpack, unpack_rescale
from autoscaler.rescale.machine import End, Outcome, Rescale, RescaleRecord
from optimus.allocation import JobHistory, PlacementFailure
from optimus.allocation.placement_failures import kept
from optimus.errors import NotReady
from optimus.interval import Decision
from optimus.interval.driver import RescalePurpose, why_unwanted
from optimus.jobs import Counts, Job, RescaleRule
from optimus.kube.pods import Pod
from optimus.kube.profiles import ProfileStatus, TrainingProfile
from optimus.kube.training_jobs import TrainingJob
from optimus.models.forecast import Forecast
from optimus.progress.log import ProgressLog
from optimus.progress.options import LogFormatOptions
from optimus.progress.types import TrainingProgress

FRESH_SECONDS: Final = 90.0
"""So long after a job's checkpoint is heard of, an interval may begin to move it: the least time
between two of them, and a few looks at the log."""


_MOST_KNOWN: Final = 16
"""Of a gang so many pods are remembered: enough to know it again when it has lost some."""


@dataclass(slots=True)
class JobState:
    """One managed job.

    ``seen`` is the job as last observed, ``job`` the valid part of it. ``decision`` is the last
    interval's, made at
    ``decided_at`` under ``interval_id``. ``stored`` is what the profile shows, without the saved
    state in it.
    ``half_bound_since``: since when some pods, but not all, have a node; ``was_whole``: all had one
    before, in the same run. ``name_taken_at``: when another job's profile
    was found last to hold the name. ``goal_moved``: its user set another goal since the rescale
    under way began.
    ``checkpoint_at`` is the last checkpoint of a job that waited for one in vain, by the kubelet's
    clock, minus infinity before its first; ``checkpoint_told_at`` is when we heard of it.
    """

    seen: TrainingJob
    job: Job
    log: ProgressLog
    record: JobRecord = field(default_factory=JobRecord)
    rescale: Rescale | None = None
    run: Run | None = None
    profile: TrainingProfile | None = None
    stored: ProfileStatus | None = None
    stored_at: float | None = None
    decision: Decision | None = None
    interval_id: str = ""
    decided_at: float | None = None
    forecast: Forecast | NotReady | None = None
    half_bound_since: float | None = None
    was_whole: bool = False
    name_taken_at: float | None = None
    goal_moved: bool = False
    checkpoint_at: float | None = None
    checkpoint_told_at: float | None = None

    @classmethod
    def first_seen(
        cls, seen: TrainingJob, job: Job, profile: TrainingProfile | None, at: float
    ) -> Self:
        """The state of a job that is new to this process at an instant; its profile tells what an
        earlier one knew."""
        rules = LogFormatOptions.of(job)
        if profile is None:
            return cls(seen, job, ProgressLog(rules))
        saved = unpack(profile.status.state, job.key, at)
        state = cls(seen, job, ProgressLog.from_state(rules, saved.log), saved.record)
        state.profile, state.stored = profile, profile.status
        record = unpack_rescale(profile.status.rescale, job.key, at)
        if record is not None:
            state.rescale = Rescale(record, needs_checkpoint=True, written=True)
        return state

    def look(self, observation: Observation) -> None:
        """Take in what the caches show of the job now."""
        self.renew(observation.jobs[self.job.uid])
        self.record = replace(self.record, setbacks=kept(self.record.setbacks, observation.at))
        self._listen_for_checkpoint(observation.at)
        pods = observation.pods.get(self.job.uid, ())
        self.run = run_of(pods, self.job.counts, observation.node_kinds)
        self._look_at_gang(
            [pod for pod in pods if not pod.leaving and not pod.finished], observation.at
        )

    def renew(self, seen: TrainingJob) -> None:
        """Take in the job as it is stored now."""
        self.seen = seen
        if seen.active is None:
            return
        if seen.active != self.job:
            self.log.options = LogFormatOptions.of(seen.active)
        if seen.active.goal != self.job.goal:
            # Another goal is not met yet: what was suspended for the old one may go on.
            self.record, self.goal_moved = replace(self.record, suspended_at_target=False), True
        self.job = seen.active

    def _look_at_gang(self, pods: Sequence[Pod], at: float) -> None:
        bound = [pod.node is not None for pod in pods]
        self.half_bound_since = (
            (self.half_bound_since or at) if any(bound) and not all(bound) else None
        )
        wanted = sum(self.job.counts) + sum(role.count for role in self.job.fixed)
        whole = tuple(pod.uid for pod in pods)[:_MOST_KNOWN]
        if all(bound) and len(pods) >= wanted and whole != self.record.whole:
            self.record = replace(self.record, whole=whole)
        self.was_whole = any(pod.uid in self.record.whole for pod in pods)

    def _listen_for_checkpoint(self, at: float) -> None:
        if not self.record.waited_in_vain:
            return
        latest = self.progress(at).checkpoint_at or -math.inf
        if self.checkpoint_at is not None and latest > self.checkpoint_at:
            self.checkpoint_told_at = at
        self.checkpoint_at = latest

    def must_wait_for_checkpoint(self, record: RescaleRecord, at: float) -> bool:
        """Whether this rescale has to wait for a checkpoint now.

        Not where there is nothing to lose, and no log in which one could show. Nor when it only
        measures a young job's speed or ends that, or takes back a gang that never became whole.
        """
        if self.job.rescale is not RescaleRule.CHECKPOINT or not self._may_train(at):
            return False
        return record.purpose.needs_checkpoint

    def awaits_checkpoint(self, at: float) -> bool:
        """Whether the job is not moved before its next checkpoint, since one was waited for in
        vain.

        Once may be bad luck; but room that is kept for a job that never prints such a line is lost
        to everybody."""
        if (
            not self.record.waited_in_vain
            or self.job.rescale is not RescaleRule.CHECKPOINT
            or not self._may_train(at)
        ):
            return False
        return self.checkpoint_told_at is None or at - self.checkpoint_told_at > FRESH_SECONDS

    def _may_train(self, at: float) -> bool:
        """Whether its pods train, as far as anybody can tell: a part of a gang that never was whole
        must show it."""
        if self.run is None:
            return False
        if self.half_bound_since is None or self.was_whole:
            return True
        made_at = min(pod.created_at for pod in self.run.pods)
        return any(sample.at > made_at for sample in self.progress(at).samples)

    def why_unwanted(self, before: Counts, target: Counts) -> str | None:
        """Why a rescale is not what the job's user wants by now, as a sentence; ``None`` if nothing
        speaks against it.

        Where the counts stay there is nothing to take back.
        """
        if before == target:
            return None
        return why_unwanted(self.job, target, goal_changed=self.goal_moved)

    @property
    def saved(self) -> SavedState:
        """What the next autoscaler is to know."""
        return SavedState(self.log.to_state(), self.record)

    @property
    def rescaling_to(self) -> Counts | None:
        """The counts that a rescale under way aims at."""
        return None if self.rescale is None else self.rescale.record.current_target

    def history(self, at: float) -> JobHistory:
        """What was done to the job, as decisions need it at an instant."""
        return JobHistory(
            rescales=self.record.rescales,
            last_rescaled_at=self.record.last_rescaled_at,
            rescaling_to=self.rescaling_to,
            profiling_since=self.record.profiling_since,
            profiled=self.record.profiled,
            measures=self.rescale is not None
            and self.rescale.record.purpose is RescalePurpose.PROFILING,
            setbacks=self.record.setbacks,
            own_counts=self.record.own_counts if self.job.counts in self.record.profiled else None,
            awaits_checkpoint=self.awaits_checkpoint(at),
            suspended_at_target=self.record.suspended_at_target,
            measured_at=self.record.measured_at,
        )

    def progress(self, now: float) -> TrainingProgress:
        """What the log tells of the training so far."""
        return self.log.progress(now)

    def begin(self, record: RescaleRecord) -> None:
        """Begin a rescale."""
        self.goal_moved = False
        self.rescale = Rescale(record, self.must_wait_for_checkpoint(record, record.started_at))

    def placement_failed(self, waited_seconds: float, at: float) -> None:
        """Take note that the target of the rescale under way found no place."""
        if self.rescale is not None:
            record = self.rescale.record
            setback = PlacementFailure(record.target, record.before, at, waited_seconds)
            self.record = replace(self.record, setbacks=kept((*self.record.setbacks, setback), at))

    def rescale_ended(self, end: End, at: float) -> None:
        """Take note of how a rescale ended."""
        self.rescale = None
        happened = end.outcome in (Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.SUSPENDED)
        is_profiling = end.record.purpose is RescalePurpose.PROFILING
        reached = end.outcome is Outcome.REACHED
        settles = reached and not end.record.purpose.measures
        self.record = replace(
            self.record,
            # Profiling runs have a budget of their own and do not count against the cap on
            # rescales.
            rescales=self.record.rescales + (happened and not is_profiling),
            last_rescaled_at=at if happened and not is_profiling else self.record.last_rescaled_at,
            profiling_since=at if is_profiling and reached else None,
            measured_at=at if is_profiling and happened else self.record.measured_at,
            own_counts=None if settles else self.record.own_counts,
            waited_in_vain=self.record.waited_in_vain and not happened,
            suspended_at_target=self.record.suspended_at_target or end.outcome is Outcome.SUSPENDED,
        )
