"""Room that is reserved for a job while it is rescaled."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from extender.state.cluster import ProfileRescale
from optimus.jobs import Counts
from optimus.nodes import Node, Taint
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def bound_job(cluster: FakeCluster, ps: int, workers: int, cpu: int = 1) -> list[str]:
    cluster.spec("j", ps, workers)
    names = cluster.job("j", ps, workers, cpu)
    assert all(cluster.place(name) for name in names)
    return names


@cases(
    ("suspended", "seconds"),
    {
        "suspended: as long as room is held": (True, 600),
        "resumed by hand: as long as a suspension takes": (False, 30),
    },
)
def test_a_profile_that_stays_at_suspending_blocks_its_pods_for_a_limited_time(
    suspended: bool, seconds: int
) -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("j", 1, 1)
    job = cluster.state.cluster.jobs["uid-j"]
    cluster.handlers.set_job("uid-j", replace(job, suspended=suspended))
    cluster.rescale("j", 1, 1, leaving=True)
    names = cluster.job("j", 1, 1)
    cluster.now += seconds
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    cluster.now += 1
    assert cluster.ask(names[0]).kept == ("a",)


def test_a_rescaled_job_keeps_its_place_against_a_waiting_one() -> None:
    cluster = FakeCluster({"a": 4})
    old = bound_job(cluster, 1, 2)
    waiting = cluster.job("waiting", 2, 2)
    assert cluster.ask(waiting[0], ["a"]).kept == ()
    cluster.rescale("j", 1, 3, leaving=True)
    cluster.assert_not_overcommitted()
    cluster.delete(*old)
    cluster.planner.advance()
    cluster.rescale("j", 1, 3, leaving=False)
    assert cluster.ask(waiting[0]).kept == ()
    cluster.assert_not_overcommitted()
    new = cluster.job("j", 1, 3)
    assert [cluster.place(name) for name in new] == ["a"] * 4
    cluster.handlers.set_rescale("uid-j", None)
    assert cluster.state.reservation_count() == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_the_pods_requests_are_reserved_not_the_jobs_template(restarts: bool) -> None:
    cluster = FakeCluster({"a": 8})
    old = bound_job(cluster, 1, 2, cpu=2)
    waiting = cluster.job("waiting", 1, 1)
    if not restarts:
        cluster.rescale("j", 1, 3, leaving=True)
        assert cluster.ask(waiting[0]).kept == ()
    cluster.delete(*old)
    new = cluster.job("j", 1, 3, cpu=2)
    cluster.rescale("j", 1, 3, leaving=False)
    assert cluster.ask(waiting[0]).kept == ()
    assert [cluster.place(name) for name in new] == ["a"] * 4


def test_pods_that_a_rescale_is_about_to_delete_are_refused() -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.rescale("j", 1, 3, leaving=True)
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    assert cluster.state.reservation_count() == 4
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 4


def test_room_is_reserved_for_a_rescale_for_ten_minutes_at_most() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    others = cluster.job("other", 1, 1)
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 599.9
    cluster.planner.advance()
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 0.1
    cluster.planner.advance()
    assert cluster.ask(others[0]).kept == ("a",)
    cluster.assert_not_overcommitted()


def test_what_a_job_may_return_to_is_reserved_while_its_target_does_not_fit() -> None:
    cluster = FakeCluster({"a": 6})
    old = bound_job(cluster, 1, 2)
    cluster.other("taken", 2, "a")
    cluster.rescale("j", 1, 4, leaving=True, kept=Counts(1, 2))
    cluster.delete(*old)
    cluster.rescale("j", 1, 4, leaving=False, kept=Counts(1, 2))
    waiting = cluster.job("waiting", 1, 1)
    cluster.planner.advance()
    assert cluster.ask(waiting[0]).kept == (), "three of the four are what it returns to"
    new = cluster.job("j", 1, 4)
    assert all(cluster.ask(name).kept == () for name in new), "a part of it is not placed"
    assert not set(cluster.planned_nodes()) & set(new)
    cluster.delete(*new)
    cluster.rescale("j", 1, 2, leaving=True)
    assert cluster.ask(waiting[0]).kept == ()
    cluster.rescale("j", 1, 2, leaving=False)
    assert [cluster.place(name) for name in cluster.job("j", 1, 2)] == ["a"] * 3
    cluster.assert_not_overcommitted()


def test_a_larger_target_is_placed_as_a_whole_once_it_fits() -> None:
    cluster = FakeCluster({"a": 6})
    old = bound_job(cluster, 1, 2)
    cluster.other("taken", 2, "a")
    cluster.rescale("j", 1, 4, leaving=True, kept=Counts(1, 2))
    cluster.delete(*old)
    cluster.rescale("j", 1, 4, leaving=False, kept=Counts(1, 2))
    new = cluster.job("j", 1, 4)
    cluster.delete("taken")
    cluster.planner.advance()
    assert [cluster.place(name) for name in new] == ["a"] * 5


def test_what_a_job_may_return_to_is_free_once_its_rescale_is_over() -> None:
    cluster = FakeCluster({"a": 6})
    old = bound_job(cluster, 1, 2)
    cluster.other("taken", 2, "a")
    cluster.rescale("j", 1, 4, leaving=True, kept=Counts(1, 2))
    cluster.delete(*old)
    cluster.rescale("j", 1, 4, leaving=False, kept=Counts(1, 2))
    cluster.job("j", 1, 4)
    assert cluster.state.reservation_count() == 3
    cluster.handlers.set_rescale("uid-j", None)
    assert cluster.state.reservation_count() == 0


def test_room_that_was_a_jobs_own_is_not_taken_by_one_that_grows() -> None:
    """Its plan is broken; the other, which was stopped before it, waits for room to grow."""
    cluster = FakeCluster({"a": 6})
    cluster.spec("a-grows", 1, 1)
    grows = cluster.job("a-grows", 1, 1)
    assert all(cluster.place(name) for name in grows)
    old = bound_job(cluster, 1, 3)
    cluster.rescale("a-grows", 1, 4, leaving=True, kept=Counts(1, 1))
    cluster.rescale("j", 1, 2, leaving=True)
    cluster.delete(*old, *grows)
    cluster.rescale("a-grows", 1, 4, leaving=False, kept=Counts(1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    with cluster.state.locked():
        cluster.state.break_plan("uid-j")
    cluster.planner.advance()
    assert [cluster.place(name) for name in cluster.job("j", 1, 2)] == ["a"] * 3


def test_pods_of_another_shape_than_the_rescale_meant_are_planned_again() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    names = cluster.job("j", 1, 1)
    assert [cluster.place(name) for name in names] == ["a", "a"]


@dataclass(frozen=True)
class CountingRule(Theorem1):
    """Theorem 1, and the gangs that it was asked for."""

    searched: list[str] = field(default_factory=list)

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        self.searched.append(gang.job_uid)
        return super().place(gang, capacity)


@dataclass
class Search:
    """A rescale whose target does not fit, and how often room is searched for it."""

    cluster: FakeCluster = field(default_factory=lambda: FakeCluster({"a": 2, "b": 4, "c": 9}))

    def __post_init__(self) -> None:
        self.cluster.handlers.set_node(
            "c", Node("c", Resources(cpu=9, pods=110), {}, (Taint("k", "v", "NoSchedule"),))
        )
        self.other = self.cluster.other("o", 4, "b")
        self.large = self.cluster.other("large", 9, "c")
        bound_job(self.cluster, 1, 1)
        self.cluster.rescale("j", 1, 5, leaving=True)
        self.rule = self.cluster.state.rescales._rule = CountingRule()

    def updates(self, times: int, every: float) -> int:
        before = len(self.rule.searched)
        for _ in range(times):
            self.cluster.now += every
            with self.cluster.state.locked() as now:
                self.cluster.state.update_rescales(now)
        return len(self.rule.searched) - before


def test_a_rescale_that_does_not_fit_is_searched_for_once_a_second() -> None:
    search = Search()
    assert 9 <= search.updates(500, 0.02) <= 11


def test_a_rescale_that_does_not_fit_is_searched_for_at_once_where_room_appears() -> None:
    search = Search()
    search.updates(1, 1.0)
    search.cluster.delete(search.large.name)
    assert search.updates(5, 0.01) == 0, "a node that admits none of its replicas"
    search.cluster.change(search.other, leaving=True)
    assert search.updates(5, 0.01) == 0, "nothing has grown"
    search.cluster.delete(search.other.name)
    assert search.updates(1, 0.01) == 1
    assert search.cluster.state.reservation_count() == 6


@dataclass(frozen=True)
class InterruptedRule(Theorem1):
    """Theorem 1; whenever it is asked, something happens first, as other threads make it."""

    cluster: FakeCluster | None = None
    happens: list[Callable[[], object]] = field(default_factory=list)

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        assert self.cluster is not None
        assert not self.cluster.state.lock.locked()
        if self.happens:
            self.happens.pop()()
        return super().place(gang, capacity)


@cases(
    ("happens", "held"),
    {
        "nothing": (lambda cluster: None, {"b": 4}),
        "its node is taken": (lambda cluster: cluster.other("o", 4, "b"), {"c": 4}),
        "its node is lost": (lambda cluster: cluster.lose_node("b"), {"c": 4}),
        "it is undone": (lambda cluster: cluster.handlers.set_rescale("uid-j", None), {}),
        "another leads": (lambda cluster: cluster.adoption.release_all(), {}),
        "to fewer": (lambda cluster: cluster.rescale("j", 1, 1, leaving=True), {"b": 2}),
        "its pods grow": (
            lambda cluster: cluster.change(
                cluster.pods["j-ps-0"], resources=Resources(cpu=3, pods=1)
            ),
            {"b": 6},
        ),
    },
)
def test_room_for_a_rescale_is_searched_for_without_the_lock(
    happens: Callable[[FakeCluster], object], held: dict[str, int]
) -> None:
    cluster = FakeCluster({"a": 2, "b": 6, "c": 5})
    cluster.spec("j", 1, 1)
    for name in cluster.job("j", 1, 1):
        cluster.bind(name, "a")
    cluster.state.rescales._rule = InterruptedRule(
        cluster=cluster, happens=[lambda: happens(cluster)]
    )
    cluster.rescale("j", 1, 3, leaving=True)
    cluster.assert_not_overcommitted()
    found: Counter[str] = Counter()
    for each in cluster.state.reservations.ledger.of_job("uid-j"):
        found[each.node] += each.resources["cpu"]
    assert found == held


def test_room_that_appears_after_ten_minutes_is_not_reserved_for_a_rescale() -> None:
    search = Search()
    search.cluster.now += 599.5
    assert search.updates(1, 0.4) == 1
    search.cluster.delete(search.other.name)
    search.cluster.state.rescales.plan_again("uid-j")
    search.cluster.now += 0.1
    with search.cluster.state.locked() as now:
        search.cluster.state.rescales.update(now.monotonic)
    assert search.cluster.state.reservation_count() == 0


@pytest.mark.parametrize("leaving", [True, False])
@cases("change", {"is bound late": {"node": "b"}, "fails": {"phase": "Failed"}})
def test_an_old_pod_does_not_release_what_is_held_for_its_successor(
    leaving: bool, change: dict[str, str]
) -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.rescale("j", 1, 1, leaving=True)
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 2
    if not leaving:
        for name in names:
            cluster.change(cluster.pods[name], leaving=True)
        cluster.rescale("j", 1, 1, leaving=False)
        cluster.planner.advance()
    held = cluster.state.reservations.ledger.of_job("uid-j")
    cluster.change(cluster.pods[names[1]], **change)
    assert cluster.state.reservations.ledger.of_job("uid-j") == held


def test_room_that_an_old_pod_leaves_is_held_in_the_very_moment() -> None:
    """No slice of the planner is between the pod's end and the call."""
    cluster = FakeCluster({"a": 4})
    old = bound_job(cluster, 1, 3)
    cluster.rescale("j", 1, 3, leaving=True)
    other = cluster.other("o", 1)
    for name in old:
        cluster.delete(name)
        assert cluster.filter(other, ["a"]).kept == ()


