"""The shortest time until all jobs end, over kinds of nodes (Gavel, OSDI 2020, section 4.2).

The smallest throughput as a part of the steps left is made as large as possible, by one programme.
Mean completion times suffer: all jobs end late, together.
"""

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import READING_FORECASTS, TurnsPolicy


class GavelMakespanPolicy(TurnsPolicy):
    """Minimises the makespan of the jobs that are there."""

    name = "gavel-makespan"
    traits = READING_FORECASTS

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        steps = problem.steps_left
        return TimeShares(problem, steps).raise_floors(steps).shares
