"""What the placer answers, scenario by scenario."""

from collections import Counter
from dataclasses import replace

import pytest

from kube.pods import Pod
from scheduling.jobs import Counts, FixedRole, ReplicaSpec, Role
from scheduling.resources import Resources
from tests.unit.extender.world import World


def reasons(world: World, name: str, *offered: str) -> set[str]:
    verdict = world.ask(name, offered or None)
    assert verdict.kept == ()
    return set(verdict.refused.values())


def test_each_pod_of_a_gang_gets_exactly_its_planned_node() -> None:
    world = World({"a": 3, "b": 3, "c": 3})
    pods = world.job("j", 2, 4)
    for name in pods:
        verdict = world.ask(name)
        assert len(verdict.kept) == 1
        assert {*verdict.kept, *verdict.refused} == {*world.fitting(world.pods[name])}
        assert set(verdict.refused.values()) <= {"job ns/j is planned on other nodes for this replica"}
        world.bind(name, verdict.kept[0])
        world.assert_sound()
    assert Counter(pod.node for pod in world.pods.values()) == {"a": 3, "b": 3}
    assert world.placer.reservations() == 0


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
    assert reasons(world, nominated.name, elsewhere) == {"the plan of job ns/j has changed since the pod was nominated"}
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
    assert reasons(world, names[0], "b") == {"job ns/j does not fit as a whole on the nodes offered"}
    assert reasons(world, names[0], "b") == {"job ns/j (2 PS + 1 worker) does not fit as a whole"}
    world.placer.advance()
    assert world.wishes() == {}
    if lifted:
        world.node("a", 4)
    else:
        world.now += 61
    world.placer.advance()
    assert world.wishes() == dict.fromkeys(names, "a")


def test_what_kube_scheduler_is_binding_stays_where_it_was_sent_when_the_rest_is_planned_again() -> None:
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
    assert set(world.placer.filter(asked, ["a"]).refused.values()) == {"the pod has been bound already"}


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


def test_pods_being_deleted_do_not_count() -> None:
    world = World({"a": 9})
    names = world.job("j", 1, 1)
    world.change(world.pods[names[1]], leaving=True)
    assert reasons(world, names[0]) == {"waiting for all pods of job ns/j"}


def test_a_deleted_job_gives_its_room_back() -> None:
    world = World({"a": 2})
    names = world.job("j", 1, 1)
    world.ask(names[0])
    assert world.placer.reservations() == 2
    world.delete(*names)
    world.placer.job_changed("uid-j", None)
    assert world.placer.reservations() == 0
    assert world.place(world.job("k", 1, 1)[0]) == "a"


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


@pytest.mark.parametrize(
    ("suspended", "seconds"),
    [
        pytest.param(True, 600, id="suspended: as long as room is held"),
        pytest.param(False, 30, id="resumed by hand: as long as a suspension takes"),
    ],
)
def test_a_profile_that_stays_at_suspending_does_not_keep_its_pods_out_for_ever(suspended: bool, seconds: int) -> None:
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


def bound_job(world: World, ps: int, workers: int) -> list[str]:
    world.spec("j", ps, workers)
    names = world.job("j", ps, workers)
    assert all(world.place(name) for name in names)
    return names


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


def nominated(world: World, **nodes: str) -> list[Pod]:
    names = world.job("j", 1, 1)
    return [world.change(world.pods[name], nominated_node=nodes[name.split("-")[1]]) for name in names]


def test_a_new_process_takes_whole_plans_over_from_nominations() -> None:
    world = World({"a": 1, "b": 1})
    nominated(world, ps="b", worker="a")
    assert world.placer.rebuild() == ()
    assert world.wishes() == {"j-ps-0": "b", "j-worker-0": "a"}


def test_nominations_that_there_is_no_room_for_are_told_to_be_cleared() -> None:
    world = World({"a": 1, "b": 1})
    pods = nominated(world, ps="a", worker="a")
    assert list(world.placer.rebuild()) == pods
    assert world.placer.reservations() == 0


def test_by_score_alone_a_gang_is_planned_with_its_first_pod() -> None:
    world = World({"a": 3, "b": 3, "c": 3})
    first = world.pod("j", Role.PS, 0, Counts(2, 4))
    assert world.placer.prioritize(first, ["a", "b", "c"]) == {"a": 10, "b": 10, "c": 10}, "workers are unknown yet"
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


def test_how_long_a_gang_waited_is_told() -> None:
    world = World({"a": 2})
    holder = world.other("o", 2, "a")
    names = world.job("j", 1, 1)
    world.ask(names[0], ["a"])
    world.now += 7
    world.delete(holder.name)
    world.placer.advance()
    assert world.waits == [7.0]


def test_a_process_that_no_longer_leads_holds_nothing() -> None:
    world = World({"a": 2})
    world.job("j", 1, 1)
    world.placer.advance()
    world.placer.let_go()
    assert world.placer.reservations() == 0
