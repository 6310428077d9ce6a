"""What capacity is kept for rescales in progress."""

import pytest

from optimus.interval.capacity_plan import Claim, claims_of
from optimus.jobs import NO_COUNTS, Counts
from optimus.rescale.machine import Rescale
from optimus.rescale.words import RescaleRecord, Step
from optimus.snapshot import ClusterSnapshot
from tests.unit.simulator.workloads import JobParameters, job, nodes

JOB = job("a", JobParameters(counts=Counts(1, 2))).job


def claims(target: Counts, bound: Counts, step: Step = Step.CHECKPOINT) -> list[Claim]:
    record = RescaleRecord("i", 0.0, JOB.counts, target, "why", step, 0.0)
    snapshot = ClusterSnapshot(0.0, (JOB,), nodes(1), ())
    snapshot.prepare({"a": bound}, {})
    rescales = [(JOB, Rescale(record, needs_checkpoint=False)), (JOB, None)]
    return list(claims_of(rescales, snapshot, 50.0, hold_seconds=60.0))


@pytest.mark.parametrize(
    ("target", "bound", "is_kept"),
    [
        pytest.param(Counts(1, 3), Counts(1, 2), True, id="of a job that grows"),
        pytest.param(Counts(2, 1), Counts(1, 2), True, id="of a job that changes"),
        pytest.param(Counts(1, 1), Counts(1, 2), False, id="not of one that only gives capacity"),
        pytest.param(Counts(1, 1), NO_COUNTS, True, id="of one that has none yet"),
        pytest.param(NO_COUNTS, Counts(1, 2), False, id="not of one that is paused"),
    ],
)
def test_what_a_target_lacks_is_kept(target: Counts, bound: Counts, is_kept: bool) -> None:
    assert claims(target, bound) == [Claim(JOB, target)] * is_kept


def test_a_stopped_job_comes_first_and_one_that_starts_keeps_its_pods() -> None:
    target = Counts(1, 3)
    assert claims(target, NO_COUNTS, Step.EMPTY) == [Claim(JOB, target, is_stopped=True)]
    starts = Claim(JOB, target, keeps_pods=True, is_stopped=True)
    assert claims(target, Counts(1, 2), Step.START) == [starts]
