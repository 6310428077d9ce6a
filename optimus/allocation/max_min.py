"""Max-min fair shares of time over kinds of nodes, by linear programmes (Gavel, OSDI 2020, 4.1).

x_mj is the part of the time that job m runs on kind j, and what that is worth to it is

    value_m = sum_j worth_mj x_mj

with x >= 0, sum_j x_mj <= 1, and in every kind j and resource r, sum_m demand_mr x_mj at most what
the kind has. The smallest value is made as large as possible; then, with the jobs that bound it
kept at theirs, the smallest of the others, and so on (water filling). So nobody's value can rise
without that of somebody who has no more falling. A job bounds the smallest value where its dual
variable is not 0: then it has this value in every optimum (complementary slackness).

Jobs that are equal in worth and demand have equal shares in some optimum, since an average of
optima is one: each such group is one row. That, and not the number of jobs, sets the time.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_LEVELS: Final = 16
"""Levels that are told apart, beside those of jobs that have all their time on their best kind;
those above keep what the last programme gives them."""

_SLACK: Final = 1e-5
"""Relative: a level that was reached may be missed by so much later. The solver's tolerance, 1e-7
in every constraint, adds up over the levels."""
_DUAL: Final = 1e-7
"""Least dual variable, of 1 in all, of a job that bounds the smallest value."""


class NoSolutionError(RuntimeError):
    """The solver has failed; a programme of this form always has a solution."""


def max_min_shares(worth: Values, demand: Values, capacity: Values) -> Values:
    """Shares of time of shape (jobs, kinds).

    ``worth`` (jobs, kinds) is 0 where a job cannot run; a job that can run nowhere gets nothing.
    ``demand`` (jobs, resources) is what it takes while it runs, ``capacity`` (kinds, resources)."""
    shares = np.zeros(worth.shape)
    possible = np.flatnonzero((worth > 0).any(axis=1))
    if len(possible) == 0:
        return shares
    rows = np.hstack([worth[possible], demand[possible]])
    groups, member, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    kinds = worth.shape[1]
    found = _fill(groups[:, :kinds], groups[:, kinds:] * sizes[:, None], capacity)
    shares[possible] = np.clip(found[member.reshape(-1)], 0.0, 1.0)
    return shares


def _fill(worth: Values, demand: Values, capacity: Values) -> Values:
    """One row for each group; ``demand`` is that of all its members."""
    limits, bounds = _limits(worth, demand, capacity)
    open_, level = np.ones(len(worth), dtype=np.bool_), np.zeros(len(worth))
    shares, best = np.zeros(worth.shape), np.zeros(worth.shape)
    best[np.arange(len(worth)), worth.argmax(axis=1)] = 1.0
    for _ in range(MOST_LEVELS):
        # Where all open groups can have their best kind all the time, no level is to be found.
        everything = np.where(open_[:, None], best, shares)
        if (limits[:, :-1] @ everything.ravel() <= bounds).all():
            return everything
        found = _next_level(worth, (open_, level), limits, bounds)
        if found is None and open_.all():
            raise NoSolutionError("the solver finds no shares at all")
        if found is None:
            break  # by rounding alone: the last shares are max-min fair up to the last level
        open_, level, shares = found
        if not open_.any():
            break
    return shares


def _next_level(
    worth: Values, filled: tuple[Mask, Values], limits: Any, bounds: Values
) -> tuple[Mask, Values, Values] | None:
    """The groups that are open after the next level, all levels, and the shares.

    A group is also bounded by its own time: it has at most what its best kind is worth. Of the
    open groups by that worth, as many as possible are kept at it, found by bisection: each of them
    has to have no more than the level of the others."""
    open_, level = filled
    top = worth.max(axis=1)
    order = np.flatnonzero(open_)[np.argsort(top[open_], kind="stable")]

    def attempt(closed: int) -> tuple[Mask, Values, tuple[Values, float, Mask]] | None:
        still, kept = open_.copy(), level.copy()
        still[order[:closed]], kept[order[:closed]] = False, top[order[:closed]]
        raised = _raise(worth, (still, kept), limits, bounds)
        if raised is None or (closed and raised[1] < top[order[closed - 1]] * (1 - _SLACK)):
            return None
        return still, kept, raised

    known, most = attempt(0), len(order) - 1
    if known is None:
        return None
    least = 0
    if known[2][1] < top[order[0]] * (1 - _SLACK):
        most = 0
    while least < most:
        closed = (least + most + 1) // 2
        tried = attempt(closed)
        if tried is None:
            most = closed - 1
        else:
            least, known = closed, tried
    still, kept, (shares, height, bounding) = known
    kept[bounding] = height
    return still & ~bounding, kept, shares


def _raise(
    worth: Values, filled: tuple[Mask, Values], limits: Any, bounds: Values
) -> tuple[Values, float, Mask] | None:
    """Raise the smallest value of the open groups; the shares, that value, and who bounds it.
    ``None`` where the solver fails."""
    (groups, kinds), (open_, level) = worth.shape, filled
    columns = groups * kinds
    row, column = np.repeat(np.arange(groups), kinds), np.arange(columns)
    entries = np.concatenate([-worth.ravel(), open_.astype(np.float64)])
    at = (
        np.concatenate([row, np.arange(groups)]),
        np.concatenate([column, np.full(groups, columns)]),
    )
    values = coo_array((entries, at), shape=(groups, columns + 1))
    objective = np.zeros(columns + 1)
    objective[-1] = -1.0
    upper = np.concatenate([np.where(open_, 0.0, -level * (1 - _SLACK) + _SLACK / 10), bounds])
    most = np.append(np.where(worth.ravel() > 0, 1.0, 0.0), np.inf)
    # Sparse: of a thousand groups the matrix would have some millions of zeros.
    matrix: Any = vstack([values, limits], format="csr")
    found = linprog(
        objective,
        A_ub=matrix,
        b_ub=upper,
        bounds=[(0.0, each) for each in most.tolist()],
        method="highs",
    )
    if found.status != 0 or found.x is None or found.ineqlin.marginals is None:
        return None
    duals = -np.asarray(found.ineqlin.marginals[:groups])
    bounding = open_ & (duals > _DUAL)
    if not bounding.any():
        bounding = open_ & (duals >= duals[open_].max())
    return np.asarray(found.x[:-1]).reshape(groups, kinds), float(found.x[-1]), bounding


def _limits(worth: Values, demand: Values, capacity: Values) -> tuple[Any, Values]:
    """The rows of what each group and each resource of a kind allow, and their bounds."""
    groups, kinds = worth.shape
    columns = groups * kinds
    row, column = np.repeat(np.arange(groups), kinds), np.arange(columns)
    parts = [coo_array((np.ones(columns), (row, column)), shape=(groups, columns + 1))]
    bounds = [np.ones(groups)]
    for of_resource, has in _by_resource(demand, capacity):
        entries = np.repeat(of_resource, kinds)
        at = np.tile(np.arange(kinds), groups), column
        parts.append(coo_array((entries, at), shape=(kinds, columns + 1)))
        bounds.append(has)
    return vstack(parts), np.concatenate(bounds)


def _by_resource(demand: Values, capacity: Values) -> Iterator[tuple[Values, Values]]:
    """Demand and capacity of each resource, as parts of the largest kind's: solvers want ones."""
    for resource in range(demand.shape[1]):
        scale = max(float(capacity[:, resource].max()), 1.0)
        if demand[:, resource].any():
            yield demand[:, resource] / scale, capacity[:, resource] / scale
