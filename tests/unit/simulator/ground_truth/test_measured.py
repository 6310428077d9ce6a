"""Measured speeds and recorded losses as the truth of simulated jobs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, JobKey, TargetEpochs, TrainingMode
from optimus.simulator.ground_truth.measured import (
    Measured,
    MeasuredSpeed,
    MeasuredTruths,
    RecordedLoss,
)
from optimus.simulator.ground_truth.testbed import nodes
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.trace_workload import SubmittedJob, SubmittedWorkload
from optimus.simulator.workload import WORKLOADS

TABLE = {Counts(1, 1): 1.0, Counts(1, 4): 4.0, Counts(4, 1): 2.0, Counts(4, 4): 8.0}
SYNC = MeasuredSpeed(TrainingMode.SYNC, TABLE)
ASYNC = MeasuredSpeed(TrainingMode.ASYNC, TABLE)
ALONE = (Counts(1, 1),)


class TestSpeeds:
    @pytest.mark.parametrize("counts", TABLE)
    def test_at_measured_counts_it_is_the_measured_one(self, counts: Counts) -> None:
        assert SYNC.steps_per_second((counts,)) == TABLE[counts]

    def test_the_servers_make_no_difference(self) -> None:
        assert SYNC.steps_per_second((Counts(1, 2), Counts(0, 2))) == 4.0

    @pytest.mark.parametrize(
        ("counts", "speed"),
        [
            (Counts(1, 2), 2.0),
            (Counts(2, 1), math.sqrt(2)),
            (Counts(2, 2), 2 * math.sqrt(2)),
        ],
    )
    def test_between_them_it_is_linear_in_the_logarithms(
        self, counts: Counts, speed: float
    ) -> None:
        assert SYNC.at(counts) == pytest.approx(speed)

    @pytest.mark.parametrize(("counts", "speed"), [(Counts(1, 9), 4.0), (Counts(9, 9), 8.0)])
    def test_beyond_them_it_is_that_of_the_nearest(self, counts: Counts, speed: float) -> None:
        assert SYNC.at(counts) == pytest.approx(speed)

    def test_where_a_corner_was_not_measured_it_is_that_of_the_nearest(self) -> None:
        without = {counts: speed for counts, speed in TABLE.items() if counts != Counts(4, 4)}
        speed = MeasuredSpeed(TrainingMode.SYNC, without)
        assert speed.at(Counts(2, 3)) == 4.0
        assert speed.at(Counts(1, 2)) == pytest.approx(2.0)

    @given(st.integers(1, 12), st.integers(1, 12))
    def test_it_is_never_beyond_what_was_measured(self, ps: int, workers: int) -> None:
        assert 1.0 - 1e-9 <= SYNC.at(Counts(ps, workers)) <= 8.0 + 1e-9

    def test_one_pair_of_counts_is_enough(self) -> None:
        speed = MeasuredSpeed(TrainingMode.SYNC, {Counts(2, 2): 3.0})
        assert speed.at(Counts(1, 5)) == pytest.approx(3.0)

    def test_workers_that_straggle_slow_all_in_sync_and_themselves_in_async(self) -> None:
        servers = (Counts(1, 4),)
        assert SYNC.steps_per_second(servers, (0.5, 0.25)) == 1.0
        assert ASYNC.steps_per_second(servers, (0.5, 0.25)) == pytest.approx(4 * 2.75 / 4)


def test_a_loss_is_that_of_its_epoch_and_then_of_the_last() -> None:
    loss = RecordedLoss((3.0, 2.0, 1.5))
    assert [loss.after(epoch) for epoch in (1.0, 2.0, 3.0, 9.0)] == [3.0, 2.0, 1.5, 1.5]


class TestWhoseTruthItIs:
    def test_all_that_is_given_must_be_so_and_the_first_counts(self) -> None:
        mine, others = RecordedLoss((1.0,)), RecordedLoss((2.0,))
        truths = MeasuredTruths(
            (
                Measured(job="a/b", loss=mine),
                Measured(type="DSSM", mode=TrainingMode.SYNC, speeds=(SYNC,)),
                Measured(workload="w", loss=others),
                Measured(loss=others),
            )
        )
        key, other = JobKey("a", "b"), JobKey("a", "c")
        assert truths.of(key, "w", "DSSM", TrainingMode.SYNC) == (SYNC, mine)
        assert truths.of(other, None, "DSSM", TrainingMode.ASYNC) == (None, others)

    def test_a_table_of_the_other_mode_is_of_no_job(self) -> None:
        truths = MeasuredTruths((Measured(speeds=(ASYNC,)),))
        key = JobKey("a", "b")
        assert truths.of(key, None, "DSSM", TrainingMode.SYNC) == (None, None)
        assert truths.of(key, None, "DSSM", TrainingMode.ASYNC) == (ASYNC, None)


class TestInASimulation:
    def submitted(
        self,
        duration_seconds: float | None = None,
        steps: float | None = None,
        steps_per_second: float | None = None,
    ) -> SubmittedWorkload:
        each = SubmittedJob(
            key=JobKey("a", "b"),
            submit_seconds=0.0,
            counts=Counts(1, 4),
            epochs=10,
            duration_seconds=duration_seconds,
            steps=steps,
            steps_per_second=steps_per_second,
        )
        measured = MeasuredTruths((Measured(speeds=(SYNC,), loss=RecordedLoss((2.0, 1.0))),))
        return SubmittedWorkload("one", (each,), nodes(), measured=measured)

    def test_steps_take_what_the_table_says(self) -> None:
        (job,) = self.submitted(steps=4000.0)(1, stream(1, Purpose.WORKLOAD)).jobs
        assert job.speed.steps_per_second(ALONE) == 1.0
        assert job.job.goal == TargetEpochs(10)
        assert job.loss.after(2.0) == 1.0
        assert job.loss_noise == 0.0

    def test_what_the_trace_says_of_the_speed_scales_the_table(self) -> None:
        for stated in ({"duration_seconds": 500.0, "steps": 1000.0}, {"steps_per_second": 2.0}):
            (job,) = self.submitted(**stated)(1, stream(1, Purpose.WORKLOAD)).jobs
            assert job.speed.steps_per_second((Counts(1, 4),)) == pytest.approx(2.0)
            assert job.speed.steps_per_second(ALONE) == pytest.approx(0.5)

    def test_a_duration_stays_that_at_the_submitted_counts(self) -> None:
        (job,) = self.submitted(duration_seconds=500.0)(1, stream(1, Purpose.WORKLOAD)).jobs
        steps = 10 * job.steps_per_epoch
        assert steps / job.speed.steps_per_second((Counts(1, 4),)) == pytest.approx(500.0)

    def test_drawn_jobs_keep_their_steps(self) -> None:
        usual = WORKLOADS["uniform"](4, stream(1, Purpose.WORKLOAD))
        found = MeasuredTruths((Measured(speeds=(SYNC, ASYNC)),)).apply(usual)
        for before, after in zip(usual.jobs, found.jobs, strict=True):
            assert after.steps_per_epoch == before.steps_per_epoch
            assert after.speed.steps_per_second(ALONE) == 1.0
            assert after.loss is before.loss
