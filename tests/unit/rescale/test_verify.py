"""A rescale has succeeded when the job trains; one that breaks it is undone, once."""

import math
from dataclasses import replace

from optimus.jobs import Counts
from optimus.kube.events import EventType
from optimus.rescale.machine import Rescale, RescaleConfig
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CountsFailed,
    End,
    Instruction,
    Observed,
    ObservedPods,
    Outcome,
    SeenJob,
    Step,
    Suspend,
    WriteProfile,
)
from tests.cases import cases
from tests.unit.rescale.rescale_harness import told
from tests.unit.rescale.test_machine import ALL, ALL_BEFORE, RESUMED, RUNNING, TARGET, at, with_room

CONFIG = RescaleConfig(quiet_seconds=30, verify_seconds=300)
TRAINS = replace(ALL, trains=True)
ERROR = "a-worker-0 ended with exit code 137 (OOMKilled)"
ENDED = replace(ALL, restarts=1, error=ERROR)
LOOPS = replace(ENDED, crash_loops=True)
VERIFY, START = at(Step.VERIFY), at(Step.START)
USUAL = replace(VERIFY, record=replace(VERIFY.record, restarts=1))


def observe(
    state: Rescale, pods: ObservedPods, seconds: float, job: SeenJob = RESUMED
) -> tuple[Rescale, tuple[Instruction, ...]]:
    """Of a job that has been observed all the while."""
    state = replace(state, observed_at=1000.0 + seconds, seen_since=-math.inf)
    return with_room(state, Observed(1000.0 + seconds, job, pods), CONFIG)


def outcome(instructions: tuple[Instruction, ...]) -> Outcome | None:
    ends = [each.outcome for each in instructions if isinstance(each, End)]
    return ends[0] if ends else None


@cases(
    ("pods", "seconds", "expected"),
    {
        "all run, but nothing is trained yet": (ALL, 40, None),
        "trains, but not for long yet": (TRAINS, 10, None),
        "trains for almost long enough": (TRAINS, 29.9, None),
        "trains for long enough": (TRAINS, 30, Outcome.REACHED),
        "trains, and no container was restarted": (TRAINS, 40, Outcome.REACHED),
        "almost as long as is waited for steps": (ALL, 299.9, None),
        "nothing ended, and its log shows no steps": (ALL, 300, Outcome.REACHED),
    },
)
def test_it_is_over_when_the_job_trains(
    pods: ObservedPods, seconds: float, expected: Outcome | None
) -> None:
    assert outcome(observe(VERIFY, pods, seconds)[1]) == expected


def test_a_restart_that_is_usual_for_the_job_resets_the_quiet_time() -> None:
    state, instructions = observe(USUAL, replace(TRAINS, restarts=1, error=ERROR), 29)
    assert outcome(instructions) is None
    state, instructions = observe(state, replace(TRAINS, restarts=1, error=ERROR), 50)
    assert outcome(instructions) is None
    _, instructions = observe(state, replace(TRAINS, restarts=1, error=ERROR), 60)
    assert outcome(instructions) is Outcome.REACHED


def made_anew(purpose: RescalePurpose) -> Rescale:
    """A rescale at unchanged counts of which the pods start."""
    return replace(START, record=replace(START.record, before=TARGET, purpose=purpose))


@cases("purpose", {each: each for each in (RescalePurpose.STRAGGLER, RescalePurpose.INTERVAL)})
def test_the_rescale_of_a_job_restarted_elsewhere_is_over_when_it_trains(
    purpose: RescalePurpose,
) -> None:
    state, instructions = observe(made_anew(purpose), ALL, 5)
    assert outcome(instructions) is None
    assert state.record.step is Step.VERIFY
    state = replace(state, written=True)
    assert outcome(observe(state, TRAINS, 40)[1]) is Outcome.REACHED


def test_other_jobs_at_unchanged_counts_are_over_when_their_pods_run() -> None:
    _, instructions = observe(made_anew(RescalePurpose.TAKE_BACK), ALL, 5)
    assert outcome(instructions) is Outcome.REACHED


@cases("step", {"while it starts": START, "once all run": VERIFY})
@cases("pods", {"ended": ENDED, "in CrashLoopBackOff": LOOPS})
def test_a_container_that_ends_with_an_error_undoes_it(step: Rescale, pods: ObservedPods) -> None:
    _, (event, failed, write) = observe(step, pods, 12)
    said = told(event)
    assert (said.kind, said.reason) == (EventType.WARNING, "RollingBack")
    assert "i7 (1 PS + 2 workers -> 2 PS + 3 workers) is undone" in said.message
    assert ERROR in said.message
    assert failed == CountsFailed(ERROR)
    assert isinstance(write, WriteProfile)
    assert write.record.step_text == "undo-suspend"
    # All pods run, but not for long: it is suspended all the same, now and by another process.
    restarted = Rescale(write.record, needs_checkpoint=True, written=True)
    assert observe(restarted, TRAINS, 14)[1] == (Suspend("i7", "7"),)


@cases(
    ("state", "pods"),
    {
        "as often as before the rescale": (USUAL, ENDED),
        "without an error": (VERIFY, replace(ENDED, error="")),
        "same counts": (replace(VERIFY, record=replace(VERIFY.record, before=TARGET)), LOOPS),
    },
)
def test_what_says_nothing_against_the_counts_undoes_nothing(
    state: Rescale, pods: ObservedPods
) -> None:
    assert observe(state, pods, 12)[0].record.rolling_back is False


def test_it_is_undone_only_once() -> None:
    back = at(Step.START, rolling_back=True)
    pods = replace(ALL_BEFORE, restarts=3, error=ERROR, crash_loops=True)
    assert outcome(observe(back, pods, 12, RUNNING)[1]) is Outcome.ROLLED_BACK


def test_the_restarts_before_the_suspension_are_remembered() -> None:
    waiting = replace(at(Step.CHECKPOINT), needs_checkpoint=False)
    state, _ = observe(waiting, replace(ALL_BEFORE, restarts=2), 1, RUNNING)
    assert (state.record.step, state.record.restarts) == (Step.SUSPEND, 2)


def test_a_job_that_fails_for_good_says_after_which_rescale() -> None:
    job = replace(RESUMED, finished=True, failed=True)
    _, (event, end) = observe(VERIFY, ENDED, 12, job)
    said = told(event)
    assert (said.kind, said.reason) == (EventType.WARNING, "FailedAfterRescale")
    assert "failed 12 s after rescale i7 (1 PS + 2 workers -> 2 PS + 3 workers)" in said.message
    assert ERROR in said.message
    assert isinstance(end, End)
    assert end.outcome is Outcome.JOB_ENDED


def test_a_job_that_fails_without_an_error_of_a_container_says_so_without_one() -> None:
    job = replace(RESUMED, finished=True, failed=True)
    _, (event, _) = observe(VERIFY, ALL, 12, job)
    said = told(event)
    assert "(1 PS + 2 workers -> 2 PS + 3 workers): with restartPolicy" in said.message


def test_the_time_since_its_decision_is_reported_once_it_trains() -> None:
    _, (end,) = observe(VERIFY, TRAINS, 40)
    assert isinstance(end, End)
    assert end.reason == "it trains, 40 s after it was decided"


def test_what_its_user_does_meanwhile_ends_it() -> None:
    changed = replace(RESUMED, counts=Counts(4, 4))
    assert outcome(observe(VERIFY, TRAINS, 40, changed)[1]) is Outcome.USER
    assert outcome(observe(VERIFY, TRAINS, 40, replace(RESUMED, suspended=True))[1]) is Outcome.USER
