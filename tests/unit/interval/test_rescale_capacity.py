"""What capacity is kept for rescales in progress."""

from dataclasses import replace

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
    snapshot.prepare({"a": bound}, {}, lambda: None)
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


def test_of_a_rescale_in_place_what_the_others_have_stays_theirs() -> None:
    record = RescaleRecord("i", 0.0, JOB.counts, Counts(1, 4), "why", Step.RESIZE, 0.0)
    rescale = Rescale(replace(record, in_place=True), needs_checkpoint=False)
    snapshot = ClusterSnapshot(0.0, (JOB,), nodes(1), ())
    snapshot.prepare({"a": JOB.counts}, {}, lambda: None)
    (claim,) = claims_of([(JOB, rescale)], snapshot, 50.0, hold_seconds=60.0)
    assert claim == Claim(JOB, Counts(1, 4), keeps_pods=True)
