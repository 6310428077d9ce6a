"""The policies of Gavel: problems solved by hand, and the cost policy against another solver."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from optimus.policies.gavel_cost import GavelCostPolicy
from optimus.policies.gavel_fifo import GavelFifoPolicy
from optimus.policies.gavel_ftf import GavelFtfPolicy
from optimus.policies.gavel_hierarchical import GavelHierarchicalPolicy
from optimus.policies.gavel_makespan import GavelMakespanPolicy
from optimus.policies.gavel_sjf import GavelSjfPolicy
from optimus.policies.gavel_throughput import GavelThroughputPolicy
from tests.unit.policies.shares_problems import shares_problem


def near(*rows: Any) -> Any:
    return pytest.approx(np.array(rows, float), abs=1e-4)


class TestFifo:
    def test_each_has_its_fastest_kind_with_enough_left(self) -> None:
        asked = shares_problem([[2, 1], [3, 1]], submitted=np.array([5.0, 1.0]))
        assert GavelFifoPolicy().shares(asked) == near([0, 1], [1, 0])

    def test_nobody_overtakes_one_that_does_not_fit(self) -> None:
        asked = shares_problem([[1], [1], [1]], [[3]], workers=[[2], [2], [1]])
        assert GavelFifoPolicy().shares(asked) == near([1], [0], [0])
        assert GavelSjfPolicy().shares(asked) == near([1], [0], [1])

    def test_ps_that_do_not_fit_beside_the_workers_go_to_another_kind(self) -> None:
        asked = shares_problem([[2, 1], [2, 1]], [[1], [2]], others=[[1], [1]])
        assert GavelFifoPolicy().shares(asked) == near([1, 0], [0, 0])

    def test_ps_that_no_kind_holds_are_spread_over_several(self) -> None:
        asked = shares_problem([[2, 1], [2, 1]], [[2], [2]], others=[[3], [0]])
        assert GavelFifoPolicy().shares(asked) == near([1, 0], [0, 0])
        assert GavelSjfPolicy().shares(asked) == near([1, 0], [0, 0])

    def test_one_that_makes_progress_on_nothing_that_is_left_holds_nobody_back(self) -> None:
        asked = shares_problem([[1, 0], [1, 0], [1, 1]])
        assert GavelFifoPolicy().shares(asked) == near([1, 0], [0, 0], [0, 1])
        nowhere = shares_problem([[0, 0], [1, 1]])
        assert GavelFifoPolicy().shares(nowhere) == near([0, 0], [0, 1])


def test_the_shortest_by_its_fastest_kind_is_first() -> None:
    asked = shares_problem([[2, 1], [4, 1]], steps_left=np.array([10.0, 12.0]))
    assert GavelSjfPolicy().shares(asked) == near([0, 1], [1, 0])


def test_throughput_counts_parts_of_a_jobs_best_and_not_steps() -> None:
    """a makes ten steps in the time of one of b's, and is half as fast on the second kind."""
    asked = shares_problem([[10, 5], [1, 0.1]])
    assert GavelThroughputPolicy().shares(asked) == near([0, 1], [1, 0])


def test_makespan_gives_time_by_the_steps_left() -> None:
    asked = shares_problem([[1], [2]], [[1]], steps_left=np.array([10.0, 10.0]))
    assert GavelMakespanPolicy().shares(asked) == near([2 / 3], [1 / 3])


class TestFinishTimeFairness:
    def test_equal_jobs_have_equal_shares(self) -> None:
        asked = shares_problem([[1], [1]], [[1]], steps_left=np.array([9.0, 9.0]))
        assert GavelFtfPolicy().shares(asked) == near([0.5], [0.5])

    def test_one_that_has_waited_catches_up(self) -> None:
        """rho = (t + 100 / x) / 200: both end at 200 s and 250 s of their age."""
        asked = shares_problem(
            [[1], [1]], [[1]], steps_left=np.full(2, 100.0), submitted=np.array([0.0, -50.0])
        )
        shares, notes = GavelFtfPolicy().shares(asked), GavelFtfPolicy().notes(asked)
        fresh, waited = shares[:, 0]
        assert waited > fresh
        assert fresh + waited == pytest.approx(1.0, abs=1e-3)
        assert 100 / fresh == pytest.approx(50 + 100 / waited, rel=1e-2)
        assert notes[0] == {"isolated": 0.0, "steps": 100.0, "speed": 0.5}

    def test_what_was_trained_counts_at_the_isolated_speed_of_then(self) -> None:
        note = {"isolated": 10.0, "steps": 100.0, "speed": 0.5}
        asked = shares_problem([[1]], [[1]], steps_left=np.array([80.0]), notes=(note,))
        notes = GavelFtfPolicy().notes(asked)
        assert notes[0] == {"isolated": 50.0, "steps": 80.0, "speed": 1.0}


