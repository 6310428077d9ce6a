"""The largest total throughput over kinds of nodes (Gavel, OSDI 2020, section 4.2).

Jobs that make little of any kind do not run: it starves them.
"""

from dataclasses import dataclass
from typing import ClassVar

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import Notes, TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelThroughputPolicy(TurnsPolicy):
    """Maximises the sum of all throughputs."""

    name: ClassVar[str] = "gavel-throughput"

    normalised: bool = True
    """Whether a throughput counts as a part of the job's best. Without it, as in the authors'
    program, steps per second are added up, whatever a step is: jobs with large batches starve."""

    def shares(self, problem: SharesProblem) -> tuple[Values, Notes]:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        worth = problem.speeds / problem.best[:, None] if self.normalised else problem.speeds
        return TimeShares(problem).maximise(worth), [{}] * len(worth)
