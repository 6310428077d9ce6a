"""First come, first served, over kinds of nodes (Gavel, OSDI 2020, section 4.2).

In order of arrival, each job has its fastest kind of nodes with enough left. The first that fits on
none ends it: nobody overtakes. A job that fits only where it makes no progress is left out, and the
next ones go on, as in the authors' program. Shares are set anew when jobs come or go.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation.time_shares import SharesProblem, Values, in_order
from optimus.allocation.turns import TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelFifoPolicy(TurnsPolicy):
    """Runs each job, by arrival, on its fastest kind with enough left."""

    name: ClassVar[str] = "gavel-fifo"
    fills: ClassVar[bool] = False

    reset_rounds: int = 0
    """Least rounds between two settings of the shares. Default: in each round."""

    def shares(self, problem: SharesProblem) -> Values:
        """All the time or none, of shape (jobs, kinds)."""
        order = np.argsort(problem.submitted, kind="stable").tolist()
        return in_order(problem, order, stops=True)