def test_a_node_that_shrinks_while_old_pods_leave_it_is_planned_around() -> None:
    cluster = FakeCluster({"a": 4, "b": 0})
    old = bound_job(cluster, 1, 3)
    cluster.rescale("j", 1, 3, leaving=True)
    cluster.node("a", 2)
    cluster.node("b", 4)
    for name in old:
        cluster.delete(name)
        cluster.assert_not_overcommitted()
    cluster.planner.advance()
    held = cluster.state.reservations.ledger.of_job("uid-j")
    assert {each.node for each in held} == {"b"}


def test_what_is_reserved_during_a_search_stays_where_it_is() -> None:
    cluster = FakeCluster({"a": 2, "b": 4, "c": 4})
    others = {name: cluster.other(f"on-{name}", 4, name) for name in "bc"}
    bound_job(cluster, 1, 1)
    cluster.rescale("j", 1, 3, leaving=True)
    rescales = cluster.state.rescales
    cluster.delete(others["b"].name)
    search = rescales.search("uid-j", cluster.now + 1)
    assert search is not None
    found = search.find()
    assert isinstance(found.answer, Placement)
    assert set(found.answer.nodes.values()) == {"b"}
    cluster.other("again-on-b", 4, "b")
    cluster.delete(others["c"].name)
    rescales.update(cluster.now + 2)
    held = cluster.state.reservations.ledger.of_job("uid-j")
    assert {each.node for each in held} == {"c"}
    cluster.delete("again-on-b")
    rescales.settle(search, found)
    assert cluster.state.reservations.ledger.of_job("uid-j") == held


@pytest.mark.parametrize("held", [Counts(0, 0), Counts(1, 1)])
def test_what_a_jobs_user_brings_about_is_no_way_around_the_queue(held: Counts) -> None:
    """A mark on a suspended job, or larger counts of one that runs."""
    cluster = FakeCluster({"a": 4})
    if any(held):
        cluster.delete(*bound_job(cluster, *held))
    cluster.spec("j", 1, 3)
    cluster.now += 1
    cluster.handlers.set_rescale(
        "uid-j", ProfileRescale("uid-j", "forged", Counts(1, 3), False, held, by_user=True)
    )
    assert cluster.state.reservation_count() == 0
    if any(held):
        at_most = ProfileRescale("uid-j", "restart", Counts(1, 1), False, by_user=True)
        cluster.handlers.set_rescale("uid-j", at_most)
        assert cluster.state.reservation_count() == 2
    else:
        assert "uid-j" not in cluster.state.cluster.have_run
