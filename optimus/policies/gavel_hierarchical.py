"""Fairness among namespaces, then by weight among their jobs (Gavel, OSDI 2020, section 4.3).

Water filling as in ``gavel_las``, in which each namespace counts 1, divided by weight among those
of its jobs that can still get more: what a job cannot use goes to its own namespace first.
"""

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import TurnsPolicy


class GavelHierarchicalPolicy(TurnsPolicy):
    """Fair among namespaces, and by weight among the jobs of each."""

    name = "gavel-hierarchical"

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        _, of = np.unique(problem.namespaces, return_inverse=True)
        own, fair = problem.weights, problem.fair

        def lifts(free: NDArray[np.bool_]) -> Values:
            of_namespace = np.bincount(of, weights=own * free)
            return np.where(free, fair / np.maximum(of_namespace, 1e-300)[of], 0.0)

        return TimeShares(problem, of.astype(np.float64), own).fill(lifts)
