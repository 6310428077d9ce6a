"""Every wait of a rescale ends by itself, or with an Event that says who can end it."""

import math
from dataclasses import replace

import pytest

from autoscaler.profile.events import JobEvent, rescale_event
from optimus.jobs import NO_COUNTS, Counts
from optimus.kube.events import EventType
from optimus.rescale.machine import Rescale, RescaleConfig, advance
from optimus.rescale.words import (
    End,
    Instruction,
    Notify,
    Observe,
    Observed,
    ObservedPods,
    Outcome,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    SeenJob,
    Step,
    Tick,
    WriteProfile,
)
from tests.cases import cases
from tests.unit.rescale.rescale_harness import told

CONFIG = RescaleConfig()
BEFORE, TARGET = Counts(1, 2), Counts(2, 4)
NOT_BEGUN = (Step.CHECKPOINT, Step.SUSPEND)
NO_PODS = ObservedPods(0, NO_COUNTS, NO_COUNTS)


def at_step(step: Step, *, written: bool = True, rolling_back: bool = False) -> Rescale:
    record = RescaleRecord("i7", 0.0, BEFORE, TARGET, "why", step, 0.0, rolling_back=rolling_back)
    return Rescale(record, needs_checkpoint=False, written=written)


def suspended(*, confirmed: bool = True) -> SeenJob:
    return SeenJob(True, "i7", confirmed, BEFORE, "5")


def observe(
    state: Rescale, at: float, job: SeenJob, pods: ObservedPods
) -> tuple[Rescale, tuple[Instruction, ...]]:
    """Of a job that has been observed all the while."""
    state = replace(state, observed_at=at, seen_since=-math.inf)
    return advance(state, Observed(at, job, pods), CONFIG)


def events(instructions: tuple[Instruction, ...]) -> list[str]:
    return [rescale_event(each).reason for each in instructions if isinstance(each, Notify)]


def refused(state: Rescale, *instants: float) -> tuple[Rescale, tuple[Instruction, ...]]:
    """The profile cannot be written at these instants."""
    instructions: tuple[Instruction, ...] = ()
    for at in instants:
        state, (write,) = advance(state, Tick(at), CONFIG)
        assert isinstance(write, WriteProfile)
        state, instructions = advance(state, ProfileWritten(False, at, "too large"), CONFIG)
    return state, instructions


@pytest.mark.parametrize(
    ("step", "rolling_back"),
    [(step, False) for step in Step if step not in NOT_BEGUN]
    + [(Step.SUSPEND, True), (Step.RESUME, True)],
)
def test_what_has_begun_goes_on_without_a_record(step: Step, rolling_back: bool) -> None:
    state = at_step(step, written=False, rolling_back=rolling_back)
    state, instructions = refused(state, 100.0, 159.0)
    assert instructions == ()
    state, instructions = refused(state, 160.0)
    (event, then) = instructions
    said = told(event)
    assert (said.kind, said.reason) == (EventType.WARNING, "ProfileNotWritable")
    assert "too large" in said.message
    assert then == Observe(uncached=True)


@pytest.mark.parametrize("step", NOT_BEGUN)
def test_what_has_not_begun_is_given_up_with_the_reason(step: Step) -> None:
    _, (end,) = refused(at_step(step, written=False), 100.0, 160.0)
    assert isinstance(end, End)
    assert end.outcome is Outcome.ABANDONED
    assert end.reason == "its TrainingProfile cannot be written: too large"


def test_steps_after_the_first_unwritten_one_do_not_wait_as_long_again() -> None:
    state, _ = refused(at_step(Step.RESUME, written=False), 100.0, 160.0)
    job = SeenJob(False, None, False, TARGET, "6")
    state, instructions = observe(state, 162.0, job, NO_PODS)
    assert [type(each) for each in instructions] == [WriteProfile]
    state, instructions = advance(state, ProfileWritten(False, 162.0, "too large"), CONFIG)
    assert events(instructions) == []
    assert instructions == (Observe(uncached=True),)
    assert state.record.step is Step.START


def test_a_profile_that_can_be_written_again_resets_the_time() -> None:
    state, _ = refused(at_step(Step.EMPTY, written=False), 100.0, 150.0)
    state, _ = advance(state, ProfileWritten(True, 155.0), CONFIG)
    assert state.unwritten_since is None
    _, instructions = refused(replace(state, written=False), 170.0, 220.0)
    assert instructions == ()


PODS = ObservedPods(3, BEFORE, BEFORE)
NO_POD = NO_PODS


@cases("pods", {"its pods run on": PODS, "it has no pods": NO_POD})
def test_a_suspension_that_no_operator_confirms_is_taken_back(pods: ObservedPods) -> None:
    state = at_step(Step.EMPTY)
    state, instructions = observe(state, 299.0, suspended(confirmed=False), pods)
    assert instructions == ()
    state, instructions = observe(state, 300.0, suspended(confirmed=False), pods)
    assert events(instructions) == ["PodsDoNotEnd"]
    state, instructions = observe(state, 599.0, suspended(confirmed=False), pods)
    assert instructions == ()
    state, instructions = observe(state, 600.0, suspended(confirmed=False), pods)
    assert events(instructions) == ["SuspensionTakenBack"]
    assert instructions[-1] == ResizeAndResume(BEFORE, "5")
    state, (end,) = observe(state, 602.0, SeenJob(False, None, False, BEFORE, "6"), pods)
    assert isinstance(end, End)
    assert end.outcome is Outcome.ABANDONED


def test_a_refused_way_back_is_tried_again() -> None:
    state, _ = observe(at_step(Step.EMPTY), 600.0, suspended(confirmed=False), PODS)
    _, instructions = observe(state, 602.0, suspended(confirmed=False), PODS)
    assert instructions == (ResizeAndResume(BEFORE, "5"),)


LINGERING = ObservedPods(1, NO_COUNTS, NO_COUNTS, leaving=1, lingering="j-worker-1 on node-7")


@pytest.mark.parametrize("confirmed", [True, False])
def test_pods_that_are_ending_are_never_resumed_over_and_reported_each_hour(
    confirmed: bool,
) -> None:
    state, warnings = at_step(Step.EMPTY), list[JobEvent]()
    for at in range(0, 3 * 3600, 60):
        state, instructions = observe(state, float(at), suspended(confirmed=confirmed), LINGERING)
        assert not any(isinstance(each, ResizeAndResume) for each in instructions)
        warnings += [rescale_event(each) for each in instructions if isinstance(each, Notify)]
    assert [each.reason for each in warnings] == ["PodsDoNotEnd"] * 3
    assert "j-worker-1 on node-7" in warnings[0].message
    assert "out-of-service" in warnings[0].message
    state, _ = observe(state, 20_000.0, suspended(), NO_PODS)
    state, _ = observe(state, 20_002.0, suspended(), NO_PODS)
    assert state.record.step is Step.RESUME
