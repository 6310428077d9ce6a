"""The largest total throughput over kinds of nodes (Gavel, OSDI 2020, section 4.2).

A throughput counts as a part of the job's best one; the authors' program adds steps per second up,
whatever a step is. Jobs that gain little by any kind starve.
"""

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import TurnsPolicy


class GavelThroughputPolicy(TurnsPolicy):
    """Maximises the sum of all throughputs."""

    name = "gavel-throughput"

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        return TimeShares(problem).maximise(problem.relative)
