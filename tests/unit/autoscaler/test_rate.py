"""Rescales count against an hourly rate, unless they are forced."""

from optimus.jobs import Counts
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import End, Outcome, RescaleRecord, Step
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


@cases(
    ("purpose", "target", "outcome", "counts"),
    {
        "it grew": (RescalePurpose.INTERVAL, (2, 4), Outcome.REACHED, True),
        "it changed": (RescalePurpose.INTERVAL, (2, 1), Outcome.REACHED, True),
        "in vain": (RescalePurpose.INTERVAL, (2, 4), Outcome.ROLLED_BACK, True),
        "measured": (RescalePurpose.EXPLORATION, (2, 4), Outcome.REACHED, True),
        "for others": (RescalePurpose.INTERVAL, (1, 1), Outcome.REACHED, False),
        "not begun": (RescalePurpose.INTERVAL, (2, 4), Outcome.ABANDONED, False),
        "profiled": (RescalePurpose.PROFILING, (2, 4), Outcome.REACHED, False),
        "taken back": (RescalePurpose.TAKE_BACK, (1, 2), Outcome.REACHED, False),
        "saved": (RescalePurpose.RESTART, (1, 2), Outcome.REACHED, False),
        "a slow worker": (RescalePurpose.STRAGGLER, (1, 2), Outcome.REACHED, True),
    },
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
