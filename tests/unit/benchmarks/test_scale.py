"""The benchmarks of allocation and of a whole interval, on a few nodes: what they draw and what
they tell."""

import json
from argparse import Namespace
from dataclasses import replace

import pytest

from benchmarks import allocation, interval
from benchmarks.allocation import NODE, Tasks
from optimus.cli.plan import equal_nodes
from optimus.interval import Action, IntervalInput


@pytest.mark.parametrize(
    ("tasks", "gpus", "kinds"),
    [
        pytest.param(Tasks.PLAIN, {0}, 6, id="whole cores"),
        pytest.param(Tasks.GPU, {1}, 6, id="a GPU a worker"),
        pytest.param(Tasks.OWN, {0, 1}, 80, id="amounts of their own"),
    ],
)
def test_what_jobs_ask_for(tasks: Tasks, gpus: set[int], kinds: int) -> None:
    jobs = [each.job for each in allocation.drawn(40, tasks)]
    assert {job.worker.resources["gpu"] for job in jobs} == gpus
    asked = {("ps", job.ps.resources) for job in jobs} | {
        ("worker", job.worker.resources) for job in jobs
    }
    assert len(asked) == kinds


def test_the_kind_of_tasks_changes_nothing_else() -> None:
    plain, own = allocation.drawn(10), allocation.drawn(10, Tasks.OWN)
    assert [each.forecast for each in plain] == [each.forecast for each in own]


@pytest.mark.parametrize("tasks", list(Tasks))
def test_an_allocation_is_placed_whole_and_reported_beside_its_reference(tasks: Tasks) -> None:
    found = allocation.measure(8, 32, Namespace(policy="optimus", tasks=tasks, repeats=1))
    assert (found["jobs"], found["nodes"], found["whole_jobs"]) == (8, 32, 8)
    assert found["tasks"] > 2 * 8
    assert 0 < found["objective"] < 1e9
    assert "ratio_to_heap-and-rows" in found


def test_the_reference_hands_out_no_more_cores_than_there_are() -> None:
    jobs = allocation.drawn(30)
    least = sum(each.job.ps.resources["cpu"] + each.job.worker.resources["cpu"] for each in jobs)
    nodes = -(-least // NODE["cpu"])
    few, many = allocation.heap_and_rows(jobs, nodes), allocation.heap_and_rows(jobs, 100 * nodes)
    assert 2 * 30 <= few <= 2 * 30 + NODE["cpu"] // 1000
    assert few < many


def test_an_interval_is_timed_by_part_and_settles_what_it_decides() -> None:
    jobs, progress = interval.draw_jobs(6)
    nodes = equal_nodes(24, NODE)
    seen = IntervalInput(interval.snapshot_of(jobs, nodes), progress)
    first, plan = interval.measure("first", seen)
    assert {each.action for each in plan.decisions} == {Action.GROW}
    there = interval.carried_out(jobs, plan)
    assert len(interval.snapshot_of(there, nodes).pods) == first["tasks"]
    again, _ = interval.measure("again", replace(seen, snapshot=interval.snapshot_of(there, nodes)))
    assert (again["changed"], again["tasks"]) == (0, first["tasks"])
    for found in (first, again):
        parts = ("fit_seconds", "allocation_seconds", "placement_seconds")
        assert sum(float(found[part]) for part in parts) == pytest.approx(
            float(found["seconds"]), abs=0.002
        )
        assert json.dumps(found, allow_nan=False)
