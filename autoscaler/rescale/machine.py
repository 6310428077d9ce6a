"""One job's rescale as a state machine without I/O: events in, instructions out.

1. CHECKPOINT: wait for a complete checkpoint, where the job asks for that.  2. SUSPEND: one guarded
  patch sets
``runPolicy.suspend`` and our mark.  3. EMPTY: wait until the operator has seen it and no pod is
left.  4. RESUME: one guarded patch sets the counts, ends the suspension and takes the mark off.  5.
START: wait until the pods run, else go back to the counts before, once, by the same steps.

Each step is written to the profile before anything is done for it, and everything else is looked up
anew, so that whoever finds the record goes on from it. An answer to a patch proves nothing (it may
be lost): the next look decides. The mark tells our suspension from the user's; whatever the user
does in the middle ends the rescale and stays."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from autoscaler.rescale.types import (
    Answer,
    Answered,
    CheckpointSeen,
    End,
    Event,
    Instruction,
    JobLook,
    Look,
    Looked,
    NoPlace,
    Outcome,
    PodsLook,
    ProfileWritten,
    RescaleRecord,
    RescaleRules,
    ResizeAndResume,
    Step,
    Suspend,
    Tell,
    Tick,
    Unmark,
    UserWants,
    WriteProfile,
)
from optimus.jobs import Counts


@dataclass(frozen=True, slots=True)
class Rescale:
    """A rescale under way. Only ``record`` is kept in the profile; the rest may be lost at any
    moment.

    ``written``: the profile tells of this step, as it does after a restart, or a change of leader.
    ``needs_checkpoint``: its pods train and its ``rescale`` annotation says checkpoint.
    ``against``: why its user does not want the rescale any more, where nothing of what he wrote
    since allows it. ``checkpoint_since`` is since when its last checkpoint is there, at the
    earliest."""

    record: RescaleRecord
    needs_checkpoint: bool
    against: str | None = None
    written: bool = False
    checkpoint_since: float = -math.inf
    empty_since: float | None = None
    told: frozenset[str] = frozenset()
    end: End | None = None


@dataclass(frozen=True, slots=True)
class _Sight:
    """A look at a job that is there and has not ended."""

    at: float
    job: JobLook
    pods: PodsLook
    rules: RescaleRules


Advance = tuple[Rescale, tuple[Instruction, ...]]


def adopt(look: JobLook, at: float) -> Rescale | None:
    """What becomes of a job that carries our mark although no rescale of it is recorded; ``None``
    without the mark.

    A suspended one is set going again (not to be asked of a job that was suspended for good); off a
    running one the mark is taken, lest a later suspension by its user be taken for ours.
    """
    if look.marked_by is None:
        return None
    step = Step.EMPTY if look.suspended else Step.YIELD
    why = "it carries this software's mark, and nothing is recorded of it"
    return Rescale(
        RescaleRecord(look.marked_by, at, look.counts, look.counts, why, step, at),
        needs_checkpoint=False,
    )


def advance(state: Rescale, event: Event, rules: RescaleRules) -> Advance:
    """What an event makes of a rescale, and what is to be done now, in order."""
    if state.end is not None:
        return state, ()
    match event:
        case Tick():
            return _tick(state)
        case ProfileWritten(ok=ok):
            return _tick(replace(state, written=True)) if ok else (state, ())
        case CheckpointSeen(since=since):
            return replace(state, checkpoint_since=since), ()
        case UserWants(needs_checkpoint=needs_checkpoint, against=against):
            return replace(state, needs_checkpoint=needs_checkpoint, against=against), ()
        case Answered():
            return _answered(state, event, rules)
        case Looked():
            # A look that was on its way while the step changed is judged by the new step only once
            # that is written.
            return _looked(state, event, rules) if state.written else (state, ())


def _tick(state: Rescale) -> Advance:
    if not state.written:
        return state, (WriteProfile(state.record, state.record.phase),)
    # A watch may lag behind our own writes; where we have not written yet, its copy will do.
    return state, (Look(uncached=state.record.step is not Step.CHECKPOINT),)


def _answered(state: Rescale, event: Answered, rules: RescaleRules) -> Advance:
    if event.answer is Answer.DONE:
        return _tick(state)
    if event.answer not in (Answer.REFUSED, Answer.DENIED):
        return state, ()
    waited_seconds = event.at - state.record.step_at
    if event.answer is Answer.REFUSED or (
        waited_seconds >= rules.denied_seconds and not state.record.undoing
    ):
        if state.record.step is Step.SUSPEND:
            return _finish(state, Outcome.ABANDONED, f"the suspension was refused: {event.detail}")
        if state.record.step is Step.RESUME and not state.record.undoing:
            state, then = _go(state, replace(state.record, undoing=True), Step.RESUME, event.at)
            return state, (NoPlace(waited_seconds), *then)
    return _tell_once(
        state,
        "RescaleRefused",
        f"the API server refuses to let it go on: {event.detail}; trying again",
    )


def _looked(state: Rescale, event: Looked, rules: RescaleRules) -> Advance:
    if event.job is None:
        return _finish(state, Outcome.JOB_ENDED, "the job is gone")
    if event.job.finished:
        return _finish(state, Outcome.JOB_ENDED, "the job has ended")
    sight = _Sight(event.at, event.job, event.pods, rules)
    is_held = event.job.suspended and event.job.marked_by == state.record.id
    if (
        state.against is not None
        and is_held
        and state.record.step in _HOLDING
        and not state.record.undoing
    ):
        return _restore(state, sight)
    return _AT[state.record.step](state, sight)


def _at_checkpoint(state: Rescale, seen: _Sight) -> Advance:
    record = state.record
    if seen.job.suspended or seen.job.counts != record.before:
        return _finish(state, Outcome.USER, "its user suspended or resized it")
    if state.against is not None:
        return _finish(state, Outcome.USER, state.against)
    if not state.needs_checkpoint or seen.at - state.checkpoint_since <= seen.rules.fresh_seconds:
        state, tell = _told(state, Tell(False, "Rescaling", f"{record.move}: {record.why}"))
        state, then = _go(state, record, Step.SUSPEND, seen.at)
        return state, tell + then
    if seen.at - record.step_at < seen.rules.checkpoint_warning_seconds:
        return state, ()
    return _tell_once(
        state,
        "WaitingForCheckpoint",
        f"no checkpoint seen for {seen.at - record.step_at:.0f} s: print a line such as "
        "'checkpoint=1200' after each "
        "save, name your line by optimus.dl/checkpoint-format, or set optimus.dl/rescale to any "
        "or never",
    )


def _at_suspend(state: Rescale, seen: _Sight) -> Advance:
    record = state.record
    if seen.job.suspended:
        if seen.job.marked_by == record.id:
            return _go(state, record, Step.EMPTY, seen.at)
        return _finish(state, Outcome.USER, "its user suspended it")
    if seen.job.marked_by is not None:
        return _go(state, record, Step.YIELD, seen.at)
    if seen.job.counts != (record.target if record.undoing else record.before):
        return _finish(state, Outcome.USER, "its user resized it")
    if state.against is not None and not record.undoing:
        return _finish(state, Outcome.USER, state.against)
    if record.undoing and seen.pods.all_started(record.target):
        return _finish(state, Outcome.REACHED, f"{record.target} run after all")
    stale = seen.at - record.step_at > seen.rules.fresh_seconds
    if stale and state.needs_checkpoint and not record.undoing:
        return _go(state, record, Step.CHECKPOINT, seen.at)
    return state, (Suspend(record.id, seen.job.resource_version),)


def _at_empty(state: Rescale, seen: _Sight) -> Advance:
    record = state.record
    if not seen.job.suspended:
        return _go(state, record, Step.YIELD, seen.at)
    if seen.job.marked_by != record.id:
        return _finish(state, Outcome.USER, "its user made the suspension its own")
    if record.stays_suspended:
        return _finish(state, Outcome.SUSPENDED, "suspended as decided")
    if seen.pods.left > 0 or not seen.job.suspension_seen:
        state = replace(state, empty_since=None)
        if seen.at - record.step_at < seen.rules.empty_warning_seconds:
            return state, ()
        waits_for = (
            f"{seen.pods.left} of its pods to end"
            if seen.pods.left
            else "the training-operator to confirm it"
        )
        return _tell_once(state, "PodsDoNotEnd", f"suspended, and waiting for {waits_for}")
    if state.empty_since is None:
        return replace(state, empty_since=seen.at), ()
    if seen.at - state.empty_since < seen.rules.grace_seconds:
        return state, ()
    return _go(state, record, Step.RESUME, seen.at)


def _at_resume(state: Rescale, seen: _Sight) -> Advance:
    record = state.record
    if not seen.job.suspended:
        if seen.job.marked_by is not None:
            return _go(state, record, Step.YIELD, seen.at)
        if seen.job.counts == record.aim:
            return _go(state, record, Step.START, seen.at)
        return _finish(state, Outcome.USER, f"it goes on at {seen.job.counts}, as its user wants")
    if seen.job.marked_by != record.id:
        return _finish(state, Outcome.USER, "its user made the suspension its own")
    if seen.pods.left > 0:
        return _go(state, record, Step.EMPTY, seen.at)
    is_ours = seen.job.counts in {record.before, record.target}
    return state, (
        ResizeAndResume(record.aim if is_ours else seen.job.counts, seen.job.resource_version),
    )


def _at_start(state: Rescale, seen: _Sight) -> Advance:
    record, aim = state.record, state.record.aim
    if seen.job.suspended:
        return _finish(state, Outcome.USER, "its user suspended it")
    if seen.job.counts != aim:
        return _finish(state, Outcome.USER, "its user resized it")
    if seen.pods.all_started(aim):
        took = f"all its pods run, {seen.at - record.started_at:.0f} s after it was decided"
        return _finish(state, Outcome.ROLLED_BACK if record.undoing else Outcome.REACHED, took)
    waited_seconds = seen.at - record.step_at
    if waited_seconds < seen.rules.start_seconds:
        return state, ()
    if record.undoing:
        return _finish(state, Outcome.ROLLED_BACK, f"back at {aim}, of which not all run yet")
    if _covers(seen.pods.bound, aim):
        return _finish(
            state,
            Outcome.REACHED,
            f"{aim} are placed, but not all run after {waited_seconds:.0f} s",
        )
    state, tell = _told(
        state,
        Tell(
            True,
            "RollingBack",
            f"{aim} could not be placed within {waited_seconds:.0f} s: {record.before} again",
        ),
    )
    state, then = _go(state, replace(record, undoing=True), Step.SUSPEND, seen.at)
    return state, (*tell, NoPlace(waited_seconds), *then)


def _restore(state: Rescale, seen: _Sight) -> Advance:
    """The job is suspended already, and its user does not want the new counts any more: the old
    ones again."""
    state, tell = _told(
        state, Tell(False, "RescaleEnded", f"{state.against}: {state.record.before} again")
    )
    state, then = _go(state, replace(state.record, undoing=True), state.record.step, seen.at)
    return state, tell + then


def _at_yield(state: Rescale, seen: _Sight) -> Advance:
    if seen.job.marked_by is not None:
        return state, (Unmark(seen.job.resource_version),)
    return _finish(state, Outcome.USER, "its user resumed it")


_AT: dict[Step, Callable[[Rescale, _Sight], Advance]] = {
    Step.CHECKPOINT: _at_checkpoint,
    Step.SUSPEND: _at_suspend,
    Step.EMPTY: _at_empty,
    Step.RESUME: _at_resume,
    Step.START: _at_start,
    Step.YIELD: _at_yield,
}


_HOLDING = (Step.EMPTY, Step.RESUME)


def _go(state: Rescale, record: RescaleRecord, step: Step, at: float) -> Advance:
    """The next step: written first, then looked at."""
    return _tick(
        replace(
            state, record=replace(record, step=step, step_at=at), written=False, empty_since=None
        )
    )


def _finish(state: Rescale, outcome: Outcome, reason: str) -> Advance:
    end = End(outcome, state.record, reason)
    return replace(state, end=end), (end,)


def _told(state: Rescale, tell: Tell) -> tuple[Rescale, tuple[Instruction, ...]]:
    if tell.reason in state.told:
        return state, ()
    return replace(state, told=state.told | {tell.reason}), (tell,)


def _tell_once(state: Rescale, reason: str, message: str) -> Advance:
    return _told(state, Tell(True, reason, message))


def _covers(counts: Counts, aim: Counts) -> bool:
    return counts.ps >= aim.ps and counts.workers >= aim.workers
