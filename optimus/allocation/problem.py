"""An allocation problem and its answer (Optimus, section 4.1), and both as arrays for the policies.

``JobHistory`` is what was done to a job before. It holds the counts at which the job's pods found
no place although the nodes had capacity: a quota, a volume or an admission rule can stop pods, and
it is not known which. So 1. what asks for at least as much is excluded, and 2. so is what goes more
than half the way there, in tasks: each failure halves what is left to try. 3. The back-off after
each is twice that after the one before. 4. Nodes that change lift the exclusions; a day ends all.

``Demands`` are matrices: one row per job, one column per resource. Beside the real resources there
may be a column for a task of which the nodes hold fewer than the sum of what is free: "slots" for
such a task. A worker of 8 GPUs finds no slot on nodes with 4 free ones, however many of those there
are. ``remaining_seconds`` answers for many forecasts at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median_low
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.fairness import JobObjective
from optimus.allocation.quota_demands import QuotaDemands
from optimus.jobs import NO_COUNTS, Counts, Job
from optimus.quotas import Quota
from optimus.resources import LARGEST_TASK, LARGEST_TOTAL, NONE, Resources, bounded, total

if TYPE_CHECKING:  # loaded where something is fitted
    from optimus.allocation.deadline import Deadline
    from optimus.models.forecast import Forecast

_MAX_FAILURES: Final = 8
_KEPT_SECONDS: Final = 86_400.0
_LEAST_SECONDS: Final = 60.0
"""Least cost in seconds of a restart whose pods are not placed."""


@dataclass(frozen=True, slots=True)
class PlacementFailure:
    """A job that left ``before`` found no place for ``counts``; ``at`` in seconds since the epoch.

    It had waited ``waited_seconds`` for one. ``lifted``: the nodes have changed since, the counts
    may be tried again."""

    counts: Counts
    before: Counts
    at: float
    waited_seconds: float
    lifted: bool = False

    def excludes(self, counts: Counts) -> bool:
        """Return whether these counts are not to be tried."""
        if self.lifted:
            return False
        if counts.ps >= self.counts.ps and counts.workers >= self.counts.workers:
            return True
        asked, held = sum(self.counts), sum(self.before)
        return asked > held and sum(counts) > (asked + held) / 2


PlacementFailures = tuple[PlacementFailure, ...]


@dataclass(frozen=True, slots=True)
class FailedCounts:
    """Counts at which a job that left ``before`` did not train: its containers ended with an error.

    It is not known which pod had too much to bear, so what lies as far from ``before``, or farther,
    is excluded, in every role of which the number was changed."""

    counts: Counts
    before: Counts
    why: str
    everywhere: bool = False
    """Whether all other counts are excluded, too."""

    def __str__(self) -> str:
        return f"{self.counts}: {self.why}"

    def excludes(self, counts: Counts) -> bool:
        """Return whether these counts are not to be tried."""
        roles = zip(counts, self.counts, self.before, strict=True)
        return self.everywhere or all(_is_as_far(*each) for each in roles)


def _is_as_far(count: int, failed: int, before: int) -> bool:
    if failed == before:
        return True
    return count <= failed if failed < before else count >= failed


Exclusions = tuple[PlacementFailure | FailedCounts, ...]
"""All counts that a job may not go to."""


def recent_failures(
    failures: Sequence[PlacementFailure], at: float, *, lifted: bool = False
) -> PlacementFailures:
    """The newest few of the last day; ``lifted``: the nodes have changed since."""
    young = [each for each in failures if at - each.at < _KEPT_SECONDS][-_MAX_FAILURES:]
    return tuple(replace(each, lifted=lifted or each.lifted) for each in young)


def why_excluded(failures: Sequence[PlacementFailure | FailedCounts], counts: Counts) -> str | None:
    """A sentence on why these counts are not to be tried; ``None`` if they may be."""
    found = next((each for each in reversed(failures) if each.excludes(counts)), None)
    if found is None:
        return None
    if isinstance(found, FailedCounts):
        return f"{counts} are not tried: it failed at {found}"
    return f"{counts} are not tried: its pods were not placed at {found.counts}"


def why_backing_off(failures: Sequence[PlacementFailure], at: float) -> str | None:
    """A sentence on why the job does not grow at an instant; ``None`` if it may."""
    if not failures:
        return None
    last = failures[-1]
    back_off_seconds = max(last.waited_seconds, _LEAST_SECONDS) * 2 ** len(failures)
    passed_seconds = max(at - last.at, 0.0)
    if passed_seconds >= back_off_seconds:
        return None
    where = f"its pods were not placed at {last.counts}, {passed_seconds:.0f} s ago"
    return f"{where}: it does not grow for {back_off_seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job whose counts the policy chooses.

    ``running`` jobs get their minimum before jobs that have never been placed. ``holds`` are counts
    that it is not to get less than, where they are more than its minimum.
    """

    job: Job
    forecast: "Forecast"
    running: bool = False
    holds: Counts | None = None
    objective: JobObjective | None = None
    """What its remaining time costs; without one it costs its seconds."""
    deadline: "Deadline | None" = None
    limited: str = ""
    """Until when the job's bounds are narrower here than its user's, for a sentence."""

    @property
    def may_grow(self) -> bool:
        """A job that has met its goal does not grow, and gives capacity down to its minimum."""
        return not self.forecast.goal_met

    @property
    def least(self) -> Counts:
        """The counts with which the policy begins."""
        return self.holds or self.job.bounds.minimum

    def holding(self, counts: Counts) -> "Candidate":
        """The same job, running at these counts at least."""
        # Thousands of times a plan: ``dataclasses.replace`` takes several times as long.
        known = self.objective, self.deadline, self.limited
        return Candidate(self.job, self.forecast, True, counts, *known)


