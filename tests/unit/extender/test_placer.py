"""What the placer answers, scenario by scenario."""

from collections import Counter

import pytest

from tests.unit.extender.world import World, reasons


def test_each_pod_of_a_gang_gets_exactly_its_planned_node() -> None:
    world = World({"a": 3, "b": 3, "c": 3})
    pods = world.job("j", 2, 4)
    for name in pods:
        verdict = world.ask(name)
        assert len(verdict.kept) == 1
        assert {*verdict.kept, *verdict.refused} == {*world.fitting(world.pods[name])}
        assert set(verdict.refused.values()) <= {
            "job ns/j is planned on other nodes for this replica"
        }
        world.bind(name, verdict.kept[0])
        world.assert_sound()
    assert Counter(pod.node for pod in world.pods.values()) == {"a": 3, "b": 3}
    assert world.placer.reservations() == 0


def test_what_does_not_fit_waits_whole_and_is_planned_when_room_appears() -> None:
    world = World({"a": 3, "b": 2})
    other = world.other("o", 2, "b")
    first = world.job("j", 1, 3)[0]
    assert reasons(world, first) == {"job ns/j (1 PS + 3 workers) does not fit as a whole"}
    world.placer.advance()
    assert world.wishes() == {}
    world.delete(other.name)
    world.placer.advance()
    assert len(world.wishes()) == 4


def test_two_jobs_that_fit_one_at_a_time_never_both_hold_a_part() -> None:
    world = World({"a": 2, "b": 2})
    one, two = world.job("one", 1, 2), world.job("two", 1, 2)
    for name in [pod for pair in zip(one, two, strict=True) for pod in pair]:
        world.place(name)
        bound = {pod.owner.name for pod in world.pods.values() if pod.node and pod.owner}
        assert len(bound) <= 1
    assert sum(pod.node is not None for pod in world.pods.values()) == 3


def test_pods_of_others_may_use_all_room_but_what_is_reserved() -> None:
    world = World({"a": 3, "b": 1})
    names = world.job("j", 1, 1)
    world.ask(names[0])
    assert world.ask(world.other("small", 1).name).kept == ("a", "b")
    large = world.other("large", 2)
    verdict = world.placer.filter(large, ["a"])
    assert verdict.kept == ()
    assert dict(verdict.refused) == {"a": "room is reserved for a training job"}


def test_a_probe_gets_the_planned_node_and_never_a_new_plan() -> None:
    world = World({"a": 2, "b": 2})
    names = world.job("j", 1, 1)
    node = world.ask(names[0]).kept[0]
    elsewhere = "b" if node == "a" else "a"
    nominated = world.change(world.pods[names[1]], nominated_node=node)
    assert world.ask(nominated.name, [node]).kept == (node,)
    world.change(nominated, nominated_node=elsewhere)
    assert reasons(world, nominated.name, elsewhere) == {
        "the plan of job ns/j has changed since the pod was nominated"
    }
    assert world.wishes()[nominated.name] == node


def test_a_probe_without_any_plan_is_refused() -> None:
    world = World({"a": 9, "b": 9})
    name = world.job("j", 1, 1)[0]
    world.change(world.pods[name], nominated_node="a")
    assert world.ask(name, ["a"]).kept == ()
    assert world.placer.reservations() == 0


def test_a_planned_node_that_is_not_offered_is_barred_and_the_gang_is_planned_elsewhere() -> None:
    world = World({"a": 2, "b": 2})
    names = world.job("j", 1, 1)
    assert world.ask(names[0]).kept == ("a",)
    assert world.ask(names[0], ["b"]).kept == ("b",)
    assert world.wishes() == {"j-ps-0": "b", "j-worker-0": "b"}


@pytest.mark.parametrize(
    "lifted", [pytest.param(True, id="the node changes"), pytest.param(False, id="its time passes")]
)
def test_a_barred_node_is_tried_again(lifted: bool) -> None:
    world = World({"a": 3, "b": 1})
    names = world.job("j", 2, 1)
    assert reasons(world, names[0], "b") == {
        "job ns/j does not fit as a whole on the nodes offered"
    }
    assert reasons(world, names[0], "b") == {"job ns/j (2 PS + 1 worker) does not fit as a whole"}
    world.placer.advance()
    assert world.wishes() == {}
    if lifted:
        world.node("a", 4)
    else:
        world.now += 61
    world.placer.advance()
    assert world.wishes() == dict.fromkeys(names, "a")


