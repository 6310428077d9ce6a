"""Shortest job first, over kinds of nodes (Gavel, OSDI 2020, section 4.2).

The paper's objective, the least remaining time of any job, leaves open what all others get; this is
its repetition. A job for which no kind has enough left is left out.
"""

from dataclasses import dataclass

import numpy as np

from optimus.allocation.time_shares import SharesProblem, Values
from optimus.allocation.turns import READING_FORECASTS, TurnsPolicy, in_order


@dataclass(frozen=True, slots=True)
class GavelSjfPolicy(TurnsPolicy):
    """Runs what has least time left on its fastest kind. Long jobs may wait for ever."""

    name = "gavel-sjf"
    traits = READING_FORECASTS

    reset_rounds: int = 0
    """Least rounds between two settings of the shares. Default: in each round."""

    def shares(self, problem: SharesProblem) -> Values:
        """All the time or none, of shape (jobs, kinds)."""
        left = problem.steps_left / problem.best
        order = np.lexsort((problem.submitted, left)).tolist()
        return in_order(problem, order, stops=False)
