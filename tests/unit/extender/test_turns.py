"""Which gang comes first, and what one that has waited for long keeps from those behind it."""

from tests.unit.extender.world import World, reasons


def test_a_smaller_job_does_not_starve_one_that_waits_past_the_age_limit() -> None:
    world = World({"a": 4})
    holder = world.job("holder", 1, 1)
    assert [world.place(name) for name in holder] == ["a", "a"]
    large = world.job("large", 2, 2)
    assert world.ask(large[0]).kept == ()
    world.now += 601
    small = world.job("small", 1, 1)
    assert reasons(world, small[0]) == {
        "job ns/small (1 PS + 1 worker) waits its turn: a job that waits longer needs the room"
    }
    world.delete(*holder)
    world.placer.advance()
    assert set(world.wishes()) == set(large)


def test_only_nodes_that_it_could_use_are_kept_for_it() -> None:
    world = World({"a": 8, "b": 2})
    assert [world.place(name) for name in world.job("holder", 1, 1, cpu=2)] == ["a", "a"]
    assert world.ask(world.job("large", 1, 1, cpu=4)[0]).kept == ()
    world.now += 601
    assert "waits its turn" in "".join(reasons(world, world.job("middle", 1, 1, cpu=2)[0]))
    assert world.ask(world.job("small", 1, 1)[0]).kept == ("b",)


def test_a_job_that_can_never_fit_holds_nobody_back() -> None:
    world = World({"a": 4})
    assert world.ask(world.job("huge", 3, 3)[0]).kept == ()
    world.now += 601
    assert world.ask(world.job("small", 1, 1)[0]).kept == ("a",)


def test_a_job_that_has_run_before_comes_before_a_new_one() -> None:
    world = World({"a": 4})
    world.spec("ran", 2, 2)
    ran = world.job("ran", 2, 2)
    for name in ran:
        world.place(name)
    world.delete(*ran)
    holder = world.other("o", 4, "a")
    new = world.job("new", 1, 1)
    again = world.job("ran", 2, 2)
    assert world.ask(new[0], ["a"]).kept == ()
    world.delete(holder.name)
    assert world.ask(new[0]).kept == ()
    assert set(world.wishes()) == set(again)


def test_so_does_one_of_which_its_profile_tells_later_that_it_has_run() -> None:
    world = World({"a": 4})
    holder = world.other("o", 4, "a")
    new, ran = world.job("new", 1, 1), world.job("ran", 2, 2)
    world.placer.advance()
    world.placer.rescale_changed("uid-ran", None, has_run=True)
    world.delete(holder.name)
    world.placer.advance()
    assert set(world.wishes()) == set(ran)
    assert world.ask(new[0]).kept == ()


def test_one_call_looks_at_a_few_old_gangs_only_and_the_next_at_more() -> None:
    world = World({f"n{index}": 1 for index in range(4)})
    for index in range(20):
        world.job(f"old{index:02}", 9, 9)  # never fits
    world.now += 601
    looked_at = []
    for _ in range(4):
        world.placer.advance()
        looked_at.append(len(world.placer._planner._could_fit._known))
        world.placer._planner.room_grew()
    assert looked_at == [8, 16, 20, 20]
