"""Jobs of traces: the amount of work is the trace's, the rest is that of a type."""

from dataclasses import replace

import numpy as np
import pytest

from optimus.jobs import ConvergenceThreshold, Counts, JobKey, TargetEpochs, TrainingMode
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.resources import PODS, Resources
from optimus.simulator.engine import simulate
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.presets import preset
from optimus.simulator.trace_workload import SubmittedJob, SubmittedWorkload
from optimus.simulator.workload import WorkloadConfig, on_kinds

RESNET = next(kind for kind in JOB_TYPES if kind.name == "ResNet-50")
NODES = tuple(Node(f"n-{n}", Resources(cpu=16_000, memory=2**37, pods=110)) for n in range(4))
JOB = SubmittedJob(key=JobKey("team", "a"), submit_seconds=5.0, job_type=RESNET)
QUIET = WorkloadConfig(straggling=None)


def built(*jobs: SubmittedJob, seed: int = 1) -> tuple[SimulatedJob, ...]:
    rng = np.random.default_rng(seed)
    return SubmittedWorkload("mine", jobs, NODES, QUIET)(len(jobs), rng).jobs


@pytest.mark.parametrize("mode", TrainingMode)
def test_a_job_alone_at_its_submitted_counts_trains_for_its_duration(mode: TrainingMode) -> None:
    job = replace(JOB, duration_seconds=3000.0, counts=Counts(2, 4), mode=mode)
    (found,) = built(job)
    steps = found.steps_per_epoch * found.most_epochs
    alone = (Counts(1, 2), Counts(1, 2))
    together = (Counts(2, 4),)
    speeds = [found.speed.steps_per_second(each) for each in (alone, together)]
    assert any(steps / speed == pytest.approx(3000) for speed in speeds)
    assert found.job.goal == TargetEpochs(found.most_epochs)


def test_under_fifo_a_job_trains_for_its_duration_alone_on_its_server() -> None:
    workload = SubmittedWorkload("mine", (replace(JOB, duration_seconds=1200.0),), NODES, QUIET)
    config = preset("fifo", placement=Theorem1())
    found = simulate(workload(1, np.random.default_rng(1)), config, seed=1).jobs[0]
    assert (found.uid, found.arrived_at) == ("team/a", 5.0)
    assert found.trained_seconds == pytest.approx(1200)


def test_steps_and_a_duration_say_the_speed() -> None:
    (found,) = built(replace(JOB, steps=5000.0, duration_seconds=1000.0, epochs=10))
    assert found.steps_per_epoch == 500
    assert found.speed.steps_per_second((Counts(1, 1),)) == pytest.approx(5)


def test_a_speed_of_the_trace_scales_that_of_the_type_at_all_counts() -> None:
    own, twice = built(
        replace(JOB, epochs=3), replace(JOB, key=JobKey("team", "b"), steps_per_second=8, epochs=3)
    )
    wide = (Counts(2, 2), Counts(2, 2))
    ratio = 8 / own.speed.steps_per_second((Counts(1, 1),))
    speed = twice.speed.steps_per_second(wide, (0.5,))
    assert speed == pytest.approx(ratio * own.speed.steps_per_second(wide, (0.5,)))
    slow = [on_kinds(each, {"old": 0.5}).kind_speeds["old"] for each in (own, twice)]
    assert slow[0] == slow[1]


def test_a_loss_goal_may_end_it_before_its_epochs() -> None:
    goal = ConvergenceThreshold(0.03)
    (found,) = built(replace(JOB, loss_goal=goal, epochs=40))
    assert (found.job.goal, found.most_epochs) == (goal, 40)


def test_requests_priority_and_namespace_are_the_users() -> None:
    job = replace(JOB, worker=Resources(cpu=500), epochs=1, priority=7, workload="w")
    (found,) = built(job)
    assert found.job.worker.resources == Resources({"cpu": 500, PODS: 1})
    assert found.job.ps.resources == RESNET.ps
    assert (found.job.priority, found.job.workload) == (7, "w")
    assert found.job.key == JobKey("team", "a")


def test_a_type_is_drawn_by_the_seed_whatever_the_order_of_lines() -> None:
    jobs = [
        SubmittedJob(key=JobKey("team", name), submit_seconds=1.0, duration_seconds=60.0)
        for name in "abcdef"
    ]
    assert built(*jobs) == built(*jobs[::-1])
    assert [each.kind for each in built(*jobs)] != [each.kind for each in built(*jobs, seed=2)]


def test_of_two_waiting_jobs_the_one_of_higher_priority_is_placed_first() -> None:
    full = tuple(replace(node, allocatable=Resources(cpu=5000, pods=9)) for node in NODES[:1])
    half = Resources(cpu=2500)
    small = replace(JOB, ps=half, worker=half, duration_seconds=300.0, submit_seconds=0.0)
    jobs = [
        small,
        replace(small, key=JobKey("team", "low"), submit_seconds=1.0),
        replace(small, key=JobKey("team", "high"), submit_seconds=2.0, priority=5),
    ]
    workload = SubmittedWorkload("mine", jobs, full, QUIET)(3, np.random.default_rng(1))
    placed = {each.uid: each.placed_at for each in simulate(workload, preset("optimus"), 1).jobs}
    assert placed["team/high"] < placed["team/low"]
