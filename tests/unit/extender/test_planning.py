"""Planning without the lock: what is planned again, what is not, and what a race leaves whole."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from extender.parts import Parts
from extender.settings import Settings
from extender.step_thread import StepThread
from optimus.jobs import Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.ledger import Reservation
from optimus.placement.queue.planning import Slice, Snapshot
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


class CountingRule(Theorem1):
    """Counts the gangs that are planned."""

    placed: ClassVar[Counter[str]] = Counter()

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        self.placed[gang.key.name] += 1
        return super().place(gang, capacity)


@pytest.fixture
def searches() -> Counter[str]:
    """How often each job has been searched a place for."""
    CountingRule.placed = Counter()
    return CountingRule.placed


def counting(cluster: FakeCluster) -> FakeCluster:
    cluster.planner._planning._rule = CountingRule()
    return cluster


def on_lock_use(cluster: FakeCluster, times: int, event: Callable[[], object]) -> None:
    """Let an event happen while a slice is planned, without the lock."""
    planning = cluster.planner._planning
    original, left = planning.plan, [times]

    def plan(snapshot: Snapshot, *args: object, **options: object) -> Slice:
        found = original(snapshot, *args, **options)  # type: ignore[arg-type]
        if left[0]:
            left[0] -= 1
            assert not cluster.state.lock.locked(), "planning goes on without the lock"
            event()
        return found

    planning.plan = plan  # type: ignore[method-assign]


def test_the_end_of_a_pod_that_frees_less_than_gangs_lack_costs_no_search(
    searches: Counter[str],
) -> None:
    cluster = counting(FakeCluster({f"n{at}": 4 for at in range(6)}))
    others = [
        cluster.other(f"o{at}-{node}", 2, node).name for at in (0, 1) for node in cluster.nodes
    ]
    for at in range(5):
        cluster.job(f"j{at}", 1, 1 + at, cpu=2)
    counted: list[int] = []
    callbacks = cluster.state.callbacks
    cluster.state.callbacks = callbacks._replace(count_searches=counted.append)
    cluster.plan()
    first = sum(searches.values())
    assert sum(counted) == first == 5
    cluster.delete(others[0])
    cluster.plan()
    assert sum(searches.values()) == first, "one place is not enough for any gang"
    cluster.delete(others[1])
    cluster.plan()
    assert sum(counted) >= first + 1
    assert set(cluster.planned_nodes()) == {"j0-ps-0", "j0-worker-0"}
    assert searches["j4"] == 1


def test_refusals_are_those_of_planning_everything_again() -> None:
    """Whatever comes and goes, what is remembered is what a new process finds out."""
    generator = np.random.default_rng(3)
    for _ in range(25):
        cluster = FakeCluster({f"n{at}": int(generator.integers(1, 5)) for at in range(5)})
        for at in range(6):
            ps, workers, cpu = (int(generator.integers(*each)) for each in ((0, 3), (1, 5), (1, 3)))
            cluster.job(f"j{at}", ps, workers, cpu=cpu)
        others: list[str] = []
        for step in range(30):
            kind = generator.integers(3)
            if kind == 0 and others:
                cluster.delete(others.pop(int(generator.integers(len(others)))))
            elif kind == 1:
                node = f"n{generator.integers(5)}"
                if cluster.free(node) > 0:
                    others.append(cluster.other(f"o{step}", 1, node).name)
            else:
                node = f"n{generator.integers(5)}"
                cluster.node(node, cluster.used(node)["cpu"] + int(generator.integers(0, 4)))
            cluster.plan()
            cluster.assert_not_overcommitted()
            before = cluster.planned_nodes()
            cluster.state.refusals.clear()
            cluster.state.tried_in_call.clear()
            cluster.plan()
            assert cluster.planned_nodes() == before, "a gang that fits was not planned"


def test_a_gang_does_not_take_the_room_of_one_before_it_whose_plan_failed() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    first = cluster.job("first", 1, 1, priority=1)
    cluster.job("second", 1, 1)
    on_lock_use(cluster, 1, lambda: cluster.other("o", 1, "a"))
    cluster.plan()
    assert cluster.planned_nodes() == dict.fromkeys(first, "b")


def test_the_invariant_checker_reports_a_node_with_less_than_is_reserved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state, handlers = Parts.of(Settings(check_invariants=True))[:2]
    handlers.set_node("a", Node("a", Resources(cpu=2, pods=9)))
    replicas = [ReplicaId("j", Role.WORKER, index) for index in range(3)]
    for count, reported in ((2, False), (3, True)):
        state.reservations.ledger.hold_gang(
            "j", [Reservation(each, "a", Resources(cpu=1), 9.0) for each in replicas[:count]]
        )
        caplog.clear()
        with state.locked():
            pass
        assert ("node a has less than is reserved" in caplog.text) == reported


@cases(
    "event",
    {
        "loses a pod": lambda cluster: cluster.delete("j-worker-0"),
        "loses its node": lambda cluster: cluster.lose_node("a"),
        "is not admitted": lambda cluster: cluster.node("a", 2, pool="other"),
        "is another leader's": lambda cluster: cluster.leading.release_all(),
        "is about to be stopped": lambda cluster: cluster.rescale("j", 1, 1, leaving=True),
    },
)
def test_a_gang_that_changes_while_it_is_planned_is_not_reserved_as_it_was(
    event: Callable[[FakeCluster], object],
) -> None:
    cluster = FakeCluster({})
    cluster.node("a", 2, pool="ours")
    constraints = cluster.pod("x", Role.PS, 0, None).constraints.__class__((("pool", "ours"),))
    cluster.delete("x-ps-0")
    cluster.job("j", 1, 1, constraints=constraints)
    on_lock_use(cluster, 1, lambda: event(cluster))
    cluster.planner.plan_slice()
    assert cluster.planned_nodes() == {}
    assert cluster.state.reservation_count() == 0
    cluster.assert_not_overcommitted()


def test_a_slice_ends_in_time_and_the_rest_is_planned_in_the_next() -> None:
    cluster = FakeCluster({f"n{at}": 2 for at in range(5)})
    for at in range(5):
        cluster.job(f"j{at}", 1, 1)
    planning, ticks = cluster.planner._planning, iter(range(1000))
    planning._clock = lambda: float(next(ticks))
    sizes = []
    while cluster.planner.plan_slice(1.0):
        sizes.append(len(cluster.planned_nodes()))
    assert sizes == [2, 4, 6, 8]
    assert len(cluster.planned_nodes()) == 10


def test_a_call_plans_its_gang_and_those_before_it_alone() -> None:
    cluster = FakeCluster({"a": 9})
    before, own, behind = (cluster.job(f"j{size}", 1, size) for size in (1, 2, 3))
    assert cluster.ask(own[0]).kept == ("a",)
    assert {*cluster.planned_nodes()} == {*before, *own}
    cluster.plan()
    assert {*behind} < {*cluster.planned_nodes()}


def test_a_call_waits_for_no_long_search_of_the_thread_that_plans() -> None:
    cluster = FakeCluster({"a": 9})
    first, *_ = cluster.job("j", 1, 1)
    with cluster.planner._one_slice:
        assert reasons(cluster, first) == {"job ns/j has not been planned yet"}
    assert reasons(cluster, first) == {"job ns/j has not been planned yet"}, "once is enough"
    cluster.plan()
    assert cluster.ask(first).kept == ("a",)


def test_calls_events_and_planning_from_many_threads_never_overcommit() -> None:
    nodes = {f"n{at}": 4 for at in range(6)}
    cluster = FakeCluster(nodes)
    cluster.leading.begin()
    thread = StepThread("planner", cluster.planner.step, changes=cluster.state.changes)
    thread.start()
    faults: list[str] = []
    stop = threading.Event()

    def check() -> None:
        while not stop.is_set():
            with cluster.state.lock:
                faults.extend(cluster.state.reservations.overcommitted())

    def run_jobs(number: int) -> None:
        own = FakeJobs(cluster, f"t{number}", np.random.default_rng(number))
        for _ in range(40):
            own.step(faults)

    threads = [threading.Thread(target=run_jobs, args=(number,)) for number in range(3)]
    checker = threading.Thread(target=check)
    for each in (checker, *threads):
        each.start()
    for each in threads:
        each.join()
    stop.set()
    checker.join()
    thread.stop()
    assert faults == []


class FakeJobs:
    """The jobs of one thread: submitted, bound where they are planned, deleted."""

    def __init__(self, cluster: FakeCluster, name: str, generator: np.random.Generator) -> None:
        self._cluster, self._name, self._generator = cluster, name, generator
        self._made = 0

    def step(self, faults: list[str]) -> None:
        cluster, self._made = self._cluster, self._made + 1
        names = cluster.job(f"{self._name}j{self._made}", 1, int(self._generator.integers(1, 4)))
        bound = 0
        for _ in range(20):  # kube-scheduler tries a refused pod again
            for name in names:
                pod = cluster.pods[name]
                kept = () if pod.node else cluster.filter(pod, list(cluster.nodes)).kept
                if kept:
                    cluster.bind(name, kept[0])
                    bound += 1
            if bound in (0, len(names)):
                break
        else:
            faults.append(f"{names[0]}: {bound} of {len(names)} bound")
        cluster.delete(*names)


def test_a_recreated_pod_of_the_same_name_is_not_the_one_that_was_answered() -> None:
    cluster = FakeCluster({"a": 1})
    (name,) = cluster.job("j", 0, 1)
    assert cluster.ask(name).kept == ("a",)
    old = cluster.pods[name]
    rebuilt = cluster.change(old, uid="new")
    assert not cluster.pending.is_waiting(old)
    cluster.plan()
    (pending,) = cluster.pending.planned()
    assert (pending.pod, pending.assumed) == (rebuilt, False)
