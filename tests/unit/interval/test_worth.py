"""The probability that a move saves more than it costs, and what a stop would lose."""

import math
from dataclasses import replace

import numpy as np
import pytest

from optimus.allocation import JobHistory
from optimus.interval.worth import (
    FOR_EVER,
    Loan,
    chance_of_saving,
    expected_gain,
    last_arrived,
    loan_until_used,
    training_at_risk,
)
from optimus.jobs import Counts, TrainingMode
from optimus.models.forecast import Forecast
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.resources import total
from tests.cases import cases
from tests.unit.interval.cluster import job, steps

NOW, THEN = Counts(1, 1), Counts(3, 3)
INTERVAL_SECONDS = 600.0


def measured_at(*counts: Counts) -> Forecast:
    """A forecast whose speed was measured at these counts, twice as fast with twice as many."""
    samples = [SpeedSample(each, float(each.workers), 120.0, 0.0) for each in counts]
    terms = SpeedTerms(TrainingMode.ASYNC, None)
    return Forecast(SpeedModel.of(MergedSamples.of(samples), terms), 2000.0)


def test_a_certain_gain_is_certain_and_a_certain_loss_is_none() -> None:
    assert chance_of_saving(steps(1000), NOW, THEN, 60.0) == 1.0
    assert chance_of_saving(steps(1000), THEN, NOW, 60.0) == 0.0
    assert chance_of_saving(steps(1), NOW, THEN, 60.0) == 0.0, "less is left than the price"


def test_it_rises_with_what_is_left_and_falls_with_the_price() -> None:
    late = replace(steps(20), late_factor=3.0)
    chances = [chance_of_saving(late, NOW, THEN, price) for price in (30.0, 90.0, 200.0)]
    assert chances == sorted(chances, reverse=True)
    assert 0 < chances[-1] < chances[0] < 1


def test_a_speed_that_was_measured_is_surer_than_one_that_is_expected() -> None:
    expected, known = measured_at(NOW), measured_at(NOW, THEN, Counts(2, 3))
    assert chance_of_saving(known, NOW, THEN, 1100.0) > chance_of_saving(
        expected, NOW, THEN, 1100.0
    )


def test_of_work_that_is_only_assumed_less_is_certain() -> None:
    fitted = steps(12)
    price = (fitted.at(NOW) - fitted.at(THEN)) / 1.5
    assert chance_of_saving(fitted, NOW, THEN, price) == 1.0
    assert chance_of_saving(replace(fitted, is_expected=True), NOW, THEN, price) < 0.8


def test_a_move_is_expected_to_save_a_part_of_what_is_left_less_its_price() -> None:
    forecast = steps(1000)
    left, after = forecast.at(NOW), forecast.at(THEN)
    gains = [expected_gain(forecast, NOW, THEN, each, 50.0) for each in (0.0, 60.0)]
    assert gains == [
        pytest.approx(math.log((50 + left) / (50 + each + after)) * (50 + left) / left)
        for each in (0.0, 60.0)
    ]
    assert expected_gain(forecast, THEN, NOW, 60.0) < 0
    assert expected_gain(steps(1), NOW, THEN, 60.0) < 0, "less is left than the price"


def test_a_likely_loss_weighs_more_than_a_gain_of_the_same_seconds() -> None:
    sure, unsure = steps(30), replace(steps(30), late_factor=4.0)
    price = (sure.at(NOW) - sure.at(THEN)) * 0.9
    assert expected_gain(unsure, NOW, THEN, price) < expected_gain(sure, NOW, THEN, price)


def test_a_job_without_an_end_gains_by_one_and_nothing_without() -> None:
    stuck = replace(steps(1000), remaining_steps=math.inf)
    assert expected_gain(stuck, NOW, THEN, 60.0) == 0.0
    assert expected_gain(steps(0), NOW, THEN, 60.0) == 0.0


