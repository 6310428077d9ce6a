"""Jobs with deadlines: the least share that is in time, the earliest first, then all others."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import AllocationProblem, Candidate
from optimus.allocation.deadline import MOST_EXTRA, Deadline
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import NONE, Resources
from tests.unit.policies.problems import POOL_POLICIES, SPEED, allocate, candidate, problem
from tests.unit.properties import examples

CPU = Resources(cpu=200_000)


def due(each: Candidate, seconds: float, **more: object) -> Candidate:
    return replace(each, deadline=Deadline(seconds, **more))  # type: ignore[arg-type]  # its fields


def counts_of(given_problem: AllocationProblem) -> dict[str, Counts]:
    return dict(allocate("optimus", given_problem).counts)


def least_by_trial(each: Candidate, seconds: float, most_tasks: int) -> Counts | None:
    """The fewest tasks (of one size) that are in time."""
    tried = [Counts(*pair) for pair in product(range(1, most_tasks), repeat=2)]
    in_time = [
        counts
        for counts in tried
        if sum(counts) <= most_tasks and each.forecast.at(counts) <= seconds
    ]
    return min(in_time, key=lambda counts: (sum(counts), counts.ps), default=None)


@given(seconds=st.floats(200, 9000), tasks=st.integers(2, 30))
@examples(60)
def test_a_job_gets_the_fewest_tasks_that_are_in_time(seconds: float, tasks: int) -> None:
    job = candidate("a")
    wanted = least_by_trial(job, seconds, tasks)
    room = Resources(cpu=1000 * tasks)
    found = counts_of(problem(room, due(job, seconds)))["a"]
    assert found == (counts_of(problem(room, job))["a"] if wanted is None else wanted)


def test_what_it_does_not_need_goes_to_the_others() -> None:
    alone = counts_of(problem(CPU, candidate("b")))["b"]
    found = counts_of(problem(Resources(cpu=40_000), due(candidate("a"), 4000), candidate("b")))
    assert candidate("a").forecast.at(found["a"]) <= 4000
    assert sum(found["a"]) < sum(found["b"]) == sum(alone)


def test_the_earliest_deadline_comes_first() -> None:
    jobs = [due(candidate("late", steps=800), 2600), due(candidate("soon"), 2500)]
    room = Resources(cpu=10_000)
    soon = least_by_trial(candidate("soon"), 2500, 8)
    assert soon is not None
    assert sum(soon) == 8
    for order in (jobs, jobs[::-1]):
        found = counts_of(problem(room, *order))
        assert found["soon"] == soon
        assert sum(found["late"]) >= 2


def test_no_job_loses_its_minimum_to_a_deadline() -> None:
    others = [candidate(f"b{number}") for number in range(5)]
    found = counts_of(problem(Resources(cpu=16_000), due(candidate("a"), 2800), *others))
    assert {each: found[each] for each in found if each != "a"} == dict.fromkeys(
        (f"b{number}" for number in range(5)), Counts(1, 1)
    )
    assert sum(found["a"]) == 6


def test_where_no_counts_are_in_time_it_grows_like_the_others() -> None:
    room = Resources(cpu=30_000)
    without = counts_of(problem(room, candidate("a"), candidate("b")))
    assert counts_of(problem(room, due(candidate("a"), 10), candidate("b"))) == without
    assert counts_of(problem(room, due(candidate("a"), -10), candidate("b"))) == without


def test_its_bounds_hold() -> None:
    job = candidate("a", bounds=CountBounds(min_ps=2, max_workers=3))
    found = counts_of(problem(CPU, due(job, 4000)))["a"]
    assert found.ps >= 2
    assert found.workers <= 3


@pytest.mark.parametrize("steps", [300.0, 3000.0])
def test_the_reason_names_the_deadline(steps: float) -> None:
    answer = allocate("optimus", problem(CPU, due(candidate("a", steps=steps), 4000)))
    counts = answer.counts["a"]
    assert answer.reasons["a"] == f"{counts} are the least that meet its deadline"


def test_a_job_that_has_met_its_goal_has_no_deadline_any_more() -> None:
    found = counts_of(problem(CPU, due(candidate("a", may_grow=False), 4000)))
    assert found["a"] == Counts(1, 1)


def test_other_counts_than_its_own_have_to_be_in_time_after_the_rescale() -> None:
    job = candidate("a", running=True)
    four = job.forecast.at(Counts(1, 4))
    held = due(job, four, held=Counts(1, 4), price_seconds=60.0)
    assert counts_of(problem(CPU, held))["a"] == Counts(1, 4)
    moved = due(job, four, held=Counts(1, 1), price_seconds=60.0)
    assert job.forecast.at(counts_of(problem(CPU, moved))["a"]) <= four - 60
    margin = due(job, four, held=Counts(1, 1), price_seconds=60.0, margin_fraction=0.2)
    assert 1.2 * job.forecast.at(counts_of(problem(CPU, margin))["a"]) <= four - 60


def test_an_uncertain_forecast_asks_for_more() -> None:
    sure = candidate("a")
    unsure = replace(sure, forecast=Forecast(SPEED, 1000.0, late_factor=2.0))
    found = counts_of(problem(CPU, due(unsure, 6000)))["a"]
    assert 2 * sure.forecast.at(found) <= 6000
    assert found == counts_of(problem(CPU, due(sure, 3000)))["a"]


def test_a_quota_of_its_namespace_holds() -> None:
    task = Resources(cpu=1000)
    job = candidate("a")
    quota = Quota(
        "team",
        "compute",
        limited=("cpu",),
        hard=Resources(cpu=6000),
        room=Resources(cpu=6000),
        charges={"a": QuotaCharge(task, task, NONE)},
    )
    given_problem = replace(problem(CPU, due(job, 1500)), quotas=(quota,))
    without = counts_of(replace(problem(CPU, job), quotas=(quota,)))
    assert counts_of(given_problem) == without
    assert sum(without["a"]) <= 6


def test_counts_far_beyond_the_minimum_are_not_looked_at() -> None:
    job = candidate("a", steps=1e6)
    fastest = min(job.forecast.at(Counts(p, w)) for p in range(1, 66) for w in range(1, 66))
    assert MOST_EXTRA == 64
    room = Resources(cpu=10**9)
    found = counts_of(problem(room, due(job, fastest)))["a"]
    assert job.forecast.at(found) == pytest.approx(fastest)


@pytest.mark.parametrize("name", sorted(set(POOL_POLICIES) - {"optimus", "dl2"}))
def test_the_other_policies_do_not_regard_deadlines(name: str) -> None:
    jobs = [candidate("a"), candidate("b", running=True)]
    with_deadlines = [due(each, 3000) for each in jobs]
    room = Resources(cpu=20_000)
    regarded = allocate(name, problem(room, *with_deadlines))
    assert regarded.counts == allocate(name, problem(room, *jobs)).counts


def test_what_is_asked_of_all_counts_at_once_is_what_is_asked_of_each() -> None:
    forecast = Forecast(SPEED, 1000.0, late_factor=1.3)
    deadline = Deadline(5000, Counts(2, 3), 60.0, 0.05)
    ps, workers = np.repeat(np.arange(1, 5), 4), np.tile(np.arange(1, 5), 4)
    found = deadline.needed_seconds(forecast, ps, workers) <= 5000
    one_by_one = [deadline.is_met(forecast, Counts(p, w)) for p in range(1, 5) for w in range(1, 5)]
    assert found.tolist() == one_by_one
    assert any(one_by_one)
    assert not all(one_by_one)
