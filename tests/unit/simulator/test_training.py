"""One job's true training, and the progress that its log shows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Batch, BatchScope, ConvergenceThreshold, Counts, TrainingMode
from optimus.models.forecast import goal_is_met
from optimus.progress.log import MAX_LOSSES
from optimus.progress.types import LossPoint, TrainingProgress
from optimus.simulator.jobs import SimulatedJob, Straggling
from optimus.simulator.streams import Purpose, lognormal_factor, stream
from optimus.simulator.training import Training, observed_losses
from tests.unit.simulator.workloads import JobParameters, Loss, Speed, job

ALONE = (Counts(1, 1),)


def met_after(truth: SimulatedJob, losses: tuple[float, ...], epochs: int) -> bool:
    points = tuple(LossPoint(loss, float(k)) for k, loss in enumerate(losses[:epochs], start=1))
    assert truth.job.goal is not None
    return goal_is_met(truth.job.goal, TrainingProgress(points))


class TestWhenAJobHasEnded:
    @given(
        st.integers(1, 50), st.floats(0.01, 0.5), st.sampled_from([0.0, 0.02]), st.integers(0, 99)
    )
    def test_a_target_is_met_for_the_first_time_in_the_last_epoch(
        self, epochs: int, rate: float, noise: float, seed: int
    ) -> None:
        truth = job("a", JobParameters(epochs=epochs, loss=Loss(rate), noise=noise))
        losses = observed_losses(truth, np.random.default_rng(seed))
        assert met_after(truth, losses, len(losses)) or len(losses) == truth.most_epochs
        assert not any(met_after(truth, losses, before) for before in range(1, len(losses)))

    @given(
        st.floats(0.005, 0.05),
        st.floats(0.01, 0.5),
        st.sampled_from([0.0, 0.02]),
        st.integers(0, 99),
    )
    def test_a_threshold_is_met_for_the_first_time_in_the_last_epoch(
        self, fraction: float, rate: float, noise: float, seed: int
    ) -> None:
        truth = job(
            "a", JobParameters(goal=ConvergenceThreshold(fraction), loss=Loss(rate), noise=noise)
        )
        losses = observed_losses(truth, np.random.default_rng(seed))
        assert met_after(truth, losses, len(losses)) or len(losses) == truth.most_epochs
        assert not any(met_after(truth, losses, before) for before in range(1, len(losses)))

    def test_without_noise_it_is_the_epoch_of_the_true_loss(self) -> None:
        assert (
            len(observed_losses(job("a", JobParameters(epochs=17)), np.random.default_rng(0))) == 17
        )

    def test_a_goal_that_is_never_met_ends_it_with_its_last_epoch(self) -> None:
        truth = replace(job("a", JobParameters(goal=ConvergenceThreshold(1e-9))), most_epochs=12)
        assert len(observed_losses(truth, np.random.default_rng(0))) == 12


class TestRuns:
    def test_work_is_speed_times_time_over_runs_and_pauses(self) -> None:
        training = Training(job("a", JobParameters(epochs=100, speed=Speed(2.0))), seed=1)
        training.begin(10.0, ALONE)
        training.stop(40.0)
        training.begin(100.0, (Counts(1, 3),))
        training.advance(110.0)
        assert (training.steps, training.epochs) == pytest.approx((60 + 60, 12))
        assert training.trained_seconds == pytest.approx(40)
        assert training.finish_at == pytest.approx(110 + (1000 - 120) / 6)

    def test_it_ends_by_itself_and_does_no_more(self) -> None:
        training = Training(job("a", JobParameters(epochs=10)), seed=1)
        training.begin(0.0, ALONE)
        training.advance(1e6)
        assert training.is_finished
        assert training.run is None
        assert (training.epochs, training.at) == pytest.approx((10.0, 100.0))
        assert training.steps == pytest.approx(100)

    def test_every_run_yields_one_speed_and_frequent_reads_change_nothing(self) -> None:
        looked, left_alone = (
            Training(job("a", JobParameters(epochs=90, noise=0.1)), seed=1) for _ in range(2)
        )
        for training in (looked, left_alone):
            training.begin(0.0, ALONE)
            training.stop(60.0)
            training.begin(90.0, (Counts(2, 2),))
        for at in range(91, 150):
            looked.advance(float(at))
            looked.progress()
        looked.advance(150.0)
        left_alone.advance(150.0)
        for one, other in zip(
            looked.progress().samples, left_alone.progress().samples, strict=True
        ):
            assert one.counts == other.counts
            assert one.steps_per_second == pytest.approx(other.steps_per_second)
            assert one.seconds == pytest.approx(other.seconds)
        assert [sample.counts for sample in looked.progress().samples] == [
            Counts(1, 1),
            Counts(2, 2),
        ]

    def test_measured_speeds_scatter_about_the_true_one_as_much_as_configured(self) -> None:
        training = Training(job("a", JobParameters(epochs=10**4, noise=0.1)), seed=3)
        for n in range(60):
            training.begin(10.0 * n, ALONE)
            training.stop(10.0 * n + 5)
        speeds = [sample.steps_per_second for sample in training.progress().samples]
        assert np.mean(speeds) == pytest.approx(1.0, abs=0.05)
        assert np.std(speeds) == pytest.approx(0.1, rel=0.35)

    def test_where_each_worker_has_its_own_batch_an_epoch_has_the_fewer_steps_the_more_workers(
        self,
    ) -> None:
        truth = job("a", JobParameters(epochs=10, mode=TrainingMode.SYNC))
        own = replace(truth, job=replace(truth.job, batch=Batch(32, BatchScope.WORKER)))
        training = Training(own, seed=1)
        training.begin(0.0, (Counts(1, 4),))
        assert training.finish_at == pytest.approx(
            10 * 10 / 4 / 4
        )  # a quarter of the steps, at 4 a second

    def test_progress_shows_whole_epochs_only(self) -> None:
        training = Training(job("a", JobParameters(epochs=30)), seed=1)
        training.begin(0.0, ALONE)
        training.advance(35.0)
        progress = training.progress()
        assert [point.epoch for point in progress.losses] == [1.0, 2.0, 3.0]
        assert progress.epoch == pytest.approx(3.5)
        assert (progress.step, progress.steps_per_epoch) == (35, 10.0)

    @pytest.mark.parametrize(("goal_at", "declared"), [(None, None), (1.0, 10), (0.4, 25)])
    def test_the_log_declares_an_end_after_the_goal_is_met(
        self, goal_at: float | None, declared: int | None
    ) -> None:
        truth = replace(job("a", JobParameters(epochs=10)), goal_at=goal_at)
        assert Training(truth, seed=1).progress().declared.epochs == declared

    def test_a_long_history_is_thinned_as_the_log_thins_it(self) -> None:
        training = Training(job("a", JobParameters(epochs=MAX_LOSSES + 50)), seed=1)
        training.begin(0.0, ALONE)
        training.advance(10.0 * (MAX_LOSSES + 40))
        assert len(training.progress().losses) <= MAX_LOSSES


class TestKindsOfNodes:
    @staticmethod
    def _begun(straggling: Straggling | None = None, **kinds: int) -> Training:
        truth = job("a", JobParameters(epochs=10**4, straggling=straggling))
        training = Training(replace(truth, kind_speeds={"slow": 0.25}), seed=5)
        training.begin(0.0, (Counts(1, sum(kinds.values())),), kinds)
        return training

    def test_a_worker_on_a_slow_kind_has_a_part_of_its_speed(self) -> None:
        assert self._begun(slow=2).speed == pytest.approx(0.5)
        assert self._begun(slow=1, other=1).speed == pytest.approx(1.25)
        assert self._begun(other=2).speed == pytest.approx(2.0)

    def test_what_was_measured_names_the_kind(self) -> None:
        for training, name in (
            (self._begun(slow=2), "slow"),
            (self._begun(slow=1, b=1), "b*1,slow*1"),
        ):
            training.advance(10.0)
            assert [each.node_kind for each in training.progress().samples] == [name]
        found = self._begun(slow=1).measure(ALONE, 30.0, 0.0, "slow")
        assert found.node_kind == "slow"
        assert found.steps_per_second == pytest.approx(0.25)

    def test_a_straggler_on_a_slow_kind_is_slower_still(self) -> None:
        training = self._begun(Straggling(1e-6, 1e9, 0.5), slow=1)
        training.advance(1.0)
        assert training.speed == pytest.approx(0.125)


class TestStragglers:
    def test_workers_straggle_as_often_and_as_long_as_configured(self) -> None:
        # Of time, 100 / (900 + 100) for each of 4 workers: the job has 1 - 0.1 * 0.5 of its speed.
        habit = Straggling(seconds_between=900, seconds=100, speed_fraction=0.5)
        training = Training(job("a", JobParameters(epochs=10**5, straggling=habit)), seed=5)
        training.begin(0.0, (Counts(1, 4),))
        training.advance(200_000.0)
        assert training.steps / 200_000 / 4 == pytest.approx(0.95, abs=0.005)

    def test_a_restart_ends_it(self) -> None:
        habit = Straggling(seconds_between=1e-6, seconds=1e9, speed_fraction=0.5)
        training = Training(job("a", JobParameters(epochs=10**4, straggling=habit)), seed=5)
        training.begin(0.0, ALONE)
        training.advance(1.0)
        assert training.speed == 0.5
        training.stop(2.0)
        training.begin(3.0, ALONE)
        assert training.speed == 1.0


class TestStreams:
    def test_a_stream_depends_on_seed_purpose_and_job_and_on_nothing_else(self) -> None:
        draws = {
            (seed, purpose, uid): stream(seed, purpose, uid).random()
            for seed in (1, 2)
            for purpose in Purpose
            for uid in ("a", "b")
        }
        assert len(set(draws.values())) == len(draws)
        assert draws[1, Purpose.LOSS, "a"] == stream(1, Purpose.LOSS, "a").random()

    def test_factors_have_mean_one(self) -> None:
        rng = stream(1, Purpose.SPEED)
        assert np.mean([lognormal_factor(rng, 0.2) for _ in range(20_000)]) == pytest.approx(
            1.0, abs=0.005
        )
