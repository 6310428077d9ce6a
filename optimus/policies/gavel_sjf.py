"""Shortest job first, over kinds of nodes (Gavel, OSDI 2020, section 4.2).

In ascending order of the time that a job has left on its fastest kind, each job has its fastest
kind with enough left; one for which none has is left out. The paper's objective, the least
remaining time of any job, leaves open what all others get; this is its repetition.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation.policy import PolicyTraits
from optimus.allocation.time_shares import SharesProblem, Values, in_order
from optimus.allocation.turns import READING_FORECASTS, TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelSjfPolicy(TurnsPolicy):
    """Runs what has least time left on its fastest kind. Long jobs may wait for ever."""

    name: ClassVar[str] = "gavel-sjf"
    traits: ClassVar[PolicyTraits] = READING_FORECASTS

    reset_rounds: int = 0
    """Least rounds between two settings of the shares. Default: in each round."""

    def shares(self, problem: SharesProblem) -> Values:
        """All the time or none, of shape (jobs, kinds)."""
        left = problem.steps_left / problem.best
        order = np.lexsort((problem.submitted, left)).tolist()
        return in_order(problem, order, stops=False)
