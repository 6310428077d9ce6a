"""The multiple-choice knapsack with several resources: which option each item gets, if any.

At most one option of each item is chosen, of a required item exactly one, so that the sum of values
is largest and no resource is exceeded. Solved after Frieze and Clarke (European Journal of
Operational Research 15(1), 1984; the outer problem of SMD, INFOCOM 2021): the linear programme, its
fractional choices rounded down, and what is left filled by the best improvement per amount at the
programme's prices. With fewer items than ``EXACT_ITEMS`` a search by branch and bound goes on from
there, until what is missing to the bound is small. The solver is HiGHS.
"""

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
import scipy as sp  # its parts load where they are used
from numpy.typing import NDArray

Amounts = NDArray[np.float64]
Counted = NDArray[np.int64]
Mask = NDArray[np.bool_]

NOTHING: Final = -1
"""The choice of an item that gets no option."""

EXACT_ITEMS: Final = 300
_GAP: Final = 5e-3
_MOST_PARTS: Final = 200
"""Linear programmes of the search: a bound that gives the same answer on any machine, as none of
time would."""

_LEAST_PRICE: Final = 1e-12
_TOLERANCE: Final = 1e-7
_WHOLE: Final = 1 - 1e-6
_MOST_UNITS: Final = 1e6


@dataclass(frozen=True, eq=False)
class Choices:
    """Items and their options, those of an item one after the other, its cheapest first.

    ``item``, ``value`` and ``cost`` are by option; costs of an item's first option are the least
    in every resource. ``required`` is by item: the first options of these fit together.
    ``own_cost`` is charged to what the item's group has, ``own_capacity`` by group, beside
    ``cost``, which is charged to what all have."""

    item: Counted
    value: Amounts
    cost: Amounts
    capacity: Amounts
    required: Mask
    group: Counted
    own_cost: Amounts
    own_capacity: Amounts

    @cached_property
    def first(self) -> Counted:
        """The first option of each item."""
        return np.searchsorted(self.item, np.arange(len(self.required)))

    def worth(self, chosen: Counted) -> float:
        """The sum of the chosen options' values."""
        return float(self.value[chosen[chosen != NOTHING]].sum())

    @cached_property
    def limits(self) -> tuple[Any, Amounts]:
        """Matrix and right side of all that must not be exceeded."""
        unit = _units(self.cost)
        parts, most = [sp.sparse.coo_array((self.cost / unit).T)], [np.floor(self.capacity / unit)]
        groups, own_unit = self.group[self.item], _units(self.own_cost)
        for column, capacity in enumerate((self.own_capacity / own_unit).T):
            charged = np.flatnonzero(self.own_cost[:, column])
            part = self.own_cost[charged, column] / own_unit[column]
            shape = (len(capacity), len(self.item))
            parts.append(sp.sparse.coo_array((part, (groups[charged], charged)), shape))
            most.append(np.floor(capacity))
        return sp.sparse.vstack(parts, format="csc"), np.concatenate(most)

    @cached_property
    def of_item(self) -> Any:
        """The matrix whose rows add up what is chosen of each item."""
        options = np.arange(len(self.item))
        shape = (len(self.required), len(options))
        ones = np.ones(len(options))
        return sp.sparse.csc_array((ones, (self.item, options)), shape)


