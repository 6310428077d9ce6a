"""Priorities: who is planned first, whose reservations hold against whom, whose plan is broken."""

import pytest

from optimus.jobs import Counts, Role
from optimus.kube.pods import Pod
from optimus.placement.queue.order import SYSTEM_CRITICAL_PRIORITY
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster


def test_a_gang_of_a_higher_priority_is_planned_before_all_others() -> None:
    cluster = FakeCluster({"a": 4})
    holder = cluster.other("o", 4, "a")
    small = cluster.job("small", 1, 1)
    cluster.now += 700
    high = cluster.job("high", 2, 2, priority=5)
    assert cluster.ask(small[0], ["a"]).kept == ()
    cluster.delete(holder.name)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(high)


def test_a_gang_has_the_lowest_priority_of_its_pods() -> None:
    cluster = FakeCluster({"a": 2})
    mixed = [
        cluster.pod("mixed", Role.PS, 0, Counts(1, 1), priority=9).name,
        cluster.pod("mixed", Role.WORKER, 0, Counts(1, 1), priority=1).name,
    ]
    middle = cluster.job("middle", 1, 1, priority=5)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(middle)
    cluster.delete(*middle)
    cluster.handlers.set_job("uid-middle", None)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(mixed)


@cases(
    ("priority", "kept"),
    {
        "a lower priority passes by what is reserved": (4, ()),
        "so does the same priority": (5, ()),
        "a higher one takes it": (6, ("a",)),
        "but not from gangs of its own priority": (8, ("a",)),
        "the highest takes all": (9, ("a", "b")),
        "a system-critical pod too": (SYSTEM_CRITICAL_PRIORITY, ("a", "b")),
    },
)
def test_a_pod_of_no_job_ignores_reservations_of_lower_priorities(
    priority: int, kept: tuple[str, ...]
) -> None:
    cluster = FakeCluster({"a": 2, "b": 0, "c": 0})
    cluster.job("low", 1, 1, priority=5)
    cluster.planner.advance()
    cluster.node("b", 2)
    cluster.job("high", 1, 1, priority=8)
    cluster.planner.advance()
    assert set(cluster.planned_nodes().values()) == {"a", "b"}
    other = cluster.other("o", 1, priority=priority)
    assert cluster.filter(other, ["a", "b"]).kept == kept
    scores = cluster.prioritize(other, ["a", "b"])
    assert {name for name, score in scores.items() if score} == set(kept)
    # Where a node has the room without it, it takes nothing from anybody.
    cluster.node("c", 2)
    assert cluster.filter(other, ["a", "b", "c"]).kept == ("c",)
    assert cluster.prioritize(other, ["a", "b", "c"])["c"] > 0


class TestPodThatMayTakeReservedRoom:
    """Between the answer to a pod of no job and its binding, no gang is bound in part."""

    def planned(self) -> tuple[FakeCluster, list[str], Pod]:
        cluster = FakeCluster({"a": 1, "b": 1})
        gang = cluster.job("low", 1, 1)
        cluster.planner.advance()
        assert set(cluster.planned_nodes()) == set(gang)
        return cluster, gang, cluster.other("o", 1, priority=9)

    def test_nobody_of_the_gang_is_answered_until_the_pod_is_bound(self) -> None:
        cluster, gang, other = self.planned()
        assert cluster.filter(other, ["a", "b"]).kept == ("a", "b")
        for name in gang:
            refused = cluster.ask(name)
            assert not refused.kept
            assert refused.cause == "passed"
        cluster.bind(other.name, "a")
        cluster.planner.advance()
        assert [cluster.ask(name).kept for name in gang] == [(), ()]
        assert cluster.planned_nodes() == {}
        cluster.node("c", 1)
        cluster.planner.advance()
        assert {cluster.ask(name).kept for name in gang} == {("b",), ("c",)}

    def test_a_gang_with_nothing_there_is_answered(self) -> None:
        cluster, _, other = self.planned()
        cluster.node("c", 2)
        elsewhere = cluster.job("elsewhere", 1, 1)
        cluster.planner.advance()
        assert cluster.filter(other, ["a", "b"]).kept == ("a", "b")
        assert [cluster.ask(name).kept for name in elsewhere] == [("c",), ("c",)]

    def test_a_gang_of_a_higher_priority_is_answered_beside_it(self) -> None:
        cluster = FakeCluster({"a": 4})
        low = cluster.job("low", 1, 1, priority=1)
        high = cluster.job("high", 1, 1, priority=9)
        cluster.planner.advance()
        assert set(cluster.planned_nodes()) == {*low, *high}
        assert cluster.filter(cluster.other("o", 1, priority=5), ["a"]).kept == ("a",)
        assert [cluster.ask(name).kept for name in low] == [(), ()]
        assert [cluster.ask(name).kept for name in high] == [("a",), ("a",)]

    @pytest.mark.parametrize("end", ["gone", "refused by kube-scheduler", "not heard of again"])
    def test_the_gang_is_answered_where_the_pod_does_not_come(self, end: str) -> None:
        cluster, gang, other = self.planned()
        cluster.filter(other, ["a", "b"])
        assert not cluster.ask(gang[0]).kept
        if end == "gone":
            cluster.delete(other.name)
        elif end == "refused by kube-scheduler":
            cluster.change(other)
        else:
            cluster.now += cluster.settings.reservation_seconds
            cluster.planner.advance()
        assert {cluster.ask(name).kept for name in gang} == {("a",), ("b",)}


