"""Random workloads: the paper's arrivals and jobs, determined by the seed alone."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from optimus.jobs import BatchScope, ConvergenceThreshold, Counts, TrainingMode
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.jobs import SimulatedJob, Workload, WorkloadMaker
from optimus.simulator.workload import (
    WORKLOADS,
    RandomWorkload,
    WorkloadConfig,
    at_intervals,
    bursts,
    on_kinds,
    poisson,
    uniform,
)


def drawn(config: WorkloadConfig, jobs: int = 200, seed: int = 5) -> Workload:
    return RandomWorkload("uniform", uniform, config)(jobs, np.random.default_rng(seed))


@pytest.mark.parametrize("make", WORKLOADS.values(), ids=WORKLOADS.keys())
def test_the_same_seed_draws_the_same_workload(make: WorkloadMaker) -> None:
    first, second, other = (make(40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize("arrivals", [uniform, poisson, bursts, at_intervals])
def test_arrivals_ascend_from_zero(arrivals: object) -> None:
    instants = arrivals(500, np.random.default_rng(3))  # type: ignore[operator] # a parameter set by pytest
    assert len(instants) == 500
    assert instants[0] >= 0
    assert (np.diff(instants) >= 0).all()


def by_slot(instants: np.ndarray) -> np.ndarray:
    return np.histogram(instants, bins=20, range=(0, 12_000))[0]


def test_patterns_differ_as_in_the_paper() -> None:
    rng = np.random.default_rng(4)
    even, crowded = by_slot(uniform(6_000, rng)), by_slot(bursts(6_000, rng))
    assert max(even) < 1.3 * 300
    assert max(crowded) > 2 * 300
    assert poisson(6_000, rng)[-1] == pytest.approx(6_000 * 200, rel=0.05)


def test_arrivals_at_interval_starts_are_the_uniform_ones_moved_to_their_intervals() -> None:
    usual, moved = (
        [job.job.created_at for job in WORKLOADS[name](60, np.random.default_rng(1)).jobs]
        for name in ("uniform", "interval-starts")
    )
    assert [at // 600 * 600 for at in usual] == moved


def test_jobs_are_drawn_from_all_types_and_modes_and_thresholds() -> None:
    jobs = drawn(WorkloadConfig(), 900).jobs
    kinds = [job.kind for job in jobs]
    assert {kind.name for kind in JOB_TYPES} == set(kinds)
    assert max(map(kinds.count, kinds)) < 150
    sync = [job.job.mode for job in jobs].count(TrainingMode.SYNC)
    assert 400 < sync < 500
    thresholds = [
        job.job.goal.fraction for job in jobs if isinstance(job.job.goal, ConvergenceThreshold)
    ]
    assert len(thresholds) == 900
    assert (np.histogram(thresholds, bins=4, range=(0.01, 0.05))[0] > 180).all()


def test_draws_do_not_depend_on_the_settings() -> None:
    usual, other = (
        drawn(WorkloadConfig()),
        drawn(
            WorkloadConfig(
                assignment=AssignmentRule.PAA,
                epoch_seconds=900.0,
                size_spread=1.0,
                mode=TrainingMode.SYNC,
                straggling=None,
            )
        ),
    )
    for one, two in zip(usual.jobs, other.jobs, strict=True):
        assert (one.kind, one.job.created_at, one.job.goal) == (
            two.kind,
            two.job.created_at,
            two.job.goal,
        )
        assert two.job.mode is TrainingMode.SYNC
        assert two.straggling is None


def test_large_data_sets_are_scaled_down_to_an_epochs_length_and_small_ones_stay_whole() -> None:
    apart = (Counts(1, 0), Counts(0, 1))
    lengths = {}
    for job in drawn(WorkloadConfig(epoch_seconds=500.0)).jobs:
        seconds = job.steps_per_epoch / job.speed.steps_per_second(apart)
        assert seconds <= 500.0 * (1 + 1e-9)
        lengths[job.kind, job.job.mode] = seconds
    assert lengths["ResNet-50", TrainingMode.SYNC] == pytest.approx(500.0)
    assert lengths["CNN-rand", TrainingMode.SYNC] < 490.0


def test_a_job_is_what_a_user_would_submit() -> None:
    for each in drawn(WorkloadConfig()).jobs:
        job, batch = each.job, each.job.batch
        assert batch is not None
        assert (batch.scope is BatchScope.JOB) == (job.mode is TrainingMode.SYNC)
        assert job.counts == Counts(1, 1)
        assert job.managed
        assert job.steps_per_epoch == each.steps_per_epoch


def test_hardware_changes_speeds_and_nothing_that_is_drawn() -> None:
    hardware = WorkloadConfig().hardware
    slower = replace(hardware, gflop_per_second=hardware.gflop_per_second / 8)
    usual, other = drawn(WorkloadConfig(), 20), drawn(WorkloadConfig(hardware=slower), 20)
    apart = (Counts(1, 0), Counts(0, 1))
    for one, two in zip(usual.jobs, other.jobs, strict=True):
        assert one.job == two.job
        assert two.speed.steps_per_second(apart) < one.speed.steps_per_second(apart)


def test_jobs_of_one_image_are_of_one_type_and_mode_with_goals_of_their_own() -> None:
    usual, found = drawn(WorkloadConfig(), 60), drawn(WorkloadConfig(by_image=True), 60)
    assert len({each.job.workload for each in usual.jobs}) == 60, "each has its own image"
    by_name = defaultdict[str | None, list[SimulatedJob]](list)
    for one, other in zip(usual.jobs, found.jobs, strict=True):
        assert replace(one.job, workload=None) == replace(other.job, workload=None)
        by_name[other.job.workload].append(other)
    assert len(by_name) <= 18
    for same in by_name.values():
        assert len({(each.kind, each.job.mode) for each in same}) == 1
        assert len({each.job.goal for each in same}) == len(same)


def test_slow_arithmetic_slows_a_job_by_as_much_of_its_step_as_is_computing() -> None:
    for each in drawn(WorkloadConfig(), jobs=20).jobs:
        found = on_kinds(each, {"fast": 1.0, "slow": 0.5}).kind_speeds
        assert found["fast"] == 1.0
        assert 0.5 < found["slow"] < 1.0
