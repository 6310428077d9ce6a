"""What a rescale costs is measured on the job's own rescales, and decides over the next ones."""

from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.allocation.problem import usual_price
from optimus.interval import Action
from optimus.jobs import NO_COUNTS, Counts
from optimus.rescale.machine import Rescale, advance
from optimus.rescale.words import CheckpointSeen, Observed, RescaleRecord, Step
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job
from tests.unit.interval.cases import ON_NODE_00, Case
from tests.unit.interval.cluster import job, steps
from tests.unit.rescale.test_machine import (
    ALL,
    ALL_BEFORE,
    CHECKPOINT,
    CONFIG,
    NO_PODS,
    RESUMED,
    RUNNING,
    SLOW,
    SUSPENDED,
    with_room,
)

PENDING = replace(ALL, bound=NO_COUNTS, started=NO_COUNTS)
TRAINS = replace(ALL, trains=True)


@cases("waited", {"placed at once": 0.0, "after a wait for capacity": 200.0})
def test_it_is_the_time_to_stop_and_to_start_and_what_was_lost(waited: float) -> None:
    state, _ = advance(CHECKPOINT, CheckpointSeen(995.0), CONFIG)
    state, _ = with_room(state, Observed(1010.0, RUNNING, ALL_BEFORE))
    assert (state.stopped_at, state.lost_seconds) == (1010.0, 15.0)
    course = [
        (1010.0, Step.EMPTY, SUSPENDED, replace(ALL_BEFORE, left=2)),
        (1018.0, Step.EMPTY, SUSPENDED, NO_PODS),
        (1020.0, Step.START, RESUMED, PENDING),
        (1025.0, Step.START, RESUMED, PENDING),
        (1025.0 + waited, Step.START, RESUMED, SLOW),
        (1035.0 + waited, Step.START, RESUMED, ALL),
        *((1035.0 + waited + each, Step.VERIFY, RESUMED, TRAINS) for each in (7.0, 22.0, 40.0)),
    ]
    for at, step, observed, pods in course:
        record = state.record
        if record.step is not step:
            record = replace(record, step=step, step_at=at)
        state = replace(state, record=record, written=True, observed_at=at)
        state, _ = advance(state, Observed(at, observed, pods), CONFIG)
    assert state.end is not None
    assert state.end.start_seconds == 10.0
    assert state.end.price_seconds == 8.0 + 17.0 + 15.0


def test_of_a_rescale_that_another_process_began_it_is_not_known() -> None:
    record = RescaleRecord("i7", 0.0, Counts(1, 2), Counts(2, 3), "why", Step.VERIFY, 1000.0)
    state = Rescale(record, needs_checkpoint=True, written=True)
    state, _ = advance(state, Observed(1090.0, RESUMED, replace(ALL, trains=True)), CONFIG)
    assert state.end is not None
    assert state.end.price_seconds is None


@cases(
    ("measured", "price"),
    {
        "nothing was measured": ((), 60.0),
        "less than is assumed": ((4.0,), 4.0),
        "one outlier does not keep a job where it is": ((177.0,), 60.0),
        "two are no outliers": ((177.0, 170.0), 170.0),
        "one of several": ((4.0, 177.0, 5.0), 5.0),
    },
)
def test_an_outlier_does_not_decide(measured: tuple[float, ...], price: float) -> None:
    assert usual_price(measured, 60.0) == price


@cases(
    ("prices", "action"),
    {
        "not measured": ((), Action.GROW),
        "low": ((20.0,), Action.GROW),
        "more than all that growth saves": ((1e6, 1e6), Action.KEEP),
    },
)
def test_a_job_whose_rescales_cost_more_than_they_save_keeps_its_counts(
    prices: tuple[float, ...], action: Action
) -> None:
    case = Case(
        [(job("a"), ON_NODE_00)], {"a": steps(1000)}, history={"a": JobHistory(prices=prices)}
    )
    assert case.decisions()["a"].action is action


def test_a_rescale_of_a_job_is_measured(cluster: FakeCluster, harness: ControllerHarness) -> None:
    cluster.lingering_seconds = 6.0
    cluster.submit(tf_job("a", 1, 2, target_loss="0.001", training_mode="sync", rescale="any"))
    harness.run(120)
    (state,) = harness.controller.managed
    assert state.record.prices
    assert all(6.0 <= price <= 30.0 for price in state.record.prices)
