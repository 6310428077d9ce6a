"""Simulated jobs of one workload learn from one another by the product's own code."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from optimus.interval.driver import DriverConfig
from optimus.simulator.cluster import SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.presets import SchedulerConfig, preset, with_loop
from optimus.simulator.results import Simulation
from optimus.simulator.scheduler import LoopConfig
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

SECOND_AT = 5000.0
ADDED = Speed(0.2, batch=0.05)


def a_run(name: str, arrives: float, speed: Speed = ADDED) -> SimulatedJob:
    made = job(name, JobParameters(arrives=arrives, epochs=100, speed=speed))
    return replace(made, job=replace(made.job, workload="digits"))


class Watch:
    """Notes how often each job was moved to be measured."""

    def __init__(self) -> None:
        self.profiled: dict[str, int] = {}
        self.differed: set[str] = set()

    def __call__(self, cluster: SimulatedCluster) -> None:
        for uid, state in cluster.states.items():
            self.profiled[uid] = len(state.record.profiled)
            if state.record.differs:
                self.differed.add(uid)


def run(
    config: SchedulerConfig, second: SimulatedJob
) -> tuple[Simulation, Mapping[str, int], set[str]]:
    watch = Watch()
    both = workload(a_run("first", 0.0), second, on=nodes(6))
    found = simulate(both, config, 1, watch=watch)
    return found, watch.profiled, watch.differed


PROFILED = replace(preset("optimus"), loop=LoopConfig(driver=DriverConfig(expects=False)))
"""Every young job is profiled, whatever is to be expected of it."""


@pytest.fixture(scope="module")
def usual() -> tuple[Simulation, Mapping[str, int], set[str]]:
    return run(PROFILED, a_run("second", SECOND_AT))


def test_the_second_run_is_not_profiled(
    usual: tuple[Simulation, Mapping[str, int], set[str]],
) -> None:
    _, profiled, differed = usual
    assert profiled["first"] >= 2
    assert profiled["second"] == 0
    assert not differed


def test_it_ends_sooner_than_without_earlier_runs(
    usual: tuple[Simulation, Mapping[str, int], set[str]],
) -> None:
    with_them, _, _ = usual
    alone, profiled, _ = run(
        with_loop(PROFILED, uses_earlier_runs=False), a_run("second", SECOND_AT)
    )
    assert profiled["second"] >= 2
    first, second = (
        {each.uid: each.finished_at for each in found.jobs} for found in (with_them, alone)
    )
    assert first["first"] == second["first"]
    assert first["second"] < second["second"] - 60


def test_one_that_is_slower_is_found_to_differ_and_is_profiled() -> None:
    slow = a_run("second", SECOND_AT, replace(ADDED, each=0.08))
    _, profiled, differed = run(PROFILED, slow)
    assert differed == {"second"}
    assert profiled["second"] >= 1
