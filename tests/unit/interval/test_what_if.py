"""When a job would be done at other counts; times are computed by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.interval.what_if import Outlook, Question, WhatIf, answer
from optimus.jobs import CountBounds, Counts, Job
from optimus.models.forecast import Forecast, TimeLeft
from optimus.snapshot import ClusterSnapshot
from tests.unit.interval.cluster import bind, done, job, nodes

AT = 5000.0
PRICE = 30.0
NOW, MORE = Counts(1, 2), Counts(1, 4)


@dataclass(frozen=True)
class Linear:
    """A step a second for each worker, at most for 8; none without a PS."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        p, w = np.asarray(ps, float), np.asarray(workers, float)
        return np.where((p > 0) & (w <= 8), w, 0.0)


FORECAST = Forecast(
    Linear(), 400.0, remaining_epochs=10.0, low_epochs=8.0, high_epochs=15.0, late_factor=1.5
)
"""200 s with 2 workers, 100 s with 4; the 80 % interval is from 0.8 to 1.5 times as long."""


def ask(
    counts: Counts = MORE,
    forecast: Forecast | NotReady | None = FORECAST,
    made_at: float = AT,
    of: Job | None = None,
    snapshot: ClusterSnapshot | None = None,
) -> WhatIf:
    return answer(
        Question(of or job("a", NOW), forecast, counts, AT, made_at, PRICE, snapshot),
    )


def test_other_counts_take_their_own_time_and_the_price_of_the_rescale() -> None:
    found = ask()
    assert found == WhatIf(
        at=AT,
        now=Outlook(1, 2, TimeLeft(160.0, 200.0, 300.0), AT + 200.0),
        then=Outlook(1, 4, TimeLeft(110.0, 130.0, 180.0), AT + 130.0),
        price_seconds=PRICE,
        saves_seconds=70.0,
        more={"cpu": 2000},
    )


def test_times_are_told_to_a_tenth_of_a_second() -> None:
    forecast = Forecast(Linear(), 401.2)
    found = answer(Question(job("a", NOW), forecast, MORE, AT, AT, 30.46))
    assert found.now is not None
    assert found.then is not None
    assert found.now.remaining.median == 200.6
    assert found.then.remaining.median == 130.8  # 100.3 and the price
    assert (found.price_seconds, found.saves_seconds) == (30.5, 69.8)


def test_the_present_counts_cost_and_save_nothing() -> None:
    found = ask(NOW)
    assert found.now == found.then
    assert (found.price_seconds, found.saves_seconds, found.more) == (0.0, 0.0, {})


def test_fewer_tasks_request_less_and_take_longer() -> None:
    found = ask(Counts(1, 1))
    assert (found.saves_seconds, found.more) == (200.0 - 430.0, {"cpu": -1000})


@pytest.mark.parametrize(
    ("made_at", "now", "then"),
    [
        pytest.param(AT - 50.0, 150.0, 75.0, id="a quarter is done since the forecast"),
        pytest.param(AT - 200.0, 0.0, 0.0, id="all is done"),
        pytest.param(AT - 900.0, 0.0, 0.0, id="no more than all"),
        pytest.param(AT + 50.0, 200.0, 100.0, id="a forecast of later: nothing is done"),
    ],
)
def test_what_was_done_since_the_forecast_is_done_at_any_counts(
    made_at: float, now: float, then: float
) -> None:
    found = ask(made_at=made_at)
    assert found.now is not None
    assert found.then is not None
    assert found.now.remaining.median == pytest.approx(now)
    assert found.then.remaining.median == pytest.approx(then + PRICE)
    assert found.now.ends_at == pytest.approx(AT + now)
    assert found.then.ends_at == pytest.approx(AT + then + PRICE)


@pytest.mark.parametrize(
    ("counts", "forecast", "problem"),
    [
        (MORE, None, "there is no forecast"),
        (MORE, NotReady("2 points"), "there is no forecast: 2 points"),
        (MORE, done(), "its goal is met"),
        (Counts(1, 9), FORECAST, "its speed at 1 PS + 9 workers is 0"),
    ],
)
def test_it_says_why_there_is_no_answer(
    counts: Counts, forecast: Forecast | NotReady | None, problem: str
) -> None:
    assert ask(counts, forecast) == WhatIf(at=AT, problem=problem)


def test_a_job_that_has_no_speed_now_has_no_answer() -> None:
    found = ask(of=job("a", Counts(1, 9)))
    assert found == WhatIf(at=AT, problem="its speed at 1 PS + 9 workers is 0")


def test_a_job_that_is_not_known_has_no_answer() -> None:
    question = Question(None, FORECAST, MORE, AT, AT, PRICE)
    assert answer(question) == WhatIf(at=AT, problem="there is no forecast")


def test_it_says_whether_its_bounds_allow_the_counts() -> None:
    bounded = replace(job("a", NOW), bounds=CountBounds(max_workers=3))
    assert ask(Counts(1, 3), of=bounded).allowed
    assert not ask(of=bounded).allowed


@pytest.mark.parametrize(
    ("workers", "fits"),
    [
        pytest.param(5, True, id="the free room and its own"),
        pytest.param(6, False, id="one more"),
    ],
)
def test_it_says_whether_free_capacity_and_its_own_hold_the_job(workers: int, fits: bool) -> None:
    """A node of 8 cores, of which another job has 2."""
    own, other = job("a", NOW), job("b", (1, 1))
    pods = [*bind(own, ["node-00"] * 3), *bind(other, ["node-00"] * 2)]
    snapshot = ClusterSnapshot.of(AT, [own, other], nodes(1, 8), pods)
    assert ask(Counts(1, workers), of=own, snapshot=snapshot).fits is fits


def test_no_counts_are_not_tried_on_the_nodes() -> None:
    own = job("a", NOW)
    snapshot = ClusterSnapshot.of(AT, [own], nodes(1, 8), bind(own, ["node-00"] * 3))
    assert ask(snapshot=snapshot, of=own).fits is True
    assert ask(snapshot=None, of=own).fits is None
