"""The planner as a state machine: jobs, intruders, lost nodes, late bindings, time, rescales.

Whatever happens, reservations exceed no node's room, a gang binds onto room that is really free,
and once events stop every gang is bound whole or not at all.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from optimus.jobs import Counts
from tests.unit.extender.fake_cluster import FakeCluster
from tests.unit.properties import examples

JOBS = [f"job{at}" for at in range(4)]
NODES = ["a", "b", "c"]


class PlannerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster({"a": 4, "b": 3, "c": 2})
        self.assumed: dict[str, str] = {}
        self.shapes: dict[str, Counts] = {}
        self.intruders = 0

    def pods_of(self, job: str) -> list[str]:
        return [name for name in self.cluster.pods if name.startswith(f"{job}-")]

    @rule(job=st.sampled_from(JOBS), ps=st.integers(1, 2), workers=st.integers(1, 4))
    def submit(self, job: str, ps: int, workers: int) -> None:
        if not self.pods_of(job):
            self.cluster.spec(job, ps, workers)
            self.cluster.job(job, ps, workers)
            self.shapes[job] = Counts(ps, workers)

    @rule(job=st.sampled_from(JOBS))
    def end(self, job: str) -> None:
        for name in self.pods_of(job):
            self.assumed.pop(name, None)
            self.cluster.delete(name)
        self.cluster.handlers.set_job(f"uid-{job}", None)
        self.cluster.handlers.set_rescale(f"uid-{job}", None)

    @rule(at=st.integers(0, 50))
    def ask(self, at: int) -> None:
        waiting = [
            name
            for name, pod in self.cluster.pods.items()
            if pod.node is None and name not in self.assumed
        ]
        if waiting:
            name = waiting[at % len(waiting)]
            offered = [
                node
                for node in self.cluster.fitting(self.cluster.pods[name])
                if self.left(node) > 0
            ]
            if offered:
                kept = self.cluster.ask(name, offered).kept
                assert len(kept) <= 1
                assert set(kept) <= set(offered)
                if kept:
                    self.assumed[name] = kept[0]

    def left(self, node: str) -> int:
        """What kube-scheduler still offers: it subtracts what it has assumed."""
        return self.cluster.free(node) - sum(
            1 for assumed in self.assumed.values() if assumed == node
        )

    @precondition(lambda self: self.assumed)
    @rule(at=st.integers(0, 50), works=st.booleans())
    def bind(self, at: int, works: bool) -> None:
        name = sorted(self.assumed)[at % len(self.assumed)]
        node = self.assumed.pop(name)
        if works and node in self.cluster.nodes:
            self.cluster.bind(name, node)

    @rule(node=st.sampled_from(NODES), cpu=st.integers(1, 5))
    def change_node(self, node: str, cpu: int) -> None:
        if cpu >= self.cluster.used(node)["cpu"] + sum(
            1 for assumed in self.assumed.values() if assumed == node
        ):
            self.cluster.node(node, cpu)

    @rule(node=st.sampled_from(NODES))
    def intrude(self, node: str) -> None:
        if node in self.cluster.nodes and self.left(node) > 0:
            self.intruders += 1
            self.cluster.other(f"intruder{self.intruders}", 1, node)

    @rule(job=st.sampled_from(JOBS), workers=st.integers(1, 4))
    def suspend(self, job: str, workers: int) -> None:
        if self.pods_of(job) and not any(name in self.assumed for name in self.pods_of(job)):
            self.cluster.rescale(job, 1, workers, leaving=True)
            self.cluster.assert_not_overcommitted()
            self.cluster.delete(*self.pods_of(job))
            self.cluster.plan()
            self.cluster.rescale(job, 1, workers, leaving=False)
            self.cluster.spec(job, 1, workers)
            self.cluster.job(job, 1, workers)
            self.shapes[job] = Counts(1, workers)

    @rule(job=st.sampled_from(JOBS))
    def settle(self, job: str) -> None:
        self.cluster.handlers.set_rescale(f"uid-{job}", None)

    @rule(seconds=st.sampled_from([1, 30, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds

    @rule()
    def advance(self) -> None:
        self.cluster.plan()

    @invariant()
    def nothing_is_reserved_twice(self) -> None:
        self.cluster.assert_not_overcommitted()

    def teardown(self) -> None:
        """Nothing fails any more: half-bound gangs are completed where there is room."""
        cluster = self.cluster
        for name in [name for name in cluster.pods if name.startswith("intruder")]:
            cluster.delete(name)
        for job in JOBS:
            cluster.handlers.set_rescale(f"uid-{job}", None)
        self.assumed.clear()
        for node in NODES:
            cluster.node(node, 12)
        for _ in range(3):
            cluster.now += 61
            cluster.plan()
            for name in [name for name, pod in cluster.pods.items() if pod.node is None]:
                cluster.place(name)
        assert [name for name, pod in cluster.pods.items() if pod.node is None] == []


PlannerMachine.TestCase.settings = examples(60, stateful_step_count=40)
TestPlannerMachine: Any = PlannerMachine.TestCase
