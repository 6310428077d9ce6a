"""Forecasts: the curve, the speed and the goal put together, and every reason not to give one."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import (
    Batch,
    BatchScope,
    ConvergenceThreshold,
    Counts,
    Goal,
    Role,
    TargetLoss,
    TrainingMode,
)
from optimus.models.convergence import LossCurve, PublishedCurve
from optimus.models.forecast import CurveFit, Forecast, forecast_job
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import Declared, LogLine, LossPoint, SpeedSample, TrainingProgress
from tests.unit.models.forecasting import (
    JOB,
    PER_EPOCH,
    SAMPLES,
    after,
    forecast_of,
    samples,
    speed,
)
from tests.unit.models.measured import sample
from tests.unit.models.test_schedule import DECLARED
from tests.unit.progress.jobs import START


def test_remaining_time_is_remaining_work_over_speed() -> None:
    # 1/(0.2 k + 1) + 0.1 is 0.2 at k = 45.
    found = forecast_of(after(15))
    assert found.remaining_epochs == pytest.approx(30)
    assert found.progress_fraction == pytest.approx(15 / 45)
    assert found.at(Counts(2, 4)) == pytest.approx(30 * PER_EPOCH / speed(Counts(2, 4)))
    assert not found.goal_met


def test_the_products_own_curve_gives_an_interval_too() -> None:
    found = forecast_job(JOB, after(15.5))
    assert isinstance(found, Forecast)
    assert found.remaining_epochs is not None
    assert found.low_epochs is not None
    assert found.high_epochs is not None
    assert found.time_to_goal is not None
    assert found.low_epochs < found.remaining_epochs < found.high_epochs
    assert found.low_epochs < 29.5 < found.high_epochs
    assert found.time_to_goal.point == pytest.approx(15.5 + found.remaining_epochs)
    assert found.time_to_goal.probability_by(20) < found.time_to_goal.probability_by(80)


def test_late_seconds_are_those_of_the_upper_end_of_the_work_left_and_of_a_slower_speed() -> None:
    found = forecast_job(JOB, after(20))
    assert isinstance(found, Forecast)
    assert found.remaining_epochs is not None
    assert found.high_epochs is not None
    assert found.late_factor == found.high_epochs / found.remaining_epochs > 1
    here, far = Counts(2, 2), Counts(2, 12)
    late = {each: float(found.late_seconds(*each)) / found.at(each) for each in (here, far)}
    assert late[here] >= found.late_factor
    assert late[far] > late[here]


def test_the_probability_of_a_deadline_agrees_with_late_seconds() -> None:
    found, here = forecast_of(after(20)), Counts(2, 2)
    assert found.probability_within(found.at(here), here) == pytest.approx(0.5, abs=1e-6)
    late = float(found.late_seconds(*here))
    assert found.probability_within(late, here) == pytest.approx(0.9, abs=1e-4)
    assert found.probability_within(0, here) == 0 < found.probability_within(late / 3, here) < 0.5


class _Constant:
    """Two steps per second at any counts."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The same everywhere."""
        return np.full(np.broadcast_shapes(np.shape(ps), np.shape(workers)), 2.0)


def test_a_known_amount_at_a_known_speed_is_never_late() -> None:
    found = Forecast(_Constant(), 100.0)
    assert float(found.late_seconds(1, 2)) == found.at(Counts(1, 2)) == 50
    assert [found.probability_within(seconds, Counts(1, 2)) for seconds in (49, 50)] == [0, 1]


def test_the_part_of_an_epoch_that_is_done_counts() -> None:
    assert forecast_of(after(15.5)).remaining_epochs == pytest.approx(29.5)


def test_at_the_jobs_own_counts_the_measured_speed_is_what_counts() -> None:
    measured = replace(sample(Counts(1, 2), 2 * speed(Counts(1, 2)), seconds=60), at=1.0)
    progress = after(
        15, samples=(*(each for each in SAMPLES if each.counts != Counts(1, 2)), measured)
    )
    found = forecast_of(progress)
    assert found.at(Counts(1, 2)) == pytest.approx(30 * PER_EPOCH / measured.steps_per_second)


