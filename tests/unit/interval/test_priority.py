"""The priority of jobs orders who starts and who gives capacity."""

from dataclasses import replace

import pytest

from optimus.allocation.greedy import start_at_minimum
from optimus.interval import Action
from optimus.jobs import CountBounds
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from tests.unit.interval.cases import Case
from tests.unit.interval.cluster import Sync, job, nodes, steps
from tests.unit.policies.problems import candidate, problem


@pytest.mark.parametrize(("low", "high"), [("a", "b"), ("b", "a")])
def test_the_job_of_the_lower_priority_gives_first(low: str, high: str) -> None:
    """Both are as fast with less, and one of them is enough."""
    jobs = [job(low, (3, 5)), job(high, (3, 5), priority=100)]
    case = Case(
        [(each, [f"node-{number:02}"] * 8) for number, each in enumerate(jobs)]
        + [(job("new"), [])],
        {name: steps(100, Sync(work=1.0, overhead=0.1)) for name in (low, high)},
        nodes=nodes(2, 8),
    )
    found = case.decisions()
    assert found[low].action is Action.SHRINK
    assert "releases capacity to team/new" in found[low].reason
    assert found[high].action is Action.KEEP


@pytest.mark.parametrize(("low", "high"), [("a", "b"), ("b", "a")])
def test_of_equal_gains_the_higher_priority_has_the_next_task(low: str, high: str) -> None:
    bounds = CountBounds(max_ps=1, max_workers=3)
    jobs = [candidate(low, bounds=bounds), candidate(high, bounds=bounds)]
    jobs[1] = replace(jobs[1], job=replace(jobs[1].job, priority=5))
    counts = OptimusPolicy().allocate(problem(Resources(cpu=7000), *jobs)).counts
    assert counts == {low: (1, 2), high: (1, 3)}


def test_jobs_of_the_highest_priority_start_first() -> None:
    small, large = candidate("small"), candidate("large", bounds=CountBounds(min_workers=3))
    preferred = replace(large, job=replace(large.job, priority=5))
    room = Resources(cpu=4000)
    assert [each.job.uid for each in start_at_minimum(problem(room, small, large)).admitted] == [
        "small"
    ]
    admitted = start_at_minimum(problem(room, small, preferred)).admitted
    assert [each.job.uid for each in admitted] == ["large"]


def test_a_running_job_keeps_its_minimum_before_a_waiting_one_of_a_higher_priority() -> None:
    runs, waits = candidate("runs", running=True), candidate("waits")
    waits = replace(waits, job=replace(waits.job, priority=5))
    admitted = start_at_minimum(problem(Resources(cpu=3000), waits, runs)).admitted
    assert [each.job.uid for each in admitted] == ["runs"]


def test_starting_jobs_of_a_higher_priority_are_placed_first() -> None:
    bounds = CountBounds(min_workers=3, max_workers=3, max_ps=1)
    jobs = [job(name, (1, 3), bounds=bounds, priority=number) for number, name in enumerate("ab")]
    known = {name: steps(1000) for name in "ab"}
    found = Case([(each, []) for each in jobs], known, nodes=nodes(1, 5)).decisions()
    assert found["b"].reason.startswith("there is free capacity for its 1 PS + 3 workers")
    assert not found["a"].reason.startswith("there is free capacity for its 1 PS + 3 workers")