MOST_MOVES: Final = 64
"""Maximum number of instants of rescales kept of a job."""


def is_forced(before: Counts, target: Counts) -> bool:
    """Return whether a rescale only gives capacity away: a job does that for others."""
    return target.ps <= before.ps and target.workers <= before.workers


def usual_price(measured: Sequence[float], assumed_seconds: float) -> float:
    """Return what a job's next rescale costs, by what its last ones did.

    The lower median of them and of what is assumed without any: one outlier alone would otherwise
    keep the job where it is for ever, and with that its only measurement."""
    return median_low((*measured, assumed_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What was done to one job before this decision, as its profile records it.

    Instants are in seconds since the epoch, UTC."""

    held: str = ""
    """Why nothing may begin for it now; empty where it may."""
    recommends: bool = False
    """It is only recommended what else would be decided."""
    rescales: int = 0
    prices: tuple[float, ...] = ()
    """What its last rescales cost it, in seconds."""
    moves: tuple[float, ...] = ()
    """Instants of its last rescales, oldest first, without forced ones."""
    turns: tuple[float, ...] = ()
    """Instants at which it was paused or moved for a turn, oldest first."""
    last_rescaled_at: float | None = None
    rescaling_to: Counts | None = None
    """Target of a rescale in progress; 0 + 0: it is being suspended for good."""
    profiling_since: float | None = None
    """When the current profiling run reached its counts."""
    profiled: tuple[Counts, ...] = ()
    """Counts of all profiling runs so far, the current one included."""
    paused: bool = False
    """Its policy has paused it, or it was submitted to a policy that starts jobs itself."""
    suspended_at_target: bool = False
    """Suspended by this software as it met its goal, not by its user."""
    completion_overdue: bool = False
    """It was requested to end as its goal is met, and has not ended in time."""
    workload_known: bool = False
    """Earlier jobs of its workload were measured at enough counts for a speed model."""
    measures: bool = False
    """The rescale in progress is a profiling run's."""
    measured_again_at: float = -math.inf
    """When it may be moved to be measured again, after such a move could not begin."""
    placement_failures: PlacementFailures = ()
    """Counts at which its pods found no place although they should have, oldest first."""
    failed_counts: tuple[FailedCounts, ...] = ()
    """Counts at which its containers ended with an error."""
    floor: Counts | None = None
    """The least numbers of PSs and of workers that its pods are known to bear."""
    is_ending: bool = False
    """One of its trainers has Succeeded: the others are about to."""
    lost_seconds: float = math.inf
    """For how long some of its pods have had no node, where some are lost."""
    own_counts: Counts | None = None
    """Counts before it was moved to be measured, while nothing else has moved it since."""
    user_counts: Counts | None = None
    """The counts that its user set last; ``None`` where that is not known."""
    saves_on_stop: bool = False
    """It is trusted to save when it is stopped: nothing is lost without a checkpoint."""
    awaits_checkpoint: bool = False
    """Its wait for a checkpoint timed out: the job is not moved before the next one."""
    measured_at: float | None = None
    """When its last profiling run reached its counts."""
    running_seconds: float = 0.0
    """Lower bound of its running time, by its pods; its log may show less than that."""
    unplaceable: bool = False
    """Its pods have not been placed for long although there was room for them."""

    def moved(self, at: float) -> "JobHistory":
        """The history with one more rescale that was not forced."""
        return replace(self, moves=(*self.moves, at)[-MOST_MOVES:])

    @property
    def excluded(self) -> Exclusions:
        """Return what it may not go to."""
        return (*self.placement_failures, *self.failed_counts)

    def bounded(self, job: Job) -> Job:
        """The job with the bounds within which it may be moved: not below the floor, where its user
        has not set a lower minimum."""
        if self.floor is None:
            return job
        bounds = job.bounds.above(self.floor)
        return job if bounds == job.bounds else replace(job, bounds=bounds)


NO_HISTORY = JobHistory()


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """One decision over all candidates.

    ``available`` is what the candidates may use together: the cluster's capacity less everything
    that is fixed (other pods, jobs that are not managed or not forecast). ``capacity`` is the whole
    cluster's, for shares.
    ``servers`` says how that lies: what is free on a node, and on how many nodes it is just that.
    Where it is not given, a task is taken to fit wherever the sum allows it.
    """

    available: Resources
    capacity: Resources
    candidates: tuple[Candidate, ...]
    servers: Mapping[Resources, int] | None = None
    quotas: tuple[Quota, ...] = ()
    """With what is left for the candidates as their room."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Counts and reasons by job UID; a job without counts does not fit even at its minimum."""

    counts: Mapping[str, Counts] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


Amounts = NDArray[np.int64]
Counted = NDArray[np.int64]

_MAX_SLOT_COLUMNS = 32
"""With more different tasks than this only the sum of what is available is looked at, and placement
trims the rest."""

LEAST_SHARE = 1e-9
"""A task that requests nothing has no share to divide by; this keeps its gain finite and first."""


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """Amounts of one PS, one worker and the fixed roles of each job, shape (jobs, columns).

    ``capacity`` are the real resources' totals; the columns behind them are slots, ``names`` says
    for what."""

    names: tuple[str, ...]
    ps: Amounts
    workers: Amounts
    fixed: Amounts
    available: Amounts
    capacity: Amounts
    quotas: QuotaDemands | None = None
    """What the quotas of namespaces allow; ``None`` where none concerns any of the jobs."""

    @classmethod
    def of(cls, problem: AllocationProblem) -> Self:
        """The candidates' demands, in the order of the candidates."""
        jobs = [each.job for each in problem.candidates]
        # Thousands of jobs have few different requests: rows of a matrix, which the jobs point to.
        index: dict[Resources, int] = {}
        ps = _indices([job.ps.resources for job in jobs], index)
        workers = _indices([job.worker.resources for job in jobs], index)
        placed = dict(zip(index, _placed(problem, ps, workers), strict=True))
        fixed = _indices([_fixed(job) for job in jobs], index)
        amounts = list(index)
        names = sorted(
            {name for each in (*amounts, problem.available, problem.capacity) for name in each}
        )
        matrix = _matrix(amounts, names, LARGEST_TASK)
        slots = _slots(problem, placed, names)
        is_slot = np.array([[each == slot for slot in slots] for each in amounts], dtype=np.int64)
        with_slots = np.hstack([matrix, is_slot.reshape(len(amounts), len(slots))])
        # What fixed roles ask for is charged to the real resources alone, even where a task asks
        # for just the same.
        without_slots = np.hstack([matrix, np.zeros((len(amounts), len(slots)), dtype=np.int64)])
        available, capacity = _matrix([problem.available, problem.capacity], names, LARGEST_TOTAL)
        return cls(
            (*names, *(f"capacity on one node for a task of {_task_name(slot)}" for slot in slots)),
            with_slots[ps],
            with_slots[workers],
            without_slots[fixed],
            np.append(available, np.array(list(slots.values()), dtype=np.int64)),
            capacity,
            QuotaDemands.of([job.uid for job in jobs], problem.quotas) if problem.quotas else None,
        )

    def rows(self, rows: Counted) -> Self:
        """The same of some of the jobs."""
        quotas = None if self.quotas is None else self.quotas.rows(rows)
        ps, workers, fixed = (each[rows] for each in (self.ps, self.workers, self.fixed))
        return replace(self, ps=ps, workers=workers, fixed=fixed, quotas=quotas)

    def at(self, ps: Counted, workers: Counted) -> Amounts:
        """Return what the jobs ask for at these counts, fixed roles included."""
        return np.asarray(self.ps * ps[:, None] + self.workers * workers[:, None] + self.fixed)

    def shares(self, amounts: Amounts) -> NDArray[np.float64]:
        """Each row's dominant share of the capacity; infinite where there is no capacity."""
        shares = np.zeros(amounts.shape[:-1])
        # Column by column: a maximum over the few columns of each row takes ten times as long.
        for column, whole in enumerate(self.capacity.tolist()):
            asked = amounts[..., column]
            share = asked / whole if whole > 0 else np.where(asked > 0, np.inf, 0.0)
            shares = np.maximum(shares, share)
        return shares

    def lacking(self, amount: Amounts, free: Amounts) -> str:
        """The names of what there is too little of."""
        return ", ".join(
            name
            for name, asked, left in zip(self.names, amount, free, strict=True)
            if 0 < asked > left
        )


def as_columns(counts: Sequence[Counts]) -> tuple[Counted, Counted]:
    """PSs and workers as arrays; ``np.array`` of the pairs takes five times as long."""
    both = np.fromiter(chain.from_iterable(counts), dtype=np.int64, count=2 * len(counts))
    return both[::2], both[1::2]


def fits(amounts: Amounts, free: Amounts) -> NDArray[np.bool_]:
    """Return which rows fit in what is free; what is not asked for does not matter."""
    fitting = np.ones(amounts.shape[:-1], dtype=np.bool_)
    for column, left in enumerate(np.maximum(free, 0).tolist()):
        fitting &= amounts[..., column] <= left
    return fitting


def _fixed(job: Job) -> Resources:
    return total(role.spec.resources * role.count for role in job.fixed) if job.fixed else NONE


def _matrix(amounts: Sequence[Resources], names: Sequence[str], most: int) -> Amounts:
    rows = [[bounded(amount[name], most) for name in names] for amount in amounts]
    return np.array(rows, dtype=np.int64).reshape(len(amounts), len(names))


def _indices(amounts: Sequence[Resources], index: dict[Resources, int]) -> Counted:
    """The number of each amount in ``index``, which gets those that it does not have."""
    # Most jobs share the objects of their requests: comparing these costs less than hashing each.
    keys = list(map(id, amounts))
    unique = dict(zip(keys, amounts, strict=True))
    numbers = {key: index.setdefault(amount, len(index)) for key, amount in unique.items()}
    return np.array(list(map(numbers.__getitem__, keys)), dtype=np.int64)


def _placed(problem: AllocationProblem, ps: Counted, workers: Counted) -> list[int]:
    """Return how many tasks of each request the candidates hold, by its index; ``ps`` and
    ``workers`` are the indices of their requests."""
    held = as_columns([each.holds or NO_COUNTS for each in problem.candidates])
    placed = np.zeros(1 + max(ps.max(initial=-1), workers.max(initial=-1)), dtype=np.int64)
    for request, count in zip((ps, workers), held, strict=True):
        np.add.at(placed, request, count)
    return list(placed.tolist())


def _slots(
    problem: AllocationProblem, placed: Mapping[Resources, int], names: Sequence[str]
) -> dict[Resources, int]:
    """The tasks of which the nodes hold fewer than the sum of what is free suggests: how many.

    ``placed`` are all tasks, with how many of each have their place already: they need no slot."""
    if problem.servers is None or len(placed) > _MAX_SLOT_COLUMNS:
        return {}
    free = _matrix(list(problem.servers), names, LARGEST_TOTAL)
    count = np.array(list(problem.servers.values()), dtype=np.int64)
    slots: dict[Resources, int] = {}
    for task in sorted((task for task in placed if task), key=_task_name):
        columns = [names.index(name) for name in task]
        fitting = (free[:, columns] // np.array(list(task.values()))).min(axis=1)
        held = placed[task] + int(np.maximum(fitting, 0) @ count)
        if held < max(0, min(problem.available[name] // amount for name, amount in task.items())):
            slots[task] = held
    return slots


def _task_name(task: Resources) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in task.items())


Seconds = NDArray[np.float64]

_FIRST_SIDE = 24
"""Side of a grid: most jobs get fewer tasks of a role, the look-ahead included."""


class RemainingSeconds(Protocol):
    """Remaining seconds of row ``rows[i]`` at ``ps[i]`` and ``workers[i]`` (arrays broadcast)."""

    def __call__(self, rows: Counted, ps: Counted, workers: Counted, /) -> Seconds:
        """The seconds, in the broadcast shape."""


@runtime_checkable
class Stackable(Protocol):
    """A class of forecasts of one form, which can be evaluated for many jobs at once."""

    @classmethod
    def stacked(cls, forecasts: Sequence[Any]) -> RemainingSeconds:
        """The same answers as ``remaining_seconds`` of each, all of this class, to the last bit."""


def remaining_seconds(
    forecasts: Sequence["Forecast"], ps: Counted, workers: Counted
) -> RemainingSeconds:
    """The forecasts as one; no row is asked below its ``ps`` and ``workers``.

    Where all are of one class that offers ``stacked``, that answers for all rows at once. Otherwise
    each is evaluated on a grid from the job's minimum upwards, which doubles where more is asked
    for: one call of a forecast stands for hundreds of look-ups.
    """
    forms = {type(forecast) for forecast in forecasts}
    if len(forms) == 1:
        form = forms.pop()
        if issubclass(form, Stackable):
            return form.stacked(forecasts)
    return Grids(forecasts, ps, workers)


class Grids:
    """A grid of seconds per forecast, all in one array: that of row i begins at ``_begin[i]``."""

    def __init__(self, forecasts: Sequence["Forecast"], ps: Counted, workers: Counted) -> None:
        self._forecasts = forecasts
        self._ps, self._workers = ps, workers
        self._height = np.full(len(forecasts), _FIRST_SIDE, dtype=np.int64)
        self._width = np.full(len(forecasts), _FIRST_SIDE, dtype=np.int64)
        self._begin = np.zeros(len(forecasts), dtype=np.int64)
        self._seconds = np.empty(len(forecasts) * _FIRST_SIDE**2)
        self._end = 0
        for row in range(len(forecasts)):
            self._evaluate(row)

    def __call__(self, rows: Counted, ps: Counted, workers: Counted, /) -> Seconds:
        """The seconds, in the broadcast shape."""
        down, right = ps - self._ps[rows], workers - self._workers[rows]
        outside = (down >= self._height[rows]) | (right >= self._width[rows])
        if outside.any():
            self._grow(*(each[outside] for each in np.broadcast_arrays(rows, down, right)))
        return np.asarray(self._seconds[self._begin[rows] + down * self._width[rows] + right])

    def _grow(self, rows: Counted, down: Counted, right: Counted) -> None:
        for row in np.unique(rows).tolist():
            here = rows == row
            while self._height[row] <= down[here].max():
                self._height[row] *= 2
            while self._width[row] <= right[here].max():
                self._width[row] *= 2
            self._evaluate(row)

    def _evaluate(self, row: int) -> None:
        height, width = int(self._height[row]), int(self._width[row])
        ps = self._ps[row] + np.arange(height)[:, None]
        workers = self._workers[row] + np.arange(width)[None, :]
        end = self._end + height * width
        if end > len(self._seconds):
            self._seconds = np.concatenate([self._seconds, np.empty(max(end, len(self._seconds)))])
        self._seconds[self._end : end] = self._forecasts[row].remaining_seconds(ps, workers).ravel()
        self._begin[row], self._end = self._end, end
