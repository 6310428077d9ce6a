"""Fairness among namespaces, then by weight among their jobs (Gavel, OSDI 2020, section 4.3).

Water filling: throughputs, as multiples of those with an equal part of all kinds and times the
job's size, rise together, each by its job's weight: of every namespace 1, divided among its jobs
that can still get more by the weights of their classes. So what a job cannot use goes to its own
namespace first, and then to others.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelHierarchicalPolicy(TurnsPolicy):
    """Fair among namespaces, and by weight among the jobs of each."""

    name: ClassVar[str] = "gavel-hierarchical"

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        names = sorted(set(problem.namespaces))
        of = np.array([names.index(each) for each in problem.namespaces])
        own, unit = problem.weights, problem.usual / np.maximum(problem.sizes, 1e-12)

        def lifts(free: NDArray[np.bool_]) -> Values:
            weights = np.zeros(len(of))
            for namespace in range(len(names)):
                members = np.flatnonzero(free & (of == namespace))
                weights[members] = own[members] / own[members].sum()
            return weights * unit

        return TimeShares(problem, of.astype(np.float64), own).fill(lifts)
