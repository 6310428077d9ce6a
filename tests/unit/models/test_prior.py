"""What earlier runs of a workload say: beside a job's own samples and losses, and without them."""

import math
from dataclasses import replace

import pytest

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, CountBounds, Counts, TargetLoss
from optimus.models.convergence import TimeToGoal
from optimus.models.earlier_runs import run_of
from optimus.models.forecast import Forecast, forecast_job
from optimus.models.prior import (
    RUN_SPREAD,
    earlier_total,
    met_at,
    speed_is_known,
    usual_total,
    with_earlier,
)
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.progress.types import (
    NOTHING,
    Declared,
    EarlierRun,
    RunLengths,
    SpeedSample,
    TrainingProgress,
)
from tests.unit.models.forecasting import JOB, PER_EPOCH, SAMPLES, SHARED, after, samples, speed

GOAL = TargetLoss(0.2)
TERMS = SpeedTerms(JOB.mode, SHARED)
ELSEWHERE = Counts(4, 4)


def run(epochs: float = 50, uid: str = "earlier", **fields: object) -> EarlierRun:
    """A run that met the target of 0.2 after 45 epochs, and one more to be sure of it."""
    made = run_of(replace(JOB, uid=uid), after(epochs), 100.0, succeeded=True)
    return replace(made, **fields)  # type: ignore[arg-type]  # EarlierRun's own


def from_earlier(*runs: EarlierRun, own: TrainingProgress = NOTHING) -> Forecast:
    found = forecast_job(JOB, replace(own, earlier=runs))
    assert isinstance(found, Forecast)
    return found


def test_a_job_of_which_nothing_is_known_has_a_forecast_from_earlier_runs() -> None:
    assert isinstance(forecast_job(JOB, NOTHING), NotReady)
    found = from_earlier(run())
    assert found.curve is None
    assert found.earlier_runs == 1
    assert found.remaining_epochs == pytest.approx(46, rel=0.01)
    assert found.at(Counts(2, 4)) == pytest.approx(46 * PER_EPOCH / speed(Counts(2, 4)), rel=0.02)


def test_epochs_that_are_done_are_not_left() -> None:
    found = from_earlier(run(), own=replace(after(3), samples=()))
    assert found.remaining_epochs == pytest.approx(43, rel=0.01)
    assert found.progress_fraction == pytest.approx(3 / 46, rel=0.01)


@pytest.mark.parametrize(("end", "left", "unlikely"), [(30, 30, True), (80, 46, False)])
def test_a_run_that_ends_before_earlier_ones_met_its_goal_is_unlikely_to(
    end: int, left: float, unlikely: bool
) -> None:
    found = from_earlier(run(), own=replace(NOTHING, declared=Declared(epochs=end)))
    assert found.remaining_epochs == pytest.approx(left, rel=0.01)
    assert bool(found.unlikely) == unlikely
    assert math.isinf(float(found.late_seconds(2, 4))) == unlikely


def test_a_run_past_its_declared_end_is_expected_as_long_as_earlier_ones() -> None:
    own = replace(after(3), samples=(), declared=Declared(epochs=2))
    assert from_earlier(run(), own=own).remaining_epochs == pytest.approx(43, rel=0.01)


def test_an_unusable_log_is_said_in_spite_of_earlier_runs() -> None:
    broken = TrainingProgress(diagnostic="no loss in the log", earlier=(run(),))
    assert forecast_job(JOB, broken) == NotReady("no loss in the log")


def test_a_goal_that_no_earlier_run_met_leaves_the_job_without_a_forecast() -> None:
    progress = TrainingProgress(earlier=(run(20),))
    assert isinstance(forecast_job(JOB, progress, TargetLoss(0.12)), NotReady)


