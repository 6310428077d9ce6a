"""What a rescale does next at each step, by what it sees."""

from dataclasses import replace

import pytest

from autoscaler.rescale.machine import Rescale, adopt, advance
from autoscaler.rescale.types import (
    Answer,
    Answered,
    CheckpointSeen,
    End,
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
from optimus.kube.contract import Phase

RULES = RescaleRules()
BEFORE, TARGET, OTHER = Counts(1, 2), Counts(2, 3), Counts(4, 4)
NONE = Counts(0, 0)
RECORD = RescaleRecord("i7", 1000.0, BEFORE, TARGET, "worker 3 saves 41 s", Step.CHECKPOINT, 1000.0)
RUNNING = JobLook(False, None, False, BEFORE, "5")
HELD = JobLook(True, "i7", True, BEFORE, "6")
RESUMED = JobLook(False, None, False, TARGET, "7")
NO_PODS = PodsLook(0, NONE, NONE)
ALL_BEFORE = PodsLook(3, BEFORE, BEFORE)
ALL = PodsLook(5, TARGET, TARGET)


def at(step: Step, undoing: bool = False) -> Rescale:
    return Rescale(replace(RECORD, step=step, undoing=undoing), needs_checkpoint=True, written=True)


def seen(
    state: Rescale, job: JobLook | None, pods: PodsLook = NO_PODS, at: float = 1001.0
) -> tuple[Rescale, object]:
    state, instructions = advance(state, Looked(at, job, pods), RULES)
    return state, only(instructions)


def only(instructions: tuple[Instruction, ...]) -> object:
    """What matters of the instructions: the step written, the outcome, or the patch itself."""
    instructions = tuple(each for each in instructions if not isinstance(each, NoPlace))
    assert len(instructions) <= 1
    for instruction in instructions:
        match instruction:
            case WriteProfile(record=record):
                return record.step_text
            case End(outcome=outcome):
                return outcome
            case _:
                return instruction
    return None


EMPTY_SINCE_LONG = replace(at(Step.EMPTY), empty_since=990.0)

STEPS: list[tuple[str, Rescale, JobLook | None, PodsLook, object]] = [
    ("waits for a checkpoint", at(Step.CHECKPOINT), RUNNING, ALL_BEFORE, None),
    (
        "a job suspended by its user meanwhile is left",
        at(Step.CHECKPOINT),
        HELD,
        ALL_BEFORE,
        Outcome.USER,
    ),
    (
        "a job resized by its user meanwhile is left",
        at(Step.CHECKPOINT),
        RESUMED,
        ALL,
        Outcome.USER,
    ),
    ("a job that is gone ends it", at(Step.EMPTY), None, NO_PODS, Outcome.JOB_ENDED),
    (
        "a finished job ends it",
        at(Step.START),
        replace(RESUMED, finished=True),
        ALL,
        Outcome.JOB_ENDED,
    ),
    ("suspends what runs, guarded", at(Step.SUSPEND), RUNNING, ALL_BEFORE, Suspend("i7", "5")),
    ("a suspension with our mark is ours", at(Step.SUSPEND), HELD, ALL_BEFORE, "empty"),
    (
        "a suspension without it is the user's",
        at(Step.SUSPEND),
        replace(HELD, marked_by=None),
        ALL_BEFORE,
        Outcome.USER,
    ),
    (
        "a running job with our mark was resumed by its user",
        at(Step.SUSPEND),
        replace(HELD, suspended=False),
        ALL,
        "yield",
    ),
    ("waits for the last pod", EMPTY_SINCE_LONG, HELD, PodsLook(1, NONE, NONE), None),
    (
        "waits for the operator to see it",
        EMPTY_SINCE_LONG,
        replace(HELD, suspension_seen=False),
        NO_PODS,
        None,
    ),
    ("waits a moment after the last pod", at(Step.EMPTY), HELD, NO_PODS, None),
    ("goes on after that moment", EMPTY_SINCE_LONG, HELD, NO_PODS, "resume"),
    (
        "the user resumes it while it empties",
        EMPTY_SINCE_LONG,
        replace(HELD, suspended=False),
        NO_PODS,
        "yield",
    ),
    (
        "the user takes the mark away",
        EMPTY_SINCE_LONG,
        replace(HELD, marked_by=None),
        NO_PODS,
        Outcome.USER,
    ),
    (
        "resumes at the target, guarded",
        at(Step.RESUME),
        HELD,
        NO_PODS,
        ResizeAndResume(TARGET, "6"),
    ),
    ("never resumes while a pod is left", at(Step.RESUME), HELD, PodsLook(1, NONE, NONE), "empty"),
    (
        "keeps its user's counts",
        at(Step.RESUME),
        replace(HELD, counts=OTHER),
        NO_PODS,
        ResizeAndResume(OTHER, "6"),
    ),
    (
        "never resumes what its user holds",
        at(Step.RESUME),
        replace(HELD, marked_by=None),
        NO_PODS,
        Outcome.USER,
    ),
    ("finds that the lost answer was yes", at(Step.RESUME), RESUMED, NO_PODS, "start"),
    ("finds that its user was quicker", at(Step.RESUME), RUNNING, NO_PODS, Outcome.USER),
    ("waits for all pods", at(Step.START), RESUMED, PodsLook(5, TARGET, BEFORE), None),
    ("waits for fixed roles", at(Step.START), RESUMED, replace(ALL, fixed_missing=1), None),
    ("is done when all run", at(Step.START), RESUMED, ALL, Outcome.REACHED),
    (
        "goes back at once if the old counts run again",
        at(Step.START, undoing=True),
        RUNNING,
        ALL_BEFORE,
        Outcome.ROLLED_BACK,
    ),
    (
        "does not go back if they run after all",
        at(Step.SUSPEND, undoing=True),
        RESUMED,
        ALL,
        Outcome.REACHED,
    ),
    (
        "goes back by suspending",
        at(Step.SUSPEND, undoing=True),
        RESUMED,
        NO_PODS,
        Suspend("i7", "7"),
    ),
    ("takes the mark off", at(Step.YIELD), replace(HELD, suspended=False), NO_PODS, Unmark("6")),
    ("and then is done", at(Step.YIELD), RUNNING, NO_PODS, Outcome.USER),
]


@pytest.mark.parametrize(
    ("state", "job", "pods", "expected"),
    [each[1:] for each in STEPS],
    ids=[each[0] for each in STEPS],
)
def test_next(state: Rescale, job: JobLook | None, pods: PodsLook, expected: object) -> None:
    assert seen(state, job, pods)[1] == expected


def test_nothing_is_done_before_the_step_is_written() -> None:
    state, instructions = advance(Rescale(RECORD, needs_checkpoint=False), Tick(1000.0), RULES)
    assert instructions == (WriteProfile(RECORD, Phase.WAITING_FOR_CHECKPOINT),)
    assert advance(state, Looked(1000.0, RUNNING, ALL_BEFORE), RULES) == (state, ())
    assert advance(state, ProfileWritten(1000.0, ok=False), RULES) == (state, ())
    assert advance(state, ProfileWritten(1000.0, ok=True), RULES)[1] == (Look(uncached=False),)


@pytest.mark.parametrize(
    ("reports", "goes_on"),
    [
        pytest.param([900], False, id="an old one is of no use"),
        pytest.param([995], True, id="one of five seconds ago will do"),
        pytest.param([900, 1001], True, id="the next one will do"),
        pytest.param([900] * 50, False, id="being told again and again makes it no younger"),
    ],
)
def test_suspends_only_right_after_a_checkpoint(reports: list[float], goes_on: bool) -> None:
    state = at(Step.CHECKPOINT)
    for since in reports:
        state, _ = advance(state, CheckpointSeen(since), RULES)
    state, _ = advance(state, Looked(1003.0, RUNNING, ALL_BEFORE), RULES)
    assert (state.record.step is Step.SUSPEND) is goes_on


def test_a_checkpoint_that_has_grown_old_is_waited_for_anew() -> None:
    assert seen(at(Step.SUSPEND), RUNNING, ALL_BEFORE, at=1100.0)[1] == "checkpoint"


def test_tells_once_which_line_would_do_where_no_checkpoint_comes() -> None:
    state, told = seen(at(Step.CHECKPOINT), RUNNING, ALL_BEFORE, at=2300.0)
    assert isinstance(told, Tell)
    assert told.warning
    assert "checkpoint-format" in told.message
    assert seen(state, RUNNING, ALL_BEFORE, at=2400.0)[1] is None


def test_tells_once_that_pods_do_not_end() -> None:
    state, told = seen(at(Step.EMPTY), HELD, PodsLook(2, NONE, NONE), at=1400.0)
    assert isinstance(told, Tell)
    assert "waiting for 2 of its pods to end" in told.message
    assert seen(state, HELD, PodsLook(2, NONE, NONE), at=1500.0)[1] is None


def test_goes_back_when_the_target_is_not_placed_in_time() -> None:
    state, instructions = advance(
        at(Step.START), Looked(1700.0, RESUMED, PodsLook(5, NONE, NONE)), RULES
    )
    assert [type(each) for each in instructions] == [Tell, NoPlace, WriteProfile]
    assert state.record.step_text == "undo-suspend"
    assert state.record.aim == BEFORE


UNWANTED: list[tuple[str, Rescale, JobLook, PodsLook, object]] = [
    ("is not begun", at(Step.CHECKPOINT), RUNNING, ALL_BEFORE, Outcome.USER),
    (
        "is not begun though that is written already",
        at(Step.SUSPEND),
        RUNNING,
        ALL_BEFORE,
        Outcome.USER,
    ),
    ("goes on to see that it was begun", at(Step.SUSPEND), HELD, ALL_BEFORE, "empty"),
    ("goes back at the next resumption: on the way", at(Step.EMPTY), HELD, NO_PODS, "undo-empty"),
    (
        "goes back at the next resumption: when it is due",
        at(Step.RESUME),
        HELD,
        NO_PODS,
        "undo-resume",
    ),
    ("is let be where the target is reached", at(Step.START), RESUMED, ALL, Outcome.REACHED),
    (
        "on its way back goes on",
        at(Step.RESUME, undoing=True),
        HELD,
        NO_PODS,
        ResizeAndResume(BEFORE, "6"),
    ),
]


@pytest.mark.parametrize(
    ("state", "job", "pods", "expected"),
    [each[1:] for each in UNWANTED],
    ids=[each[0] for each in UNWANTED],
)
def test_what_its_user_does_not_want_any_more(
    state: Rescale, job: JobLook, pods: PodsLook, expected: object
) -> None:
    state, _ = advance(
        state, UserWants(needs_checkpoint=False, against="it says never by now"), RULES
    )
    state, instructions = advance(state, Looked(1001.0, job, pods), RULES)
    assert only(tuple(each for each in instructions if not isinstance(each, Tell))) == expected
    assert not any(isinstance(each, NoPlace) for each in instructions)


def test_a_suspension_for_good_that_is_not_wanted_any_more_is_ended() -> None:
    for_good = Rescale(
        replace(RECORD, target=NONE, step=Step.EMPTY), needs_checkpoint=True, written=True
    )
    for_good, _ = advance(
        for_good, UserWants(needs_checkpoint=True, against="its goal is another"), RULES
    )
    for_good, instructions = advance(for_good, Looked(1001.0, HELD, NO_PODS), RULES)
    assert [type(each) for each in instructions] == [Tell, WriteProfile]
    assert (for_good.record.aim, for_good.record.stays_suspended) == (BEFORE, False)


def test_that_no_checkpoint_is_asked_for_any_more_counts_at_once() -> None:
    state, _ = advance(at(Step.CHECKPOINT), UserWants(needs_checkpoint=False), RULES)
    state, _ = advance(state, Looked(1001.0, RUNNING, ALL_BEFORE), RULES)
    assert state.record.step is Step.SUSPEND


def test_pods_that_are_placed_but_slow_are_not_taken_back() -> None:
    assert seen(at(Step.START), RESUMED, PodsLook(5, TARGET, NONE), at=1700.0)[1] is Outcome.REACHED


def test_goes_back_only_once() -> None:
    state = at(Step.START, undoing=True)
    assert seen(state, RUNNING, PodsLook(3, NONE, NONE), at=1700.0)[1] is Outcome.ROLLED_BACK


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(
            at(Step.SUSPEND), Outcome.ABANDONED, id="a refused suspension leaves the job as it is"
        ),
        pytest.param(at(Step.SUSPEND, undoing=True), Outcome.ABANDONED, id="also on the way back"),
        pytest.param(
            at(Step.RESUME), "undo-resume", id="refused counts are replaced by those before"
        ),
    ],
)
def test_a_refusal(state: Rescale, expected: object) -> None:
    _, instructions = advance(state, Answered(1001.0, Answer.REFUSED, "invalid"), RULES)
    assert only(instructions) == expected
    assert isinstance(instructions[0], NoPlace) is (state.record.step is Step.RESUME)


