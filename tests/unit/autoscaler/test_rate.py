"""Rescales count against an hourly rate, unless they are forced."""

import pytest

from optimus.jobs import Counts
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import End, Outcome, RescaleRecord, Step
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


@pytest.mark.parametrize(
    ("purpose", "target", "outcome", "counts"),
    [
        pytest.param(RescalePurpose.INTERVAL, (2, 4), Outcome.REACHED, True, id="it grew"),
        pytest.param(RescalePurpose.INTERVAL, (2, 1), Outcome.REACHED, True, id="it changed"),
        pytest.param(RescalePurpose.INTERVAL, (2, 4), Outcome.ROLLED_BACK, True, id="in vain"),
        pytest.param(RescalePurpose.EXPLORATION, (2, 4), Outcome.REACHED, True, id="measured"),
        pytest.param(RescalePurpose.INTERVAL, (1, 1), Outcome.REACHED, False, id="for others"),
        pytest.param(RescalePurpose.INTERVAL, (2, 4), Outcome.ABANDONED, False, id="not begun"),
        pytest.param(RescalePurpose.PROFILING, (2, 4), Outcome.REACHED, False, id="profiled"),
        pytest.param(RescalePurpose.TAKE_BACK, (1, 2), Outcome.REACHED, False, id="taken back"),
        pytest.param(RescalePurpose.RESTART, (1, 2), Outcome.REACHED, False, id="saved"),
        pytest.param(RescalePurpose.STRAGGLER, (1, 2), Outcome.REACHED, True, id="a slow worker"),
    ],
)
def test_what_counts_against_the_rate(
    cluster: FakeCluster,
    harness: ControllerHarness,
    purpose: RescalePurpose,
    target: tuple[int, int],
    outcome: Outcome,
    counts: bool,
) -> None:
    cluster.submit(tf_job("a", 1, 2, target_loss="0.001"))
    harness.run(1)
    (state,) = harness.controller.managed
    record = RescaleRecord(
        "i7", 0.0, Counts(1, 2), Counts(*target), "why", Step.VERIFY, 0.0, purpose=purpose
    )
    state.rescale_ended(End(outcome, record, "over"), 100.0)
    assert state.history(200.0).moves == ((100.0,) if counts else ())
    assert state.saved.record.moves == state.history(200.0).moves
