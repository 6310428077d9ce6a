"""What is to be expected of young jobs, and that it is no forecast."""

from dataclasses import replace

import pytest

from optimus.errors import NotReady
from optimus.jobs import (
    ConvergenceThreshold,
    Counts,
    Goal,
    TargetEpochs,
    TargetLoss,
    TargetMetric,
)
from optimus.models.expectation import expect_job
from optimus.models.forecast import Forecast, forecast_job
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import Declared, EarlierRun, TrainingProgress
from tests.unit.models.forecasting import JOB, PER_EPOCH, SAMPLES, after, samples, speed

ONE = samples(Counts(1, 2))
ACCURACY = TargetMetric("accuracy", 0.9, at_least=True)


def expected(
    progress: TrainingProgress, goal: Goal | None = None, **fields: object
) -> Forecast | NotReady:
    return expect_job(replace(JOB, goal=goal or JOB.goal, **fields), progress)  # type: ignore[arg-type]  # the fields are Job's own


def steps_left(progress: TrainingProgress, goal: Goal | None = None) -> float:
    found = expected(progress, goal)
    assert isinstance(found, Forecast)
    assert found.is_expected
    return found.remaining_steps


class TestWork:
    @pytest.mark.parametrize("epochs", [0.0, 0.5, 1.5])
    @pytest.mark.parametrize(
        "goal",
        [
            TargetLoss(0.2),
            ConvergenceThreshold(0.02),
            ACCURACY,
        ],
        ids=["a loss", "a threshold", "a metric"],
    )
    def test_twenty_epochs_are_left_of_a_job_of_which_nothing_else_is_known(
        self, goal: Goal, epochs: float
    ) -> None:
        assert steps_left(after(epochs, samples=ONE), goal) == 20 * PER_EPOCH

    def test_a_curve_is_awaited_for_some_epochs(self) -> None:
        assert steps_left(after(4.0, samples=ONE)) == 20 * PER_EPOCH

    @pytest.mark.parametrize(
        ("declared", "epochs"),
        [
            pytest.param(10, 8.5, id="a declared end that is sooner"),
            pytest.param(90, 20, id="one that is later"),
            pytest.param(1, 20, id="one that has passed"),
        ],
    )
    def test_a_declared_end_bounds_it(self, declared: int, epochs: float) -> None:
        progress = after(1.5, samples=ONE, losses=(), declared=Declared(epochs=declared))
        assert steps_left(progress) == epochs * PER_EPOCH

    def test_nobody_is_told_an_interval_for_it(self) -> None:
        found = expected(after(3.0, samples=ONE))
        assert isinstance(found, Forecast)
        assert found.time_to_goal is None
        assert (found.remaining_epochs, found.low_epochs, found.high_epochs) == (None, None, None)

    def test_a_number_of_epochs_is_work_that_is_known(self) -> None:
        assert steps_left(after(3.0, samples=ONE), TargetEpochs(8.0)) == 5 * PER_EPOCH

    def test_earlier_runs_tell_more_than_twenty_epochs(self) -> None:
        run = EarlierRun(
            uid="u",
            job="before",
            at=0.0,
            conditions="",
            in_epochs=True,
            places=(40.0,),
            losses=(0.2,),
            every_epoch=True,
            goal=TargetLoss(0.2),
            met_at=40.0,
        )
        left = steps_left(after(3.0, samples=ONE, earlier=(run,)))
        assert left == pytest.approx(37 * PER_EPOCH, rel=0.01)

    def test_losses_that_allow_a_curve_are_believed(self) -> None:
        progress = after(15.0, samples=ONE)
        fitted = forecast_job(JOB, replace(progress, samples=SAMPLES))
        assert isinstance(fitted, Forecast)
        assert steps_left(progress) == fitted.remaining_steps

    @pytest.mark.parametrize(
        ("progress", "goal"),
        [
            pytest.param(after(40.0, samples=ONE), TargetLoss(1e-9), id="a goal out of reach"),
            pytest.param(after(20.0, samples=ONE, losses=()), ACCURACY, id="twenty epochs done"),
            pytest.param(after(3.0, samples=ONE, diverged=True), None, id="a loss of nan"),
            pytest.param(after(3.0, samples=ONE, diagnostic="?"), None, id="a log not understood"),
            pytest.param(after(3.0, samples=ONE, losses=()), None, id="a log without a loss"),
            pytest.param(
                after(0.0, samples=ONE, epoch=None, losses=()), None, id="no epoch is known"
            ),
            pytest.param(
                after(3.0, samples=ONE, steps_per_epoch=None), None, id="epochs of unknown length"
            ),
            pytest.param(after(3.0, samples=()), None, id="no speed"),
        ],
    )
    def test_otherwise_nothing_is_expected(
        self, progress: TrainingProgress, goal: Goal | None
    ) -> None:
        assert isinstance(expected(progress, goal), NotReady)


class TestSpeed:
    def test_the_speed_where_the_job_runs_is_the_measured_one(self) -> None:
        found = expected(after(3.0, samples=samples(Counts(1, 2), Counts(4, 4))))
        assert isinstance(found, Forecast)
        own = float(found.speed.steps_per_second(*JOB.counts))
        assert own == pytest.approx(speed(JOB.counts))

    def test_three_pairs_of_counts_are_fitted(self) -> None:
        found = expected(after(3.0))
        assert isinstance(found, Forecast)
        assert isinstance(found.speed, SpeedModel)
        fitted = forecast_job(JOB, after(15.0))
        assert isinstance(fitted, Forecast)
        grid = [2, 4, 8], [2, 4, 8]
        assert found.speed.steps_per_second(*grid) == pytest.approx(
            fitted.speed.steps_per_second(*grid)
        )

    def test_a_job_that_has_met_its_goal_is_no_matter_of_expectation(self) -> None:
        found = expected(after(60.0, samples=ONE))
        assert isinstance(found, Forecast)
        assert found.goal_met
        assert not found.is_expected


class TestRefusalThatIsKnown:
    @pytest.mark.parametrize(
        "goal",
        [
            TargetLoss(0.2),
            TargetEpochs(40.0),
        ],
        ids=["a loss", "epochs"],
    )
    def test_no_curve_is_fitted_again(self, goal: Goal, monkeypatch: pytest.MonkeyPatch) -> None:
        job, progress = replace(JOB, goal=goal), after(15.0, samples=ONE)
        anew = expect_job(job, progress)
        refusal = forecast_job(job, progress)
        assert isinstance(refusal, NotReady)
        fits: list[object] = []
        monkeypatch.setattr("optimus.models.convergence.LossCurve.fit", fits.append)
        found = expect_job(job, progress, refusal)
        assert not fits
        assert isinstance(found, Forecast)
        assert isinstance(anew, Forecast)
        assert found.is_expected
        assert (found.low_epochs, found.high_epochs) == (anew.low_epochs, anew.high_epochs)
        assert found.at(Counts(2, 4)) == anew.at(Counts(2, 4))

    def test_a_refusal_for_want_of_losses_leaves_twenty_epochs(self) -> None:
        progress = after(1.5, samples=ONE)
        refusal = forecast_job(JOB, progress)
        assert isinstance(refusal, NotReady)
        found = expect_job(JOB, progress, refusal)
        assert isinstance(found, Forecast)
        assert found.remaining_steps == 20 * PER_EPOCH
