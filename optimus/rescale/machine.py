"""One job's rescale as a state machine without I/O: events in, instructions out.

1. CHECKPOINT: wait for a complete checkpoint, where the job asks for one.
2. SUSPEND: one guarded patch sets ``runPolicy.suspend`` and the suspended-by annotation.
3. EMPTY: wait until the operator has confirmed it and no pod is left.
4. RESUME: one guarded patch sets the counts, ends the suspension and removes the annotation.
5. START: wait until the pods run; else, or where others have taken their capacity, roll back,
   once, by steps 2 to 5.
6. VERIFY: wait until they train. If a container ends with an error, roll back in the same way.

A roll-back goes to counts that fit now, beside what others were promised: of each role at most the
smaller number of before and after, where the target was not placed, else at most the counts before.

Each step is stored in the profile before it is acted on and everything else is observed again, so
a new leader can continue from the record, also after a crash between any two API calls. The
annotation distinguishes our suspension from the user's; what the user does in between ends the
rescale.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from optimus.jobs import Counts
from optimus.rescale.checkpoints import (
    FRESH_CHECKPOINT_SECONDS,
    is_fresh_checkpoint,
    longest_checkpoint_wait,
)
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CheckpointSeen,
    CountsFailed,
    CountsFound,
    End,
    Event,
    FindCounts,
    Instruction,
    JobGone,
    Notice,
    Notify,
    Observe,
    Observed,
    ObservedPods,
    Outcome,
    PatchAnswered,
    PatchResult,
    PauseReason,
    PlacementFailed,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    SeenJob,
    Step,
    Suspend,
    Tick,
    Unmark,
    UserIntent,
    WriteProfile,
    covers,
)

_AGAIN_SECONDS: Final = 3600.0
"""A wait that only people can end is reported each hour."""

_ROOM_SECONDS: Final = 10.0
"""How long after a search for capacity that found none the next one is made: on a large cluster it
takes a part of a tick."""

_ENDING: Final = "one of its trainers has succeeded: the job is about to end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleConfig:
    """The times for which a rescale waits."""

    fresh_seconds: float = FRESH_CHECKPOINT_SECONDS
    """Age up to which a checkpoint is recent enough to suspend: the training since is lost.
    Default: a few log polls."""

    grace_seconds: float = 1.0
    """Wait between the end of the last pod and the resumption. Default: far above the usual delay
    of a watch."""

    break_grace_seconds: float = 30.0
    """How long no job is resumed after a call or watch has failed. Default: the longest pause
    of client-go before it watches again, in the operator too."""

    start_seconds: float = 600.0
    """How long the pods may take to be placed before the rescale is rolled back. Default: the
    extender holds the room for as long from the suspension on, so that room that is still free
    then is not lost to others while its pods start."""

    verify_seconds: float = 300.0
    """How long after all pods run the rescale is over, whether its log shows training or not.
    Default: the time in which a back-off of the kubelet shows, and half of ``start_seconds``."""

    quiet_seconds: float = 30.0
    """How long no container may have been restarted before the rescale counts as successful.
    Default: training has used its memory by then, and the first pause of a back-off is over."""

    denied_seconds: float = 60.0
    """How long a patch is denied before a suspension is abandoned and a resumption at new counts
    becomes one at the old. Default: longer than an API server that restarts denies all."""

    checkpoint_warning_seconds: float = 1200.0
    """How long without a checkpoint before a Warning Event names a log line that would do. Default:
    two intervals."""

    empty_warning_seconds: float = 300.0
    """How long pods may be left before a Warning Event says so. Default: ten times the usual grace
    period of a pod."""

    unwritten_seconds: float = 60.0
    """How long the profile cannot be written before a suspended job's rescale continues
    without it, and one that has not begun is abandoned. Default: longer than a restart of an
    API server takes."""

    unconfirmed_seconds: float = 600.0
    """How long the operator may take to confirm a suspension before it is taken back, if no
    pod is ending. Default: far longer than an operator restarts."""

    unseen_seconds: float = 30.0
    """A longer time between two observations counts for no time-out: the API server did not answer,
    and the operator and kubelets may not have been able to act either. Default: far above a tick
    and the reads in it."""

    regained_seconds: float = 60.0
    """How long after such a time, or after a rescale was taken over from another process,
    no time-out ends. Default: longer than an operator takes to follow an API server that is
    back."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """A rescale in progress; only ``record`` is kept in the profile, the rest may be lost."""

    record: RescaleRecord
    needs_checkpoint: bool
    """Its pods train and its ``rescale`` annotation says checkpoint."""

    unwanted: str | None = None
    """Why its user does not want the rescale any more, by what was written since."""

    may_stop: bool = True
    """True where the disruption budget lets it begin."""

    written: bool = False
    """The profile stores this step."""

    unwritten_since: float | None = None
    """Since when it could not be written."""

    checkpoint_since: float = -math.inf
    """The earliest instant at which its last checkpoint was made."""

    observed_at: float | None = None
    """When this process observed the job last; ``None``: not yet."""

    seen_since: float = math.inf
    """Since when it has been observed without a long time between."""

    empty_since: float | None = None
    stopped_at: float | None = None
    """When this process suspended the job; ``lost_seconds`` it had trained since its checkpoint."""

    lost_seconds: float = 0.0
    fits_at: float | None = None
    """When the target was last found to fit, before the job was stopped."""

    lacks_room: bool = False
    """True where its pods were not placed, and what they need was not free the last time."""

    asked_at: float = -math.inf
    asked_in_time: bool = False
    """True where it was asked before the pods' time to be placed is over."""

    emptied_at: float | None = None
    """When its last pod was seen to be gone; ``placed_at`` when all new ones had nodes,
    ``ran_at`` when all of them ran, ``trained_at`` when they were first seen to train."""

    placed_at: float | None = None
    ran_at: float | None = None
    trained_at: float | None = None

    restarts: int = 0
    """The most restarts seen since the resume, the last at ``restarted_at``."""

    restarted_at: float = -math.inf
    error: str = ""
    """How its containers end at the target, while they do."""

    is_unloaded: bool = False
    """Whether they do not load what was saved at other counts."""

    told: frozenset[str] = frozenset()
    """What the users were told: the notices, and of some the hour."""

    end: End | None = None

    def withdrawn_at(self, stale_seconds: float, *, missed: bool) -> float:
        """When it is withdrawn, if it has not stopped its job by then: all the while its target's
        room is kept from others."""
        if self.record.step is not Step.CHECKPOINT or self.record.rolling_back:
            return math.inf
        return self.record.step_at + longest_checkpoint_wait(stale_seconds, missed=missed)

    @property
    def misses_checkpoint(self) -> bool:
        """Return whether it waits for a checkpoint and nothing else."""
        return self.needs_checkpoint and self.may_stop


