"""Forecasts from the truth, with and without errors, and true speeds at any counts."""

from collections import Counter

import numpy as np
import pytest

from optimus.errors import NotReady
from optimus.jobs import Counts, Role
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import NOTHING
from optimus.resources import Resources
from optimus.simulator.forecasts import (
    EquationForecasts,
    FittedForecasts,
    GroundTruth,
    TrueForecasts,
    epochs_left,
)
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed
from optimus.simulator.training import Training
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes

EMPTY = EmptyCluster(nodes(3), Theorem1())


def forecast_of(
    source: TrueForecasts, trained_seconds: float = 0.0, *, seed: int = 1, uid: str = "a"
) -> Forecast:
    training = Training(job(uid, JobParameters(epochs=100, speed=Speed(1.0, apart=0.5))), seed=1)
    training.begin(0.0, (Counts(1, 1),))
    training.advance(trained_seconds)
    forecast = source.forecast_fn(GroundTruth({uid: training}.__getitem__, EMPTY, seed))(
        training.truth.job, NOTHING
    )
    assert isinstance(forecast, Forecast)
    return forecast


class TestTheTruth:
    def test_it_gives_the_remaining_time_at_any_counts(self) -> None:
        # 100 epochs of 10 steps, 250 steps done; 3 workers with a PS fill a server.
        forecast = forecast_of(TrueForecasts(), trained_seconds=250)
        assert forecast.at(Counts(1, 1)) == pytest.approx(750)
        assert forecast.at(Counts(1, 3)) == pytest.approx(750 / 3)

    def test_a_larger_job_is_spread(self) -> None:
        assert forecast_of(TrueForecasts()).at(Counts(2, 4)) == pytest.approx(1000 / (4 / 1.5))

    def test_the_remaining_time_is_infinite_where_the_job_does_not_fit(self) -> None:
        assert forecast_of(TrueForecasts()).at(Counts(1, 12)) == np.inf

    def test_an_error_of_the_convergence_is_as_large_as_set_and_shrinks(self) -> None:
        begun, half_way = (
            forecast_of(TrueForecasts(convergence_error=0.4), at) for at in (0.0, 500.0)
        )
        assert epochs_left(job("a", JobParameters()), begun) in (
            pytest.approx(60),
            pytest.approx(140),
        )
        assert epochs_left(job("a", JobParameters()), half_way) in (
            pytest.approx(30),
            pytest.approx(70),
        )

    def test_an_error_of_the_speed_differs_from_counts_to_counts(self) -> None:
        exact = forecast_of(TrueForecasts()).speed
        wrong = forecast_of(TrueForecasts(speed_error=0.3)).speed
        ps, workers = np.meshgrid(np.arange(1, 5), np.arange(1, 5))
        fits = exact.steps_per_second(ps, workers) > 0
        ratios = (
            wrong.steps_per_second(ps, workers)[fits] / exact.steps_per_second(ps, workers)[fits]
        )
        assert set(np.round(ratios, 9)) == {0.7, 1.3}

    def test_errors_come_from_the_seed_and_the_job(self) -> None:
        def totals(seed: int) -> list[float]:
            wrong = TrueForecasts(convergence_error=0.4)
            return [
                forecast_of(wrong, seed=seed, uid=f"job-{n}").remaining_steps for n in range(12)
            ]

        assert totals(1) == totals(1)
        assert totals(1) != totals(2)
        assert len(set(totals(1))) == 2

    def test_even_a_wrong_forecast_leaves_work_until_the_job_has_ended(self) -> None:
        for n in range(8):
            forecast = forecast_of(
                TrueForecasts(convergence_error=0.9), trained_seconds=400, uid=f"job-{n}"
            )
            assert forecast.remaining_steps > 0