class TestSpeed:
    def merged(self, own: tuple[SpeedSample, ...], *runs: EarlierRun) -> MergedSamples:
        return with_earlier(MergedSamples.of(own), runs, TERMS)

    def at(self, merged: MergedSamples, counts: Counts) -> tuple[float, float]:
        entry = merged.counts.index(counts)
        return float(merged.steps_per_second[entry]), float(merged.runs[entry])

    def test_without_own_samples_the_earlier_ones_count_half(self) -> None:
        merged, plain = self.merged((), run()), MergedSamples.of(run().samples)
        assert merged.counts == plain.counts
        assert merged.steps_per_second == pytest.approx(plain.steps_per_second)
        assert merged.runs == pytest.approx(plain.runs / 2)

    def test_where_the_job_was_measured_itself_only_that_counts(self) -> None:
        own = samples(Counts(1, 2))
        merged = self.merged(own, run())
        assert self.at(merged, Counts(1, 2)) == self.at(MergedSamples.of(own), Counts(1, 2))
        assert len(merged.counts) == len(SAMPLES)

    def test_a_faster_job_is_faster_everywhere_but_less_than_its_one_sample_says(self) -> None:
        own = tuple(
            replace(each, steps_per_second=1.2 * each.steps_per_second)
            for each in samples(Counts(1, 2))
        )
        found, _ = self.at(self.merged(own, run()), ELSEWHERE)
        assert 1.05 * speed(ELSEWHERE) < found < 1.2 * speed(ELSEWHERE)

    def test_with_more_own_samples_the_factor_nears_what_they_say(self) -> None:
        def factor(*counts: Counts) -> float:
            own = tuple(
                replace(each, steps_per_second=1.2 * each.steps_per_second)
                for each in samples(*counts)
            )
            return self.at(self.merged(own, run()), ELSEWHERE)[0] / speed(ELSEWHERE)

        few, more = factor(Counts(1, 2)), factor(Counts(1, 2), Counts(2, 1), Counts(2, 4))
        assert few < more < 1.2

    def test_the_factor_is_the_best_linear_unbiased_prediction(self) -> None:
        """One own sample of variance v: the log of the factor is r / (1 + v / 0.1^2)."""
        own = tuple(
            replace(each, steps_per_second=1.1 * each.steps_per_second)
            for each in samples(Counts(1, 2))
        )
        alone = MergedSamples.of(own)
        logs = math.log(self.at(self.merged(own, run()), ELSEWHERE)[0] / speed(ELSEWHERE))
        at_least = math.log(1.1) / (1 + (float(alone.variance[0]) + 0.05**2) / RUN_SPREAD**2)
        at_most = math.log(1.1) / (1 + float(alone.variance[0]) / RUN_SPREAD**2)
        assert at_least < logs < at_most

    def test_samples_at_too_few_counts_do_not_replace_profiling(self) -> None:
        two = run(samples=samples(Counts(1, 1), Counts(1, 2)))
        assert not speed_is_known((two,), CountBounds())
        assert speed_is_known((two,), CountBounds(max_ps=1, max_workers=2))
        assert speed_is_known((two, run(uid="b", samples=samples(Counts(2, 1)))), CountBounds())

    def test_without_earlier_runs_nothing_changes(self) -> None:
        own = MergedSamples.of(SAMPLES)
        assert with_earlier(own, (), TERMS) is own


class TestGoal:
    def test_a_run_met_its_own_goal_when_it_says_so(self) -> None:
        assert met_at(run(), GOAL) == 46
        assert met_at(replace(run(), met_at=40.0), GOAL) == 40

    def test_another_goal_is_looked_up_in_its_losses(self) -> None:
        # 1/(0.2 k + 1) + 0.1 is 0.3 at k = 20; two epochs in a row must meet it.
        assert met_at(run(), TargetLoss(0.3)) == 21
        assert met_at(run(), TargetLoss(0.01)) is None

    def test_a_threshold_needs_the_mean_of_every_epoch(self) -> None:
        threshold = ConvergenceThreshold(0.02)
        found = met_at(run(), threshold)
        assert found is not None
        assert met_at(replace(run(), every_epoch=False), threshold) is None

    def test_the_forecast_is_the_geometric_mean_and_is_sharper_with_more_runs(self) -> None:
        def forecast(*epochs: float) -> TimeToGoal:
            runs = [run(uid=str(each), met_at=each) for each in epochs]
            found = earlier_total(TrainingProgress(earlier=tuple(runs)), GOAL, in_epochs=True)
            assert found is not None
            return found.after(0.0)

        one, three = forecast(40), forecast(36, 40, 40**2 / 36)
        assert three.point == pytest.approx(40, rel=0.01)
        assert one.high / one.low > three.high / three.low
        wide = forecast(20, 40, 80)
        assert wide.high / wide.low > one.high / one.low
        assert wide.probability_by(40) == pytest.approx(0.5, abs=0.02)

    def test_runs_that_count_steps_say_nothing_of_epochs(self) -> None:
        progress = TrainingProgress(earlier=(run(in_epochs=False),))
        assert earlier_total(progress, GOAL, in_epochs=True) is None

    def test_the_namespace_is_believed_before_the_cluster_and_the_workload_before_both(
        self,
    ) -> None:
        cluster, namespace = RunLengths(epochs=(200.0, 300.0) * 5), RunLengths(epochs=(20.0,) * 4)

        def median(*groups: RunLengths, runs: tuple[EarlierRun, ...] = ()) -> float:
            progress = TrainingProgress(earlier=runs, lengths=groups)
            found = earlier_total(progress, GOAL, in_epochs=True)
            found = found or usual_total(progress, in_epochs=True)
            assert found is not None
            return found.after(0.0).point

        assert median(cluster) == pytest.approx(240, rel=0.1)
        assert 20 < median(cluster, namespace) < 60
        assert median(cluster, namespace, runs=(run(),)) == pytest.approx(46, rel=0.05)
        assert usual_total(TrainingProgress(), in_epochs=True) is None

    def test_lengths_of_other_jobs_move_a_first_forecast(self) -> None:
        own = after(6)
        near, far = (
            from_earlier(own=replace(own, lengths=(RunLengths(epochs=(length,) * 8),)))
            for length in (15.0, 400.0)
        )
        assert near.remaining_epochs is not None
        assert far.remaining_epochs is not None
        assert 2 * near.remaining_epochs < far.remaining_epochs

    def test_own_losses_replace_the_prior_as_they_come(self) -> None:
        """An earlier run that needed 60 epochs, of a job that needs 46."""
        wrong, errors = run(met_at=60.0), []
        for done in (0, 15, 35, 43):
            found = from_earlier(wrong, own=after(done) if done else NOTHING)
            assert found.remaining_epochs is not None
            errors.append(abs(done + found.remaining_epochs - 46))
        assert errors[0] == pytest.approx(14, abs=0.5)
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 2