def test_a_system_critical_pod_ignores_reservations_of_system_critical_gangs() -> None:
    cluster = FakeCluster({"a": 2})
    cluster.job("j", 1, 1, priority=SYSTEM_CRITICAL_PRIORITY)
    cluster.planner.advance()
    below = cluster.other("below", 1, priority=SYSTEM_CRITICAL_PRIORITY - 1)
    critical = cluster.other("critical", 1, priority=SYSTEM_CRITICAL_PRIORITY)
    assert cluster.filter(below, ["a"]).kept == ()
    assert cluster.filter(critical, ["a"]).kept == ("a",)


def test_a_pod_gets_no_more_than_the_reservations_of_lower_priorities() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.job("low", 1, 1, priority=1)
    cluster.job("high", 1, 1, priority=3)
    cluster.planner.advance()
    assert cluster.filter(cluster.other("o", 2, priority=2), ["a"]).kept == ("a",)
    assert cluster.filter(cluster.other("p", 3, priority=2), ["a"]).kept == ()


def test_room_that_is_taken_breaks_the_plan_of_the_lowest_priority() -> None:
    cluster = FakeCluster({"a": 4, "b": 1})
    low = cluster.job("a-low", 1, 1, priority=3)
    lower = cluster.job("b-lower", 1, 1, priority=2)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == {*low, *lower}
    cluster.other("intruder", 2, "a", priority=9)
    assert set(cluster.planned_nodes()) == set(low)
    cluster.assert_not_overcommitted()
    cluster.node("b", 2)
    cluster.planner.advance()
    assert cluster.planned_nodes() == dict.fromkeys(low, "a") | dict.fromkeys(lower, "b")


def test_what_is_being_bound_is_broken_last() -> None:
    cluster = FakeCluster({"a": 4})
    bound, planned = cluster.job("a-bound", 1, 1), cluster.job("b-planned", 1, 1, priority=5)
    assert [cluster.ask(name).kept for name in bound] == [("a",), ("a",)]
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == {*bound, *planned}
    cluster.other("intruder", 1, "a")
    assert set(cluster.planned_nodes()) == set(bound)
    cluster.other("second", 2, "a")
    assert cluster.planned_nodes() == {}
    cluster.assert_not_overcommitted()


def test_a_rescaled_job_without_pods_keeps_its_priority() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.spec("j", 1, 1)
    old = cluster.job("j", 1, 1, priority=7)
    for name in old:
        cluster.place(name)
    cluster.rescale("j", 1, 2, leaving=True)
    cluster.delete(*old)
    cluster.rescale("j", 1, 2, leaving=False)
    assert cluster.state.reservation_count() == 3
    assert cluster.filter(cluster.other("o", 1, priority=6), ["a"]).kept == ()
    assert cluster.filter(cluster.other("p", 1, priority=8), ["a"]).kept == ("a",)