@pytest.mark.parametrize(("at_seconds", "expected"), [(1030.0, None), (1060.0, Outcome.ABANDONED)])
def test_a_suspension_that_is_denied_is_tried_again_for_a_while(
    at_seconds: float, expected: object
) -> None:
    _, instructions = advance(at(Step.SUSPEND), Answered(at_seconds, Answer.DENIED, "403"), RULES)
    assert only(tuple(each for each in instructions if not isinstance(each, Tell))) == expected


def test_a_right_that_is_missing_for_a_moment_undoes_nothing() -> None:
    state, instructions = advance(at(Step.RESUME), Answered(1003.0, Answer.DENIED, "401"), RULES)
    assert [type(each) for each in instructions] == [Tell]
    assert seen(state, HELD)[1] == ResizeAndResume(TARGET, "6")


def test_a_right_that_stays_missing_brings_the_old_counts_back() -> None:
    state, instructions = advance(at(Step.RESUME), Answered(1060.0, Answer.DENIED, "policy"), RULES)
    assert [type(each) for each in instructions] == [NoPlace, WriteProfile]
    assert state.record.step_text == "undo-resume"


def test_a_refused_way_back_is_tried_again_and_told() -> None:
    state, instructions = advance(
        at(Step.RESUME, undoing=True), Answered(1001.0, Answer.REFUSED, "invalid"), RULES
    )
    assert isinstance(instructions[0], Tell)
    assert seen(state, HELD)[1] == ResizeAndResume(BEFORE, "6")