def test_at_counts_that_were_not_measured_the_fitted_speed_is_what_counts() -> None:
    found = forecast_of(after(15), counts=Counts(3, 3))
    assert found.at(Counts(3, 3)) == pytest.approx(30 * PER_EPOCH / speed(Counts(3, 3)))


def test_another_goal_can_be_asked_about() -> None:
    assert forecast_of(after(15), TargetLoss(0.3)).remaining_epochs == pytest.approx(5)


def test_an_unchanged_learning_rate_needs_as_many_steps_of_more_sync_workers() -> None:
    """So that none of them ends sooner."""
    own = Batch(16, BatchScope.WORKER)
    found = forecast_of(after(15), batch=own)
    assert not found.batch_per_worker
    left = found.remaining_steps
    for workers in (1, 2, 4):
        rate = found.speed.steps_per_second(2, workers)
        assert found.at(Counts(2, workers)) == pytest.approx(float(left / rate))


def test_with_a_batch_for_each_worker_and_a_rate_that_follows_steps_shrink_as_workers_grow() -> (
    None
):
    own = Batch(16, BatchScope.WORKER, rate_follows=True)
    measured = samples(Counts(1, 1), Counts(2, 1), Counts(4, 4), Counts(1, 4), Counts(2, 4))
    latest = replace(sample(Counts(1, 2), speed(Counts(1, 2))), at=9.0)
    found = forecast_of(after(15, samples=(*measured, latest)), batch=own)
    assert found.batch_per_worker
    assert found.reference_workers == 2
    rate = found.speed.steps_per_second(2, 4)
    assert found.at(Counts(2, 4)) == pytest.approx(float(30 * PER_EPOCH / 2 / rate))


def test_the_workers_at_which_steps_were_counted_are_those_of_the_newest_sample() -> None:
    own = Batch(16, BatchScope.WORKER, rate_follows=True)
    newest = replace(sample(Counts(1, 4), speed(Counts(1, 4))), at=9.0)
    older = replace(sample(Counts(1, 1), speed(Counts(1, 1))), at=8.0)
    others = samples(Counts(2, 1), Counts(1, 2), Counts(2, 4))
    for measured in ((newest, older, *others), (*others, older, newest)):
        assert forecast_of(after(15, samples=measured), batch=own).reference_workers == 4


def test_async_steps_are_single_workers_steps_whatever_their_number() -> None:
    found = forecast_of(after(15), batch=Batch(16, BatchScope.WORKER), mode=TrainingMode.ASYNC)
    assert not found.batch_per_worker


def test_steps_alone_are_enough_for_a_target() -> None:
    losses = tuple(
        LossPoint(1 / (0.01 * step + 1) + 0.1, None, step) for step in range(20, 420, 20)
    )
    found = forecast_of(TrainingProgress(losses, None, 400, None, SAMPLES))
    assert found.remaining_epochs is None
    assert found.remaining_steps == pytest.approx(500)


def test_epochs_are_filled_in_once_it_is_known_how_many_steps_they_have() -> None:
    early = tuple(replace(point, epoch=None) for point in after(15).losses)
    assert forecast_of(after(15, losses=early)).remaining_epochs == pytest.approx(30)


def test_a_curve_that_is_below_the_target_before_the_losses_are_leaves_the_running_epoch() -> None:
    late = tuple(replace(point, loss=max(point.loss, 0.2005)) for point in after(46.25).losses)
    found = forecast_of(after(46.25, losses=late))
    assert not found.goal_met
    assert found.remaining_epochs == pytest.approx(0.75)


