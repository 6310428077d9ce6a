"""Ideal shares of the time of kinds of nodes, by linear programmes (Gavel, OSDI 2020, section 4).

x_mk is the part of the time that job m runs on kind k, and sum_k T_mk x_mk its throughput. All
programmes have these rows, with x >= 0, and add their objective, and floors under the throughputs:

    sum_k x_mk <= 1                                              for each job
    sum_m taken_mkr x_mk <= C_kr                                 for each kind and resource
    sum_m (workers_mr + others_mr) sum_k x_mk <= sum_k C_kr      for each resource

The kind binds a job's workers. Its other replicas are taken to lie beside them (taken = workers +
others), but not where they do not fit there, or where there are nodes on which no job's workers
run (taken = workers). Equal jobs are one column for each kind: they have equal shares in some
optimum. HiGHS solves by interior point without crossover: an optimum is rarely unique, and this one
lies amid all others, while a vertex starves jobs that do not bound the objective.
"""

from collections.abc import Callable, Mapping
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
        return np.asarray(self._of_whole.max(axis=1, initial=0.0))

    @property
    def equal(self) -> Values:
        """Each job's shares if it had an equal part of all kinds all the time: each kind's part of
        the job's dominant resource."""
        of_whole: Values = self.capacity / np.maximum(self.capacity.sum(axis=0), _TINY)
        return np.asarray(of_whole.T[self._of_whole.argmax(axis=1)])

    @property
    def _of_whole(self) -> Values:
        whole: Values = np.maximum(self.capacity.sum(axis=0), _TINY)
        return (self.workers + self.others) / whole

    @property
    def fair(self) -> Values:
        """What each job's throughput rises by in max-min fairness: by its weight and its usual one,
        divided by its size; rounded, so that jobs that are equal but for the last bit are one
        column."""
        lift = self.weights * self.usual / np.maximum(self.sizes, 1e-12)
        return np.asarray(np.round(lift / max(lift.max(), 1e-12), 12))

    @property
    def relative(self) -> Values:
        """Each job's speeds as parts of its best one."""
        return self.speeds / self.best[:, None]

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
        limits, most = _limits(taken[self._first], demand[self._first], self._sizes, capacity)
        self._most = np.concatenate([np.ones(groups), most])
        self._rows = sp.sparse.csr_array(sp.sparse.vstack([one_each, limits, throughputs]))
        self._limits = self._rows[: len(self._most)]

    def raise_floors(self, lift: Values, floors: Values | float = 0.0) -> Raised:
        """Maximises h so that each job's throughput is at least floor + h lift.

        At h = 0 that has to be possible; a job that can run nowhere has no floor."""
        slope, bounding = lift[self._first] / self._best, np.zeros(self._shape[0], dtype=np.bool_)
        if not (slope > 0).any():
            return Raised(np.zeros(self._shape), np.inf, bounding)
        scale, limits = float(slope.max()), len(self._most)
        lifted: Any = np.append(np.zeros(limits), -slope / scale)[:, None]
        rows = sp.sparse.hstack([self._rows, lifted])
        upper = np.append(self._upper, np.inf)
        objective = np.append(np.zeros(len(self._upper)), 1.0)
        solution = solved(objective, rows, self._bounds(floors), upper)
        values, duals = np.array(solution.col_value), np.abs(solution.row_dual)[limits:]
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

    def maximise(self, worth: Values) -> Values:
        """The shares that maximise the sum of worth_mk x_mk."""
        if not len(self._first):
            return np.zeros(self._shape)
        bounds = np.full(len(self._most), -np.inf), self._most
        found = solved(self._scaled(worth), self._limits, bounds, self._upper)
        return self._of_jobs(np.array(found.col_value))

    def maximise_ratio(self, worth: Values, cost: Values, floors: Values) -> Values:
        """The shares that maximise sum worth_mk x_mk / sum cost_mk x_mk, above floors that can be
        met and are not all 0, by one programme (Charnes and Cooper, 1962).

        With y = z x and the cost of y fixed at 1, objective and rows are linear in y and z."""
        if not len(self._first):
            return np.zeros(self._shape)
        price = sp.sparse.csr_array(np.append(self._scaled(cost), 0.0)[None])
        low, high = self._bounds(floors)
        bound = np.where(np.isfinite(low), low, high)  # the finite one
        scaled: Any = -bound[:, None]
        rows = sp.sparse.vstack([sp.sparse.hstack([self._rows, scaled]), price])
        bounds = np.append(low - bound, 1.0), np.append(high - bound, 1.0)
        upper = np.append(np.where(self._upper > 0, np.inf, 0.0), np.inf)
        found = solved(np.append(self._scaled(worth), 0.0), rows, bounds, upper)
        values = np.array(found.col_value)[:-1]
        # Every multiple of an optimum that the rows allow is one: the largest leaves least idle.
        used = self._limits @ values
        return self._of_jobs(values / max(float((used / self._most).max()), _TINY))

    def _scaled(self, worth: Values) -> Values:
        whole: Values = (worth[self._first] * self._sizes[:, None]).ravel()
        return whole / max(float(np.abs(whole).max(initial=0.0)), _TINY)

    def _bounds(self, floors: Values | float) -> tuple[Values, Values]:
        low = np.broadcast_to(floors, self._shape[:1])[self._first] / self._best
        least = np.append(np.full(len(self._most), -np.inf), low)
        return least, np.append(self._most, np.full(len(low), np.inf))

    def _of_jobs(self, of_groups: Values) -> Values:
        shares = np.zeros(self._shape)
        shares[self._possible] = of_groups.reshape(-1, self._shape[1])[self._member]
        return np.asarray(np.round(np.clip(shares, 0.0, 1.0), _DECIMALS), dtype=np.float64)


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


def solved(objective: Values, rows: Any, bounds: tuple[Values, Values], upper: Values) -> Any:
    """Maximises the objective over columns from 0 to ``upper`` within the bounds of the rows.

    Raises ``RuntimeError`` where the solver fails on a programme that has a solution."""
    import highspy  # of the extra `simulator`: a person's commands read policies without it

    matrix, model = sp.sparse.csc_array(rows), highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = objective
    model.col_lower_, model.col_upper_ = np.zeros(len(upper)), upper
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
    raise RuntimeError(highs.modelStatusToString(highs.getModelStatus()))