class TestCost:
    def test_a_kind_that_costs_more_than_it_brings_stays_empty(self) -> None:
        asked = shares_problem([[1, 0.9]], prices=np.array([3.0, 1.0]))
        assert GavelCostPolicy().shares(asked) == near([0, 1])
        told = replace(asked, prices=np.array([3.0, 4.0]))
        assert GavelCostPolicy().shares(told)[0, 0] > 0.9

    def test_every_job_has_its_part_of_what_fairness_gives(self) -> None:
        # b brings little for its money: without a floor a alone would run.
        asked = shares_problem([[1], [1]], [[2]], workers=[[1], [2]])
        shares = GavelCostPolicy(floor=0.5).shares(asked)
        assert shares[1, 0] == pytest.approx(0.25, abs=1e-3)

    @pytest.mark.parametrize(
        ("finish_by", "least"),
        [
            ([10.0, np.inf], [0.8, 0.0]),
            ([10.0, 20.0], [0.8, 0.0]),
            ([4.0, 20.0], [0.0, 0.4]),
            ([10.0, 10.0], [0.8, 0.0]),
        ],
        ids=[
            "a deadline is a floor",
            "of two that cannot both be met the later is dropped",
            "one that cannot be met alone is dropped first",
            "of equal ones the first job's is kept",
        ],
    )
    def test_deadlines(self, finish_by: list[float], least: list[float]) -> None:
        asked = shares_problem(
            [[1], [1]], [[1]], steps_left=np.full(2, 8.0), finish_by=np.array(finish_by)
        )
        shares = GavelCostPolicy(floor=0.1).shares(asked)[:, 0]
        assert (shares >= np.array(least) - 1e-4).all()

    @settings(deadline=None, max_examples=200)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_is_as_good_as_by_another_solver(self, seed: int) -> None:
        """The ratio's optimum is where the best of worth - ratio x cost is 0 (Dinkelbach)."""
        draw = np.random.default_rng(seed)
        jobs, kinds = int(draw.integers(1, 6)), int(draw.integers(1, 4))
        asked = shares_problem(
            draw.uniform(0.2, 2.0, (jobs, kinds)),
            draw.integers(1, 4, (kinds, 1)),
            prices=draw.uniform(0.5, 3.0, kinds),
        )
        shares = GavelCostPolicy().shares(asked)
        worth = asked.speeds / asked.best[:, None]
        cost = np.broadcast_to(asked.prices / asked.capacity[:, 0], worth.shape)
        floors = (asked.speeds * shares).sum(axis=1)
        ratio = (worth * shares).sum() / (cost * shares).sum()
        lowest = _floors(asked)
        assert (floors >= lowest * (1 - 1e-4) - 1e-5).all()
        rows = [np.kron(np.eye(jobs)[each], np.ones(kinds)) for each in range(jobs)]
        rows += [np.kron(np.ones(jobs), np.eye(kinds)[each]) for each in range(kinds)]
        rows += [-np.kron(np.eye(jobs)[each], asked.speeds[each]) for each in range(jobs)]
        bounds = np.concatenate([np.ones(jobs), asked.capacity[:, 0], -lowest])
        found = linprog(
            -(worth - ratio * cost).ravel(),
            A_ub=np.array(rows),
            b_ub=bounds,
            bounds=(0.0, 1.0),
            method="highs",
        )
        assert found.status == 0
        assert -float(found.fun or 0.0) <= 1e-4


def _floors(asked: Any) -> Any:
    """Half of what one programme of max-min fairness gives each job."""
    jobs, kinds = asked.speeds.shape
    fair = asked.usual / asked.sizes
    rows = [np.append(np.kron(np.eye(jobs)[each], np.ones(kinds)), 0.0) for each in range(jobs)]
    rows += [np.append(np.kron(np.ones(jobs), np.eye(kinds)[each]), 0.0) for each in range(kinds)]
    rows += [
        np.append(-np.kron(np.eye(jobs)[each], asked.speeds[each]), fair[each])
        for each in range(jobs)
    ]
    bounds = np.concatenate([np.ones(jobs), asked.capacity[:, 0], np.zeros(jobs)])
    found = linprog(
        np.append(np.zeros(jobs * kinds), -1.0),
        A_ub=np.array(rows),
        b_ub=bounds,
        bounds=[(0.0, 1.0)] * (jobs * kinds) + [(0.0, None)],
        method="highs",
    )
    return 0.5 * (1 - 1e-6) * -float(found.fun or 0.0) * fair


class TestHierarchical:
    def test_a_namespace_has_its_weight_however_many_jobs_it_has(self) -> None:
        asked = shares_problem([[1]] * 4, [[1]], namespaces=("a", "b", "b", "b"))
        shares = GavelHierarchicalPolicy().shares(asked)
        assert shares == near([1 / 2], [1 / 6], [1 / 6], [1 / 6])

    def test_what_a_job_cannot_use_goes_to_the_others(self) -> None:
        """Weights 3, 1, 1, 1 on four nodes: 1, 1/3, 1/3, 1/3 first, then 1 each."""
        weights = np.array([3.0, 1.0, 1.0, 1.0])
        asked = shares_problem([[1]] * 4, [[4]], weights=weights)
        assert GavelHierarchicalPolicy().shares(asked) == near([1], [1], [1], [1])
        two = shares_problem([[1]] * 4, [[2]], weights=weights)
        assert GavelHierarchicalPolicy().shares(two) == near([1], [1 / 3], [1 / 3], [1 / 3])

    def test_it_goes_to_the_same_namespace_first(self) -> None:
        """One of b's jobs runs on the small kind alone, which has little; the other gets the rest
        of what b is due."""
        asked = shares_problem(
            [[1, 0], [1, 0], [0, 1]],
            [[1], [0.5]],
            workers=[[1], [1], [0.5]],
            namespaces=tuple("abb"),
        )
        shares = GavelHierarchicalPolicy().shares(asked)
        assert shares[0, 0] + shares[1, 0] == pytest.approx(1.0, abs=1e-4)