def test_a_pod_that_is_being_bound_stays_where_it_is_when_the_rest_is_planned_again() -> None:
    world = World({"a": 2, "b": 2, "c": 2})
    names = world.job("j", 2, 2)
    sent = world.ask(names[0]).kept[0]
    stuck = world.wishes()[names[3]]
    assert stuck != sent
    other = next(node for node in "abc" if node not in (sent, stuck))
    assert world.ask(names[3], [node for node in "abc" if node != stuck]).kept == (other,)
    world.bind(names[0], sent)
    world.assert_sound()
    for name in names[1:]:
        assert world.place(name) is not None
    assert Counter(pod.node for pod in world.pods.values()) == {sent: 2, other: 2}


def test_a_half_bound_gang_is_completed_around_its_bound_pods() -> None:
    world = World({"a": 3, "b": 3})
    names = world.job("j", 2, 4)
    first = world.place(names[0])
    world.now += 1000
    world.placer.advance()
    assert world.wishes() == {}
    world.place(names[1])
    world.assert_sound()
    assert len(world.wishes()) == 4
    for name in names[2:]:
        world.place(name)
    assert Counter(pod.node for pod in world.pods.values()) == {"a": 3, "b": 3}
    assert world.pods[names[0]].node == first


def test_a_pod_that_is_bound_by_now_is_refused() -> None:
    world = World({"a": 2})
    names = world.job("j", 1, 1)
    asked = world.pods[names[0]]
    world.place(names[0])
    assert set(world.placer.filter(asked, ["a"]).refused.values()) == {
        "the pod has been bound already"
    }


def test_room_of_pods_that_do_not_bind_in_time_goes_to_others() -> None:
    world = World({"a": 2})
    names = world.job("slow", 1, 1)
    world.ask(names[0])
    others = world.job("other", 1, 1)
    assert world.ask(others[0]).kept == ()
    world.now += 61
    assert world.ask(others[0]).kept == ("a",)


def test_a_job_that_kube_scheduler_never_asks_about_does_not_hold_room_again_and_again() -> None:
    world = World({"a": 2})
    stuck = world.job("stuck", 1, 1)
    world.placer.advance()
    assert set(world.wishes()) == set(stuck)
    world.now += 61
    world.placer.advance()
    assert world.wishes() == {}
    other = world.job("other", 1, 1)
    assert [world.place(name) for name in other] == ["a", "a"]
    world.delete(*other)
    world.placer.advance()
    assert world.wishes() == {}
    world.ask(stuck[0])
    assert set(world.wishes()) == set(stuck)


def test_a_deleted_job_gives_its_room_back() -> None:
    world = World({"a": 2})
    names = world.job("j", 1, 1)
    world.ask(names[0])
    assert world.placer.reservations() == 2
    world.delete(*names)
    world.placer.job_changed("uid-j", None)
    assert world.placer.reservations() == 0
    assert world.place(world.job("k", 1, 1)[0]) == "a"


def test_when_others_take_promised_room_the_gang_is_planned_again() -> None:
    world = World({"a": 2, "b": 2})
    names = world.job("j", 1, 1)
    world.placer.advance()
    assert set(world.wishes().values()) == {"a"}
    world.other("intruder", 1, "a")
    world.assert_sound()
    world.placer.advance()
    assert world.wishes() == dict.fromkeys(names, "b")


def test_a_lost_node_takes_its_plans_with_it() -> None:
    world = World({"a": 2, "b": 2})
    names = world.job("j", 1, 1)
    world.placer.advance()
    world.lose_node("a")
    world.assert_sound()
    world.placer.advance()
    assert world.wishes() == dict.fromkeys(names, "b")


def test_how_long_a_gang_waited_is_told() -> None:
    world = World({"a": 2})
    holder = world.other("o", 2, "a")
    names = world.job("j", 1, 1)
    world.ask(names[0], ["a"])
    world.now += 7
    world.delete(holder.name)
    world.placer.advance()
    assert world.waits == [7.0]
