"""The placer under everything at once: jobs, intruders, lost nodes, binds that come late, time,
rescales.

Whatever happens, no node is promised more than it has, a gang binds onto room that is really there,
and once the turmoil is over every gang is bound whole or not at all.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from optimus.jobs import Counts
from tests.unit.extender.world import World

JOBS = [f"job{at}" for at in range(4)]
NODES = ["a", "b", "c"]


class Turmoil(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World({"a": 4, "b": 3, "c": 2})
        self.sent: dict[str, str] = {}
        self.shapes: dict[str, Counts] = {}
        self.intruders = 0

    def pods_of(self, job: str) -> list[str]:
        return [name for name in self.world.pods if name.startswith(f"{job}-")]

    @rule(job=st.sampled_from(JOBS), ps=st.integers(1, 2), workers=st.integers(1, 4))
    def submit(self, job: str, ps: int, workers: int) -> None:
        if not self.pods_of(job):
            self.world.spec(job, ps, workers)
            self.world.job(job, ps, workers)
            self.shapes[job] = Counts(ps, workers)

    @rule(job=st.sampled_from(JOBS))
    def end(self, job: str) -> None:
        for name in self.pods_of(job):
            self.sent.pop(name, None)
            self.world.delete(name)
        self.world.placer.job_changed(f"uid-{job}", None)
        self.world.placer.rescale_changed(f"uid-{job}", None)

    @rule(at=st.integers(0, 50))
    def ask(self, at: int) -> None:
        waiting = [
            name
            for name, pod in self.world.pods.items()
            if pod.node is None and name not in self.sent
        ]
        if waiting:
            name = waiting[at % len(waiting)]
            offered = [
                node for node in self.world.fitting(self.world.pods[name]) if self.left(node) > 0
            ]
            if offered:
                kept = self.world.ask(name, offered).kept
                assert len(kept) <= 1
                assert set(kept) <= set(offered)
                if kept:
                    self.sent[name] = kept[0]

    def left(self, node: str) -> int:
        """What kube-scheduler still offers: it counts what it has assumed and not bound yet."""
        return self.world.free(node) - sum(1 for sent in self.sent.values() if sent == node)

    @precondition(lambda self: self.sent)
    @rule(at=st.integers(0, 50), works=st.booleans())
    def bind(self, at: int, works: bool) -> None:
        name = sorted(self.sent)[at % len(self.sent)]
        node = self.sent.pop(name)
        if works and node in self.world.nodes:
            self.world.bind(name, node)

    @rule(node=st.sampled_from(NODES), cpu=st.integers(1, 5))
    def change_node(self, node: str, cpu: int) -> None:
        if cpu >= self.world.used(node)["cpu"] + sum(
            1 for sent in self.sent.values() if sent == node
        ):
            self.world.node(node, cpu)

    @rule(node=st.sampled_from(NODES))
    def intrude(self, node: str) -> None:
        if node in self.world.nodes and self.left(node) > 0:
            self.intruders += 1
            self.world.other(f"intruder{self.intruders}", 1, node)

    @rule(job=st.sampled_from(JOBS), workers=st.integers(1, 4))
    def suspend(self, job: str, workers: int) -> None:
        if self.pods_of(job) and not any(name in self.sent for name in self.pods_of(job)):
            self.world.rescale(job, 1, workers, leaving=True)
            self.world.assert_sound()
            self.world.delete(*self.pods_of(job))
            self.world.placer.advance()
            self.world.rescale(job, 1, workers, leaving=False)
            self.world.spec(job, 1, workers)
            self.world.job(job, 1, workers)
            self.shapes[job] = Counts(1, workers)

    @rule(job=st.sampled_from(JOBS))
    def settle(self, job: str) -> None:
        self.world.placer.rescale_changed(f"uid-{job}", None)

    @rule(seconds=st.sampled_from([1, 30, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.world.now += seconds

    @rule()
    def advance(self) -> None:
        self.world.placer.advance()

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        self.world.assert_sound()

    def teardown(self) -> None:
        """Calm: nothing fails any more. Half-bound gangs are completed where there is room for the
        rest."""
        world = self.world
        for name in [name for name in world.pods if name.startswith("intruder")]:
            world.delete(name)
        for job in JOBS:
            world.placer.rescale_changed(f"uid-{job}", None)
        self.sent.clear()
        for node in NODES:
            world.node(node, 12)
        for _ in range(3):
            world.now += 61
            world.placer.advance()
            for name in [name for name, pod in world.pods.items() if pod.node is None]:
                world.place(name)
        assert [name for name, pod in world.pods.items() if pod.node is None] == []


Turmoil.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTurmoil: Any = Turmoil.TestCase
