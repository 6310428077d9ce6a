"""Ideal shares of time: programmes solved by hand, and properties against another solver."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from optimus.allocation.time_shares import SharesProblem, TimeShares
from tests.unit.policies.shares_problems import shares_problem

Values = NDArray[np.float64]


def fair(given_problem: SharesProblem) -> Values:
    """The shares by which the smallest throughput is largest."""
    return TimeShares(given_problem).raise_floors(np.ones(len(given_problem.speeds))).shares


class TestByHand:
    def test_equal_jobs_share_a_kind_equally(self) -> None:
        assert fair(shares_problem([[1], [1], [1]], [[1]])) == pytest.approx(1 / 3, abs=1e-6)

    def test_a_job_alone_has_the_kind_on_which_it_is_fastest_all_the_time(self) -> None:
        assert fair(shares_problem([[1, 3]]))[0].tolist() == pytest.approx([0.0, 1.0], abs=1e-6)

    def test_of_three_jobs_the_one_that_is_fast_there_has_least_of_the_fast_kind(self) -> None:
        # Throughput t takes A t / 2 of the fast kind, B and C t each of any: 5 / 2 t = 2.
        speeds = np.array([[2.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
        found = fair(shares_problem(speeds))
        assert (speeds * found).sum(axis=1) == pytest.approx([0.8, 0.8, 0.8], abs=1e-5)
        assert found[0].tolist() == pytest.approx([0.4, 0.0], abs=1e-5)

    def test_a_large_job_takes_more_of_a_kind(self) -> None:
        # One kind with 4 units; A takes 3 of them, B takes 2. 3 x + 2 x = 4.
        found = fair(shares_problem([[1], [1]], [[4]], workers=[[3], [2]]))
        assert found == pytest.approx(0.8, abs=1e-6)

    def test_the_scarcest_resource_binds(self) -> None:
        # 2 x of the first resource, of which there is 1; of the second there is plenty.
        found = fair(shares_problem([[1], [1]], [[1, 10]]))
        assert found == pytest.approx(0.5, abs=1e-6)

    def test_ps_lie_beside_the_workers_where_these_run_on_every_kind(self) -> None:
        # Each kind holds one job whole: A is as fast on the first as B, and B alone is slow.
        found = fair(shares_problem([[2, 2], [2, 1]], [[2], [2]], others=[[1], [1]]))
        assert found == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-5)

    def test_workers_are_held_to_a_kind_and_ps_go_to_nodes_without_workers(self) -> None:
        # Both run on the first kind alone, which holds one worker; the second holds their PSs.
        found = fair(shares_problem([[1, 0], [1, 0]], others=[[1], [1]]))
        assert found[:, 0] == pytest.approx(0.5, abs=1e-6)
        # Four units in all, three for each job: together they run 4/3 of the time.
        ample = fair(shares_problem([[1, 0], [1, 0]], [[2], [2]], others=[[2], [2]]))
        assert ample[:, 0] == pytest.approx(2 / 3, abs=1e-6)

    def test_a_job_that_can_run_nowhere_gets_nothing_and_holds_nobody_back(self) -> None:
        found = fair(shares_problem([[0, 0], [1, 1]]))
        assert found.sum(axis=1) == pytest.approx([0.0, 1.0], abs=1e-6)
        assert fair(shares_problem([[0, 0]])).tolist() == [[0.0, 0.0]]
        assert fair(shares_problem([[1, 1]], workers=[[2]])).tolist() == [[0.0, 0.0]]

    def test_the_sum_goes_to_what_is_worth_most(self) -> None:
        asked = shares_problem([[2], [1]], [[1]])
        greedy = TimeShares(asked).maximise(asked.speeds)
        assert greedy[:, 0].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


@st.composite
def problems(draw: st.DrawFn) -> SharesProblem:
    jobs, kinds, resources = (draw(st.integers(1, most)) for most in (6, 3, 2))
    steps = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
    worth = [[draw(steps) for _ in range(kinds)] for _ in range(jobs)]
    demand = [[draw(st.sampled_from([1.0, 2.0])) for _ in range(resources)] for _ in range(jobs)]
    capacity = [[draw(st.sampled_from([1.0, 3.0])) for _ in range(resources)] for _ in range(kinds)]
    others = [[draw(st.sampled_from([0.0, 1.0])) for _ in range(resources)] for _ in range(jobs)]
    return shares_problem(worth, capacity, demand, others)


def best_level(given_problem: SharesProblem) -> float:
    """The largest smallest throughput of jobs that can run, by another solver."""
    speeds, capacity = given_problem.speeds, given_problem.capacity
    demand, (jobs, kinds) = given_problem.workers + given_problem.others, speeds.shape
    whole = capacity.sum(axis=0)
    fits = (given_problem.workers[:, None] <= capacity).all(axis=2)
    fits &= (demand <= whole).all(axis=1)[:, None]
    speeds = np.where(fits, speeds, 0.0)
    beside = np.asarray((demand[:, None] <= capacity).all(axis=2))
    beside &= (speeds > 0).any(axis=0).all()
    rows, bounds = [], []
    for job in range(jobs):
        own = np.kron(np.eye(jobs)[job], np.ones(kinds))
        rows.append(np.append(own, 0.0))
        bounds.append(1.0)
        if speeds[job].any():
            rows.append(np.append(-np.kron(np.eye(jobs)[job], speeds[job]), 1.0))
            bounds.append(0.0)
    for resource in range(capacity.shape[1]):
        for kind in range(kinds):
            on_kind = np.where(
                beside[:, kind], demand[:, resource], given_problem.workers[:, resource]
            )
            taken = np.kron(on_kind, np.eye(kinds)[kind])
            rows.append(np.append(taken, 0.0))
            bounds.append(capacity[kind, resource])
        rows.append(np.append(np.kron(demand[:, resource], np.ones(kinds)), 0.0))
        bounds.append(whole[resource])
    most = [1.0 if each > 0 else 0.0 for each in speeds.ravel()]
    found = linprog(
        np.append(np.zeros(jobs * kinds), -1.0),
        A_ub=np.array(rows),
        b_ub=np.array(bounds),
        bounds=[(0.0, each) for each in most] + [(0.0, 1e3)],
        method="highs",
    )
    assert found.status == 0
    return -float(found.fun or 0.0)


@settings(deadline=None)
@given(given_problem=problems())
def test_the_smallest_throughput_is_as_large_as_another_solver_makes_it(
    given_problem: SharesProblem,
) -> None:
    found = TimeShares(given_problem).raise_floors(np.ones(len(given_problem.speeds)))
    taken = (found.shares[:, :, None] * given_problem.workers[:, None]).sum(axis=0)
    demand = given_problem.workers + given_problem.others
    assert (taken <= given_problem.capacity + 1e-4).all()
    assert ((found.shares.sum(axis=1) @ demand) <= given_problem.capacity.sum(axis=0) + 1e-4).all()
    assert (found.shares.sum(axis=1) <= 1 + 1e-5).all()
    best = best_level(given_problem)
    if best < 1e3:
        assert found.height == pytest.approx(best, abs=1e-5)


@settings(deadline=None)
@given(given_problem=problems(), order=st.randoms())
def test_the_order_of_jobs_changes_nothing(given_problem: SharesProblem, order: Any) -> None:
    rows = list(range(len(given_problem.speeds)))
    order.shuffle(rows)
    other = replace(
        given_problem,
        speeds=given_problem.speeds[rows],
        workers=given_problem.workers[rows],
        others=given_problem.others[rows],
    )
    assert (fair(given_problem)[rows] == fair(other)).all()


def most_for(job: int, kept: dict[int, float], asked: SharesProblem) -> float:
    """The largest throughput of one job while some others keep theirs, by another solver."""
    speeds, (jobs, kinds) = asked.speeds, asked.speeds.shape
    rows = [np.kron(np.eye(jobs)[each], np.ones(kinds)) for each in range(jobs)]
    bounds = [1.0] * jobs
    for resource in range(asked.capacity.shape[1]):
        for kind in range(kinds):
            rows.append(np.kron(asked.workers[:, resource], np.eye(kinds)[kind]))
            bounds.append(asked.capacity[kind, resource])
    rows += [-np.kron(np.eye(jobs)[each], speeds[each]) for each in kept]
    bounds += [-each + 1e-5 for each in kept.values()]
    fits = (asked.workers[:, None] <= asked.capacity).all(axis=2) & (speeds > 0)
    found = linprog(
        -np.kron(np.eye(jobs)[job], speeds[job]),
        A_ub=np.array(rows),
        b_ub=np.array(bounds),
        bounds=[(0.0, float(each)) for each in fits.ravel()],
        method="highs",
    )
    assert found.status == 0
    return -float(found.fun or 0.0)


@settings(deadline=None)
@given(given_problem=problems())
def test_filled_nobody_can_have_more_unless_one_that_has_no_more_has_less(
    given_problem: SharesProblem,
) -> None:
    asked = replace(given_problem, others=np.zeros_like(given_problem.others))
    jobs = len(asked.speeds)
    throughput = (asked.speeds * TimeShares(asked).fill(lambda _: np.ones(jobs))).sum(axis=1)
    for job in range(jobs):
        kept = {
            other: float(throughput[other])
            for other in range(jobs)
            if other != job and throughput[other] <= throughput[job] + 1e-4
        }
        assert most_for(job, kept, asked) <= throughput[job] + 1e-3
