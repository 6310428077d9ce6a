"""Scores for each node that is offered."""

from optimus.jobs import Counts, Role
from tests.unit.extender.world import World


def test_by_score_alone_a_gang_is_planned_with_its_first_pod() -> None:
    world = World({"a": 3, "b": 3, "c": 3})
    first = world.pod("j", Role.PS, 0, Counts(2, 4))
    assert world.placer.prioritize(first, ["a", "b", "c"]) == {"a": 10, "b": 10, "c": 10}, (
        "workers are unknown yet"
    )
    world.spec("j", 2, 4)
    scores = world.placer.prioritize(first, ["a", "b", "c"])
    assert sorted(scores.values()) == [0, 0, 10]
    assert world.placer.reservations() == 6


def test_by_score_alone_a_gang_that_does_not_fit_stays_together() -> None:
    world = World({"a": 3, "b": 2, "c": 1})
    world.spec("j", 4, 4)
    counts = Counts(4, 4)
    world.bind(world.pod("j", Role.PS, 0, counts).name, "b")
    second = world.pod("j", Role.PS, 1, counts)
    assert world.placer.prioritize(second, ["a", "b", "c"]) == {"a": 9, "b": 10, "c": 3}


def test_pods_of_others_score_nothing_but_room_that_is_free() -> None:
    world = World({"a": 2, "b": 2})
    world.ask(world.job("j", 1, 1)[0])
    assert world.placer.prioritize(world.other("o", 1), ["a", "b"]) == {"a": 0, "b": 10}
