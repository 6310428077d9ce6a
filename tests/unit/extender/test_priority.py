"""Priorities: who is planned first, whose reservations hold against whom, whose plan is broken."""

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
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(high)


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
    cluster.plan()
    cluster.node("b", 2)
    cluster.job("high", 1, 1, priority=8)
    cluster.plan()
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
        cluster.plan()
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
        cluster.plan()
        assert [cluster.ask(name).kept for name in gang] == [(), ()]
        assert cluster.planned_nodes() == {}
        cluster.node("c", 1)
        cluster.plan()
        assert {cluster.ask(name).kept for name in gang} == {("b",), ("c",)}

    def test_a_gang_of_a_higher_priority_is_answered_beside_it(self) -> None:
        cluster = FakeCluster({"a": 4})
        low = cluster.job("low", 1, 1, priority=1)
        high = cluster.job("high", 1, 1, priority=9)
        cluster.plan()
        assert set(cluster.planned_nodes()) == {*low, *high}
        assert cluster.filter(cluster.other("o", 1, priority=5), ["a"]).kept == ("a",)
        assert [cluster.ask(name).kept for name in low] == [(), ()]
        assert [cluster.ask(name).kept for name in high] == [("a",), ("a",)]


def test_a_pod_gets_no_more_than_the_reservations_of_lower_priorities() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.job("low", 1, 1, priority=1)
    cluster.job("high", 1, 1, priority=3)
    cluster.plan()
    assert cluster.filter(cluster.other("o", 2, priority=2), ["a"]).kept == ("a",)
    assert cluster.filter(cluster.other("p", 3, priority=2), ["a"]).kept == ()