@pytest.mark.parametrize("answer", [Answer.CONFLICT, Answer.UNKNOWN])
def test_only_a_look_tells_what_became_of_a_patch(answer: Answer) -> None:
    assert advance(at(Step.SUSPEND), Answered(1001.0, answer), RULES) == (at(Step.SUSPEND), ())
    assert advance(at(Step.SUSPEND), Answered(1001.0, Answer.DONE), RULES)[1] == (
        Look(uncached=True),
    )


def test_an_ended_rescale_does_nothing_any_more() -> None:
    state, _ = seen(at(Step.START), RESUMED, ALL)
    assert advance(state, Tick(1002.0), RULES) == (state, ())


@pytest.mark.parametrize(
    ("job", "step"),
    [
        pytest.param(HELD, Step.EMPTY, id="suspended: it is set going again"),
        pytest.param(
            replace(HELD, suspended=False), Step.YIELD, id="running: the mark is taken off"
        ),
        pytest.param(RUNNING, None, id="without the mark: it is its user's"),
        pytest.param(
            replace(HELD, marked_by=None), None, id="suspended without the mark: it is its user's"
        ),
    ],
)
def test_a_mark_of_which_nothing_is_recorded(job: JobLook, step: Step | None) -> None:
    found = adopt(job, 1000.0)
    assert (found.record.step if found else None) is step


@pytest.mark.parametrize("undoing", [False, True])
@pytest.mark.parametrize("step", Step)
def test_the_step_survives_the_profile(step: Step, undoing: bool) -> None:
    record = replace(RECORD, step=step, undoing=undoing)
    assert RECORD.with_step_text(record.step_text) == record
