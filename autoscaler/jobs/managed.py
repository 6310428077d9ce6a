"""All managed jobs: which there are, what holds them back, and whose suspensions are taken over."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.cluster import Observation
from autoscaler.jobs.state import BlockReason, JobLimits, TrackedJob
from optimus.jobs import Job, Manage, RescaleRule
from optimus.kube.contract import Phase
from optimus.kube.profile_codec import observed_job
from optimus.kube.profiles import TrainingProfile
from optimus.kube.suspension import Preemption, SuspensionMark
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle.books import Brake, EndedJob, brake_of
from optimus.lifecycle.workloads import UsualLengths
from optimus.nodes import Node, label_keys, what_is_offered
from optimus.rescale.machine import adopt, resume
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason

_LOG = logging.getLogger(__name__)

FOREIGN_SUSPENSION_SECONDS: Final = 60.0
"""How long a suspension by another instance is left to that one, if it appears while this leads."""

_PAUSED: Final = (Phase.PAUSED, Phase.WAITING_FOR_ITS_TURN)
_LAST_PHASES: Final = (Phase.COMPLETED, Phase.FAILED, Phase.LEFT_ALONE)


@dataclass(frozen=True, slots=True)
class Holds:
    """When and of which jobs nothing may begin: an operator's settings, and the jobs' own."""

    recommend: bool = False
    """Nothing is changed in the whole cluster."""

    pauses: frozenset[PauseReason] = frozenset()
    """Why jobs are paused here, beside a goal that is met: others that are paused are resumed."""

    def texts(self, job: Job) -> dict[BlockReason, str]:
        """The sentences that hold a job back by the settings, each empty where it does not."""
        recommends = self.recommend or job.manage is Manage.RECOMMEND
        return {
            BlockReason.PAUSED: "paused by its user: optimus.dl/pause" if job.paused else "",
            BlockReason.RECOMMENDED: (
                "nothing is changed: recommendations only" if recommends else ""
            ),
        }


GoesOn = Callable[[str, Preemption], bool]
"""Whether a job, by UID, is still to be paused for a gang."""

Guard = Callable[[str, TrackedJob | None], AbstractContextManager[None]]
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
        preempts: GoesOn,
        instance: str = "",
    ) -> None:
        """``instance`` is this autoscaler, as the marks that it sets name it."""
        self._guard = guard
        self._holds = holds
        self._preempts = preempts
        self._instance = instance
        self._dry_run = dry_run
        self._limits = limits
        self.states: dict[str, TrackedJob] = {}
        self._discarded: dict[str, str] = {}
        """The UIDs of deleted profiles, by their jobs': they may still be shown."""
        self._nodes: tuple[Node, ...] | None = None
        self._usual = UsualLengths()

    def __iter__(self) -> Iterator[TrackedJob]:
        return iter(list(self.states.values()))

    def forget_time(self, seconds: float) -> None:
        """Let no wait have lasted through a time in which nothing was observed."""
        for state in self.states.values():
            if state.gang.half_bound_since is not None:
                state.gang.half_bound_since += seconds

    def update(self, observation: Observation) -> list[TrackedJob]:
        """Take in an observation; returns the jobs that have ended or are no longer managed, to be
        reported a last time."""
        for uid in self.states.keys() - observation.jobs.keys():
            _LOG.info("job %s is gone", self.states.pop(uid).job.key)
        for uid in self._discarded.keys() - observation.jobs.keys():
            del self._discarded[uid]
        self._drop_superseded(observation.at)
        for training_job in observation.jobs.values():
            if training_job.uid not in self.states and _is_tracked(
                training_job, self._profile_of(training_job, observation)
            ):
                with self._guard("observe", None):
                    self._add(training_job, observation)
        nodes_changed, brake = self._nodes_changed(observation), _brake_of(observation)
        if observation.workloads or self._usual.runs:
            self._usual.update({key: each.runs for key, each in observation.workloads.items()})
        for state in self:
            with self._guard("observe", state):
                state.update(observation, nodes_changed=nodes_changed)
                state.update_earlier(observation, self._usual)
                self._block(state, brake)
            self._adopt(state, observation.at)
        leaving = [
            state
            for state in self
            if not _is_managed(state.training_job)
            and state.rescale is None
            and state.preemption is None
        ]
        for state in leaving:
            del self.states[state.job.uid]
            if state.profile.discarded:
                self._discarded[state.job.uid] = state.profile.discarded
        return leaving

    def _block(self, state: TrackedJob, brake: Brake) -> None:
        for reason, text in self._holds.texts(state.job).items():
            state.block(reason, text)
        braked = brake.why(state.job.key.namespace, state.job.workload)
        state.block(BlockReason.BRAKED, f"nothing is changed: {braked}" if braked else "")
        preemption = state.preemption
        is_over = preemption is not None and not self._preempts(state.job.uid, preemption)
        state.block(BlockReason.NO_GANG_WAITS, "no gang waits for it any more" if is_over else "")

    def take_up(self, training_job: TrainingJob, observation: Observation) -> TrackedJob:
        """The state of a job that is about to be paused for a gang, managed or not."""
        known = self.states.get(training_job.uid)
        if known is not None:
            return known
        assert training_job.job is not None
        profile = self._profile_of(training_job, observation)
        self._begin(training_job, training_job.job, profile, observation.at)
        state = self.states[training_job.uid]
        state.update(observation, nodes_changed=False)
        return state

    def _profile_of(
        self, training_job: TrainingJob, observation: Observation
    ) -> TrainingProfile | None:
        profile = observation.profiles.get(training_job.uid)
        if profile is None or profile.uid == self._discarded.get(training_job.uid):
            return None
        return profile

    def _drop_superseded(self, at: float) -> None:
        """Start again from what another instance has stored."""
        for state in self:
            found = state.profile.superseded_by
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
        state = TrackedJob.first_seen(training_job, job, profile, at)
        state.limits = self._limits
        mark = training_job.suspension
        if mark is not None:
            state.marked_since = -math.inf  # by an instance that does not lead any more
            if mark.pause is PauseReason.GOAL and training_job.suspended and profile is None:
                state.record = replace(state.record, suspended_at_target=True)
        self.states[training_job.uid] = state

    def _nodes_changed(self, observation: Observation) -> bool:
        """Return whether capacity, or what nodes admit, is another than at the last observation."""
        nodes, before = observation.snapshot.nodes, self._nodes
        self._nodes = nodes
        if before is None or before == nodes:
            return False
        keys = label_keys(observation.snapshot.jobs)
        return what_is_offered(before, keys) != what_is_offered(nodes, keys)

    def _add(self, training_job: TrainingJob, observation: Observation) -> None:
        assert training_job.job is not None
        profile = self._profile_of(training_job, observation)
        self._begin(training_job, training_job.job, profile, observation.at)
        known = "new" if profile is None else "known from its profile"
        _LOG.info("job %s is managed (%s), at %s", training_job.key, known, training_job.job.counts)

    def _adopt(self, state: TrackedJob, at: float) -> None:
        job = state.training_job
        if self._dry_run or state.rescale is not None or job.active is None:
            return
        mark = job.suspension
        if mark is None:
            state.marked_since = None
            return
        pause = state.pause
        if pause is not None and self._is_kept(state, pause):
            return  # the annotation stays until it is resumed
        if mark.instance not in ("", self._instance) and not self._is_abandoned(state, mark, at):
            return
        if pause is not None:
            why, purpose = "nothing pauses it any more", RescalePurpose.RECOVERY
            state.rescale = resume(observed_job(job), pause, at, state.job.counts, why, purpose)
            _LOG.info("job %s: paused, and %s: resumed", state.job.key, why)
            return
        state.rescale = adopt(observed_job(job), at)
        form = "job %s: annotated as suspended by %s, without a record of a rescale"
        _LOG.warning(form, state.job.key, mark.instance or "the autoscaler")

    def _is_kept(self, state: TrackedJob, pause: PauseReason) -> bool:
        """Return whether this autoscaler, as configured, may have paused it and may end that.

        Else nobody would: a job whose user wants nothing changed is not paused either."""
        if pause.is_final:
            return True
        if pause is PauseReason.GANG:
            preemption = state.preemption
            return preemption is not None and self._preempts(state.job.uid, preemption)
        may_change = state.job.managed and state.job.rescale is not RescaleRule.NEVER
        may_pause = may_change and pause in self._holds.pauses
        return may_pause and not any(self._holds.texts(state.job).values())

    @staticmethod
    def _is_abandoned(state: TrackedJob, mark: SuspensionMark, at: float) -> bool:
        """Return whether another instance has left its suspension as it is."""
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