class TestNotReady:
    def reason(self, progress: TrainingProgress, goal: Goal | None = None) -> str:
        refusal = forecast_job(JOB, progress, goal)
        assert isinstance(refusal, NotReady)
        return refusal.reason

    def test_too_few_epochs(self) -> None:
        assert self.reason(after(3)) == "the loss is known at 3 complete epochs, 5 needed"

    def test_too_few_speeds(self) -> None:
        assert "2 pairs of counts, 3 needed" in self.reason(
            after(9, samples=samples(Counts(1, 1), Counts(1, 2)))
        )

    def test_a_target_out_of_reach(self) -> None:
        assert "not reachable at this rate" in self.reason(after(45), TargetLoss(0.01))

    def test_a_logs_diagnostic_is_the_reason(self) -> None:
        assert (
            self.reason(TrainingProgress(diagnostic="no training loss was found"))
            == "no training loss was found"
        )

    def test_epochs_of_unknown_length(self) -> None:
        assert "steps-per-epoch" in self.reason(after(15, steps_per_epoch=None))

    def test_a_job_without_a_goal(self) -> None:
        refusal = forecast_job(replace(JOB, goal=None), after(15))
        assert refusal == NotReady(
            "the job has no goal: the annotation optimus.dl/target-loss sets one"
        )


class TestKindsOfNodes:
    """Fast nodes train twice as fast. The job was measured on both kinds, but at 4+4 on fast ones
    only."""

    slow = tuple(
        replace(sample, node_kind="slow") for sample in SAMPLES if sample.counts != Counts(4, 4)
    )
    fast = tuple(
        replace(
            sample, node_kind="fast", steps_per_second=2 * sample.steps_per_second, at=sample.at + 1
        )
        for sample in SAMPLES
    )

    def speed(self, kind: str | None, counts: Counts, *taken: SpeedSample) -> float:
        progress = replace(after(15, samples=taken or (*self.slow, *self.fast)), node_kind=kind)
        found = forecast_of(progress, counts=counts)
        return float(found.speed.steps_per_second(*counts))

    @pytest.mark.parametrize(
        ("kind", "counts", "factor"),
        [
            pytest.param(
                "slow",
                Counts(1, 2),
                1.0,
                id="what was measured on its class, though fast nodes came last",
            ),
            pytest.param("fast", Counts(1, 2), 2.0, id="what was measured last"),
            pytest.param(
                None, Counts(1, 2), 2.0, id="where the class is unknown, what was measured last"
            ),
            pytest.param(
                "fast*1,slow*1", Counts(1, 2), 1.0, id="workers on both wait for the slowest"
            ),
        ],
    )
    def test_a_forecast_is_for_the_class_that_the_job_runs_on(
        self, kind: str | None, counts: Counts, factor: float
    ) -> None:
        slow = next(each.steps_per_second for each in SAMPLES if each.counts == counts)
        assert self.speed(kind, counts) == pytest.approx(factor * slow, rel=0.02)

    def test_counts_measured_on_another_class_are_converted(self) -> None:
        assert self.speed("slow", Counts(4, 4)) == pytest.approx(
            self.speed("fast", Counts(4, 4)) / 2, rel=0.05
        )

    @pytest.mark.parametrize("kind", [None, "", "some"])
    def test_nodes_alike_change_nothing(self, kind: str | None) -> None:
        alike = tuple(replace(sample, node_kind=kind or "") for sample in SAMPLES)
        for counts in (Counts(1, 2), Counts(3, 3)):
            assert self.speed(kind, counts, *alike) == self.speed(None, counts, *SAMPLES)


def recorded(runs: Iterable[Counts]) -> tuple[ProgressLog, float]:
    """The light trainer's recorded job, run after run; and when its last line was printed."""
    folder = Path(__file__).parents[2] / "data" / "logs" / "light"
    log, at = ProgressLog(LogFormatOptions.of(replace(JOB, steps_per_epoch=PER_EPOCH))), START
    for run, counts in enumerate(runs):
        texts = (folder / f"sync-r{run}-p{counts.ps}w{counts.workers}.log").read_text().splitlines()
        lines = [
            LogLine(datetime.fromisoformat(text.split(" ", 1)[0]).timestamp(), text)
            for text in texts
        ]
        log.observe("light-worker-0", Role.WORKER, 0, counts, lines, f"run-{run}")
        at = lines[-1].at
    return log, at