Advance = tuple[Rescale, tuple[Instruction, ...]]


def adopt(job: SeenJob, at: float) -> Rescale | None:
    """The rescale of a job that is annotated as suspended by us and has no record of one.

    A suspended job is resumed (not to be called for one that is paused). From a running one the
    annotation is removed: a later suspension by its user would be taken for ours.
    """
    if job.suspended_by is None:
        return None
    step = Step.EMPTY if job.suspended else Step.YIELD
    why = "annotated as suspended by the autoscaler, without a record of a rescale"
    counts, purpose = job.counts, RescalePurpose.RECOVERY
    record = RescaleRecord(job.suspended_by, at, counts, counts, why, step, at, purpose=purpose)
    return Rescale(record, needs_checkpoint=False)


def resume(
    job: SeenJob,
    pause: PauseReason,
    at: float,
    target: Counts,
    why: str,
    purpose: RescalePurpose = RescalePurpose.INTERVAL,
) -> Rescale | None:
    """The resume of a job that is paused, at these counts; ``None`` where it is not paused."""
    if job.suspended_by is None or not job.suspended:
        return None
    record = RescaleRecord(
        job.suspended_by,
        at,
        job.counts,
        target,
        why,
        Step.RESUME,
        at,
        purpose=purpose,
        pause=pause,
    )
    return Rescale(record, needs_checkpoint=False)


def advance(state: Rescale, event: Event, config: RescaleConfig) -> Advance:
    """The rescale after an event, and what is to be done now, in order."""
    if state.end is not None:
        return state, ()
    match event:
        case Tick():
            return _tick(state)
        case ProfileWritten():
            return _profile_written(state, event, config)
        case CheckpointSeen(since=since):
            return replace(state, checkpoint_since=since), ()
        case UserIntent():
            needs, unwanted = event.needs_checkpoint, event.unwanted
            may_stop = event.may_stop
            state = replace(state, needs_checkpoint=needs, unwanted=unwanted, may_stop=may_stop)
            return state, ()
        case CountsFound():
            return _counts_found(state, event)
        case PatchAnswered():
            return _patch_answered(state, event, config)
        case JobGone() | Observed():
            # Observed for the step before: the new one is not stored yet, nothing is done for it.
            return _observed(state, event, config) if state.written else (state, ())


