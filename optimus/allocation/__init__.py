"""Allocation: how many PSs and workers each job gets (Optimus, section 4.1).

A policy sees the free capacity in sum and how it is spread, but no nodes; placement decides where.
``problem`` is the question, the answer and both as arrays; ``greedy`` is the growth that the
policies share.
"""

from optimus.allocation.problem import (
    NO_HISTORY,
    Allocation,
    AllocationPolicy,
    AllocationProblem,
    Candidate,
    FailedCounts,
    JobHistory,
    PlacementFailure,
)

__all__ = [
    "NO_HISTORY",
    "Allocation",
    "AllocationPolicy",
    "AllocationProblem",
    "Candidate",
    "FailedCounts",
    "JobHistory",
    "PlacementFailure",
]
