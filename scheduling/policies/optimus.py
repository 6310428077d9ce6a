"""The allocation of Optimus (EuroSys 2018, section 4.1), with the repairs that its own text calls for.

Every candidate starts at its minimum. Then, again and again, the job whose next task saves the most remaining time
per dominant share of the cluster gets that task, until nothing fits or nothing helps. Apart from the published
rule (module ``optimus_paper``): the gain is per share and not per amount, so that a GPU and a core compare; one PS
and one worker together are a step of their own, since each alone may not help; a task that does not fit ends only
that kind of task of that job; a step that saves less than a small fraction of the remaining time is not taken.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from scheduling.allocation import Allocation, AllocationProblem, Candidate, start_at_minimum
from scheduling.jobs import CountBounds, Counts
from scheduling.models.forecast import JobForecast
from scheduling.resources import Resources

_LEAST_SHARE = 1e-9
"""A task that asks for nothing has no share to divide by; this keeps its gain finite and first."""

_FIRST_TABLE = 8


@dataclass(frozen=True, slots=True)
class OptimusPolicy:
    """Greedy by remaining seconds saved per dominant share of the cluster."""

    name: ClassVar[str] = "optimus"

    least_gain_fraction: float = 0.005
    """A step that saves less than this fraction of the job's remaining time is not taken. Unit: none. Predictions
    are off by several percent, so that smaller gains are noise; stopping at 1 % costs about 1 % of the speed."""

    most_per_role: int = 1024
    """The most PSs, or workers, of one job where its user names no maximum and the room none."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits; the same answer whatever the candidates' order."""
        start = start_at_minimum(problem)
        climbs = [
            _Climb(candidate, problem.capacity, self.least_gain_fraction, self.most_per_role)
            for candidate in start.seated
        ]
        _ascend([climb for climb in climbs if climb.candidate.may_grow], start.room)
        reasons = {climb.candidate.job.uid: climb.reason() for climb in climbs}
        return Allocation({climb.candidate.job.uid: climb.counts for climb in climbs}, {**start.reasons, **reasons})


class _Kind(NamedTuple):
    """One kind of step, and how it is called at given counts."""

    ps: int
    workers: int

    def after(self, counts: Counts) -> Counts:
        return Counts(counts.ps + self.ps, counts.workers + self.workers)

    def named(self, counts: Counts) -> str:
        after = self.after(counts)
        names = [f"PS {after.ps}"] * self.ps + [f"worker {after.workers}"] * self.workers
        return " with ".join(names)


# Ties go to the worker: it is what computes.
_KINDS = (_Kind(0, 1), _Kind(1, 0), _Kind(1, 1))


class _Step(NamedTuple):
    kind: _Kind
    saved_seconds: float
    gain: float


class _SecondsTable:
    """A job's remaining seconds from its minimum upwards, evaluated in blocks that double, not one query at a time."""

    def __init__(self, forecast: JobForecast, minimum: Counts) -> None:
        self._forecast, self._minimum = forecast, minimum
        self._size = Counts(_FIRST_TABLE, _FIRST_TABLE)
        self._seconds = self._evaluate()

    def __getitem__(self, counts: Counts) -> float:
        ps, workers = counts.ps - self._minimum.ps, counts.workers - self._minimum.workers
        while ps >= self._size.ps or workers >= self._size.workers:
            self._size = Counts(
                self._size.ps * (2 if ps >= self._size.ps else 1),
                self._size.workers * (2 if workers >= self._size.workers else 1),
            )
            self._seconds = self._evaluate()
        return self._seconds[ps][workers]

    def _evaluate(self) -> list[list[float]]:
        ps = self._minimum.ps + np.arange(self._size.ps)[:, None]
        workers = self._minimum.workers + np.arange(self._size.workers)[None, :]
        seconds: list[list[float]] = self._forecast.remaining_seconds(ps, workers).tolist()
        return seconds


@dataclass(slots=True)
class _Climb:
    """One job's way up from its minimum."""

    candidate: Candidate
    capacity: Resources
    least_gain_fraction: float
    most_per_role: int
    counts: Counts = field(init=False)
    table: _SecondsTable = field(init=False)
    costs: Mapping[_Kind, Resources] = field(init=False)
    shares: Mapping[_Kind, float] = field(init=False)
    full: dict[_Kind, str] = field(default_factory=dict)
    last: str = ""

    def __post_init__(self) -> None:
        job = self.candidate.job
        self.counts = job.bounds.minimum
        self.table = _SecondsTable(self.candidate.forecast, self.counts)
        self.costs = {kind: job.ps.resources * kind.ps + job.worker.resources * kind.workers for kind in _KINDS}
        self.shares = {kind: max(cost.dominant(self.capacity)[1], _LEAST_SHARE) for kind, cost in self.costs.items()}

    def best(self) -> _Step | None:
        """The step of the largest gain among those worth taking; ``None`` when the job is done growing."""
        return max(self._worthwhile(), key=lambda step: step.gain, default=None)

    def _worthwhile(self) -> Iterator[_Step]:
        now = self.table[self.counts]
        for kind in _KINDS:
            if kind not in self.full and self._allowed(kind):
                saved = _saved(now, self.table[kind.after(self.counts)])
                if saved > self.least_gain_fraction * min(now, 1e300) or saved == np.inf:
                    yield _Step(kind, saved, saved / self.shares[kind])

    def _allowed(self, kind: _Kind) -> bool:
        after = kind.after(self.counts)
        return self.candidate.job.bounds.allow(after) and max(after) <= self.most_per_role

    def take(self, step: _Step) -> None:
        now = self.table[self.counts]
        self.last = f"{step.kind.named(self.counts)} saves {step.saved_seconds:.0f} s of {now:.0f} s"
        self.counts = step.kind.after(self.counts)

    def bar(self, kind: _Kind, room: Resources) -> None:
        """Room only shrinks: a kind of step that does not fit now never will."""
        lacking = ", ".join(self.costs[kind].lacking_in(room))
        self.full[kind] = f"{kind.named(self.counts)} does not fit: too little {lacking} is left"

    def reason(self) -> str:
        """Why these counts and no more."""
        if not self.candidate.may_grow:
            return f"its goal is met: {self.counts} is its minimum"
        return "; ".join(part for part in (self.last, self._why_no_more()) if part)

    def _why_no_more(self) -> str:
        if self.full:
            return next(iter(self.full.values()))
        if not any(self._allowed(kind) for kind in _KINDS):
            return f"{self.counts} is the most its bounds allow: {_bounds_named(self.candidate.job.bounds)}"
        return f"more than {self.counts} would save less than {self.least_gain_fraction:.1%} of its remaining time"


def _saved(now: float, after: float) -> float:
    # Both infinite (no speed at all): nothing is known to be saved.
    return 0.0 if now == after else now - after


def _bounds_named(bounds: CountBounds) -> str:
    return f"max-ps {bounds.max_ps or 'none'}, max-workers {bounds.max_workers or 'none'}"


def _ascend(climbs: list[_Climb], room: Resources) -> None:
    """Give the best step of all jobs, again and again; a job waits in the heap under its best step's gain."""
    heap: list[tuple[float, int, _Step]] = []

    def push(index: int) -> None:
        step = climbs[index].best()
        if step is not None:
            heapq.heappush(heap, (-step.gain, index, step))

    for index in range(len(climbs)):
        push(index)
    while heap:
        _, index, step = heapq.heappop(heap)
        cost = climbs[index].costs[step.kind]
        if cost.fits_in(room):
            room = room - cost
            climbs[index].take(step)
        else:
            climbs[index].bar(step.kind, room)
        push(index)
