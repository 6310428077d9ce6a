"""Least attained service over kinds of nodes (Gavel, OSDI 2020, section 4.1): max-min fairness of
(size / weight) x throughput / throughput with an equal part of all kinds.

A job's size, the scale factor of the paper, is its dominant share of the cluster. What the paper's
one programme leaves open, jobs that do not bound the smallest get by water filling (section 4.3).
"""

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import TurnsPolicy


class GavelLasPolicy(TurnsPolicy):
    """Max-min fair over kinds of nodes; every job at its user's counts, on one kind at a time."""

    name = "gavel-las"

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        fair = problem.fair
        return TimeShares(problem, fair).fill(lambda _: fair)
