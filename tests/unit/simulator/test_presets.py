"""How each policy is run: which forecasts and measurements it gets."""

import pytest

from optimus.models.speed.curve import SpeedForm
from optimus.simulator.forecasts import (
    EquationForecasts,
    FittedForecasts,
    ForecastSource,
    TrueForecasts,
)
from optimus.simulator.presets import (
    PreRun,
    preset,
)


@pytest.mark.parametrize("policy", ["optimus-paper", "tetris", "srtf"])
def test_published_policies_take_20_epochs_and_a_pre_run_that_delays_nothing(policy: str) -> None:
    found = preset(policy)
    assert found.forecasts == FittedForecasts(epochs_left=20.0)
    assert found.pre_run == PreRun(samples=5, seconds=30.0)
    assert preset(policy, FittedForecasts()) == found


def test_ours_runs_as_on_a_cluster() -> None:
    found = preset("optimus")
    assert found.forecasts == FittedForecasts()
    assert found.pre_run is None
    assert found.loop.driver.measures


@pytest.mark.parametrize("policy", ["drf", "fifo"])
def test_policies_that_do_not_look_ahead_measure_nothing(policy: str) -> None:
    assert preset(policy).pre_run is None
    assert preset(policy, EquationForecasts()).pre_run is None


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper", "tetris"])
def test_the_papers_equations_are_fitted_to_a_pre_run_under_every_policy(policy: str) -> None:
    found = preset(policy, EquationForecasts(samples=7))
    assert found.pre_run == PreRun(samples=7, form=SpeedForm.PAPER)
    assert not found.loop.driver.measures


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper"])
def test_the_truth_is_not_measured(policy: str) -> None:
    found = preset(policy, TrueForecasts())
    assert found.pre_run is None
    assert found.forecasts == TrueForecasts()


@pytest.mark.parametrize("forecasts", [FittedForecasts(), TrueForecasts()])
def test_a_policy_that_tells_kinds_apart_is_measured_on_each_of_them(
    forecasts: ForecastSource,
) -> None:
    found = preset("gavel-las", forecasts)
    assert found.pre_run == PreRun(by_kind=True)
    assert found.measures_prices