def _tick(state: Rescale) -> Advance:
    if not state.written:
        return state, (WriteProfile(state.record),)
    # A watch may lag behind our own writes: a copy from before the suspension would show no pods
    # leaving and the job running. Before our first write a copy is good enough.
    return state, (Observe(uncached=state.record.step is not Step.CHECKPOINT),)


def _profile_written(state: Rescale, event: ProfileWritten, config: RescaleConfig) -> Advance:
    if event.ok:
        return _tick(replace(state, written=True, unwritten_since=None))
    since = event.at if state.unwritten_since is None else state.unwritten_since
    state = replace(state, unwritten_since=since)
    unwritten_seconds = event.at - since
    if unwritten_seconds < config.unwritten_seconds:
        return state, ()
    begins = state.record.step in (Step.CHECKPOINT, Step.SUSPEND)
    if begins and not state.record.rolling_back:
        cause = f"its TrainingProfile cannot be written: {event.why}"
        return _finish(state, Outcome.ABANDONED, cause)
    # The mark on the job is enough to end what has begun, here and for the next leader.
    state, told = _notify_once(state, Notice.NOT_STORED, unwritten_seconds, event.why)
    state, then = _tick(replace(state, written=True))
    return state, told + then


def _patch_answered(state: Rescale, event: PatchAnswered, config: RescaleConfig) -> Advance:
    if event.result is PatchResult.DONE:
        return _tick(state)
    if event.result not in (PatchResult.REFUSED, PatchResult.DENIED):
        # A lost answer proves nothing: the patch may have been carried out. A conflict only says
        # that the job has changed. The next observation decides.
        return state, ()
    waited_seconds = event.at - state.record.step_at
    if event.result is PatchResult.REFUSED or (
        waited_seconds >= config.denied_seconds and not state.record.rolling_back
    ):
        if state.record.step is Step.SUSPEND:
            return _finish(state, Outcome.ABANDONED, f"the change was refused: {event.detail}")
        if state.record.step is Step.RESUME and not state.record.rolling_back:
            state, told = _notify_once(state, Notice.COUNTS_REFUSED, detail=event.detail)
            state, then = _roll_back(state, Step.RESUME, event.at)
            return state, (*told, PlacementFailed(waited_seconds), *then)
    return _notify_once(state, Notice.PATCH_REFUSED, detail=event.detail)


def _observed(state: Rescale, observed: Observed | JobGone, config: RescaleConfig) -> Advance:
    if isinstance(observed, JobGone):
        return _finish(state, Outcome.JOB_ENDED, "the job is gone")
    if observed.job.finished:
        return _job_ended(state, observed)
    state = _without_unseen_time(state, observed.at, config)
    record = state.record
    if (
        state.unwanted is not None
        and record.step in (Step.EMPTY, Step.RESUME)
        and observed.job.suspended
        and observed.job.suspended_by == record.id
        and not record.rolling_back
    ):
        # The job is suspended by us already: it must be resumed, at the counts before if they fit.
        return state, (FindCounts(record.before),)
    is_ours = observed.job.suspended or observed.job.suspended_by is not None
    if observed.pods.is_ending and not is_ours and record.step in _ENDED_AS:
        return _finish(state, _ENDED_AS[record.step], _ENDING)
    return _HANDLERS[record.step](state, observed, config)


def _without_unseen_time(state: Rescale, at: float, config: RescaleConfig) -> Rescale:
    """The rescale with a step that began later by the time in which nothing was seen of it."""
    if state.observed_at is None:
        return replace(state, observed_at=at, seen_since=at)
    unseen_seconds = at - state.observed_at
    if unseen_seconds <= config.unseen_seconds:
        return replace(state, observed_at=at)
    record = replace(state.record, step_at=state.record.step_at + unseen_seconds)
    return replace(state, record=record, observed_at=at, seen_since=at, empty_since=None)


