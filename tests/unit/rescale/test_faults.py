"""A rescale survives every fault at every call, and every act of its user at any moment."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts
from optimus.rescale.words import Outcome, PauseReason, Step
from tests.cases import cases
from tests.unit.properties import sampled
from tests.unit.rescale.rescale_harness import Fault, RescaleHarness
from tests.unit.rescale.simulated_job import BEFORE, TARGET, SimulatedJob

NONE = Counts(0, 0)

FAULTS = list(Fault)


def one_fault(at_call: int, fault: Fault) -> Iterator[Fault | None]:
    return chain(repeat(None, at_call - 1), [fault])


def run(harness: RescaleHarness, rounds: int = 60) -> RescaleHarness:
    """Run all controllers; faults and the user's acts come as the harness has them."""
    for _ in range(rounds):
        if harness.over:
            break
        harness.tick()
        for part in (
            harness.job.operator,
            harness.job.kubelet,
            harness.job.scheduler,
            harness.job.checkpoint,
        ):
            part()
    harness.settle()
    harness.check_end()
    return harness


GOAL, GANG = PauseReason.GOAL, PauseReason.GANG

PATHS: dict[str, Callable[[], tuple[SimulatedJob, Counts, PauseReason]]] = {
    "the target is reached": lambda: (SimulatedJob(), TARGET, GOAL),
    "the target cannot be placed": lambda: (SimulatedJob(capacity=4), TARGET, GOAL),
    "the job is recreated at its counts": lambda: (SimulatedJob(), BEFORE, GOAL),
    "the job is paused": lambda: (SimulatedJob(), NONE, GOAL),
    "the job is paused for a gang": lambda: (SimulatedJob(), NONE, GANG),
    "the paused job is resumed": lambda: (SimulatedJob.paused(), TARGET, GOAL),
    "the paused job is resumed at its counts": lambda: (SimulatedJob.paused(), BEFORE, GOAL),
    "the paused job cannot be placed at the target": lambda: (
        SimulatedJob.paused(4),
        TARGET,
        GOAL,
    ),
    "the gang that it was paused for has its nodes": lambda: (
        SimulatedJob.paused(0),
        BEFORE,
        GANG,
    ),
}


def on_path(path: str, faults: Iterable[Fault | None] = ()) -> RescaleHarness:
    job, target, pause = PATHS[path]()
    return RescaleHarness(job, target=target, pause=pause, faults=iter(faults))


def calls_of(path: str) -> int:
    return run(on_path(path)).calls


REACHED, ROLLED_BACK, PAUSED = Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.PAUSED


@cases(
    ("path", "outcome", "step", "counts", "runs"),
    {
        "it grows": ("the target is reached", REACHED, Step.VERIFY, TARGET, 2),
        "it returns": ("the target cannot be placed", ROLLED_BACK, Step.START, BEFORE, 3),
        "it pauses": ("the job is paused", PAUSED, Step.EMPTY, BEFORE, 1),
        "it goes on": ("the paused job is resumed", REACHED, Step.VERIFY, TARGET, 2),
        "as before": ("the paused job is resumed at its counts", REACHED, Step.VERIFY, BEFORE, 2),
        "a gang": (
            "the gang that it was paused for has its nodes",
            REACHED,
            Step.RESUME,
            BEFORE,
            2,
        ),
    },
)
def test_without_faults(path: str, outcome: Outcome, step: Step, counts: Counts, runs: int) -> None:
    harness = run(on_path(path))
    (end,) = harness.ends
    assert (end.outcome, end.record.step) == (outcome, step)
    assert (harness.job.counts, harness.job.run) == (counts, runs)
    assert harness.job.suspended is (outcome is PAUSED)
    assert bool(harness.job.pods) is not harness.job.suspended


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_one_fault_at_every_call_changes_nothing(path: str, fault: Fault) -> None:
    outcome = run(on_path(path)).ends[0].outcome
    for at_call in sampled(range(1, calls_of(path) + 1)):
        harness = run(on_path(path, one_fault(at_call, fault)))
        nothing_was_recorded = not harness.ends
        assert nothing_was_recorded or harness.ends[0].outcome is outcome, (
            f"{fault} at call {at_call}"
        )
        assert not nothing_was_recorded or (at_call == 1 and harness.job.counts == harness.before)


