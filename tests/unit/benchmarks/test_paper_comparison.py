"""The paper's experiments: setups that differ in one part, compared seed by seed."""

import json
from collections.abc import Iterator, Sequence

import pytest

from benchmarks.paper_setups import (
    CAUSES,
    CONVERGENCE_SENSITIVITY,
    ERRORS,
    EVALUATION,
    REFERENCE,
    SETTINGS,
    SPEED_SENSITIVITY,
    Ratios,
    Setting,
    Setup,
    Task,
    absolute,
    allocation_setups,
    assignment_setups,
    compare,
    evaluation_setups,
    placement_setups,
    ratio,
    ratios_to_first,
    sensitivity_setups,
    setup,
)
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.results import Simulation
from optimus.simulator.summary import Estimate
from optimus.simulator.workload import at_intervals

SMALL = Setting(jobs=3)


def one_by_one(tasks: Sequence[Task]) -> Iterator[Simulation]:
    return (task.run() for task in tasks)


def test_every_published_ratio_has_a_setting() -> None:
    assert set(EVALUATION) == set(SETTINGS)
    assert len(ERRORS) == len(CONVERGENCE_SENSITIVITY) == len(SPEED_SENSITIVITY)
    assert "as it is" in CAUSES


def test_every_experiment_begins_with_the_papers_own_policy() -> None:
    for setups in (
        evaluation_setups(),
        allocation_setups(),
        placement_setups(),
        assignment_setups(),
    ):
        assert setups[0] == setup(REFERENCE)
        assert len({each.name for each in setups}) == len(setups)


def test_the_ablation_exchanges_one_thing_at_a_time() -> None:
    reference = setup(REFERENCE)
    for each in allocation_setups()[1:]:
        assert each.assignment is reference.assignment
        assert each.scheduler.placement == reference.scheduler.placement
        assert each.scheduler.policy != reference.scheduler.policy
    for each in placement_setups()[1:]:
        assert each.assignment is reference.assignment
        assert each.scheduler.placement != reference.scheduler.placement
        assert each.scheduler.policy == reference.scheduler.policy
    assert assignment_setups()[1].assignment is AssignmentRule.MXNET
    assert assignment_setups()[1].scheduler.policy == reference.scheduler.policy


def test_sensitivity_begins_with_the_truth_and_has_every_error_once() -> None:
    setups = sensitivity_setups((0.1, 0.5))
    assert [each.scheduler.forecasts for each in setups] == [
        TrueForecasts(),
        TrueForecasts(convergence_error=0.1),
        TrueForecasts(convergence_error=0.5),
        TrueForecasts(speed_error=0.1),
        TrueForecasts(speed_error=0.5),
    ]


def test_the_same_seed_gives_the_same_and_jobs_are_the_same_for_every_setup() -> None:
    drf, tetris = setup("drf"), setup("tetris")
    once, again, other = (Task(SMALL, each, 3).run() for each in (drf, drf, tetris))
    assert once == again
    assert [(job.uid, job.kind, job.arrived_at, job.epochs) for job in once.jobs] == [
        (job.uid, job.kind, job.arrived_at, job.epochs) for job in other.jobs
    ]
    assert (once.policy, other.policy) == ("drf", "tetris")


def test_ratios_are_to_the_first_setup_seed_by_seed() -> None:
    setups = (setup("drf"), Setup("the same again", setup("drf").scheduler, AssignmentRule.MXNET))
    found = compare(SMALL, setups, (1, 2), one_by_one)
    assert found[1].ratios["average_jct_seconds"].by_seed == (1.0, 1.0)
    row = ratios_to_first(found, {"the same again": Ratios(2.0, 1.0)})["the same again"]
    assert row["jct"] == {
        "ratio": 1.0,
        "low": 1.0,
        "high": 1.0,
        "published": 2.0,
        "deviation": -0.5,
    }
    json.dumps([row, absolute(found[0])], allow_nan=False)


@pytest.mark.parametrize(
    ("here", "published", "row"),
    [
        pytest.param(
            Estimate.of([1.5]),
            None,
            {"ratio": 1.5, "low": None, "high": None},
            id="one seed, unpublished",
        ),
        pytest.param(
            Estimate.of([]),
            1.2,
            {"ratio": None, "low": None, "high": None, "published": 1.2, "deviation": None},
            id="nothing was run",
        ),
    ],
)
def test_a_ratio_is_plain_numbers(here: Estimate, published: float | None, row: object) -> None:
    assert ratio(here, published) == row


def test_no_job_waits_where_jobs_arrive_with_the_intervals() -> None:
    assert CAUSES["arrivals with the intervals"].arrivals is at_intervals
    found = Task(CAUSES["arrivals with the intervals"], setup("drf"), 1).run()
    assert {job.arrived_at % 600 for job in found.jobs} == {0.0}
    waited = [job.placed_at - job.arrived_at for job in found.jobs]
    assert sorted(waited)[len(waited) // 2] < 60
