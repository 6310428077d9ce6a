"""Least attained service over kinds of nodes (Gavel, OSDI 2020, section 4.1): max-min fairness of
throughput.

The smallest of (size / weight) x throughput / throughput with an equal part of all kinds is made as
large as possible. A job's size, the scale factor of the paper, is its dominant share of the
cluster. The paper's one programme leaves open what jobs get that do not bound the smallest; here it
is raised for these, too, and so on (water filling, section 4.3).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelLasPolicy(TurnsPolicy):
    """Max-min fair over kinds of nodes; every job at its user's counts, on one kind at a time."""

    name: ClassVar[str] = "gavel-las"

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        lift = problem.weights * problem.usual / np.maximum(problem.sizes, 1e-12)
        # Rounded, so that jobs that are equal but for the last bit are one column.
        lift = np.round(lift / max(lift.max(), 1e-12), 12)
        return TimeShares(problem, lift).fill(lambda _: lift)
