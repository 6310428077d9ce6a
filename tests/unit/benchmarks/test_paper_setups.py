"""The setups that the paper compares: each as it describes them."""

from benchmarks.paper_setups import PUBLISHED_ERRORS, REFERENCE, setup
from optimus.placement.gang import PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.ground_truth.assignment import AssignmentRule
from tests.cases import cases


@cases(
    ("policy", "placement", "assignment"),
    {
        "the paper's own system places and assigns by its own rules": (
            REFERENCE,
            Theorem1(),
            AssignmentRule.PAA,
        ),
        "DRF spreads, as Kubernetes does": ("drf", SPREAD, AssignmentRule.MXNET),
        "Tetris packs": ("tetris", PACK, AssignmentRule.MXNET),
    },
)
def test_setups_are_the_papers(
    policy: str, placement: PlacementRule, assignment: AssignmentRule
) -> None:
    found = setup(policy)
    assert found.scheduler.placement == placement
    assert found.assignment is assignment
    assert found.scheduler.policy.name == policy
    assert found.scheduler.forecasts == PUBLISHED_ERRORS