def test_what_is_borrowed_has_to_pay_its_return_while_it_lasts() -> None:
    price = 0.6 * (steps(1000).at(NOW) - steps(1000).at(THEN))
    soon, late = (Loan(each, per_second=10 / 600) for each in (1, 10_000))
    gains = [expected_gain(steps(1000), NOW, THEN, price, 0.0, each) for each in (soon, late)]
    assert gains[0] < 0 < gains[1]
    assert gains[1] == pytest.approx(expected_gain(steps(1000), NOW, THEN, price))


def test_a_loan_lasts_until_the_jobs_that_arrive_need_it() -> None:
    arrived = last_arrived(job(f"j{n}", (1, 2), created_at=60.0 * n) for n in range(12))
    assert [each.key.name for each in arrived] == [f"j{n}" for n in range(2, 12)]
    free = total(each.demand() for each in arrived[:3])
    loan = loan_until_used(arrived, free, 60.0 * 12, INTERVAL_SECONDS)
    assert loan == Loan(arrivals=4, per_second=9.5 / 600)
    rng = np.random.default_rng(0)
    draws = rng.exponential(600 / 9.5, (20_000, 4)).sum(axis=1)
    assert np.median(loan.quantiles()) == pytest.approx(np.median(draws), rel=0.03)
    assert loan.mean_seconds == pytest.approx(np.mean(draws), rel=0.02)


def lent(*seconds: float, at: float, interval_seconds: float = INTERVAL_SECONDS) -> Loan:
    """What fits one job is lent, after jobs of that size have arrived."""
    arrived = last_arrived(job(f"j{n}", (1, 2), created_at=each) for n, each in enumerate(seconds))
    return loan_until_used(arrived, job("any", (1, 2)).demand(), at, interval_seconds)


def lasting(loan: Loan, seconds: float) -> float:
    """How likely a loan lasts so long."""
    return float(np.mean(loan.quantiles() > seconds))


def test_jobs_that_were_submitted_together_say_as_much_of_the_next_as_one() -> None:
    once = lent(0.0, 1.0, 2.0, at=400.0).per_second
    twice = lent(0.0, 40.0, at=400.0).per_second
    assert once == lent(0.0, at=400.0).per_second == 0.5 / 400
    assert twice == lent(0.0, 1.0, 40.0, 44.0, at=400.0).per_second == 1.5 / 400
    assert lent(0.0, 1.0, at=400.0).arrivals == 1  # together they take more than what is free
    assert lent(0.0, 40.0, at=400.0).arrivals == 2


def test_a_new_cluster_lends_to_a_lone_job_at_once_and_a_busy_one_by_what_was_seen() -> None:
    assert lasting(lent(0.0, at=0.0), 120.0) > 0.8
    assert lent(0.0, 1.0, at=1.0) == replace(lent(0.0, at=0.0), arrivals=1)
    assert lent(0.0, at=0.0, interval_seconds=1.0).per_second == 0.5 / 60
    assert lasting(lent(0.0, 20.0, 40.0, at=60.0), 240.0) < 0.6
    every_minute = [60.0 * number for number in range(10)]
    busy = lent(*every_minute, at=600.0)
    assert lasting(busy, 240.0) < 0.2
    assert busy == lent(*every_minute, at=600.0, interval_seconds=1.0)


def test_without_arrivals_a_loan_lasts() -> None:
    assert loan_until_used((), total(()), 0.0, INTERVAL_SECONDS) == FOR_EVER
    assert lasting(FOR_EVER, 1e9) == 1.0
    assert FOR_EVER.mean_seconds == math.inf


@cases(
    ("saves", "saved_at", "lost"),
    {
        "nothing where it saves when it is stopped": (True, None, 0.0),
        "all since its checkpoint": (False, 900.0, 100.0),
        "all it has trained where none was seen": (False, None, 400.0),
    },
)
def test_what_a_stop_would_lose(saves: bool, saved_at: float | None, lost: float) -> None:
    progress = TrainingProgress(trained_seconds=400.0, checkpoint_at=saved_at)
    history = JobHistory(saves_on_stop=saves)
    assert training_at_risk(history, progress, 1000.0) == pytest.approx(lost)
