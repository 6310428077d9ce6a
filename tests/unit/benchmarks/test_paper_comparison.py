"""The paper's experiments: setups that differ in one part, compared seed by seed."""

import pytest

from benchmarks.paper_setups import (
    CAUSES,
    CONVERGENCE_SENSITIVITY,
    ERRORS,
    EVALUATION,
    REFERENCE,
    REPRODUCED,
    SETTINGS,
    SPEED_SENSITIVITY,
    Task,
    allocation_setups,
    assignment_setups,
    evaluation_setups,
    placement_setups,
    ratio,
    sensitivity_setups,
    setup,
)
from optimus.simulator.forecasts import EquationForecasts, TrueForecasts
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.summary import Estimate
from optimus.simulator.workload import at_intervals


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


def test_the_reproduced_setting_changes_what_the_paper_leaves_open_for_all_policies() -> None:
    assert SETTINGS["reproduced"] is REPRODUCED
    assert EVALUATION["reproduced"] == EVALUATION["testbed"]
    jobs = Task(REPRODUCED, setup("drf", REPRODUCED.forecasts), 1).run().jobs
    assert len(jobs) == 15
    assert {job.arrived_at % 600 for job in jobs} == {0.0}
    for setups in (
        evaluation_setups(REPRODUCED.forecasts),
        allocation_setups(REPRODUCED.forecasts),
        placement_setups(REPRODUCED.forecasts),
        assignment_setups(REPRODUCED.forecasts),
    ):
        assert {each.scheduler.forecasts for each in setups} == {EquationForecasts()}
        assert setups[0] == setup(REFERENCE, EquationForecasts())


def test_no_job_waits_where_jobs_arrive_with_the_intervals() -> None:
    assert CAUSES["arrivals with the intervals"].arrivals is at_intervals
    found = Task(CAUSES["arrivals with the intervals"], setup("drf"), 1).run()
    assert {job.arrived_at % 600 for job in found.jobs} == {0.0}
    waited = [job.placed_at - job.arrived_at for job in found.jobs]
    assert sorted(waited)[len(waited) // 2] < 60
