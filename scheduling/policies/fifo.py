"""First in, first out: every job keeps the counts its user asked for, the oldest first while there is room."""

from dataclasses import dataclass
from typing import ClassVar

from scheduling.allocation import Allocation, AllocationProblem
from scheduling.jobs import Counts


@dataclass(frozen=True, slots=True)
class FifoPolicy:
    """The user's own counts in order of arrival; forecasts are not looked at."""

    name: ClassVar[str] = "fifo"

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """The jobs' own counts, clamped to their bounds; a job that does not fit gets no entry."""
        counts: dict[str, Counts] = {}
        reasons: dict[str, str] = {}
        room = problem.room
        for candidate in sorted(problem.candidates, key=lambda each: (each.job.created_at, each.job.uid)):
            job = candidate.job
            wanted = job.bounds.clamp(job.counts)
            demand = job.demand(wanted)
            if demand.fits_in(room):
                room, counts[job.uid] = room - demand, wanted
                reasons[job.uid] = f"{wanted} are the counts its user asked for"
            else:
                lacking = ", ".join(demand.lacking_in(room))
                reasons[job.uid] = f"{wanted} do not fit behind the jobs that came before: too little {lacking} is left"
        return Allocation(counts, reasons)
