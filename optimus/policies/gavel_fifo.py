"""First come, first served, over kinds of nodes (Gavel, OSDI 2020, section 4.2).

The first job that fits on no kind ends it: nobody overtakes. One that fits only where it makes no
progress is left out, and the next ones go on, as in the authors' program.
"""

from dataclasses import dataclass

import numpy as np

from optimus.allocation.time_shares import SharesProblem, Values
from optimus.allocation.turns import TurnsPolicy, in_order


@dataclass(frozen=True, slots=True)
class GavelFifoPolicy(TurnsPolicy):
    """Runs each job, by arrival, on its fastest kind with enough left."""

    name = "gavel-fifo"
    fills = False

    reset_rounds: int = 0
    """Least rounds between two settings of the shares. Default: in each round."""

    def shares(self, problem: SharesProblem) -> Values:
        """All the time or none, of shape (jobs, kinds)."""
        order = np.argsort(problem.submitted, kind="stable").tolist()
        return in_order(problem, order, stops=True)
