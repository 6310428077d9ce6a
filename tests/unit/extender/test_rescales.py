"""Room that is held for a job while it is rescaled."""

from dataclasses import replace

import pytest

from optimus.jobs import Counts, Role
from tests.unit.extender.world import World, reasons


def bound_job(world: World, ps: int, workers: int, cpu: int = 1) -> list[str]:
    world.spec("j", ps, workers)
    names = world.job("j", ps, workers, cpu)
    assert all(world.place(name) for name in names)
    return names


@pytest.mark.parametrize(
    ("suspended", "seconds"),
    [
        pytest.param(True, 600, id="suspended: as long as room is held"),
        pytest.param(False, 30, id="resumed by hand: as long as a suspension takes"),
    ],
)
def test_a_profile_that_stays_at_suspending_does_not_keep_its_pods_out_for_ever(
    suspended: bool, seconds: int
) -> None:
    world = World({"a": 4})
    world.spec("j", 1, 1)
    job = world.placer._cluster.jobs["uid-j"]
    world.placer.job_changed("uid-j", replace(job, suspended=suspended))
    world.rescale("j", 1, 1, leaving=True)
    names = world.job("j", 1, 1)
    world.now += seconds
    assert reasons(world, names[0]) == {"job ns/j is being suspended, to go on with other counts"}
    world.placer.advance()
    assert world.wishes() == {}
    world.now += 1
    assert world.ask(names[0]).kept == ("a",)


def test_a_rescaled_job_keeps_its_place_against_a_waiting_one() -> None:
    world = World({"a": 4})
    old = bound_job(world, 1, 2)
    waiting = world.job("waiting", 2, 2)
    assert world.ask(waiting[0], ["a"]).kept == ()
    world.rescale("j", 1, 3, leaving=True)
    world.assert_sound()
    world.delete(*old)
    world.placer.advance()
    world.rescale("j", 1, 3, leaving=False)
    assert world.ask(waiting[0]).kept == ()
    world.assert_sound()
    new = world.job("j", 1, 3)
    assert [world.place(name) for name in new] == ["a"] * 4
    world.placer.rescale_changed("uid-j", None)
    assert world.placer.reservations() == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_held_is_what_admission_made_of_the_pods_and_not_what_the_job_says(
    restarts: bool,
) -> None:
    world = World({"a": 8})
    old = bound_job(world, 1, 2, cpu=2)
    waiting = world.job("waiting", 1, 1)
    if not restarts:
        world.rescale("j", 1, 3, leaving=True)
        assert world.ask(waiting[0]).kept == ()
    world.delete(*old)
    new = world.job("j", 1, 3, cpu=2)
    world.rescale("j", 1, 3, leaving=False)
    assert world.ask(waiting[0]).kept == ()
    assert [world.place(name) for name in new] == ["a"] * 4


def test_of_old_and_new_pods_the_new_ones_say_what_is_held() -> None:
    world = World({"a": 7})
    for name in bound_job(world, 1, 1):
        world.change(world.pods[name], leaving=True)
    world.pod("j", Role.WORKER, 1, Counts(1, 2), cpu=2)
    world.rescale("j", 1, 2, leaving=False)
    assert world.ask(world.job("waiting", 1, 2)[0]).kept == (), "1 + 2 + 2 of 7 are held"
    assert world.ask(world.job("small", 1, 1)[0]).kept == ("a",)


def test_a_rescaled_jobs_pods_need_not_wait_for_each_other() -> None:
    world = World({"a": 4})
    old = bound_job(world, 1, 1)
    world.rescale("j", 1, 2, leaving=True)
    world.delete(*old)
    world.rescale("j", 1, 2, leaving=False)
    first = world.pod("j", Role.PS, 0, Counts(1, 2)).name
    assert world.ask(first).kept == ("a",)


def test_pods_that_a_rescale_is_about_to_take_away_are_not_placed_any_more() -> None:
    world = World({"a": 4, "b": 4})
    world.spec("j", 1, 1)
    names = world.job("j", 1, 1)
    world.rescale("j", 1, 3, leaving=True)
    assert reasons(world, names[0]) == {"job ns/j is being suspended, to go on with other counts"}
    assert world.placer.reservations() == 4
    world.placer.advance()
    assert world.placer.reservations() == 4


def test_room_is_held_for_a_rescale_for_ten_minutes_at_most() -> None:
    world = World({"a": 3})
    world.delete(*bound_job(world, 1, 1))
    world.rescale("j", 1, 2, leaving=False)
    others = world.job("other", 1, 1)
    assert world.ask(others[0]).kept == ()
    world.now += 601
    world.placer.advance()
    assert world.ask(others[0]).kept == ("a",)
    world.assert_sound()


def test_a_rescale_that_is_rolled_back_gives_its_room_back() -> None:
    world = World({"a": 3})
    world.delete(*bound_job(world, 1, 1))
    world.rescale("j", 1, 2, leaving=False)
    assert world.placer.reservations() == 3
    world.placer.rescale_changed("uid-j", None)
    assert world.placer.reservations() == 0


def test_pods_of_another_shape_than_the_rescale_meant_are_planned_anew() -> None:
    world = World({"a": 3})
    world.delete(*bound_job(world, 1, 1))
    world.rescale("j", 1, 2, leaving=False)
    names = world.job("j", 1, 1)
    assert [world.place(name) for name in names] == ["a", "a"]
