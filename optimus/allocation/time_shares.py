"""Ideal shares of the time of kinds of nodes, by linear programmes (Gavel, OSDI 2020, section 4).

x_mk is the part of the time that job m runs on kind k, and sum_k T_mk x_mk its throughput. All
programmes have these rows, with x >= 0:

    sum_k x_mk <= 1                                              for each job
    sum_m taken_mkr x_mk <= C_kr                                 for each kind and resource
    sum_m (workers_mr + others_mr) sum_k x_mk <= sum_k C_kr      for each resource

The kind binds a job's workers; its PSs and its other replicas go anywhere. They are taken to lie
beside the workers (taken = workers + others), where a placement on few servers puts them, but not
where they do not fit there, or where there are nodes on which no job's workers run, such as nodes
without GPUs (taken = workers). A programme adds its objective, and floors under the throughputs.

1. Equal jobs are one column for each kind: they have equal shares in some optimum, since an average
   of optima is one.
2. HiGHS solves by interior point without crossover. An optimum is rarely unique, and this one lies
   amid all others; a vertex starves jobs that do not bound the objective.
3. Shares are rounded to 1e-6, so that rounding errors decide no order.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy as sp  # its parts load where they are used
from numpy.typing import NDArray

Values = NDArray[np.float64]

MOST_LEVELS: Final = 32
"""Levels that ``fill`` tells apart; jobs above keep what the last programme gives them."""

_DECIMALS: Final = 6
_DUAL: Final = 1e-6
"""Least dual variable, as a part of the largest, of a job that bounds the objective."""
_SLACK: Final = 1e-7
"""Relative: a level that was reached may be missed by so much later, since the solver rounds."""
_TINY: Final = 1e-300
_SOLVERS: Final = (("ipm", "off"), ("simplex", "on"))
"""Solver and crossover; the second where the first does not reach its tolerance."""


class NoSolutionError(RuntimeError):
    """The solver has failed on a programme that has a solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesProblem:
    """What the ideal shares of one pool's jobs depend on: arrays with a row for each job.

    ``capacity``, ``nodes`` and ``prices`` have a row for each kind."""

    at: float
    speeds: Values
    """Steps per second on each kind; 0: the job cannot run there."""
    workers: Values
    """What its workers take of each resource, all together, on the kind that it runs on."""
    others: Values
    """What its PSs and its other replicas take, on any nodes."""
    capacity: Values
    kinds: tuple[str, ...]
    nodes: Values
    """How many there are of each kind."""
    prices: Values
    """What an hour of a node of each kind costs."""
    weights: Values
    namespaces: tuple[str, ...]
    steps_left: Values
    submitted: Values
    finish_by: Values
    """When the job is to have met its goal; infinite without a deadline."""
    notes: tuple[Mapping[str, float], ...]
    """What the policy noted of each job when it last set the shares."""

    @property
    def sizes(self) -> Values:
        """Each job's dominant share of all nodes."""
        sizes: Values = self._of_whole.max(axis=1, initial=0.0)
        return sizes

    @property
    def equal(self) -> Values:
        """Each job's shares if it had an equal part of all kinds all the time: each kind's part of
        the job's dominant resource."""
        of_whole: Values = self.capacity / np.maximum(self.capacity.sum(axis=0), _TINY)
        equal: Values = of_whole.T[self._of_whole.argmax(axis=1)]
        return equal

    @property
    def _of_whole(self) -> Values:
        whole: Values = np.maximum(self.capacity.sum(axis=0), _TINY)
        return (self.workers + self.others) / whole

    @property
    def usual(self) -> Values:
        """Each job's throughput if it had an equal part of all kinds all the time."""
        return np.asarray((self.speeds * self.equal).sum(axis=1))

    @property
    def best(self) -> Values:
        """Each job's speed on its fastest kind, never 0."""
        return np.asarray(np.maximum(self.speeds.max(axis=1), _TINY))


@dataclass(frozen=True, slots=True)
class Raised:
    """Shares of shape (jobs, kinds), how far the floors were raised, and which jobs bound that:
    these have no more than their floor in any optimum."""

    shares: Values
    height: float
    bounding: NDArray[np.bool_]


