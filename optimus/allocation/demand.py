"""What the candidates of a problem ask for, as matrices: one row per job, one column per resource.

Beside the real resources there may be a column for a task of which nodes hold fewer than the sum of
their room: "slots" for such a task. A worker of 8 GPUs finds no slot on nodes with 4 free ones,
however many of those there are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.problem import AllocationProblem, Candidate
from optimus.resources import Resources

Amounts = NDArray[np.int64]
Counted = NDArray[np.int64]

_MOST_SLOT_COLUMNS = 32
"""With more different tasks than this only the sum of the room is looked at, and placement trims
the rest."""

LEAST_SHARE = 1e-9
"""A task that asks for nothing has no share to divide by; this keeps its gain finite and first."""


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """``ps``, ``workers``, ``fixed``: amounts of one PS, one worker and the fixed roles, shape
    (jobs, columns).

    ``capacity`` are the real resources' totals; the columns behind them are slots, ``names`` says
    for what."""

    names: tuple[str, ...]
    ps: Amounts
    workers: Amounts
    fixed: Amounts
    room: Amounts
    capacity: Amounts
    reserve: Amounts

    @classmethod
    def of(cls, problem: AllocationProblem) -> Self:
        """The candidates' demands, in the order of the candidates."""
        jobs = [each.job for each in problem.candidates]
        kinds = {job.ps.resources for job in jobs} | {job.worker.resources for job in jobs}
        fixed = [_fixed(each) for each in problem.candidates]
        names = sorted(
            {name for kind in {*kinds, *fixed, problem.room, problem.capacity} for name in kind}
        )
        rows = {kind: _row(kind, names) for kind in {*kinds, *fixed}}
        slots = _slots(problem, kinds)
        for kind in kinds:
            rows[kind] += [int(kind == slot) for slot in slots]
        ps = [rows[job.ps.resources] for job in jobs]
        workers = [rows[job.worker.resources] for job in jobs]
        # What fixed roles ask for is charged to the real resources alone, even where a task asks
        # for just the same.
        still = [rows[each][: len(names)] + [0] * len(slots) for each in fixed]
        room = _row(problem.room, names) + list(slots.values())
        labels = (*names, *(f"room in one piece for a task of {_named(slot)}" for slot in slots))
        shape = (len(jobs), len(labels))
        return cls(
            labels,
            np.array(ps, dtype=np.int64).reshape(shape),
            np.array(workers, dtype=np.int64).reshape(shape),
            np.array(still, dtype=np.int64).reshape(shape),
            np.array(room, dtype=np.int64),
            np.array(_row(problem.capacity, names), dtype=np.int64),
            np.array(_row(problem.reserve, names) + [0] * len(slots), dtype=np.int64),
        )

    def rows(self, rows: Counted) -> Self:
        """The same of some of the jobs."""
        return replace(self, ps=self.ps[rows], workers=self.workers[rows], fixed=self.fixed[rows])

    def at(self, ps: Counted, workers: Counted) -> Amounts:
        """What the jobs ask for at these counts, fixed roles included."""
        return np.asarray(self.ps * ps[:, None] + self.workers * workers[:, None] + self.fixed)

    def shares(self, amounts: Amounts) -> NDArray[np.float64]:
        """The share of the cluster's capacity of each row's dominant resource; infinite where there
        is no capacity."""
        real = amounts[..., : len(self.capacity)]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(self.capacity > 0, real / self.capacity, np.inf)
        return np.asarray(np.where(real > 0, shares, 0.0).max(axis=-1, initial=0.0))

    def lacking(self, amount: Amounts, room: Amounts) -> str:
        """The names of what there is too little of."""
        return ", ".join(
            name
            for name, asked, left in zip(self.names, amount, room, strict=True)
            if 0 < asked > left
        )


def fits(amounts: Amounts, room: Amounts) -> NDArray[np.bool_]:
    """Which rows have room; what is not asked for does not matter."""
    return np.asarray(((amounts <= room) | (amounts <= 0)).all(axis=-1))


def _fixed(candidate: Candidate) -> Resources:
    parts = [role.spec.resources * role.count for role in candidate.job.fixed]
    return sum(parts[1:], parts[0]) if parts else _NOTHING


_NOTHING = Resources()


def _row(amount: Resources, names: Sequence[str]) -> list[int]:
    return [amount[name] for name in names]


def _slots(problem: AllocationProblem, kinds: set[Resources]) -> dict[Resources, int]:
    """For every task of which the nodes hold fewer than the sum of their room suggests: how many
    they hold."""
    if problem.servers is None or len(kinds) > _MOST_SLOT_COLUMNS:
        return {}
    slots: dict[Resources, int] = {}
    seated = _seated(problem)
    for kind in sorted((kind for kind in kinds if kind), key=_named):
        held = seated[kind] + sum(
            count * _holds(free, kind) for free, count in problem.servers.items()
        )
        if held < _holds(problem.room, kind):
            slots[kind] = held
    return slots


def _seated(problem: AllocationProblem) -> Counter[Resources]:
    """How many tasks of each kind have their place already, so that no slot has to be found for
    them."""
    seated: Counter[Resources] = Counter()
    for each in problem.candidates:
        if each.holds is not None:
            ps, workers = each.holds
            seated[each.job.ps.resources] += ps
            seated[each.job.worker.resources] += workers
    return seated


def _holds(free: Mapping[str, int], task: Resources) -> int:
    return max(0, min(free[name] // amount for name, amount in task.items()))


def _named(task: Resources) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in task.items())
