"""The allocation of Optimus exactly as published (EuroSys 2018, section 4.1, equation 9).

Every job starts at its minimum (1 PS + 1 worker). Then the job of the largest gain gets the task of its larger
term: remaining seconds saved per *amount* (cores, GiB, GPUs) of the resource that dominates the task. Ties go to the
PS, then to the job that arrived first. The loop ends when a task does not fit ("some resource in the cluster is used
up") or when no gain is positive. Known to be worse than module ``optimus``: kept for comparison.
"""

import heapq
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from scheduling.allocation import Allocation, AllocationProblem, Candidate, start_at_minimum
from scheduling.jobs import Counts
from scheduling.resources import CPU, MEMORY, Resources

_UNITS = {CPU: 1000.0, MEMORY: float(2**30)}


@dataclass(frozen=True, slots=True)
class OptimusPaperPolicy:
    """Greedy by remaining seconds saved per amount of the dominant resource."""

    name: ClassVar[str] = "optimus-paper"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        start = start_at_minimum(problem)
        seats = [_Seat(candidate, candidate.job.bounds.minimum) for candidate in start.seated]
        stop = _ascend(sorted(seats, key=_by_arrival), start.room, problem.capacity)
        reasons = {seat.candidate.job.uid: f"gain per amount of its dominant resource; {stop}" for seat in seats}
        return Allocation({seat.candidate.job.uid: seat.counts for seat in seats}, {**start.reasons, **reasons})


@dataclass(slots=True)
class _Seat:
    candidate: Candidate
    counts: Counts


class _Step(NamedTuple):
    gain: float
    counts: Counts
    cost: Resources


def _by_arrival(seat: _Seat) -> tuple[float, str]:
    return seat.candidate.job.created_at, seat.candidate.job.uid


def _ascend(seats: list[_Seat], room: Resources, capacity: Resources) -> str:
    """Equation 9, again and again; answers why it ended."""
    heap: list[tuple[float, int, _Step]] = []

    def push(index: int) -> None:
        step = _best(seats[index], capacity)
        if step is not None and step.gain > 0:
            heapq.heappush(heap, (-step.gain, index, step))

    for index, seat in enumerate(seats):
        if seat.candidate.may_grow:
            push(index)
    while heap:
        _, index, step = heapq.heappop(heap)
        if not step.cost.fits_in(room):
            return f"ended when {', '.join(step.cost.lacking_in(room))} was used up"
        room = room - step.cost
        seats[index].counts = step.counts
        push(index)
    return "ended when no task saved time"


def _best(seat: _Seat, capacity: Resources) -> _Step | None:
    """The larger term of equation 9 within the job's bounds."""
    job, counts = seat.candidate.job, seat.counts
    now = seat.candidate.forecast.at(counts)
    steps = []
    for after, cost in (
        (Counts(counts.ps + 1, counts.workers), job.ps.resources),
        (Counts(counts.ps, counts.workers + 1), job.worker.resources),
    ):
        if job.bounds.allow(after):
            steps.append(_Step((now - seat.candidate.forecast.at(after)) / amount(cost, capacity), after, cost))
    return max(steps, key=lambda step: step.gain, default=None)


def amount(cost: Resources, capacity: Resources) -> float:
    """How much of its dominant resource a task takes: cores, GiB, or units of anything else.

    Of equal shares the first by name is the dominant one, CPU before memory, as in the authors' program: the paper
    names no rule, and the choice moves the result.
    """
    shares = {name: Resources({name: cost[name]}).dominant(capacity)[1] for name in cost}
    if not shares:
        return 1.0  # A task that asks for nothing: the paper knows no such task.
    name = min(shares, key=lambda each: (-shares[each], each))
    return cost[name] / _UNITS.get(name, 1.0)
