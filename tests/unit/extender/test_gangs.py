"""Who belongs to a gang, and that it waits for all of them."""

from optimus.jobs import Counts, FixedRole, ReplicaSpec, Role
from optimus.resources import Resources
from tests.unit.extender.world import World, reasons


def test_a_gang_waits_until_all_its_pods_exist_and_is_planned_by_its_last() -> None:
    world = World({"a": 9})
    counts = Counts(1, 2)
    first = world.pod("j", Role.PS, 0, counts).name
    world.pod("j", Role.WORKER, 0, counts)
    assert reasons(world, first) == {"waiting for all pods of job ns/j"}
    assert world.placer.reservations() == 0
    last = world.pod("j", Role.WORKER, 1, counts).name
    assert world.ask(last).kept == ("a",)
    assert world.wishes() == {"j-ps-0": "a", "j-worker-0": "a", "j-worker-1": "a"}


def test_pods_that_were_told_to_wait_for_others_are_told_when_it_is_room_that_lacks() -> None:
    world = World({"a": 1})
    counts = Counts(1, 1)
    first = world.pod("j", Role.PS, 0, counts)
    world.ask(first.name)
    assert world.placer.advance() == ()
    world.pod("j", Role.WORKER, 0, counts)
    assert world.placer.advance() == (first,)
    assert world.placer.advance() == ()


def test_a_gang_is_planned_by_the_thread_when_its_last_pod_is_seen_after_it_asked() -> None:
    world = World({"a": 9})
    names = world.job("j", 1, 1)
    world.placer.advance()
    assert set(world.wishes()) == set(names)


def test_a_pod_that_is_asked_about_before_the_watch_shows_it_counts() -> None:
    world = World({"a": 9})
    counts = Counts(1, 1)
    world.pod("j", Role.PS, 0, counts)
    unseen = world.pod("j", Role.WORKER, 0, counts)
    world.delete(unseen.name)
    assert world.placer.filter(unseen, ["a"]).kept == ("a",)


def test_pods_being_deleted_do_not_count() -> None:
    world = World({"a": 9})
    names = world.job("j", 1, 1)
    world.change(world.pods[names[1]], leaving=True)
    assert reasons(world, names[0]) == {"waiting for all pods of job ns/j"}


def test_without_a_list_of_its_own_a_pods_gang_is_the_jobs() -> None:
    world = World({"a": 9})
    name = world.pod("j", Role.WORKER, 0, None).name
    world.spec("j", 1, 1)
    assert reasons(world, name) == {"waiting for all pods of job ns/j"}
    world.pod("j", Role.PS, 0, None)
    assert world.ask(name).kept == ("a",)


def test_evaluators_belong_to_the_gang_though_no_list_names_them() -> None:
    world = World({"a": 9})
    world.spec("j", 1, 1, FixedRole(Role.EVALUATOR, 1, ReplicaSpec(Resources(cpu=1, pods=1))))
    names = world.job("j", 1, 1)
    assert reasons(world, names[0]) == {"waiting for all pods of job ns/j"}
    world.pod("j", Role.EVALUATOR, 0, Counts(1, 1))
    assert world.ask(names[0]).kept == ("a",)


def test_a_pod_without_a_list_waits_until_its_job_is_seen() -> None:
    world = World({"a": 9})
    name = world.pod("j", Role.WORKER, 0, None).name
    assert reasons(world, name) == {"job ns/j itself has not been seen yet"}
    world.placer.advance()
    assert world.placer.prioritize(world.pods[name], ["a"]) == {"a": 10}
    assert world.placer.reservations() == 0
    world.spec("j", 0, 2)
    assert reasons(world, name) == {"waiting for all pods of job ns/j"}
    world.pod("j", Role.WORKER, 1, None)
    assert world.ask(name).kept == ("a",)


def test_a_single_pod_of_a_job_that_cannot_be_read_is_a_gang_of_its_own() -> None:
    world = World({"a": 9})
    name = world.pod("j", Role.WORKER, 0, None).name
    world.placer.job_changed("uid-j", None, is_there=True)
    assert world.ask(name).kept == ("a",)
