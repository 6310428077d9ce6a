"""The paper's experiments: pairs that share their seed, ways that differ in one thing, ratios as
they are told."""

import json

import pytest

from optimus.simulator.forecasts import Truth
from optimus.simulator.paper.evaluation import (
    CAUSES,
    SETTINGS,
    Setting,
    Task,
    allocation_ways,
    assignment_ways,
    compare,
    evaluation_ways,
    one_by_one,
    placement_ways,
    sensitivity_ways,
    with_shared_links,
)
from optimus.simulator.paper.published import (
    CONVERGENCE_SENSITIVITY,
    ERRORS,
    EVALUATION,
    SPEED_SENSITIVITY,
    Ratios,
)
from optimus.simulator.paper.report import absolute, ratio, told
from optimus.simulator.paper.setups import REFERENCE, Way, way
from optimus.simulator.summary import Estimate
from optimus.simulator.workload.arrivals import at_intervals
from optimus.simulator.workload.drawing import Dealing

SMALL = Setting(jobs=6)


def test_what_is_published_has_a_setting() -> None:
    assert set(EVALUATION) == set(SETTINGS)
    assert len(ERRORS) == len(CONVERGENCE_SENSITIVITY) == len(SPEED_SENSITIVITY)
    assert "as it is" in CAUSES


def test_every_experiment_begins_with_the_papers_own_policy() -> None:
    for ways in (evaluation_ways(), allocation_ways(), placement_ways(), assignment_ways()):
        assert ways[0] == way(REFERENCE)
        assert len({each.name for each in ways}) == len(ways)


def test_the_ablation_exchanges_one_thing_at_a_time() -> None:
    reference = way(REFERENCE)
    for each in allocation_ways()[1:]:
        assert each.dealing is reference.dealing
        assert each.approach.placement == reference.approach.placement
        assert each.approach.policy != reference.approach.policy
    for each in placement_ways()[1:]:
        assert each.dealing is reference.dealing
        assert each.approach.placement != reference.approach.placement
        assert each.approach.policy == reference.approach.policy
    assert assignment_ways()[1].dealing is Dealing.MXNET
    assert assignment_ways()[1].approach.policy == reference.approach.policy


def test_sensitivity_begins_with_the_truth_and_has_every_error_once() -> None:
    ways = sensitivity_ways((0.1, 0.5))
    assert [each.approach.forecasts for each in ways] == [
        Truth(),
        Truth(convergence_error=0.1),
        Truth(convergence_error=0.5),
        Truth(speed_error=0.1),
        Truth(speed_error=0.5),
    ]


def test_the_same_seed_gives_the_same_and_jobs_are_the_same_for_every_way() -> None:
    drf, reference = way("drf"), way(REFERENCE)
    once, again, other = (Task(SMALL, each, 3).run() for each in (drf, drf, reference))
    assert once == again
    assert [(job.uid, job.kind, job.arrived_at, job.epochs) for job in once.jobs] == [
        (job.uid, job.kind, job.arrived_at, job.epochs) for job in other.jobs
    ]
    assert (once.policy, other.policy) == ("drf", REFERENCE)


def test_ratios_are_to_the_first_way_seed_by_seed() -> None:
    ways = (way("drf"), Way("the same again", way("drf").approach, Dealing.MXNET))
    found = compare(SMALL, ways, (1, 2), one_by_one)
    assert found[1].ratios["average_jct_seconds"].by_seed == (1.0, 1.0)
    row = told(found, {"the same again": Ratios(2.0, 1.0)})["the same again"]
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
def test_a_ratio_is_told_in_plain_numbers(
    here: Estimate, published: float | None, row: object
) -> None:
    assert ratio(here, published) == row


def test_nobody_waits_where_jobs_arrive_with_the_intervals() -> None:
    assert CAUSES["arrivals with the intervals"].arrivals is at_intervals
    found = Task(CAUSES["arrivals with the intervals"], way("drf"), 1).run()
    assert {job.arrived_at % 600 for job in found.jobs} == {0.0}
    waited = [job.placed_at - job.arrived_at for job in found.jobs]
    assert sorted(waited)[len(waited) // 2] < 60


def test_shared_links_are_slower_for_who_holds_more_tasks() -> None:
    crowded, spare = with_shared_links([way("drf"), way(REFERENCE)], (1,), one_by_one)
    assert crowded.hardware is not None
    assert spare.hardware is not None
    assert crowded.hardware.sync.ps_mb_per_second < spare.hardware.sync.ps_mb_per_second
