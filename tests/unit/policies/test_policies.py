"""What holds for every policy."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import AllocationProblem, Candidate
from optimus.cli.job_table import TableForecast, TableSpeed
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from optimus.policies import policy_named
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import (
    POOL_POLICIES,
    PaperSpeed,
    allocate,
    authors_problem,
    candidate,
    problem,
    used,
)

every_policy = pytest.mark.parametrize("policy", POOL_POLICIES)


@settings(deadline=None)
@given(given_problem=problems())
def test_never_gives_more_than_there_is_and_keeps_to_the_bounds(
    given_problem: AllocationProblem,
) -> None:
    for policy in POOL_POLICIES:
        answer = allocate(policy, given_problem)
        assert used(given_problem, answer).fits_in(given_problem.available)
        for each in given_problem.candidates:
            assert each.job.uid in answer.reasons
            assert each.job.uid not in answer.counts or each.job.bounds.allow(
                answer.counts[each.job.uid]
            )
            if not policy_named(policy).traits.resizes and each.job.uid in answer.counts:
                assert answer.counts[each.job.uid] == each.job.bounds.clamp(each.job.counts)


@settings(deadline=None)
@given(given_problem=problems(), data=st.data())
def test_the_order_of_candidates_does_not_matter(
    given_problem: AllocationProblem, data: st.DataObject
) -> None:
    shuffled = tuple(data.draw(st.permutations(given_problem.candidates)))
    again = AllocationProblem(given_problem.available, given_problem.capacity, shuffled)
    for policy in POOL_POLICIES:
        assert allocate(policy, again) == allocate(policy, given_problem)


@every_policy
def test_says_so_where_nothing_fits(policy: str) -> None:
    answer = allocate(policy, problem(Resources(cpu=1000), candidate("a")))
    assert not answer.counts
    assert "too little cpu" in answer.reasons["a"]


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper", "drf"])
def test_a_running_job_keeps_its_minimum_before_a_smaller_new_one(policy: str) -> None:
    small = candidate("new")
    big = candidate("old", ps=Resources(cpu=2000), running=True)
    assert set(allocate(policy, problem(Resources(cpu=4000), small, big)).counts) == {"old"}


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper", "drf"])
def test_a_job_at_its_goal_gives_room_down_to_its_minimum(policy: str) -> None:
    done = candidate("done", bounds=CountBounds(min_workers=2), may_grow=False)
    answer = allocate(policy, problem(Resources(cpu=20000), done, candidate("other")))
    assert answer.counts["done"] == Counts(1, 2)


def test_a_forecast_that_answers_for_many_jobs_at_once_gives_the_same() -> None:
    given_problem = authors_problem(60, 200)
    stacked = tuple(replace(each, forecast=as_table(each)) for each in given_problem.candidates)
    assert hasattr(TableForecast, "stacked")
    for policy in POOL_POLICIES:
        one, many = (
            allocate(policy, given_problem),
            allocate(policy, replace(given_problem, candidates=stacked)),
        )
        assert one.counts == many.counts


def as_table(each: Candidate) -> TableForecast:
    forecast = each.forecast
    assert isinstance(forecast, Forecast)
    speed = forecast.speed
    assert isinstance(speed, PaperSpeed)
    terms = speed.compute, speed.t1, speed.t2, speed.t3, speed.t4
    return TableForecast(TableSpeed(terms), forecast.remaining_steps)


@pytest.mark.parametrize(
    "policy", [each for each in POOL_POLICIES if policy_named(each).traits.resizes]
)
def test_nobody_gets_less_than_he_holds(policy: str) -> None:
    holder = replace(candidate("a"), holds=Counts(3, 2), running=True)
    answer = allocate(policy, problem(Resources(cpu=8000), holder, candidate("b")))
    assert answer.counts["a"].ps >= 3
    assert answer.counts["a"].workers >= 2


def test_a_task_too_large_for_every_node_is_not_handed_out() -> None:
    wide = candidate("wide", worker=Resources(cpu=3000))
    given_problem = problem(Resources(cpu=20000), wide, candidate("b"))
    pieces = replace(given_problem, servers={Resources(cpu=4000): 2, Resources(cpu=2000): 6})
    assert OptimusPolicy().allocate(given_problem).counts["wide"].workers > 2
    assert OptimusPolicy().allocate(pieces).counts["wide"].workers == 2
