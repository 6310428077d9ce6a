"""When a job would be done at other counts; times are computed by hand."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import (
    NO_HISTORY,
    Allocation,
    AllocationProblem,
    JobHistory,
    PolicyTraits,
    per_pool,
)
from optimus.errors import NotReady
from optimus.interval import IntervalConfig, IntervalInput, Strategies, plan_interval
from optimus.interval.capacity_plan import Claim
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import CountBounds, Counts, Job
from optimus.models.forecast import Forecast, TimeLeft
from optimus.placement.gang import DoesNotFit
from optimus.placement.theorem1 import Theorem1
from optimus.policies import policy_named
from optimus.snapshot import ClusterSnapshot
from optimus.what_if.counts import CountsQuestion, DecisionBasis, Outlook, WhatIf, answer
from optimus.what_if.text import counts_sentences
from tests.cases import cases
from tests.unit.interval.cluster import KnownForecasts, bind, done, job, nodes

AT = 5000.0
PRICE = 30.0
SETTINGS = DecisionSettings(interval=IntervalConfig(rescale_seconds=PRICE))
NOW, MORE = Counts(1, 2), Counts(1, 4)


@dataclass(frozen=True)
class Linear:
    """A step a second for each worker, at most for 8; none without the fewest PSs."""

    fewest_ps: int = 1

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        p, w = np.asarray(ps, float), np.asarray(workers, float)
        return np.where((p >= self.fewest_ps) & (w <= 8), w, 0.0)


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
    known = DecisionBasis(forecast, made_at)
    return answer(CountsQuestion(of or job("a", NOW), known, counts, AT, SETTINGS, snapshot))


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
    history = JobHistory(prices=(30.46, 30.46))
    known = DecisionBasis(forecast, AT, history=history)
    found = answer(CountsQuestion(job("a", NOW), known, MORE, AT, SETTINGS))
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


@cases(
    ("made_at", "now", "then"),
    {
        "a quarter is done since the forecast": (AT - 50.0, 150.0, 75.0),
        "all is done": (AT - 200.0, 0.0, 0.0),
        "no more than all": (AT - 900.0, 0.0, 0.0),
        "a forecast of later: nothing is done": (AT + 50.0, 200.0, 100.0),
    },
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
    question = CountsQuestion(None, DecisionBasis(FORECAST, AT), MORE, AT, SETTINGS)
    assert answer(question) == WhatIf(at=AT, problem="there is no forecast")


def test_it_says_whether_its_bounds_allow_the_counts() -> None:
    bounded = replace(job("a", NOW), bounds=CountBounds(max_workers=3))
    assert ask(Counts(1, 3), of=bounded).allowed
    assert not ask(of=bounded).allowed


@cases(
    ("bounds", "counts", "why"),
    {
        "the most": (CountBounds(max_workers=3), MORE, "it may have at most 3 workers"),
        "the least": (CountBounds(min_ps=1, min_workers=2), (1, 1), "no fewer than 1 PS + 2 work"),
        "no PSs": (CountBounds(min_ps=0, max_ps=0), MORE, "it has no PSs"),
        "a batch for 2, 3, 5 and 11": (
            CountBounds(shares=12, leads=1),
            MORE,
            "1 PS + 4 workers cannot share its batch equally; 1 PS + 3 workers can",
        ),
    },
)
def test_it_names_the_bound_that_does_not_allow_the_counts(
    bounds: CountBounds, counts: Counts, why: str
) -> None:
    found = ask(Counts(*counts), of=replace(job("a", NOW), bounds=bounds))
    assert not found.allowed
    text = " ".join(counts_sentences(found))
    assert f"Optimus would not move it by itself: {found.why_not_moved}." in text
    assert why in found.why_not_moved


def test_of_the_present_counts_nothing_is_said_to_be_saved() -> None:
    text = " ".join(counts_sentences(ask(NOW)))
    assert "It has these counts now." in text
    assert "saves" not in text


@cases(("workers", "fits"), {"the free room and its own": (5, True), "one more": (6, False)})
def test_it_says_whether_free_capacity_and_its_own_hold_the_job(workers: int, fits: bool) -> None:
    """A node of 8 cores, of which another job has 2."""
    own, other = job("a", NOW), job("b", (1, 1))
    pods = [*bind(own, ["node-00"] * 3), *bind(other, ["node-00"] * 2)]
    snapshot = ClusterSnapshot.of(AT, [own, other], nodes(1, 8), pods)
    assert ask(Counts(1, workers), of=own, snapshot=snapshot).fits is fits


@cases(("workers", "fits"), {"the free room and its own": (6, True), "one more": (7, False)})
def test_it_says_so_of_a_job_without_parameter_servers(workers: int, fits: bool) -> None:
    own, other = job("a", (0, 3), bounds=CountBounds(0, 0)), job("b", (1, 1))
    pods = [*bind(own, ["node-00"] * 3), *bind(other, ["node-00"] * 2)]
    snapshot = ClusterSnapshot.of(AT, [own, other], nodes(1, 8), pods)
    forecast = Forecast(Linear(fewest_ps=0), 400.0)
    assert ask(Counts(0, workers), forecast, of=own, snapshot=snapshot).fits is fits


def test_no_counts_are_not_tried_on_the_nodes() -> None:
    own = job("a", NOW)
    snapshot = ClusterSnapshot.of(AT, [own], nodes(1, 8), bind(own, ["node-00"] * 3))
    assert ask(snapshot=snapshot, of=own).fits is True
    assert ask(snapshot=None, of=own).fits is None


def settings(**interval: Any) -> DecisionSettings:
    return DecisionSettings(interval=IntervalConfig(**interval))


WANTED = Counts(1, 4)


class WantsMore:
    """Allocates the counts that are asked about, within the bounds."""

    name = "wants-more"
    traits = PolicyTraits(placed_by="theorem1", weighs_restarts=True)

    def allocate(self, problem: AllocationProblem) -> Allocation:
        wanted = {each.job.uid: each.job.bounds.clamp(WANTED) for each in problem.candidates}
        return Allocation(wanted)


COOLDOWN = JobHistory(last_rescaled_at=AT - 40.0, rescales=1, running_seconds=600.0)


@cases(
    ("decides", "history", "fragment"),
    {
        "a gain beyond price and least gain": (settings(), NO_HISTORY, ""),
        "less than the least gain and the price": (
            settings(hysteresis_fraction=0.3),
            NO_HISTORY,
            "would save 21.3% of what is left; a move needs more than 30%",
        ),
        "a low price": (settings(hysteresis_fraction=0.3, rescale_seconds=2.0), NO_HISTORY, ""),
        "the job's own price": (
            settings(),
            JobHistory(prices=(95.0, 95.0)),
            "a move needs more than 5% (a restart costs 95 s)",
        ),
        "a cooldown": (
            settings(),
            COOLDOWN,
            "cooldown: rescaled 40 s ago; next change possible in 260 s",
        ),
        "a shorter cooldown": (settings(cooldown_seconds=30.0), COOLDOWN, ""),
        "rescaled often enough": (
            settings(moves_per_hour=1, cooldown_seconds=0.0),
            JobHistory(moves=(AT - 40.0,)),
            "rescaled 1 times within an hour",
        ),
        "a job that is held": (settings(), JobHistory(held="paused"), "paused"),
    },
)
def test_it_says_what_an_interval_would_say_of_the_same_move(
    decides: DecisionSettings, history: JobHistory, fragment: str
) -> None:
    """The interval is planned with a policy that wants just these counts."""
    own = job("a", NOW)
    snapshot = ClusterSnapshot.of(AT, [own], nodes(1, 8), bind(own, ["node-00"] * 3))
    known = DecisionBasis(FORECAST, AT, history=history)
    found = answer(CountsQuestion(own, known, WANTED, AT, decides, snapshot))
    assert fragment in found.why_not_moved
    inputs = IntervalInput(snapshot, history={own.uid: history})
    forecasts = KnownForecasts({"a": FORECAST})
    strategies = Strategies(per_pool(WantsMore()), decides.placement, forecasts)
    (decision,) = plan_interval("i", inputs, strategies, decides.interval).decisions
    assert (decision.counts == WANTED) is (found.why_not_moved == "")
    if found.why_not_moved:
        assert found.why_not_moved in decision.reason


def test_a_move_by_expectation_is_not_made_where_jobs_are_measured_first() -> None:
    known = DecisionBasis(replace(FORECAST, is_expected=True), AT)
    decides = replace(settings(), expects=False)
    found = answer(CountsQuestion(job("a", NOW), known, WANTED, AT, decides))
    assert "its speed is expected, not measured" in found.why_not_moved


def test_a_policy_that_decides_anew_weighs_no_gain_and_knows_no_cooldown() -> None:
    own, decides = job("a", NOW), replace(settings(), policy=policy_named("drf"))
    found = answer(
        CountsQuestion(own, DecisionBasis(FORECAST, AT, history=COOLDOWN), WANTED, AT, decides)
    )
    assert found.why_not_moved == (
        "drf decides all counts anew in each round, whatever a change saves"
    )
    held = DecisionBasis(FORECAST, AT, history=JobHistory(held="a window"))
    assert answer(CountsQuestion(own, held, WANTED, AT, decides)).why_not_moved == "a window"


def test_room_that_is_kept_for_a_rescale_in_progress_is_not_free() -> None:
    own, other = job("a", NOW), job("b", (1, 1))
    pods = [*bind(own, ["node-00"] * 3), *bind(other, ["node-00"] * 2)]
    snapshot = ClusterSnapshot.of(AT, [own, other], nodes(1, 8), pods)
    claims = [Claim(other, Counts(1, 3), keeps_pods=True)]
    known, asked = DecisionBasis(FORECAST, AT), Counts(1, 4)
    assert answer(CountsQuestion(own, known, asked, AT, settings(), snapshot)).fits
    assert not answer(CountsQuestion(own, known, asked, AT, settings(), snapshot, claims)).fits


def test_the_placement_rule_is_that_of_the_decision() -> None:
    @dataclass(frozen=True)
    class Nowhere(Theorem1):
        """Places nothing."""

        def place_job(self, *_: object, **__: object) -> DoesNotFit:
            return DoesNotFit("this rule places nothing")

    own = job("a", NOW)
    snapshot = ClusterSnapshot.of(AT, [own], nodes(1, 8), bind(own, ["node-00"] * 3))
    decides = replace(settings(), placement=Nowhere())
    found = answer(CountsQuestion(own, DecisionBasis(FORECAST, AT), WANTED, AT, decides, snapshot))
    assert found.refusal == "this rule places nothing"