def _units(cost: Amounts) -> Amounts:
    """By column, units of which all amounts are multiples: small whole numbers are what the solver
    is best at. Where these would be beyond ``_MOST_UNITS``, larger ones."""
    whole = np.gcd.reduce(cost.astype(np.int64), axis=0).astype(np.float64)
    most = cost.max(axis=0, initial=0.0) / _MOST_UNITS
    return np.asarray(np.maximum(np.maximum(whole, most), 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The chosen option of each item, or ``NOTHING``; no choice is worth more than ``bound``."""

    chosen: Counted
    bound: float


def solve(choices: Choices) -> Solution:
    """The best choice that was found."""
    if len(choices.item) == 0:
        return Solution(np.full(len(choices.required), NOTHING, dtype=np.int64), 0.0)
    active, required = _sensible(choices), choices.required
    # With few options of each item, until no other would improve it
    while (relaxed := _relaxed(choices, active, required)) is not None:
        best = np.maximum.reduceat(relaxed.reduced, choices.first)[choices.item]
        better = (relaxed.reduced > _TOLERANCE) & (relaxed.reduced >= best) & ~active
        if not better.any():
            break
        active |= better
    if relaxed is None:
        chosen = np.where(required, choices.first, NOTHING)
        prices = 1 / np.maximum(choices.capacity, 1.0)
        return Solution(_filled(choices, chosen, prices), np.inf)
    rounded = _rounded(choices, relaxed)
    if len(required) >= EXACT_ITEMS:
        return Solution(rounded, relaxed.bound)
    return _searched(choices, relaxed, rounded)


@dataclass(frozen=True, slots=True, eq=False)
class _Relaxed:
    """The linear programme: what it takes of each option, and what one more unit of each option
    would add to ``bound``. ``prices`` are of the resources that all share."""

    taken: Amounts
    reduced: Amounts
    prices: Amounts
    bound: float


def _relaxed(choices: Choices, active: Mask, required: Mask) -> _Relaxed | None:
    """The linear programme of some options; ``None`` where it has no solution."""
    (limits, most), of_item = choices.limits, choices.of_item
    columns = np.flatnonzero(active)
    if len(columns) == 0:
        return None
    upper: Any = sp.sparse.vstack(
        [limits[:, columns], of_item[:, columns][~required]], format="csr"
    )
    equal: Any = of_item[:, columns][required]
    found = sp.optimize.linprog(
        -choices.value[columns],
        A_ub=upper,
        b_ub=np.concatenate([most, np.ones(int((~required).sum()))]),
        A_eq=equal,
        b_eq=np.ones(int(required.sum())),
        bounds=[(0.0, None)] * len(columns),
        method="highs",
    )
    if found.x is None or found.ineqlin.marginals is None or found.eqlin.marginals is None:
        return None
    prices, worth = -np.asarray(found.ineqlin.marginals), np.empty(len(required))
    worth[~required] = prices[len(most) :]
    worth[required] = -np.asarray(found.eqlin.marginals)
    taken = np.zeros(len(choices.value))
    taken[columns] = found.x
    return _Relaxed(
        taken,
        choices.value - limits.T @ prices[: len(most)] - worth[choices.item],
        prices[: len(choices.capacity)] / _units(choices.cost),
        -float(found.fun or 0.0),
    )


def _sensible(choices: Choices) -> Mask:
    """Of each item the first option, and the best at some prices for its dominant share."""
    share = (choices.cost / np.maximum(choices.capacity, 1.0)).max(axis=1)
    active = np.zeros(len(share), dtype=np.bool_)
    active[choices.first] = True
    highest = float((choices.value / np.maximum(share, _LEAST_PRICE)).max())
    for price in (0.0, *(highest / 4.0**power for power in range(1, 9))):
        worth = choices.value - price * share
        active |= worth >= np.maximum.reduceat(worth, choices.first)[choices.item]
    return active


def _rounded(choices: Choices, relaxed: _Relaxed) -> Counted:
    """Return what the linear programme takes as a whole, and the rest filled."""
    chosen = np.where(choices.required, choices.first, NOTHING)
    whole = np.flatnonzero(relaxed.taken > _WHOLE)
    chosen[choices.item[whole]] = whole
    free, own_free = _left(choices, chosen)
    if (free < 0).any() or (own_free < 0).any():  # the solver works to a tolerance
        chosen = np.where(choices.required, choices.first, NOTHING)
    return _filled(choices, chosen, relaxed.prices)


def _searched(choices: Choices, relaxed: _Relaxed, chosen: Counted) -> Solution:
    """Branch and bound, the part of the largest bound first."""
    worth = choices.worth(chosen)
    # No better choice has an option that costs more than what is missing to the bound.
    hopeful = relaxed.bound + np.minimum(relaxed.reduced, 0.0) >= worth
    parts = [(-relaxed.bound, 0, hopeful, choices.required)]
    for number in range(_MOST_PARTS):
        if not parts or -parts[0][0] <= worth * (1 + _GAP):
            break
        _, _, active, required = heappop(parts)
        found = _relaxed(choices, active, required)
        if found is None or found.bound <= worth:
            continue
        rounded = _rounded(choices, found)
        if choices.worth(rounded) > worth:
            chosen, worth = rounded, choices.worth(rounded)
        option = int(np.argmax(np.where(found.taken > _WHOLE, 0.0, found.taken)))
        if found.taken[option] > 1 - _WHOLE:
            alone, without = active.copy(), active.copy()
            alone[choices.item == choices.item[option]] = False
            alone[option], without[option] = True, False
            with_item = required.copy()
            with_item[choices.item[option]] = True
            heappush(parts, (-found.bound, 2 * number + 1, alone, with_item))
            heappush(parts, (-found.bound, 2 * number + 2, without, required))
    return Solution(chosen, max(-parts[0][0] if parts else worth, worth))


def _left(choices: Choices, chosen: Counted) -> tuple[Amounts, Amounts]:
    items = np.flatnonzero(chosen != NOTHING)
    own_free = choices.own_capacity.copy()
    np.subtract.at(own_free, choices.group[items], choices.own_cost[chosen[items]])
    return choices.capacity - choices.cost[chosen[items]].sum(axis=0), own_free


def _filled(choices: Choices, chosen: Counted, prices: Amounts) -> Counted:
    """Improve one item at a time, the largest gain per amount at these prices first."""
    item, groups = choices.item, choices.group[choices.item]
    free, own_free = _left(choices, chosen)
    has = chosen != NOTHING
    value = np.where(has, choices.value[chosen], 0.0)
    cost = np.where(has[:, None], choices.cost[chosen], 0.0)
    own_cost = np.where(has[:, None], choices.own_cost[chosen], 0.0)
    prices = np.maximum(prices, _LEAST_PRICE / np.maximum(choices.capacity, 1.0))
    while True:
        more = choices.cost - cost[item]
        fitting = (more <= free).all(axis=1)
        fitting &= (choices.own_cost - own_cost[item] <= own_free[groups]).all(axis=1)
        gain = np.where(fitting, choices.value - value[item], 0.0)
        good = np.flatnonzero(gain > 0)
        if len(good) == 0:
            return chosen
        best = good[np.argmax(gain[good] / (np.maximum(more[good], 0.0) @ prices + _LEAST_PRICE))]
        row = item[best]
        free = free - more[best]
        own_free[groups[best]] -= choices.own_cost[best] - own_cost[row]
        chosen[row], value[row] = best, choices.value[best]
        cost[row], own_cost[row] = choices.cost[best], choices.own_cost[best]
