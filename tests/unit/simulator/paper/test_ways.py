"""The ways that the paper compares: each as it describes them."""

import pytest

from optimus.placement.gang import PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.paper.setups import (
    PUBLISHED_ERRORS,
    REFERENCE,
    looking_past_plateaus,
    mixed,
    way,
)
from optimus.simulator.workload.drawing import Dealing


@pytest.mark.parametrize(
    ("policy", "placement", "dealing"),
    [
        pytest.param(
            REFERENCE,
            Theorem1(),
            Dealing.PAA,
            id="the paper's own system places and deals by its own rules",
        ),
        pytest.param("drf", SPREAD, Dealing.MXNET, id="DRF spreads, as Kubernetes does"),
        pytest.param("tetris", PACK, Dealing.MXNET, id="Tetris packs"),
        pytest.param(
            "optimus",
            Theorem1(),
            Dealing.PAA,
            id="ours is compared with the paper's on equal terms",
        ),
    ],
)
def test_ways_are_the_papers(policy: str, placement: PlacementRule, dealing: Dealing) -> None:
    found = way(policy)
    assert found.approach.placement == placement
    assert found.dealing is dealing
    assert found.approach.policy.name == policy
    assert found.approach.forecasts == PUBLISHED_ERRORS


def test_what_is_mixed_is_named_after_its_parts() -> None:
    found = mixed("drf", "theorem1", Dealing.EVEN)
    assert found.name == found.approach.name == "drf, theorem1, even"
    assert isinstance(found.approach.placement, Theorem1)
    assert found.approach.policy.name == "drf"


def test_only_the_policy_changes_where_the_reference_looks_past_plateaus() -> None:
    usual, found = way(REFERENCE), looking_past_plateaus()
    assert found.approach.policy.name == "optimus"
    assert (found.approach.rules, found.approach.placement, found.dealing) == (
        usual.approach.rules,
        usual.approach.placement,
        usual.dealing,
    )