class TimeShares:
    """The programmes over the jobs of one pool.

    ``apart``, with a row for each job, is what tells jobs of equal speeds and demands apart."""

    def __init__(self, problem: SharesProblem, *apart: Values) -> None:
        demand, capacity = problem.workers + problem.others, problem.capacity
        fits = (problem.workers[:, None] <= capacity).all(axis=2)
        fits &= (demand <= capacity.sum(axis=0)).all(axis=1)[:, None]
        speeds = np.where(fits, problem.speeds, 0.0)
        beside = np.asarray((demand[:, None] <= capacity).all(axis=2))
        beside &= (speeds > 0).any(axis=0).all()
        taken = problem.workers[:, None] + problem.others[:, None] * beside[:, :, None]
        self._possible = np.flatnonzero((speeds > 0).any(axis=1))
        self._shape = speeds.shape
        told = (each.reshape(len(speeds), -1) for each in apart)
        rows = np.hstack([speeds, problem.workers, problem.others, *told])[self._possible]
        _, first, member, sizes = np.unique(
            rows, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        self._first, self._member = self._possible[first], member.reshape(-1)
        self._sizes, speeds = sizes.astype(np.float64), speeds[self._first]
        self._best = speeds.max(axis=1, initial=0.0)
        self._at_best = np.zeros(self._shape)
        self._at_best[self._possible, speeds.argmax(axis=1)[self._member]] = 1.0
        self._upper = (speeds > 0).astype(np.float64).ravel()
        groups, kinds = speeds.shape
        one_each = sp.sparse.kron(sp.sparse.eye_array(groups), np.ones((1, kinds)))
        throughputs = one_each.multiply((speeds / self._best[:, None]).ravel())
        limits = _limits(taken[self._first], demand[self._first], self._sizes, capacity)
        self._limits = sp.sparse.vstack([one_each, limits[0]], format="csr")
        self._rows = sp.sparse.vstack([self._limits, throughputs], format="csr")
        self._most = np.concatenate([np.ones(groups), limits[1]])

    def raise_floors(self, lift: Values, floors: Values | None = None) -> Raised:
        """Maximises h so that each job's throughput is at least floor + h lift.

        At h = 0 that has to be possible; a job that can run nowhere has no floor."""
        groups, slope = len(self._first), lift[self._first] / self._best
        if not (slope > 0).any():
            return Raised(np.zeros(self._shape), np.inf, np.zeros(self._shape[0], dtype=np.bool_))
        scale = float(slope.max(initial=_TINY))
        rows = sp.sparse.hstack([self._rows, self._column(-slope / scale)])
        low, high = self._bounds(floors)
        objective = np.append(np.zeros(len(self._upper)), 1.0)
        columns = np.append(np.zeros(len(self._upper)), 0.0), np.append(self._upper, np.inf)
        solution = solved(objective, rows, (low, high), columns)
        values, duals = np.array(solution.col_value), np.abs(solution.row_dual)[len(low) - groups :]
        bounding = np.zeros(self._shape[0], dtype=np.bool_)
        bounds = (slope > 0) & (duals > _DUAL * duals.max(initial=_TINY))
        bounding[self._possible] = bounds[self._member]
        return Raised(self._of_jobs(values[:-1]), float(values[-1]) / scale, bounding)

    def fill(self, lifts: Callable[[NDArray[np.bool_]], Values]) -> Values:
        """Raises the throughputs of all jobs together until some of them are bound, then those of
        the others, and so on (water filling): no job can have more unless one that has no more, by
        its lift, has less. ``lifts`` gives the lifts while these jobs are not bound yet.

        A dual variable that is not 0 tells a job that is bound (complementary slackness). One that
        is bound and has none has it in the next level, which then does not rise."""
        free = np.zeros(self._shape[0], dtype=np.bool_)
        free[self._possible] = True
        floors, shares = np.zeros(self._shape[0]), np.zeros(self._shape)
        for _ in range(MOST_LEVELS):
            lift = np.where(free, lifts(free), 0.0)
            if not (lift > 0).any():
                break
            # Where all can have their best kind all the time, there is nothing to raise.
            best = np.where(free[:, None], self._at_best, shares)
            if (self._limits @ best[self._first].ravel() <= self._most).all():
                return best
            raised = self.raise_floors(lift, floors)
            shares, floors = raised.shares, (floors + raised.height * lift) * (1 - _SLACK)
            if not raised.bounding.any():
                break
            free &= ~raised.bounding
        return shares

    def maximise(self, worth: Values, floors: Values | None = None) -> Values:
        """The shares that maximise the sum of worth_mk x_mk, above floors that can be met."""
        if not len(self._first):
            return np.zeros(self._shape)
        columns = np.zeros(len(self._upper)), self._upper
        found = solved(self._scaled(worth), self._rows, self._bounds(floors), columns)
        return self._of_jobs(np.array(found.col_value))

    def maximise_ratio(self, worth: Values, cost: Values, floors: Values) -> Values:
        """The shares that maximise sum worth_mk x_mk / sum cost_mk x_mk, above floors that can be
        met and are not all 0, by one programme (Charnes and Cooper, 1962).

        With y = z x and the cost of y fixed at 1, objective and rows are linear in y and z."""
        if not len(self._first):
            return np.zeros(self._shape)
        low, high = self._bounds(floors)
        rows = sp.sparse.hstack([self._rows, -_either(low, high)])
        price: Any = np.append(self._scaled(cost), 0.0)[None]
        least = np.append(np.where(np.isfinite(low), 0.0, -np.inf), 1.0)
        most = np.append(np.where(np.isfinite(high), 0.0, np.inf), 1.0)
        upper = np.append(np.where(self._upper > 0, np.inf, 0.0), np.inf)
        columns = np.zeros(len(upper)), upper
        objective = np.append(self._scaled(worth), 0.0)
        found = solved(objective, sp.sparse.vstack([rows, price]), (least, most), columns)
        values = np.array(found.col_value)[:-1]
        # Every multiple of an optimum that the rows allow is one: the largest leaves least idle.
        used = self._limits @ values
        return self._of_jobs(values / max(float((used / self._most).max()), _TINY))

    def _scaled(self, worth: Values) -> Values:
        whole: Values = (worth[self._first] * self._sizes[:, None]).ravel()
        return whole / max(float(np.abs(whole).max(initial=0.0)), _TINY)

    def _column(self, of_groups: Values) -> Any:
        """A column beside all rows, 0 but for the rows of the throughputs."""
        return np.append(np.zeros(len(self._most)), of_groups)[:, None]

    def _bounds(self, floors: Values | None) -> tuple[Values, Values]:
        groups = len(self._first)
        low = np.zeros(groups) if floors is None else floors[self._first] / self._best
        least = np.append(np.full(len(self._most), -np.inf), low)
        return least, np.append(self._most, np.full(groups, np.inf))

    def _of_jobs(self, of_groups: Values) -> Values:
        shares = np.zeros(self._shape)
        shares[self._possible] = of_groups.reshape(-1, self._shape[1])[self._member]
        return np.asarray(np.round(np.clip(shares, 0.0, 1.0), _DECIMALS), dtype=np.float64)


def in_order(problem: SharesProblem, order: Iterable[int], *, stops: bool) -> Values:
    """All the time on one kind for each job in this order: on its fastest with enough left. One for
    which none has is left out; if it ``stops``, the first that fits on no kind at all ends it.

    PSs are beside the workers, or on the last kind with enough left, or spread over the last."""
    shares, left = np.zeros(problem.speeds.shape), problem.capacity.copy()
    kinds = range(len(left))
    for job in order:
        speeds, workers, others = problem.speeds[job], problem.workers[job], problem.others[job]
        fastest = sorted(kinds, key=lambda kind: (-speeds[kind], -kind))
        places = ((kind, _beside(kind, workers, others, left)) for kind in fastest)
        kind, after = next((each for each in places if each[1] is not None), (-1, None))
        if after is not None and speeds[kind] > 0:
            shares[job, kind], left = 1.0, after
        elif after is None and stops:
            break
    return shares


def _beside(kind: int, workers: Values, others: Values, left: Values) -> Values | None:
    """What is left of each kind with a job's workers on this one, ``None`` where too little is."""
    if (workers > left[kind]).any():
        return None
    after, last_first = left.copy(), range(len(left))[::-1]
    after[kind] -= workers
    asked, lacking = others > 0, 1.0
    free = np.min(after[:, asked] / others[asked], axis=1, initial=1.0)
    whole = [each for each in (kind, *last_first) if free[each] >= 1]
    for each in whole[:1] or last_first:
        part = min(float(free[each]), lacking)
        after[each] = np.maximum(after[each] - part * others, 0.0)
        lacking -= part
    return after if lacking < _SLACK else None


def _either(low: Values, high: Values) -> Any:
    """The finite one of each row's bounds, as a column."""
    return np.where(np.isfinite(low), low, high)[:, None]


def _limits(taken: Values, demand: Values, sizes: Values, capacity: Values) -> tuple[Any, Values]:
    """The rows of what each resource allows, as parts of all there is, and their bounds.

    ``taken`` has the shape (groups, kinds, resources)."""
    kinds, whole = len(capacity), capacity.sum(axis=0)
    scale = np.maximum(whole, 1.0).astype(np.float64)
    parts = taken * sizes[:, None, None] / scale
    on_kinds = [
        sp.sparse.kron(parts[:, kind].T, np.eye(kinds)[kind : kind + 1]) for kind in range(kinds)
    ]
    apart = (taken < demand[:, None]).any()
    on_all = sp.sparse.kron((demand * sizes[:, None] / scale).T, np.ones((1, kinds)))
    bounds = [(capacity / scale).ravel(), whole / scale]
    if not apart:  # what each kind allows is less
        return sp.sparse.vstack(on_kinds), bounds[0]
    return sp.sparse.vstack([*on_kinds, on_all]), np.concatenate(bounds)


def solved(
    objective: Values, rows: Any, bounds: tuple[Values, Values], columns: tuple[Values, Values]
) -> Any:
    """Maximises the objective within the bounds of the rows and of the columns.

    Raises ``NoSolutionError`` where the solver fails."""
    import highspy  # of the extra `simulator`: a person's commands read policies without it

    matrix, model = sp.sparse.csc_array(rows), highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = objective
    model.col_lower_, model.col_upper_ = columns
    model.row_lower_, model.row_upper_ = bounds
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    for solver, crossover in _SOLVERS:
        highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("solver", solver)
        highs.setOptionValue("run_crossover", crossover)
        highs.passModel(model)
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            return highs.getSolution()
    raise NoSolutionError(highs.modelStatusToString(highs.getModelStatus()))
