"""A rescale survives every fault at every call, and every word of its user at every moment."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.rescale.machine import Outcome, Step
from optimus.jobs import Counts
from tests.unit.rescale.driver import Driver, Fault
from tests.unit.rescale.world import BEFORE, TARGET, World

NONE = Counts(0, 0)

FAULTS = list(Fault)


def one_fault(at_call: int, fault: Fault) -> Iterator[Fault | None]:
    return chain(repeat(None, at_call - 1), [fault])


def run(driver: Driver, rounds: int = 60) -> Driver:
    """Everybody does his part; faults and the user come as the driver was told."""
    for _ in range(rounds):
        if driver.over:
            break
        driver.tick()
        for part in (
            driver.world.operator,
            driver.world.kubelet,
            driver.world.scheduler,
            driver.world.checkpoint,
        ):
            part()
    driver.settle()
    driver.check_end()
    return driver


def test_without_faults_the_target_is_reached() -> None:
    driver = run(Driver(World()))
    assert [end.outcome for end in driver.ends] == [Outcome.REACHED]
    assert driver.world.counts == TARGET


def test_a_target_that_cannot_be_placed_is_rolled_back() -> None:
    driver = run(Driver(World(room=4)))
    assert [end.outcome for end in driver.ends] == [Outcome.ROLLED_BACK]
    assert driver.world.counts == BEFORE


def test_a_job_at_its_goal_stays_suspended_with_our_mark() -> None:
    driver = run(Driver(World(), target=NONE))
    assert [end.outcome for end in driver.ends] == [Outcome.SUSPENDED]
    assert driver.world.suspended
    assert driver.world.counts == BEFORE


PATHS: dict[str, Callable[[], tuple[World, Counts]]] = {
    "the target is reached": lambda: (World(), TARGET),
    "the target cannot be placed": lambda: (World(room=4), TARGET),
    "the job is suspended for good": lambda: (World(), NONE),
}


def calls_of(path: str) -> int:
    world, target = PATHS[path]()
    return run(Driver(world, target=target)).calls


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_one_fault_at_every_call_changes_nothing(path: str, fault: Fault) -> None:
    world, target = PATHS[path]()
    outcome = run(Driver(world, target=target)).ends[0].outcome
    for at_call in range(1, calls_of(path) + 1):
        world, target = PATHS[path]()
        driver = run(Driver(world, target=target, faults=one_fault(at_call, fault)))
        nothing_was_recorded = not driver.ends
        assert nothing_was_recorded or driver.ends[0].outcome is outcome, (
            f"{fault} at call {at_call}"
        )
        assert not nothing_was_recorded or (at_call == 1 and driver.world.counts == BEFORE)


def takes_over(world: World) -> None:
    world.user_takes_the_mark()
    world.user_resumes()


USER_ACTS: dict[str, Callable[[World], None]] = {
    "suspends it": World.user_suspends,
    "resumes it": World.user_resumes,
    "takes the mark away": World.user_takes_the_mark,
    "takes the mark away and resumes it": takes_over,
    "resizes it": World.user_resizes,
    "does not want it any more": World.user_withdraws,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("act", USER_ACTS)
def test_the_user_has_the_last_word_at_every_call(path: str, act: str) -> None:
    for at_call in range(1, calls_of(path) + 1):
        world, target = PATHS[path]()
        driver = Driver(world, target=target)
        knew_of_suspension: list[bool] = []

        def user(
            call: int,
            at_call: int = at_call,
            driver: Driver = driver,
            knew: list[bool] = knew_of_suspension,
        ) -> None:
            if call == at_call:
                is_known = driver.stored is not None and driver.stored.step in {
                    Step.EMPTY,
                    Step.RESUME,
                }
                knew.append(is_known and driver.world.suspended)
                USER_ACTS[act](driver.world)

        driver.before_call = user
        run(driver)
        changes_nothing = act in {"suspends it", "does not want it any more"} or (
            act == "resizes it" and target == NONE
        )
        if world.user_wants_suspension or (any(knew_of_suspension) and not changes_nothing):
            assert driver.ends[0].outcome is Outcome.USER


@pytest.mark.parametrize("act", USER_ACTS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_a_fault_at_the_very_call_before_which_the_user_acts(act: str, fault: Fault) -> None:
    for at_call in range(1, 40):
        world = World()

        def user(call: int, at_call: int = at_call, world: World = world) -> None:
            if call == at_call:
                USER_ACTS[act](world)

        run(Driver(world, before_call=user, faults=one_fault(at_call, fault)))


ACTS: dict[str, Callable[[World], object]] = {
    **USER_ACTS,
    "operator": World.operator,
    "lagging operator": World.lagging_operator,
    "kubelet": World.kubelet,
    "scheduler": World.scheduler,
    "checkpoint": World.checkpoint,
    "finish": World.finish,
}


@given(
    acts=st.lists(st.sampled_from(["tick", "tick", "tick", "tick", "minute", *ACTS]), max_size=60),
    faults=st.lists(st.sampled_from([None, None, None, *FAULTS]), max_size=60),
    room=st.sampled_from([4, 10]),
    target=st.sampled_from([TARGET, NONE, BEFORE, Counts(1, 1)]),
    needs_checkpoint=st.booleans(),
)
def test_whatever_happens_in_whatever_order(
    acts: list[str], faults: list[Fault | None], room: int, target: Counts, needs_checkpoint: bool
) -> None:
    world = World(room=room)
    driver = Driver(world, needs_checkpoint=needs_checkpoint, target=target, faults=iter(faults))
    for act in acts:
        if act == "tick":
            driver.tick()
        elif act == "minute":
            world.at += 60
        else:
            ACTS[act](world)
    driver.settle()
    driver.clear_up()
    driver.check_end()