def _has_timed_out(state: Rescale, at: float, limit_seconds: float, config: RescaleConfig) -> bool:
    """Return whether the step has lasted for longer than a limit, by time in which it was
    observed."""
    seen_seconds = at - min(state.seen_since, at)
    is_seen = seen_seconds >= min(config.regained_seconds, limit_seconds)
    return is_seen and at - state.record.step_at >= limit_seconds


_ENDED_AS: Final = {
    Step.CHECKPOINT: Outcome.ABANDONED,
    Step.SUSPEND: Outcome.ABANDONED,
    Step.START: Outcome.REACHED,
    Step.VERIFY: Outcome.REACHED,
}
"""How a rescale ends, by its step, when a trainer has Succeeded."""


def _job_ended(state: Rescale, observed: Observed) -> Advance:
    record, told = state.record, tuple[Instruction, ...]()
    if observed.job.failed and record.step in (Step.START, Step.VERIFY):
        # The operator has failed it for good: all that is left is to say after what.
        seconds = observed.at - record.step_at
        state, told = _notify_once(state, Notice.JOB_FAILED, seconds, observed.pods.error)
    state, end = _finish(state, Outcome.JOB_ENDED, "the job has ended")
    return state, told + end


def _at_checkpoint(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if observed.job.suspended or observed.job.counts != record.before:
        return _finish(state, Outcome.USER, "its user suspended it or changed its counts")
    if state.unwanted is not None:
        return _finish(state, Outcome.USER, state.unwanted)
    if not state.may_stop:
        return state, ()
    fresh_seconds, since = config.fresh_seconds, state.checkpoint_since
    if not state.needs_checkpoint or is_fresh_checkpoint(since, observed.at, fresh_seconds):
        if record.needs_room and state.fits_at != observed.at:
            # What was free when this was decided may have gone to a new job since, and a node on
            # which it runs may take no new pods.
            return state, (FindCounts(record.target),)
        state, told = _notify_once(state, Notice.BEGINS)
        begun = replace(record, restarts=observed.pods.restarts)
        lost_seconds = observed.at - since
        lost_seconds = lost_seconds if lost_seconds < math.inf else 0.0
        state = replace(state, stopped_at=observed.at, lost_seconds=lost_seconds)
        state, then = _enter(state, begun, Step.SUSPEND, observed.at)
        return state, told + then
    waited_seconds = observed.at - record.step_at
    if waited_seconds < config.checkpoint_warning_seconds:
        return state, ()
    return _notify_once(state, Notice.NO_CHECKPOINT, waited_seconds)


def _at_suspend(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if observed.job.suspended:
        # The annotation also shows that a patch was carried out whose answer was lost.
        if observed.job.suspended_by == record.id:
            return _enter(state, record, Step.EMPTY, observed.at)
        return _finish(state, Outcome.USER, "its user suspended it")
    if observed.job.suspended_by is not None:
        return _enter(state, record, Step.YIELD, observed.at)
    if observed.job.counts != (record.target if record.rolling_back else record.before):
        return _finish(state, Outcome.USER, "its user changed its counts")
    if not record.rolling_back:
        unwanted = state.unwanted or _why_not_restarted(record, observed.pods)
        if unwanted is not None:
            return _finish(state, Outcome.USER, unwanted)
        if state.needs_checkpoint and observed.at - record.step_at > config.fresh_seconds:
            # The checkpoint has aged while the suspension could not be written.
            return _enter(state, record, Step.CHECKPOINT, observed.at)
    elif not record.failure and observed.pods.all_started(record.target):
        state = _started(state, observed)
        return _finish(state, Outcome.REACHED, f"{record.target} run after all")
    restarts, pause = observed.pods.all_restarts, record.pause if record.pauses else None
    return state, (Suspend(record.id, observed.job.resource_version, restarts, pause),)


def _why_not_restarted(record: RescaleRecord, pods: ObservedPods) -> str | None:
    """A watch may have shown pods of an earlier run."""
    if record.purpose is not RescalePurpose.RESTART or pods.is_mixed:
        return None
    return f"all its pods were made for {record.before}"


def _at_empty(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if not observed.job.suspended:
        if Notice.TAKEN_BACK in state.told and observed.job.suspended_by is None:
            return _finish(state, Outcome.ABANDONED, "the operator did not confirm the suspension")
        return _enter(state, record, Step.YIELD, observed.at)
    if observed.job.suspended_by != record.id:
        return _finish(state, Outcome.USER, "its user took over the suspension")
    # Suspended=True and active=0 do not prove that no pod is left: only the list of pods does.
    if observed.pods.left > 0 or not observed.job.suspension_confirmed:
        return _still_ending(replace(state, empty_since=None), observed, config)
    if record.pauses:
        return _finish(state, Outcome.PAUSED, "no pod is left")
    # The operator watches pods and jobs separately: a pod that its copy still shows would be
    # adopted by the resumed job, with the old TF_CONFIG, and fail it.
    empty_since = observed.at if state.empty_since is None else state.empty_since
    if state.empty_since is None:
        state = replace(state, empty_since=empty_since, emptied_at=empty_since)
    is_recent = observed.at - empty_since < config.grace_seconds
    # After a break its watch may have broken too, and show such a pod for longer.
    if is_recent or observed.since_break_seconds < config.break_grace_seconds:
        return state, ()
    return _enter(state, record, Step.RESUME, observed.at)


def _still_ending(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    job, pods = observed.job, observed.pods
    waited_seconds = observed.at - state.record.step_at
    if waited_seconds < config.empty_warning_seconds:
        return state, ()
    hour = f"{waited_seconds // _AGAIN_SECONDS:.0f}"
    left = ""
    if job.suspension_confirmed or pods.leaving:
        left = f"{pods.left} of its pods ({pods.lingering or 'not deleted yet'})"
    state, then = _notify_once(state, Notice.PODS_DO_NOT_END, waited_seconds, left, hour)
    if (
        job.suspension_confirmed
        or pods.leaving
        or not _has_timed_out(state, observed.at, config.unconfirmed_seconds, config)
        or state.record.purpose is RescalePurpose.RESTART  # the operator would fail the job
    ):
        return state, then
    # Nothing has been done to the pods, or none is left: at unchanged counts the operator, when it
    # is back, finds the job as it last knew it.
    state, taken = _notify_once(state, Notice.TAKEN_BACK, waited_seconds)
    return state, (*then, *taken, ResizeAndResume(job.counts, job.resource_version))


def _at_resume(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if not observed.job.suspended:
        if observed.job.suspended_by is not None:
            return _enter(state, record, Step.YIELD, observed.at)
        if observed.job.counts == record.current_target:
            if record.pause is PauseReason.GANG and record.target == record.before:
                # Like any other it waits in the queue, behind the gang that it was paused for.
                return _finish(state, Outcome.REACHED, "its pods wait for capacity as a whole")
            return _enter(state, record, Step.START, observed.at)
        return _finish(state, Outcome.USER, f"its user resumed it at {observed.job.counts}")
    if observed.job.suspended_by != record.id:
        return _finish(state, Outcome.USER, "its user took over the suspension")
    if observed.pods.left > 0:
        return _enter(state, record, Step.EMPTY, observed.at)
    if record.resumes and observed.since_break_seconds < config.break_grace_seconds:
        return state, ()  # as at EMPTY, which a resume does not pass
    # Counts that the user has set meanwhile are kept.
    is_ours = observed.job.counts in (record.before, record.target)
    counts = record.current_target if is_ours else observed.job.counts
    return state, (ResizeAndResume(counts, observed.job.resource_version),)


def _at_start(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, target = state.record, state.record.current_target
    change = _users_change(observed.job, target)
    if change is not None:
        return _finish(state, Outcome.USER, change)
    if covers(observed.pods.bound, target) and state.placed_at is None:
        state = replace(state, placed_at=observed.at)
    if _is_broken(state, observed):
        return _broken(state, observed)
    if not observed.pods.all_started(target):
        return _not_all_started(state, observed, config)
    state = _started(state, observed)
    is_moved = record.before != record.target or record.resumes
    is_verified = is_moved or record.purpose.is_chosen
    if not record.rolling_back and is_verified:
        return _enter(state, record, Step.VERIFY, observed.at)
    took = f"all its pods run, {observed.at - record.started_at:.0f} s after it was decided"
    return _finish(state, Outcome.ROLLED_BACK if record.rolling_back else Outcome.REACHED, took)


def _started(state: Rescale, observed: Observed) -> Rescale:
    placed_at = observed.at if state.placed_at is None else state.placed_at
    return replace(state, placed_at=placed_at, ran_at=observed.at)


def _users_change(job: SeenJob, target: Counts) -> str | None:
    """Return what its user has done to a job that was resumed at the target, as a sentence."""
    if job.suspended:
        return "its user suspended it"
    return None if job.counts == target else "its user changed its counts"


def _not_all_started(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, target = state.record, state.record.current_target
    if observed.job.suspension_confirmed:
        return _operator_is_unavailable(state, observed, config)
    waited_seconds = observed.at - record.step_at
    if not _has_timed_out(state, observed.at, config.start_seconds, config):
        return _may_still_start(state, observed)
    state = replace(state, asked_in_time=False)
    if record.rolling_back:
        return _finish(
            state, Outcome.ROLLED_BACK, f"returned to {target}, of which not all run yet"
        )
    if covers(observed.pods.bound, target):
        # New pods would start no sooner than those that have a node and pull an image or wait
        # for a volume.
        reason = f"{target} are placed, but not all run after {waited_seconds:.0f} s"
        return _finish(state, Outcome.REACHED, reason)
    return state, (FindCounts(record.kept),)


def _may_still_start(state: Rescale, observed: Observed) -> Advance:
    """Pods whose capacity others have taken are not waited for."""
    record = state.record
    is_move = record.before != record.target and not record.resumes
    again_at = record.step_at + _ROOM_SECONDS
    if not state.lacks_room:
        again_at = max(again_at, state.asked_at + _ROOM_SECONDS)
    if (
        not is_move
        or record.rolling_back
        or covers(observed.pods.bound, record.target)
        or observed.at < again_at
    ):
        return state, ()
    return replace(state, asked_in_time=True, asked_at=observed.at), (FindCounts(record.kept),)


def _counts_found(state: Rescale, found: CountsFound) -> Advance:
    """Roll back to counts that fit: others may have more by now."""
    record = state.record
    if record.rolling_back:
        return state, ()
    if record.step is Step.CHECKPOINT:
        if not found.target_fits:
            # While it waited, the job would keep what it has borrowed from those that wait.
            why = f"there is no room for {record.target} any more: it is decided again"
            return _finish(state, Outcome.ABANDONED, why)
        return replace(state, fits_at=found.at), (Observe(uncached=False),)
    if record.step in (Step.EMPTY, Step.RESUME):
        # It must be resumed in any case: what it keeps is reserved for it.
        record = replace(record, returns_to=found.counts or record.kept)
        state = replace(state, record=record)
        state, told = _notify_once(state, Notice.UNWANTED, detail=state.unwanted or "")
        state, then = _roll_back(state, record.step, found.at)
        return state, told + then
    if state.error:
        return _undo(state, found)
    if record.step is Step.START:
        is_lost = not found.target_fits and found.counts is not None
        if state.asked_in_time and not (is_lost and state.lacks_room):
            # Twice, so that a node that is away for a moment stops no job.
            return replace(state, lacks_room=is_lost), ()
        return _not_placed(state, found)
    return state, ()


def _not_placed(state: Rescale, found: CountsFound) -> Advance:
    """The target was not placed in time."""
    record = state.record
    waited_seconds = found.at - record.step_at
    failed = PlacementFailed(waited_seconds, lost=not found.target_fits)
    why = f"not placed within {waited_seconds:.0f} s"
    is_other = record.before != record.target or record.resumes
    if found.counts in (None, record.target) and is_other:
        # Stopped again it would start no sooner: it waits in the queue, before new jobs, until the
        # next interval makes room for it.
        state, end = _finish(state, Outcome.ROLLED_BACK, f"{record.target} {why}: its pods wait")
        return state, (failed, *end)
    state = replace(state, record=replace(record, returns_to=found.counts))
    state, told = _notify_once(state, Notice.NOT_PLACED, waited_seconds)
    state, then = _roll_back(state, Step.SUSPEND, found.at)
    return state, (*told, failed, *then)


def _operator_is_unavailable(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    """The job still counts as suspended: without the operator, other counts would start no sooner.

    The time to start begins when it is back."""
    waited_seconds = observed.at - state.record.started_at
    state = replace(state, record=replace(state.record, step_at=observed.at))
    if waited_seconds < config.unconfirmed_seconds:
        return state, ()
    hour = f"{waited_seconds // _AGAIN_SECONDS:.0f}"
    return _notify_once(state, Notice.OPERATOR_AWAY, waited_seconds, key=hour)


def _at_verify(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, at = state.record, observed.at
    change = _users_change(observed.job, record.target)
    if change is not None:
        return _finish(state, Outcome.USER, change)
    if _is_broken(state, observed):
        return _broken(state, observed)
    if observed.pods.restarts > state.restarts:
        state = replace(state, restarts=observed.pods.restarts, restarted_at=at)
    if observed.pods.trains and state.trained_at is None:
        state = replace(state, trained_at=at)
    quiet_seconds = at - max(state.restarted_at, record.step_at)
    if observed.pods.trains and quiet_seconds >= config.quiet_seconds:
        took = f"it trains, {at - record.started_at:.0f} s after it was decided"
        return _finish(state, Outcome.REACHED, took)
    if at - record.step_at < config.verify_seconds:
        return state, ()
    reason = f"all its pods run; its log has shown no step for {at - record.step_at:.0f} s"
    return _finish(state, Outcome.REACHED, reason)


def _is_broken(state: Rescale, observed: Observed) -> bool:
    """Return whether the pods fail at the target, or begin anew there, and the counts before can be
    restored.

    Containers that restart now and then, as before the rescale, are no evidence against it."""
    record, pods = state.record, observed.pods
    if record.rolling_back or record.before == record.target:
        return False
    fails = bool(pods.error) and (pods.crash_loops or pods.restarts > record.restarts)
    return fails or bool(pods.unloaded)


def _broken(state: Rescale, observed: Observed) -> Advance:
    unloaded = observed.pods.unloaded
    error = unloaded or observed.pods.error
    state = replace(state, error=error, is_unloaded=bool(unloaded))
    return state, (FindCounts(state.record.before),)


def _undo(state: Rescale, found: CountsFound) -> Advance:
    """Return to the counts before, as far as they fit; those of the target are not used again.

    Where nothing else fits, its pods wait for the counts before, and others may make room."""
    record = replace(state.record, returns_to=found.counts, failure=state.error)
    state, told = _notify_once(replace(state, record=record), Notice.CONTAINERS_FAIL)
    state, then = _roll_back(state, Step.SUSPEND, found.at)
    return state, (*told, CountsFailed(record.failure, state.is_unloaded), *then)


def _at_yield(state: Rescale, observed: Observed, _: RescaleConfig) -> Advance:
    if observed.job.suspended_by is not None:
        return state, (Unmark(observed.job.resource_version),)
    return _finish(state, Outcome.USER, "its user resumed it")


_HANDLERS: dict[Step, Callable[[Rescale, Observed, RescaleConfig], Advance]] = {
    Step.CHECKPOINT: _at_checkpoint,
    Step.SUSPEND: _at_suspend,
    Step.EMPTY: _at_empty,
    Step.RESUME: _at_resume,
    Step.START: _at_start,
    Step.VERIFY: _at_verify,
    Step.YIELD: _at_yield,
}


def _enter(state: Rescale, record: RescaleRecord, step: Step, at: float) -> Advance:
    """Enter a step: it is stored first, then the job is observed for it."""
    record = replace(record, step=step, step_at=at)
    return _tick(replace(state, record=record, written=False, empty_since=None))


def _roll_back(state: Rescale, step: Step, at: float) -> Advance:
    state = replace(state, placed_at=None, ran_at=None)
    return _enter(state, replace(state.record, rolling_back=True), step, at)


def _finish(state: Rescale, outcome: Outcome, reason: str) -> Advance:
    start_seconds = None
    if state.placed_at is not None and state.ran_at is not None:
        start_seconds = state.ran_at - state.placed_at
    stop_seconds = None
    if state.stopped_at is not None and state.emptied_at is not None:
        stop_seconds = state.emptied_at - state.stopped_at
    price, lost = _price_seconds(state), state.lost_seconds
    end = End(outcome, state.record, reason, price, start_seconds, lost, stop_seconds)
    return replace(state, end=end), (end,)


def _price_seconds(state: Rescale) -> float | None:
    stopped_at, emptied_at, placed_at = state.stopped_at, state.emptied_at, state.placed_at
    trained_at = state.trained_at
    if stopped_at is None or emptied_at is None or placed_at is None or trained_at is None:
        return None
    return emptied_at - stopped_at + trained_at - placed_at + state.lost_seconds


def _notify_once(
    state: Rescale, notice: Notice, seconds: float = 0.0, detail: str = "", key: str = ""
) -> Advance:
    """Tell the users something, once for each key."""
    what = f"{notice} {key}" if key else str(notice)
    if what in state.told:
        return state, ()
    told = Notify(notice, state.record, seconds, detail)
    return replace(state, told=state.told | {what}), (told,)