def takes_over(job: SimulatedJob) -> None:
    job.user_takes_the_mark()
    job.user_resumes()


USER_ACTS: dict[str, Callable[[SimulatedJob], None]] = {
    "suspends it": SimulatedJob.user_suspends,
    "resumes it": SimulatedJob.user_resumes,
    "takes the mark away": SimulatedJob.user_takes_the_mark,
    "takes the mark away and resumes it": takes_over,
    "resizes it": SimulatedJob.user_resizes,
    "does not want it any more": SimulatedJob.user_withdraws,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("act", USER_ACTS)
def test_what_the_user_does_wins_at_every_call(path: str, act: str) -> None:
    for at_call in sampled(range(1, calls_of(path) + 1)):
        harness = on_path(path)
        job, target = harness.job, harness.target
        knew_of_suspension: list[bool] = []

        def user(
            call: int,
            at_call: int = at_call,
            harness: RescaleHarness = harness,
            knew: list[bool] = knew_of_suspension,
        ) -> None:
            if call == at_call:
                is_known = harness.stored is not None and harness.stored.step in {
                    Step.EMPTY,
                    Step.RESUME,
                }
                knew.append(is_known and harness.job.suspended)
                USER_ACTS[act](harness.job)

        harness.before_call = user
        run(harness)
        changes_nothing = act in {"suspends it", "does not want it any more"} or (
            act == "resizes it" and target == NONE
        )
        changes_nothing |= act == "resizes it" and harness.before == Counts(1, 1)
        # A user who resumes it does what is next at counts that stay: nothing shows who did it.
        changes_nothing |= act == "takes the mark away and resumes it" and target == BEFORE
        if job.user_wants_suspension or (any(knew_of_suspension) and not changes_nothing):
            assert harness.ends[0].outcome is Outcome.USER


@pytest.mark.parametrize("act", USER_ACTS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_a_fault_at_the_call_before_which_the_user_acts(act: str, fault: Fault) -> None:
    for at_call in sampled(range(1, 40)):
        job = SimulatedJob()

        def user(call: int, at_call: int = at_call, job: SimulatedJob = job) -> None:
            if call == at_call:
                USER_ACTS[act](job)

        run(RescaleHarness(job, before_call=user, faults=one_fault(at_call, fault)))


ACTS: dict[str, Callable[[SimulatedJob], object]] = {
    **USER_ACTS,
    "operator": SimulatedJob.operator,
    "lagging operator": SimulatedJob.lagging_operator,
    "kubelet": SimulatedJob.kubelet,
    "scheduler": SimulatedJob.scheduler,
    "checkpoint": SimulatedJob.checkpoint,
    "finish": SimulatedJob.finish,
}


@given(
    acts=st.lists(st.sampled_from(["tick", "tick", "tick", "tick", "minute", *ACTS]), max_size=60),
    faults=st.lists(st.sampled_from([None, None, None, *FAULTS]), max_size=60),
    capacity=st.sampled_from([4, 10]),
    target=st.sampled_from([TARGET, NONE, BEFORE, Counts(1, 1)]),
    needs_checkpoint=st.booleans(),
    pause=st.sampled_from([None, GOAL, GANG]),
)
def test_any_events_in_any_order(
    acts: list[str],
    faults: list[Fault | None],
    capacity: int,
    target: Counts,
    needs_checkpoint: bool,
    pause: PauseReason | None,
) -> None:
    is_resumed = pause is not None and target != NONE
    job = SimulatedJob.paused(capacity) if is_resumed else SimulatedJob(capacity=capacity)
    harness = RescaleHarness(
        job,
        needs_checkpoint=needs_checkpoint,
        target=target,
        faults=iter(faults),
        pause=pause or GOAL,
    )
    for act in acts:
        if act == "tick":
            harness.tick()
        elif act == "minute":
            job.at += 60
        else:
            ACTS[act](job)
    harness.settle()
    harness.clear_up()
    harness.check_end()
