"""Carries the instructions of rescales out on virtual time, as the autoscaler does at the API
server: implements ``optimus.rescale.execution.RescaleExecutor``.

Pods end and start as the simulated cluster has it, every write is carried out at once, and the
state machine is asked after each event. So its time-outs are signs of no fault here, and are off.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from optimus.interval.capacity_plan import CapacityPlan, Held, largest_fit, reserve
from optimus.jobs import NO_COUNTS, Counts
from optimus.rescale.checkpoints import must_wait_for_checkpoint
from optimus.rescale.execution import run_rescale
from optimus.rescale.machine import Rescale, RescaleConfig, resume
from optimus.rescale.purpose import why_unwanted
from optimus.rescale.record import rescale_ended
from optimus.rescale.words import (
    CountsFailed,
    CountsFound,
    End,
    Notify,
    Observed,
    ObservedPods,
    PatchAnswered,
    PatchResult,
    PlacementFailed,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    SeenJob,
    Step,
    Suspend,
    Unmark,
    UserIntent,
)
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase

_CONFIG: Final = RescaleConfig(
    grace_seconds=0.0, quiet_seconds=0.0, start_seconds=math.inf, unseen_seconds=math.inf
)


class SimulatedExecutor:
    """Carries out one job's rescale at one instant.

    ``headroom`` is what is free for the job. ``age_limit_seconds``: a job that holds its nodes for
    longer waits for a checkpoint whatever the purpose; ``None``: no job waits for one, as
    published."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        state: SimulatedJobState,
        headroom: Callable[[], CapacityPlan],
        age_limit_seconds: float | None,
        *,
        may_stop: bool = True,
    ) -> None:
        self._cluster, self._state, self._headroom = cluster, state, headroom
        self._age_limit_seconds, self._may_stop = age_limit_seconds, may_stop
        self._placement: tuple[Held, ...] | None = None
        self._free_at = 0.0

    def advance(self, placement: tuple[Held, ...] | None = None, free_at: float = 0.0) -> None:
        """Take the rescale as far as it goes now; ``placement`` is where its target is known to
        fit, ``free_at`` when those nodes are free."""
        cluster, state = self._cluster, self._state
        self._placement, self._free_at = placement, free_at
        if state.awaits_stop:
            state.training.advance(cluster.now)
        saved_at = state.training.saved.at
        since = -math.inf if saved_at is None else saved_at
        run_rescale(self, state, since, cluster.now, _CONFIG)
        cluster.note_advanced(state)

    def user_intent(self, record: RescaleRecord) -> UserIntent:
        """Return what the job's user wants, by its annotations."""
        job, limit_seconds = self._state.job, self._age_limit_seconds
        turns = record.pause is not None and not record.pause.is_final
        target = record.before if turns and record.pauses else record.target
        unwanted = None
        if target != record.before:
            unwanted = why_unwanted(job, target, goal_changed=False)
        if limit_seconds is None:
            return UserIntent(False, unwanted)
        since = self._state.record.served_since
        needs_checkpoint = must_wait_for_checkpoint(
            job.rescale,
            record.purpose,
            may_lose=bool(self._state.pods),
            is_old=since is not None and self._cluster.now - since >= limit_seconds,
        )
        return UserIntent(needs_checkpoint, unwanted, self._may_stop)

    def write_profile(self, _: RescaleRecord) -> ProfileWritten:
        """Nothing is lost on virtual time, so that nothing is stored."""
        return ProfileWritten(True, self._cluster.now)

    def observe(self, *, uncached: bool) -> Observed:
        """The job and its pods as they are."""
        del uncached
        state, phase = self._state, self._state.phase
        trains = phase is SimulatedPhase.TRAINING
        bound = state.job.counts if trains or phase is SimulatedPhase.STARTING else NO_COUNTS
        pods = ObservedPods(len(state.pods), bound, bound if trains else NO_COUNTS, trains=trains)
        return Observed(self._cluster.now, _observed_job(state), pods)

    def find_counts(self, most: Counts) -> CountsFound:
        """Find counts that fit now; where the job is stopped already, its nodes are reserved."""
        state, at, rescale = self._state, self._cluster.now, self._state.rescale
        begins = rescale is not None and rescale.record.step is Step.CHECKPOINT
        if begins and self._placement is not None:
            return CountsFound(at, most)
        free = self._headroom()
        counts = most if begins else largest_fit(free, state.job, most)
        self._placement = None if counts is None else reserve(free, state.job, counts)
        if not begins:
            self._cluster.reserve(state, self._placement or ())
        fits = self._placement is not None
        target = counts if rescale is None else rescale.record.target
        return CountsFound(at, counts if fits else None, target_fits=fits and counts == target)

    def suspend(self, patch: Suspend) -> PatchAnswered:
        """Stop the job; the nodes of its next pods are nobody else's from now on."""
        self._reserve()
        self._cluster.suspend(self._state, patch.by, patch.pause)
        return self._done()

    def resize_and_resume(self, patch: ResizeAndResume) -> PatchAnswered:
        """Set the counts and make the pods."""
        self._reserve()
        self._cluster.resume(self._state, patch.counts)
        return self._done()

    def _reserve(self) -> None:
        if self._placement is not None and not self._state.coming:
            self._cluster.reserve(self._state, self._placement, self._free_at)

    def unmark(self, _: Unmark) -> PatchAnswered:
        """Remove the mark."""
        self._state.suspended_by = None
        return self._done()

    def _done(self) -> PatchAnswered:
        return PatchAnswered(self._cluster.now, PatchResult.DONE)

    def notify(self, _: Notify) -> None:
        """A simulated user reads no Events."""

    def placement_failed(self, _: PlacementFailed) -> None:
        """Pods wait for their nodes for as long as it takes."""

    def counts_failed(self, _: CountsFailed) -> None:
        """No container of a simulation fails."""

    def end(self, end: End) -> None:
        """Record it."""
        state = self._state
        state.rescale = None
        lost_seconds, price_seconds = state.stop_lost_seconds, None
        if end.price_seconds is not None and lost_seconds is not None:
            # What the stop lost is known here; a log shows when a checkpoint was saved.
            price_seconds = end.price_seconds - end.redone_seconds + lost_seconds
        end = replace(end, price_seconds=price_seconds, redone_seconds=lost_seconds or 0.0)
        prices = state.record.prices
        state.record = rescale_ended(state.record, end, self._cluster.now)
        if not self._cluster.measures_prices:
            state.record = replace(state.record, prices=prices)


def begin_rescale(state: SimulatedJobState, record: RescaleRecord) -> None:
    """Begin a rescale; of a job that is paused and is to have pods, its resume."""
    state.rescale = Rescale(record, needs_checkpoint=False)
    if state.pause is not None and not record.pauses:
        job, at = _observed_job(state), record.started_at
        state.rescale = resume(job, state.pause, at, record.target, record.why)


def _observed_job(state: SimulatedJobState) -> SeenJob:
    """The job as it is; a suspension is confirmed at once."""
    by = state.suspended_by
    return SeenJob(by is not None, by, by is not None, state.job.counts, "")
