"""The multiple-choice knapsack against all choices."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import knapsack
from optimus.allocation.knapsack import NOTHING, Choices, solve


def drawn(seed: int, items: int, *, groups: int = 1, options: int = 4) -> Choices:
    """Items with options of rising cost, a third of them required; some limits by group."""
    draw = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), draw.integers(1, options + 1, items))
    step = draw.integers(1, 6, (len(item), 2)).astype(float)
    first = np.diff(item, prepend=-1) > 0
    begin = np.maximum.accumulate(np.where(first, np.arange(len(item)), 0))
    sums = np.cumsum(step, axis=0)
    cost = sums - sums[begin] + step[begin]
    required = draw.random(items) < 1 / 3
    capacity = np.maximum(
        cost[first][required].sum(axis=0), np.floor(cost.sum(axis=0) * draw.uniform(0.1, 0.6))
    )
    group, own = draw.integers(0, groups, items), cost[:, :1].copy()
    own_capacity = np.full((groups, 1), 2.0**62)
    for number in range(1, groups):
        of_group = group == number
        least = own[first][of_group & required].sum()
        own_capacity[number] = max(least, np.floor(own[first][of_group].sum()))
    value = draw.uniform(0, 10, len(item))
    return Choices(item, value, cost, capacity, required, group, own, own_capacity)


def is_allowed(choices: Choices, chosen: np.ndarray) -> bool:
    """Whether each required item has an option, of its own, and no limit is exceeded."""
    items = np.flatnonzero(chosen != NOTHING)
    if (chosen[choices.required] == NOTHING).any():
        return False
    if (choices.item[chosen[items]] != items).any():
        return False
    own = np.zeros_like(choices.own_capacity)
    np.add.at(own, choices.group[items], choices.own_cost[chosen[items]])
    within = choices.cost[chosen[items]].sum(axis=0) <= choices.capacity
    return bool(within.all() and (own <= choices.own_capacity).all())


def best_of_all(choices: Choices) -> float:
    """The most that any choice is worth."""
    of_item = [
        [NOTHING, *np.flatnonzero(choices.item == number).tolist()]
        for number in range(len(choices.required))
    ]
    every = (np.array(each) for each in product(*of_item))
    return max(choices.worth(each) for each in every if is_allowed(choices, each))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), items=st.integers(1, 5), groups=st.integers(1, 3))
def test_small_problems_are_solved_exactly(seed: int, items: int, groups: int) -> None:
    choices = drawn(seed, items, groups=groups)
    found, best = solve(choices), best_of_all(choices)
    assert is_allowed(choices, found.chosen)
    assert found.bound >= best - 1e-6
    assert choices.worth(found.chosen) >= best * 0.995 - 1e-9


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10**6), items=st.integers(20, 120))
def test_larger_ones_come_near_to_a_bound(seed: int, items: int) -> None:
    choices = drawn(seed, items, options=12)
    found = solve(choices)
    assert is_allowed(choices, found.chosen)
    assert 0.99 * found.bound <= choices.worth(found.chosen) <= found.bound + 1e-6


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_many_items_are_rounded_and_filled(seed: int) -> None:
    choices = drawn(seed, knapsack.EXACT_ITEMS, options=8, groups=2)
    found = solve(choices)
    assert is_allowed(choices, found.chosen)
    assert choices.worth(found.chosen) >= 0.99 * found.bound


def test_of_nothing_nothing_is_chosen() -> None:
    none, empty = np.zeros(0, dtype=np.int64), np.zeros((0, 1))
    choices = Choices(
        none, np.zeros(0), empty, np.ones(1), none.astype(bool), none, empty, np.ones((1, 1))
    )
    assert len(solve(choices).chosen) == 0


def test_amounts_in_bytes_and_in_units_go_together() -> None:
    choices = drawn(3, 5)
    in_bytes = np.array([2.0**30 + 1, 1.0])
    large = replace(choices, cost=choices.cost * in_bytes, capacity=choices.capacity * in_bytes)
    assert choices.worth(solve(large).chosen) == pytest.approx(choices.worth(solve(choices).chosen))


def test_required_items_that_do_not_fit_have_their_first_option() -> None:
    """It is the caller's to see that they do; the solver's tolerance may say that they do not."""
    choices = drawn(5, 4)
    choices = replace(choices, required=np.ones(4, dtype=bool), capacity=np.zeros(2))
    assert solve(choices).chosen.tolist() == choices.first.tolist()
