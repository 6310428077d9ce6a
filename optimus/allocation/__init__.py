"""Allocation: how many PSs and workers each job gets (Optimus, section 4.1).

A policy sees the free capacity in sum and how it is spread, but no nodes; placement decides where.
``problem`` is the question of one pool, the answer and both as arrays; ``policy`` the question of a
whole cluster and its answer; ``greedy`` is the growth that the policies share.
"""

from optimus.allocation.policy import (
    NO_MEMORY,
    ClusterAllocation,
    ClusterProblem,
    Grant,
    Policy,
    PolicyMemory,
    PolicyTraits,
    per_pool,
)
from optimus.allocation.problem import (
    NO_HISTORY,
    Allocation,
    AllocationProblem,
    Candidate,
    FailedCounts,
    JobHistory,
    PlacementFailure,
)

__all__ = [
    "NO_HISTORY",
    "NO_MEMORY",
    "Allocation",
    "AllocationProblem",
    "Candidate",
    "ClusterAllocation",
    "ClusterProblem",
    "FailedCounts",
    "Grant",
    "JobHistory",
    "PlacementFailure",
    "Policy",
    "PolicyMemory",
    "PolicyTraits",
    "per_pool",
]