class TestFitted:
    def test_a_fit_is_made_again_only_when_there_is_something_new(self) -> None:
        made = []

        def fit(job: object, progress: object, /) -> NotReady:
            made.append(progress)
            return NotReady("too early")

        training = Training(job("a", JobParameters(epochs=100)), seed=1)
        forecast_fn = FittedForecasts(fit).forecast_fn(
            GroundTruth({"a": training}.__getitem__, EMPTY, 1)
        )
        forecast_fn(training.truth.job, training.progress())
        forecast_fn(training.truth.job, training.progress())
        assert len(made) == 1
        training.begin(0.0, (Counts(1, 1),))
        training.advance(10.0)
        forecast_fn(training.truth.job, training.progress())
        assert len(made) == 2

    def test_without_a_fit_20_epochs_are_left_as_in_the_authors_program(self) -> None:
        training = measured(Training(job("a", JobParameters(epochs=100)), seed=1))
        waits, authors = (
            FittedForecasts(epochs_left=left).forecast_fn(
                GroundTruth({"a": training}.__getitem__, EMPTY, 1)
            )
            for left in (None, 20.0)
        )
        assert isinstance(waits(training.truth.job, training.progress()), NotReady)
        begun = authors(training.truth.job, training.progress())
        assert isinstance(begun, Forecast)
        assert begun.remaining_epochs == pytest.approx(20)
        training.begin(0.0, (Counts(1, 1),))
        training.advance(25.0)
        later = authors(training.truth.job, training.progress())
        assert isinstance(later, Forecast)
        assert later.remaining_epochs == pytest.approx(20)

    def test_a_fit_replaces_the_20_epochs(self) -> None:
        training = measured(Training(job("a", JobParameters(epochs=100)), seed=1))
        training.begin(0.0, (Counts(1, 1),))
        training.advance(300.0)
        fitted, authors = (
            FittedForecasts(epochs_left=left).forecast_fn(
                GroundTruth({"a": training}.__getitem__, EMPTY, 1)
            )(training.truth.job, training.progress())
            for left in (None, 20.0)
        )
        assert isinstance(fitted, Forecast)
        assert isinstance(authors, Forecast)
        assert authors.remaining_epochs == fitted.remaining_epochs

    def test_without_a_speed_there_is_no_forecast(self) -> None:
        training = Training(job("a", JobParameters(epochs=100)), seed=1)
        forecast_fn = FittedForecasts(epochs_left=20.0).forecast_fn(
            GroundTruth({"a": training}.__getitem__, EMPTY, 1)
        )
        assert isinstance(forecast_fn(training.truth.job, training.progress()), NotReady)


def measured(training: Training) -> Training:
    """With speeds at some counts."""
    for counts in (Counts(1, 1), Counts(1, 3), Counts(2, 1), Counts(3, 1)):
        training.add_sample(training.measure((counts,), 30.0, 0.0))
    return training


class TestByThePapersEquations:
    def test_speeds_follow_the_equation_and_epochs_the_truth(self) -> None:
        training = measured(Training(job("a", JobParameters(epochs=100)), seed=1))
        forecast = EquationForecasts(convergence_error=0.0).forecast_fn(
            GroundTruth({"a": training}.__getitem__, EMPTY, 1)
        )(training.truth.job, training.progress())
        assert isinstance(forecast, Forecast)
        assert forecast.remaining_steps == pytest.approx(1000)
        # One step a second for each worker, wherever it is: t0 = 1, the other terms are 0.
        assert forecast.speed.steps_per_second([1, 5, 2], [1, 4, 9]) == pytest.approx([1, 4, 9])

    def test_before_a_speed_is_measured_there_is_none(self) -> None:
        training = Training(job("a", JobParameters(epochs=100)), seed=1)
        forecast_fn = EquationForecasts().forecast_fn(
            GroundTruth({"a": training}.__getitem__, EMPTY, 1)
        )
        assert isinstance(forecast_fn(training.truth.job, training.progress()), NotReady)


class TestTypicalSpeeds:
    def test_jobs_that_ask_for_the_same_share_a_placement(self) -> None:
        fitted = []

        class Counting(Theorem1):
            def place_job(self, job, counts, capacity):  # type: ignore[no-untyped-def]  # as its base
                fitted.append(job.uid)
                return super().place_job(job, counts, capacity)

        empty = EmptyCluster(nodes(3), Counting())
        assert (
            UncontendedSpeed(job("a"), empty).at(Counts(1, 2))
            == UncontendedSpeed(job("b"), empty).at(Counts(1, 2))
            == 2.0
        )
        assert fitted == ["a"]

    @pytest.mark.parametrize("rule", [Theorem1(), SPREAD, PACK])
    def test_servers_are_those_on_which_the_rule_places_the_job_alone(
        self, rule: PlacementRule
    ) -> None:
        servers = (*nodes(3), Node("large", Resources(cpu=9000)))
        for ps, workers in ((1, 1), (2, 5), (3, 3), (1, 12), (4, 17), (9, 13)):
            counts, alone = Counts(ps, workers), job("a").job
            capacity = Capacity(servers, {node.name: node.allocatable for node in servers})
            placed = rule.place(Gang.of(alone, counts), capacity)
            found = EmptyCluster(servers, rule).servers(alone, counts)
            if isinstance(placed, DoesNotFit):
                assert found is None
                continue
            share = Counter((node, replica.role) for replica, node in placed.nodes.items())
            names = {node for node, _ in share}
            expected = sorted(
                (Counts(share[node, Role.PS], share[node, Role.WORKER]) for node in names),
                reverse=True,
            )
            assert found == tuple(expected)

    def test_arrays_keep_their_shape(self) -> None:
        speed = UncontendedSpeed(job("a"), EMPTY)
        assert speed.steps_per_second(np.array([[1], [2]]), np.array([1, 2, 3])).shape == (2, 3)
        assert float(speed.steps_per_second(1, 2)) == 2.0
