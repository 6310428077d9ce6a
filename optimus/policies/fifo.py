"""First in, first out: the user's own counts, the oldest job first while it fits."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import AdmissionByQuota
from optimus.allocation.problem import Demands, fits
from optimus.jobs import Counts


@dataclass(frozen=True, slots=True)
class FifoPolicy:
    """The user's own counts in order of arrival; forecasts are not used."""

    name: ClassVar[str] = "fifo"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="spread", reads_forecasts=False, resizes=False
    )
    """The paper names no placement: spread."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """The jobs' own counts, clamped to their bounds; a job that does not fit gets no entry."""
        counts: dict[str, Counts] = {}
        reasons: dict[str, str] = {}
        demands = Demands.of(problem)
        jobs = [each.job for each in problem.candidates]
        wanted = [job.bounds.clamp(job.counts) for job in jobs]
        pairs = np.array(wanted, dtype=np.int64).reshape(-1, 2)
        quotas = AdmissionByQuota.of(demands, wanted)
        asked, free = demands.at(pairs[:, 0], pairs[:, 1]), demands.available
        for row in sorted(range(len(jobs)), key=lambda row: (jobs[row].created_at, jobs[row].uid)):
            uid = jobs[row].uid
            beyond = None if quotas is None else quotas.why_not(row, wanted[row])
            if beyond is None and fits(asked[row], free):
                free, counts[uid] = free - asked[row], wanted[row]
                if quotas is not None:
                    quotas.admit(row)
                reasons[uid] = f"{wanted[row]} are the counts its user asked for"
            else:
                lacking = f"too little {demands.lacking(asked[row], free)} is left"
                reasons[uid] = f"{wanted[row]} do not fit after earlier jobs: {beyond or lacking}"
        return Allocation(counts, reasons)