def _brake_of(observation: Observation) -> Brake:
    """Return what the books of ended jobs say, as far as their profiles are still there."""
    ended = list[EndedJob]()
    for uid, profile in observation.profiles.items():
        status, job = profile.status, observation.jobs.get(uid)
        if status.books is None or status.phase is not Phase.COMPLETED or job is None:
            continue
        workload = "" if job.job is None else job.job.workload
        at, namespace = status.decided_at or "", job.key.namespace
        ended.append(EndedJob(at, uid, namespace, workload, status.books.saved_fraction))
    return brake_of(ended)


def _is_tracked(training_job: TrainingJob, profile: TrainingProfile | None) -> bool:
    """Return whether a job is managed, or an earlier process left something to be ended with it."""
    if _is_managed(training_job):
        return True
    if training_job.job is None or training_job.deleted:
        return False
    if training_job.outcome is None and _is_preempted(training_job, profile):
        return True
    if profile is None:
        # Its profile is gone, and it is no longer managed: all that is left is to resume it.
        return training_job.outcome is None and training_job.awaits_resume
    if training_job.outcome is not None:
        return profile.status.phase not in _LAST_PHASES
    if training_job.suspended_by is None:
        return False
    return profile.status.rescale is not None or (
        training_job.suspended and profile.status.phase in _PAUSED
    )


def _is_preempted(training_job: TrainingJob, profile: TrainingProfile | None) -> bool:
    """Return whether a job is paused for a gang, is about to be, or still has the mark of that."""
    mark, record = training_job.suspension, None if profile is None else profile.status.rescale
    is_recorded = record is not None and record.pause == PauseReason.GANG
    return is_recorded or (mark is not None and mark.pause is PauseReason.GANG)


def _is_managed(training_job: TrainingJob) -> bool:
    return training_job.active is not None and training_job.active.managed