def test_a_real_job_is_forecast_from_four_short_runs() -> None:
    runs = [Counts(1, 2), Counts(1, 1), Counts(3, 1), Counts(1, 4)]
    log, at = recorded(runs)
    found = forecast_of(log.progress(at), TargetLoss(0.2), counts=Counts(1, 4))
    truth = (
        1.0 / (2 * 0.01 * PER_EPOCH) * (1 / (0.2 - 0.08) - 1)
    )  # epochs at which the trainer's own curve is there
    assert found.remaining_epochs is not None
    assert 8.6 + found.remaining_epochs == pytest.approx(truth, rel=0.25)
    stated = {
        Counts(2, 3): 3.06,
        Counts(4, 4): 3.64,
        Counts(3, 3): 3.43,
        Counts(4, 2): 3.27,
    }  # of its README
    rates = {counts: float(found.speed.steps_per_second(*counts)) for counts in stated}
    assert rates == pytest.approx(stated, rel=0.1)


@given(
    st.lists(
        st.builds(
            LossPoint,
            st.floats(-10, 10) | st.floats(0, 1e12),
            st.none() | st.floats(0, 1e4),
            st.none() | st.integers(0, 10**9),
            st.floats(1, 100),
        ),
        max_size=40,
    ),
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 9), st.floats(1e-6, 1e6), st.floats(0, 1e5)),
        max_size=8,
    ),
    st.none() | st.floats(0.1, 1e6),
    st.sampled_from([TargetLoss(0.2), ConvergenceThreshold(0.02)]),
    st.sampled_from(TrainingMode),
    st.sampled_from([(LossCurve.fit, Declared()), (PublishedCurve.fit, Declared())])
    | st.tuples(st.just(LossCurve.fit), DECLARED),
)
@example(
    [LossPoint(float(loss), float(n)) for n, loss in enumerate([4, 3, 2, 1, 5e-324], 1)],
    [(1, 1, 1.0, 60.0), (1, 2, 1.5, 60.0), (2, 2, 1.7, 60.0), (2, 4, 2.0, 60.0)],
    20.0,
    TargetLoss(0.2),
    TrainingMode.SYNC,
    (PublishedCurve.fit, Declared()),
)
@settings(deadline=None)
def test_any_progress_gives_a_forecast_or_a_reason(
    losses: list[LossPoint],
    measured: list[tuple[int, int, float, float]],
    per_epoch: float | None,
    goal: Goal,
    mode: TrainingMode,
    model: tuple[CurveFit, Declared],
) -> None:
    fit, declared = model
    taken = tuple(SpeedSample(Counts(p, w), rate, seconds, 0.0) for p, w, rate, seconds in measured)
    last = losses[-1] if losses else LossPoint(1.0)
    progress = TrainingProgress(
        tuple(losses), last.epoch, last.step, per_epoch, taken, declared=declared
    )
    found = forecast_job(replace(JOB, mode=mode), progress, goal, fit)
    if isinstance(found, NotReady):
        assert found.reason
        return
    assert 0 <= found.progress_fraction <= 1
    seconds = found.remaining_seconds(np.arange(1, 5)[:, None], np.arange(1, 5)[None, :])
    assert (seconds >= 0).all()
    assert np.isfinite(seconds).all()


@pytest.mark.parametrize("epochs", [1e16, 1e30])
def test_so_many_epochs_that_one_more_makes_no_difference_are_no_error(epochs: float) -> None:
    """As a log may print, or tiny steps-per-epoch make of steps."""
    found = forecast_job(JOB, after(15, epoch=epochs))
    assert isinstance(found, Forecast)
    assert found.remaining_epochs == 1.0
