"""Max-min fair shares of time: programmes solved by hand, and the property that defines them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from optimus.allocation.max_min import max_min_shares

Values = NDArray[np.float64]

ONE_EACH = np.array([[1.0], [1.0]])
"""Two kinds with room for one job each."""


def shares(worth: list[list[float]], capacity: Values = ONE_EACH) -> Values:
    """Of jobs that take one unit each."""
    return max_min_shares(np.array(worth), np.ones((len(worth), 1)), capacity)


def values(worth: list[list[float]], found: Values) -> Any:
    return (np.array(worth) * found).sum(axis=1).tolist()


class TestByHand:
    def test_equal_jobs_share_a_kind_equally(self) -> None:
        assert shares([[1.0], [1.0], [1.0]], np.array([[1.0]])) == pytest.approx(1 / 3)

    def test_a_job_alone_has_the_kind_that_is_worth_most_to_it_all_the_time(self) -> None:
        assert shares([[1.0, 3.0]])[0].tolist() == pytest.approx([0.0, 1.0])

    def test_what_one_cannot_use_better_is_left_to_the_one_that_can(self) -> None:
        # B is worth 1 anywhere, so that its value is 1 at most; A then has all of the first kind.
        worth = [[2.0, 1.0], [1.0, 1.0]]
        found = shares(worth)
        assert found == pytest.approx(np.eye(2), abs=1e-4)
        assert values(worth, found) == pytest.approx([2.0, 1.0], abs=1e-4)

    def test_of_three_jobs_the_one_that_is_fast_there_has_least_of_the_fast_kind(self) -> None:
        # Value t takes A t / 2 of the fast kind, B and C t each of any: 5 / 2 t = 2.
        worth = [[2.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
        found = shares(worth)
        assert values(worth, found) == pytest.approx([0.8, 0.8, 0.8])
        assert found[0].tolist() == pytest.approx([0.4, 0.0])

    def test_a_large_job_takes_more_of_a_kind(self) -> None:
        # One kind with 4 units; A takes 3 of them, B takes 2. 3 x + 2 x = 4.
        found = max_min_shares(np.ones((2, 1)), np.array([[3.0], [2.0]]), np.array([[4.0]]))
        assert found == pytest.approx(np.full((2, 1), 0.8))

    def test_the_scarcest_resource_binds(self) -> None:
        # 2 x of the first resource, of which there is 1; of the second there is plenty.
        demand, capacity = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 10.0]])
        assert max_min_shares(np.ones((2, 1)), demand, capacity) == pytest.approx(0.5)

    def test_jobs_that_no_programme_bounds_are_raised_further(self) -> None:
        # C and D can only use the second kind, half each; A and B then share the first alone.
        worth = [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
        found = shares(worth, np.array([[1.0], [1.0]]))
        assert values(worth, found) == pytest.approx([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3], abs=1e-4)

    def test_a_job_that_can_run_nowhere_gets_nothing_and_holds_nobody_back(self) -> None:
        found = shares([[0.0, 0.0], [1.0, 1.0]])
        assert found.sum(axis=1) == pytest.approx([0.0, 1.0])
        assert shares([[0.0, 0.0]]).tolist() == [[0.0, 0.0]]

    def test_nobody_asks(self) -> None:
        assert max_min_shares(np.zeros((0, 2)), np.zeros((0, 1)), ONE_EACH).shape == (0, 2)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Values, Values, Values]:
    jobs, kinds, resources = (draw(st.integers(1, most)) for most in (6, 3, 2))
    steps = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
    worth = [[draw(steps) for _ in range(kinds)] for _ in range(jobs)]
    demand = [[draw(st.sampled_from([1.0, 2.0])) for _ in range(resources)] for _ in range(jobs)]
    capacity = [[draw(st.sampled_from([1.0, 3.0])) for _ in range(resources)] for _ in range(kinds)]
    return np.array(worth), np.array(demand), np.array(capacity)


def limits(demand: Values, capacity: Values, jobs: int, kinds: int) -> tuple[Values, Values]:
    rows, bounds = [], []
    for job in range(jobs):
        rows.append(np.kron(np.eye(jobs)[job], np.ones(kinds)))
        bounds.append(1.0)
    for kind in range(kinds):
        for resource in range(capacity.shape[1]):
            rows.append(np.kron(demand[:, resource], np.eye(kinds)[kind]))
            bounds.append(capacity[kind, resource])
    return np.array(rows), np.array(bounds)


def most_for(
    job: int, kept: dict[int, float], given_problem: tuple[Values, Values, Values]
) -> float:
    """The largest value of one job while some others keep theirs."""
    worth, demand, capacity = given_problem
    (jobs, kinds) = worth.shape
    rows, bounds = limits(demand, capacity, jobs, kinds)
    value = [np.kron(np.eye(jobs)[each], worth[each]) for each in range(jobs)]
    least = [-value[each] for each in kept]
    found = linprog(
        -value[job],
        A_ub=np.vstack([rows, *least]),
        b_ub=np.concatenate([bounds, [-each + 1e-7 for each in kept.values()]]),
        method="highs",
    )
    assert found.status == 0
    return -float(found.fun or 0.0)


@settings(deadline=None)
@given(given_problem=problems())
def test_nobody_can_have_more_unless_one_that_has_no_more_has_less(
    given_problem: tuple[Values, Values, Values],
) -> None:
    worth, demand, capacity = given_problem
    found = max_min_shares(*given_problem)
    rows, bounds = limits(demand, capacity, *worth.shape)
    assert (found >= 0).all()
    assert (rows @ found.ravel() <= bounds + 1e-6).all()
    value = (worth * found).sum(axis=1)
    for job in range(len(worth)):
        kept = {
            other: float(value[other])
            for other in range(len(worth))
            if other != job and value[other] <= value[job] + 1e-4
        }
        assert most_for(job, kept, given_problem) <= value[job] + 1e-3


@settings(deadline=None)
@given(given_problem=problems(), times=st.integers(2, 4))
def test_equal_jobs_are_merged_without_changing_anybodys_value(
    given_problem: tuple[Values, Values, Values], times: int
) -> None:
    worth, demand, capacity = given_problem
    one = (worth * max_min_shares(*given_problem)).sum(axis=1)
    many_worth, many_demand = np.repeat(worth, times, axis=0), np.repeat(demand, times, axis=0)
    many = (many_worth * max_min_shares(many_worth, many_demand, capacity * times)).sum(axis=1)
    assert many == pytest.approx(np.repeat(one, times), abs=1e-3)
