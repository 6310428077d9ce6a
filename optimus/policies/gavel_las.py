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
from optimus.allocation.turns import Notes, TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelLasPolicy(TurnsPolicy):
    """Max-min fair over kinds of nodes; every job at its user's counts, on one kind at a time."""

    name: ClassVar[str] = "gavel-las"

    tells_kinds: bool = True
    """Whether throughputs differ between kinds; without it this is the heterogeneity-agnostic
    policy with which the paper compares itself, and a job's share is spread evenly over kinds."""

    levels: bool = True
    """Whether jobs that do not bound the smallest are raised further; without it the shares are
    those of one programme, as published."""

    def shares(self, problem: SharesProblem) -> tuple[Values, Notes]:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        notes: Notes = [{}] * len(problem.weights)
        if self.tells_kinds:
            return self._fair(problem), notes
        return problem.spread(self._fair(problem.without_kinds())), notes

    def _fair(self, problem: SharesProblem) -> Values:
        lift = problem.weights * problem.usual / np.maximum(problem.sizes, 1e-12)
        # Rounded, so that jobs that are equal but for the last bit are one column.
        lift = np.round(lift / max(lift.max(), 1e-12), 12)
        programmes = TimeShares(problem, lift)
        return (
            programmes.fill(lambda _: lift) if self.levels else programmes.raise_floors(lift).shares
        )
