"""What a rescale does next at each step, by what it observes."""

import math
from dataclasses import replace

import pytest

from autoscaler.profile.events import rescale_event
from optimus.jobs import NO_COUNTS, Counts
from optimus.kube.events import EventType
from optimus.kube.profile_codec import pack_rescale, unpack_rescale
from optimus.rescale.machine import Rescale, RescaleConfig, adopt, advance
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CheckpointSeen,
    CountsFound,
    End,
    FindCounts,
    Instruction,
    JobGone,
    Notify,
    Observe,
    Observed,
    ObservedPods,
    Outcome,
    PatchAnswered,
    PatchResult,
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
)
from tests.cases import cases
from tests.unit.rescale.rescale_harness import told

CONFIG = RescaleConfig()
BEFORE, TARGET, OTHER = Counts(1, 2), Counts(2, 3), Counts(4, 4)
RECORD = RescaleRecord("i7", 1000.0, BEFORE, TARGET, "worker 3 saves 41 s", Step.CHECKPOINT, 1000.0)
RUNNING = SeenJob(False, None, False, BEFORE, "5")
SUSPENDED = SeenJob(True, "i7", True, BEFORE, "6")
UNMARKED = replace(SUSPENDED, suspended_by=None)
MARKED_AND_RUNNING = replace(SUSPENDED, suspended=False)
RESUMED = SeenJob(False, None, False, TARGET, "7")
NO_PODS = ObservedPods(0, NO_COUNTS, NO_COUNTS)
ONE_POD = ObservedPods(1, NO_COUNTS, NO_COUNTS)
ALL_BEFORE = ObservedPods(3, BEFORE, BEFORE)
ALL = ObservedPods(5, TARGET, TARGET)
SLOW = ObservedPods(5, TARGET, NO_COUNTS)


def at(step: Step, *, rolling_back: bool = False) -> Rescale:
    record = replace(RECORD, step=step, rolling_back=rolling_back)
    return Rescale(
        record, needs_checkpoint=True, written=True, observed_at=1000.0, seen_since=-math.inf
    )


def observe(
    state: Rescale, job: SeenJob | None, pods: ObservedPods = NO_PODS, at: float = 1001.0
) -> tuple[Rescale, object]:
    event = JobGone() if job is None else Observed(at, job, pods)
    if state.observed_at is not None:  # all the while
        state = replace(state, observed_at=at)
    state, instructions = advance(state, event, CONFIG)
    return state, only(instructions)


def with_room(
    state: Rescale, observed: Observed, config: RescaleConfig = CONFIG
) -> tuple[Rescale, tuple[Instruction, ...]]:
    """What comes of an observation where all that is asked for fits."""
    state, instructions = advance(state, observed, config)
    if instructions and isinstance(instructions[-1], FindCounts):
        found = CountsFound(observed.at, instructions[-1].most)
        state, instructions = advance(state, found, config)
    if instructions == (Observe(uncached=False),):
        state, instructions = advance(state, observed, config)
    return state, instructions


def answer(
    state: Rescale, result: PatchResult, detail: str = "", at: float = 1001.0
) -> tuple[Rescale, tuple[Instruction, ...]]:
    return advance(state, PatchAnswered(at, result, detail), CONFIG)


def only(instructions: tuple[Instruction, ...]) -> object:
    """What matters of the instructions: the step written, the outcome, or the patch itself."""
    (*_, instruction) = [
        None,
        *(each for each in instructions if not isinstance(each, PlacementFailed)),
    ]
    assert sum(not isinstance(each, PlacementFailed) for each in instructions) <= 1
    match instruction:
        case WriteProfile(record=record):
            return record.step_text
        case End(outcome=outcome):
            return outcome
    return instruction


def without_events(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    return tuple(each for each in instructions if not isinstance(each, Notify))


CHECKPOINT, SUSPEND, EMPTY = at(Step.CHECKPOINT), at(Step.SUSPEND), at(Step.EMPTY)
RESUME, START, YIELD = at(Step.RESUME), at(Step.START), at(Step.YIELD)
BACK_TO_SUSPEND = at(Step.SUSPEND, rolling_back=True)
BACK_TO_RESUME = at(Step.RESUME, rolling_back=True)
BACK_TO_START = at(Step.START, rolling_back=True)
EMPTY_FOR_LONG = replace(EMPTY, empty_since=990.0)
UNCONFIRMED = replace(SUSPENDED, suspension_confirmed=False)

STEPS: list[tuple[str, Rescale, SeenJob | None, ObservedPods, object]] = [
    ("waits for a checkpoint", CHECKPOINT, RUNNING, ALL_BEFORE, None),
    ("leaves a job that its user suspended", CHECKPOINT, SUSPENDED, ALL_BEFORE, Outcome.USER),
    ("leaves a job that its user resized", CHECKPOINT, RESUMED, ALL, Outcome.USER),
    ("ends with a job that is gone", EMPTY, None, NO_PODS, Outcome.JOB_ENDED),
    ("ends with the job", START, replace(RESUMED, finished=True), ALL, Outcome.JOB_ENDED),
    ("suspends a running job, guarded", SUSPEND, RUNNING, ALL_BEFORE, Suspend("i7", "5")),
    ("takes an annotated suspension as its own", SUSPEND, SUSPENDED, ALL_BEFORE, "empty"),
    ("takes any other suspension as the user's", SUSPEND, UNMARKED, ALL_BEFORE, Outcome.USER),
    ("yields where the user resumed the job", SUSPEND, MARKED_AND_RUNNING, ALL, "yield"),
    ("waits for the last pod", EMPTY_FOR_LONG, SUSPENDED, ONE_POD, None),
    ("waits for the operator's confirmation", EMPTY_FOR_LONG, UNCONFIRMED, NO_PODS, None),
    ("waits a moment after the last pod", EMPTY, SUSPENDED, NO_PODS, None),
    ("resumes after that moment", EMPTY_FOR_LONG, SUSPENDED, NO_PODS, "resume"),
    ("yields to a resumption", EMPTY_FOR_LONG, MARKED_AND_RUNNING, NO_PODS, "yield"),
    ("leaves a suspension taken over", EMPTY_FOR_LONG, UNMARKED, NO_PODS, Outcome.USER),
    ("resumes at the target", RESUME, SUSPENDED, NO_PODS, ResizeAndResume(TARGET, "6")),
    ("never resumes while a pod is left", RESUME, SUSPENDED, ONE_POD, "empty"),
    (
        "keeps its user's counts",
        RESUME,
        replace(SUSPENDED, counts=OTHER),
        NO_PODS,
        ResizeAndResume(OTHER, "6"),
    ),
    ("never resumes its user's suspension", RESUME, UNMARKED, NO_PODS, Outcome.USER),
    ("finds a resumption whose answer was lost", RESUME, RESUMED, NO_PODS, "start"),
    ("finds that its user resumed it first", RESUME, RUNNING, NO_PODS, Outcome.USER),
    ("waits for all pods", START, RESUMED, ObservedPods(5, TARGET, BEFORE), None),
    ("waits for fixed roles", START, RESUMED, replace(ALL, fixed_missing=1), None),
    ("is verified when all run", START, RESUMED, ALL, "verify"),
    ("is rolled back when the old run", BACK_TO_START, RUNNING, ALL_BEFORE, Outcome.ROLLED_BACK),
    ("is not rolled back if all run after all", BACK_TO_SUSPEND, RESUMED, ALL, Outcome.REACHED),
    ("rolls back by a suspension", BACK_TO_SUSPEND, RESUMED, NO_PODS, Suspend("i7", "7")),
    ("removes the annotation", YIELD, MARKED_AND_RUNNING, NO_PODS, Unmark("6")),
    ("ends without the annotation", YIELD, RUNNING, NO_PODS, Outcome.USER),
    ("leaves placed pods time to start", START, RESUMED, SLOW, None),
]


@pytest.mark.parametrize(
    ("state", "job", "pods", "expected"),
    [pytest.param(*values, id=sentence) for sentence, *values in STEPS],
)
def test_next(state: Rescale, job: SeenJob | None, pods: ObservedPods, expected: object) -> None:
    assert observe(state, job, pods)[1] == expected


def test_nothing_is_done_before_the_step_is_written() -> None:
    state, instructions = advance(Rescale(RECORD, needs_checkpoint=False), Tick(1000.0), CONFIG)
    assert instructions == (WriteProfile(RECORD),)
    assert observe(state, RUNNING, ALL_BEFORE, at=1000.0) == (state, None)
    state, instructions = advance(state, ProfileWritten(ok=False, at=1000.0), CONFIG)
    assert instructions == ()
    assert observe(state, RUNNING, ALL_BEFORE, at=1000.0) == (state, None)
    assert advance(state, ProfileWritten(ok=True), CONFIG)[1] == (Observe(uncached=False),)


def test_the_grace_time_after_the_last_pod_is_reset_by_a_pod_that_was_not_seen_before() -> None:
    state, _ = observe(EMPTY_FOR_LONG, SUSPENDED, ONE_POD, at=1001.0)
    state, next_step = observe(state, SUSPENDED, NO_PODS, at=1003.0)
    assert next_step is None
    assert observe(state, SUSPENDED, NO_PODS, at=1003.9)[1] is None
    assert observe(state, SUSPENDED, NO_PODS, at=1004.0)[1] == "resume"


def test_the_grace_time_is_reset_by_a_pod_that_shows_as_the_job_is_to_be_resumed() -> None:
    state, next_step = observe(EMPTY_FOR_LONG, SUSPENDED, NO_PODS, at=1001.0)
    assert next_step == "resume"
    state, next_step = observe(replace(state, written=True), SUSPENDED, ONE_POD, at=1002.0)
    assert next_step == "empty"
    assert observe(replace(state, written=True), SUSPENDED, NO_PODS, at=1003.0)[1] is None


@cases(
    ("reports", "suspends"),
    {
        "an old one does not count": ([900], False),
        "one of five seconds ago does": ([995], True),
        "one at the limit does": ([973], True),
        "one past it does not": ([972.9], False),
        "the next one does": ([900, 1001], True),
        "a repeated report makes it no younger": ([900] * 50, False),
    },
)
def test_suspends_only_right_after_a_checkpoint(reports: list[float], suspends: bool) -> None:
    state = CHECKPOINT
    for since in reports:
        state, _ = advance(state, CheckpointSeen(since), CONFIG)
    state, _ = with_room(state, Observed(1003.0, RUNNING, ALL_BEFORE))
    assert (state.record.step is Step.SUSPEND) is suspends


def test_waits_for_another_checkpoint_when_one_has_aged() -> None:
    assert observe(SUSPEND, RUNNING, ALL_BEFORE, at=1030.0)[1] == Suspend("i7", "5")
    assert observe(SUSPEND, RUNNING, ALL_BEFORE, at=1030.1)[1] == "checkpoint"


@cases(
    ("state", "job", "expected"),
    {
        "is not begun": (CHECKPOINT, RUNNING, Outcome.ABANDONED),
        "nor is the job suspended": (SUSPEND, RUNNING, Outcome.ABANDONED),
        "is over while the pods start": (START, RESUMED, Outcome.REACHED),
        "is over once they run": (at(Step.VERIFY), RESUMED, Outcome.REACHED),
        "goes on where the job is suspended": (SUSPEND, SUSPENDED, "empty"),
        "removes the annotation first": (SUSPEND, MARKED_AND_RUNNING, "yield"),
        "ends as its user wanted": (YIELD, RUNNING, Outcome.USER),
    },
)
def test_a_rescale_of_a_job_of_which_a_trainer_has_succeeded(
    state: Rescale, job: SeenJob, expected: object
) -> None:
    pods = replace(ALL_BEFORE, started=NO_COUNTS, is_ending=True)
    assert observe(state, job, pods)[1] == expected


@cases(
    ("state", "job", "pods", "at", "message"),
    {
        "no checkpoint": (CHECKPOINT, RUNNING, ALL_BEFORE, 2300.0, "checkpoint-format"),
        "pods left": (EMPTY, SUSPENDED, ONE_POD, 1400.0, "waiting for the end of 1 of its pods"),
        "not confirmed": (
            EMPTY,
            UNCONFIRMED,
            NO_PODS,
            1300.0,
            "waiting for the training operator's confirmation",
        ),
    },
)
def test_warns_once(
    state: Rescale, job: SeenJob, pods: ObservedPods, at: float, message: str
) -> None:
    state, event = observe(state, job, pods, at=at)
    said = told(event)
    assert said.kind is EventType.WARNING
    assert message in said.message
    assert observe(state, job, pods, at=at + 100)[1] is None


def test_a_wait_is_warned_of_from_its_limit_on() -> None:
    assert observe(CHECKPOINT, RUNNING, ALL_BEFORE, at=2199.9)[1] is None
    _, event = observe(CHECKPOINT, RUNNING, ALL_BEFORE, at=2200.0)
    said = told(event)
    assert said.reason == "WaitingForCheckpoint"
    assert observe(EMPTY, SUSPENDED, ONE_POD, at=1299.9)[1] is None
    _, event = observe(EMPTY, SUSPENDED, ONE_POD, at=1300.0)
    said = told(event)
    assert said.reason == "PodsDoNotEnd"


@cases(
    "bound",
    {"none of it": NO_COUNTS, "all but a worker": Counts(2, 2), "all but a PS": Counts(1, 3)},
)
def test_rolls_back_when_the_target_is_not_placed_in_time(bound: Counts) -> None:
    start = replace(START, observed_at=1599.0)
    in_time = Observed(1599.0, RESUMED, ObservedPods(5, bound, NO_COUNTS))
    assert with_room(start, in_time)[1] == ()
    late = Observed(1600.0, RESUMED, ObservedPods(5, bound, NO_COUNTS))
    state, instructions = with_room(start, late)
    assert [type(each) for each in instructions] == [Notify, PlacementFailed, WriteProfile]
    event, failed, _ = instructions
    said = told(event)
    assert (said.kind, said.reason) == (EventType.WARNING, "RollingBack")
    assert failed == PlacementFailed(600.0)
    assert state.record.step_text == "undo-suspend"
    assert state.record.current_target == BEFORE


UNWANTED: list[tuple[str, Rescale, SeenJob, ObservedPods, object]] = [
    ("is not begun", CHECKPOINT, RUNNING, ALL_BEFORE, Outcome.USER),
    ("is not begun although that is written already", SUSPEND, RUNNING, ALL_BEFORE, Outcome.USER),
    ("finds that the job is suspended already", SUSPEND, SUSPENDED, ALL_BEFORE, "empty"),
    ("will resume at the counts before", EMPTY, SUSPENDED, NO_PODS, "undo-empty"),
    ("resumes at the counts before", RESUME, SUSPENDED, NO_PODS, "undo-resume"),
    ("goes on where the target is reached", START, RESUMED, ALL, "verify"),
    ("continues to roll back", BACK_TO_RESUME, SUSPENDED, NO_PODS, ResizeAndResume(BEFORE, "6")),
]


@pytest.mark.parametrize(
    ("state", "job", "pods", "expected"),
    [pytest.param(*values, id=sentence) for sentence, *values in UNWANTED],
)
def test_a_rescale_that_its_user_no_longer_wants(
    state: Rescale, job: SeenJob, pods: ObservedPods, expected: object
) -> None:
    intent = UserIntent(needs_checkpoint=False, unwanted="the rescale annotation says never now")
    state, _ = advance(state, intent, CONFIG)
    state, instructions = with_room(state, Observed(1001.0, job, pods))
    assert only(without_events(instructions)) == expected
    assert not any(isinstance(each, PlacementFailed) for each in instructions)


def test_a_suspension_for_good_that_is_no_longer_wanted_is_ended() -> None:
    record = replace(RECORD, target=NO_COUNTS, step=Step.EMPTY)
    state = Rescale(record, needs_checkpoint=True, written=True)
    intent = UserIntent(needs_checkpoint=True, unwanted="its goal is another")
    state, _ = advance(state, intent, CONFIG)
    state, instructions = with_room(state, Observed(1001.0, SUSPENDED, NO_PODS))
    assert [type(each) for each in instructions] == [Notify, WriteProfile]
    event = instructions[0]
    said = told(event)
    assert (said.kind, said.reason) == (EventType.NORMAL, "RescaleEnded")
    assert "its goal is another: returning to 1 PS + 2 workers" in said.message
    assert (state.record.current_target, state.record.pauses) == (BEFORE, False)


def test_a_checkpoint_that_is_no_longer_asked_for_is_not_waited_for() -> None:
    state, _ = advance(CHECKPOINT, UserIntent(needs_checkpoint=False), CONFIG)
    state, (event, _) = with_room(state, Observed(1001.0, RUNNING, ALL_BEFORE))
    assert state.record.step is Step.SUSPEND
    said = told(event)
    assert (said.kind, said.reason) == (EventType.NORMAL, "Rescaling")
    assert said.message == "1 PS + 2 workers -> 2 PS + 3 workers: worker 3 saves 41 s"


def test_pods_that_are_placed_but_slow_are_kept() -> None:
    assert observe(START, RESUMED, SLOW, at=1700.0)[1] is Outcome.REACHED


def test_rolls_back_only_once() -> None:
    pods = ObservedPods(3, NO_COUNTS, NO_COUNTS)
    assert observe(BACK_TO_START, RUNNING, pods, at=1700.0)[1] is Outcome.ROLLED_BACK


@cases(
    ("state", "expected"),
    {
        "a refused suspension leaves the job as it is": (SUSPEND, Outcome.ABANDONED),
        "also while rolling back": (BACK_TO_SUSPEND, Outcome.ABANDONED),
        "refused counts are replaced by those before": (RESUME, "undo-resume"),
    },
)
def test_a_refusal(state: Rescale, expected: object) -> None:
    _, instructions = answer(state, PatchResult.REFUSED, "invalid")
    assert only(without_events(instructions)) == expected
    is_resume = state.record.step is Step.RESUME
    assert any(isinstance(each, PlacementFailed) for each in instructions) is is_resume
    emitted = [rescale_event(each) for each in instructions if isinstance(each, Notify)]
    assert [(each.reason, "invalid" in each.message) for each in emitted] == (
        [("RollingBack", True)] if is_resume else []
    )


@pytest.mark.parametrize(("at_seconds", "expected"), [(1030.0, None), (1060.0, Outcome.ABANDONED)])
def test_a_denied_suspension_is_retried_for_a_while(at_seconds: float, expected: object) -> None:
    _, instructions = answer(SUSPEND, PatchResult.DENIED, "403", at=at_seconds)
    assert only(without_events(instructions)) == expected


def test_a_right_that_is_missing_for_a_moment_rolls_nothing_back() -> None:
    state, instructions = answer(RESUME, PatchResult.DENIED, "401", at=1003.0)
    assert [type(each) for each in instructions] == [Notify]
    assert observe(state, SUSPENDED)[1] == ResizeAndResume(TARGET, "6")


def test_a_right_that_stays_missing_restores_the_counts_before() -> None:
    state, instructions = answer(RESUME, PatchResult.DENIED, "policy", at=1060.0)
    assert [type(each) for each in instructions] == [Notify, PlacementFailed, WriteProfile]
    assert state.record.step_text == "undo-resume"


def test_a_refused_rollback_is_retried_with_an_event() -> None:
    state, instructions = answer(BACK_TO_RESUME, PatchResult.REFUSED, "invalid")
    (event,) = instructions
    said = told(event)
    assert (said.kind, said.reason) == (EventType.WARNING, "RescaleRefused")
    assert "invalid" in said.message
    assert observe(state, SUSPENDED)[1] == ResizeAndResume(BEFORE, "6")


@pytest.mark.parametrize("result", [PatchResult.CONFLICT, PatchResult.UNKNOWN])
def test_only_an_observation_proves_what_became_of_a_patch(result: PatchResult) -> None:
    assert answer(SUSPEND, result) == (SUSPEND, ())
    assert answer(SUSPEND, PatchResult.DONE)[1] == (Observe(uncached=True),)


def test_an_ended_rescale_does_nothing() -> None:
    state, _ = observe(BACK_TO_START, RUNNING, ALL_BEFORE)
    assert advance(state, Tick(1002.0), CONFIG) == (state, ())


@cases(
    ("job", "step"),
    {
        "suspended: it is resumed": (SUSPENDED, Step.EMPTY),
        "running: the annotation is removed": (MARKED_AND_RUNNING, Step.YIELD),
        "running without the annotation: it is its user's": (RUNNING, None),
        "suspended without the annotation: it is its user's": (UNMARKED, None),
    },
)
def test_an_annotated_job_without_a_record(job: SeenJob, step: Step | None) -> None:
    found = adopt(job, 1000.0)
    assert (found.record.step if found else None) is step
    if found is not None:
        # No checkpoint is waited for: nothing trains. Its counts stay as they are.
        assert not found.needs_checkpoint
        assert found.record.purpose is RescalePurpose.RECOVERY
        assert (found.record.before, found.record.target) == (BEFORE, BEFORE)


def test_a_job_that_is_resumed_at_its_own_counts_needs_no_proof_that_it_trains() -> None:
    found = adopt(SUSPENDED, 1000.0)
    assert found is not None
    record = replace(found.record, step=Step.START)
    state = Rescale(record, needs_checkpoint=False, written=True)
    _, instructions = advance(state, Observed(1012.0, RUNNING, ALL_BEFORE), CONFIG)
    (end,) = instructions
    assert isinstance(end, End)
    assert end.outcome is Outcome.REACHED
    assert "12 s after it was decided" in end.reason


@pytest.mark.parametrize("rolling_back", [False, True])
@pytest.mark.parametrize("step", Step)
def test_the_step_is_restored_from_the_profile(step: Step, rolling_back: bool) -> None:
    record = replace(RECORD, step=step, rolling_back=rolling_back)
    assert RECORD.with_step_text(record.step_text) == record


def late(before: Counts, target: Counts) -> Rescale:
    """A rescale of which the pods have had no node for a minute beyond the time to start."""
    state = replace(START, observed_at=1600.0)
    return replace(state, record=replace(state.record, before=before, target=target))


@cases(
    ("before", "target", "most"),
    {
        "more": (Counts(1, 2), Counts(2, 3), Counts(1, 2)),
        "fewer": (Counts(11, 11), Counts(8, 10), Counts(8, 10)),
        "fewer PSs, more workers": (Counts(4, 2), Counts(2, 6), Counts(2, 2)),
    },
)
def test_a_roll_back_asks_for_no_more_than_the_smaller_of_before_and_after(
    before: Counts, target: Counts, most: Counts
) -> None:
    state, job = late(before, target), replace(RESUMED, counts=target)
    observed = Observed(1600.0, job, replace(ALL, bound=NO_COUNTS, started=NO_COUNTS))
    assert advance(state, observed, CONFIG)[1] == (FindCounts(most),)


@cases(
    ("found", "returns_to"),
    {
        "the target itself fits": (CountsFound(1600.0, Counts(8, 10)), None),
        "nothing does": (CountsFound(1600.0, None, target_fits=False), None),
        "less": (CountsFound(1600.0, Counts(4, 5), target_fits=False), Counts(4, 5)),
    },
)
def test_a_job_is_stopped_again_only_for_counts_that_fit(
    found: CountsFound, returns_to: Counts | None
) -> None:
    state, instructions = advance(late(Counts(11, 11), Counts(8, 10)), found, CONFIG)
    (failed,) = [each for each in instructions if isinstance(each, PlacementFailed)]
    assert failed == PlacementFailed(600.0, lost=not found.target_fits)
    assert state.record.rolling_back is (returns_to is not None)
    if returns_to is None:
        assert state.end is not None
        assert state.end.outcome is Outcome.ROLLED_BACK
        return
    assert state.record.current_target == returns_to
    stored = unpack_rescale(pack_rescale(state.record), "job", 2000.0)
    assert stored is not None
    assert stored.current_target == returns_to


STANDS = Observed(1010.0, RESUMED, ObservedPods(5, Counts(2, 2), NO_COUNTS))
LESS_FITS = CountsFound(1010.0, BEFORE, target_fits=False)


def test_a_job_whose_capacity_others_have_taken_is_stopped_again_at_once() -> None:
    start = replace(START, observed_at=1000.0)
    assert advance(start, replace(STANDS, at=1009.0), CONFIG)[1] == ()
    state, asks = advance(start, STANDS, CONFIG)
    assert asks == (FindCounts(BEFORE),)
    state, _ = advance(state, LESS_FITS, CONFIG)
    assert not state.record.rolling_back, "a node may be away for a moment"
    state, asks = advance(state, replace(STANDS, at=1012.0), CONFIG)
    assert asks == (FindCounts(BEFORE),)
    state, instructions = advance(state, replace(LESS_FITS, at=1012.0), CONFIG)
    assert PlacementFailed(12.0, lost=True) in instructions
    assert (state.record.rolling_back, state.record.current_target) == (True, BEFORE)


@cases(
    "found",
    {
        "its capacity is there": CountsFound(1010.0, BEFORE),
        "nothing fits": CountsFound(1010.0, None, target_fits=False),
    },
)
def test_it_is_not_stopped_again_where(found: CountsFound) -> None:
    state, _ = advance(replace(START, observed_at=1000.0), STANDS, CONFIG)
    for at in (1010.0, 1020.0):
        state, _ = advance(state, replace(found, at=at), CONFIG)
        assert not state.record.rolling_back
        assert advance(state, replace(STANDS, at=at + 9.0), CONFIG)[1] == ()
        state, asks = advance(state, replace(STANDS, at=at + 10.0), CONFIG)
        assert asks == (FindCounts(BEFORE),)


def test_a_job_that_fails_at_its_target_waits_for_its_counts_before_where_nothing_else_fits() -> (
    None
):
    state = replace(at(Step.VERIFY), error="a-worker-0 ended with exit code 137")
    state, _ = advance(state, CountsFound(1010.0, None, target_fits=False), CONFIG)
    assert (state.record.rolling_back, state.record.current_target) == (True, BEFORE)


def test_a_job_is_not_stopped_where_its_target_does_not_fit_any_more() -> None:
    """It would not return what it has borrowed while it waits for room."""
    state, _ = advance(CHECKPOINT, CheckpointSeen(1000.0), CONFIG)
    asking, instructions = advance(state, Observed(1001.0, RUNNING, ALL_BEFORE), CONFIG)
    assert instructions == (FindCounts(TARGET),)
    state, _ = advance(asking, CountsFound(1001.0, TARGET), CONFIG)
    state, _ = advance(state, Observed(1001.0, RUNNING, ALL_BEFORE), CONFIG)
    assert state.record.step is Step.SUSPEND
    state, _ = advance(asking, CountsFound(1001.0, None, target_fits=False), CONFIG)
    assert state.end is not None
    assert (state.record.step, state.end.outcome) == (Step.CHECKPOINT, Outcome.ABANDONED)


@pytest.mark.parametrize("purpose", [each for each in RescalePurpose if each.is_urgent])
def test_a_job_that_is_lost_without_it_is_stopped_whether_its_target_fits_or_not(
    purpose: RescalePurpose,
) -> None:
    state = replace(CHECKPOINT, needs_checkpoint=False)
    state = replace(state, record=replace(state.record, purpose=purpose))
    state, _ = advance(state, Observed(1001.0, RUNNING, ALL_BEFORE), CONFIG)
    assert state.record.step is Step.SUSPEND
