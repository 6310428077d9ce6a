"""The question that an allocation policy answers: how many PSs and workers does each job get?

Optimus, section 4.1. No nodes in it: a policy sees how much room there is in all, placement decides
where. Module
``problem`` is the question and the answer; ``start``, ``climbing``, ``in_turn`` and ``seconds`` are
what the policies share; ``setbacks`` is what follows from counts that found no place.
"""

from optimus.allocation.placement_failures import PlacementFailure
from optimus.allocation.problem import (
    NO_HISTORY,
    Allocation,
    AllocationPolicy,
    AllocationProblem,
    Candidate,
    JobHistory,
)

__all__ = [
    "NO_HISTORY",
    "Allocation",
    "AllocationPolicy",
    "AllocationProblem",
    "Candidate",
    "JobHistory",
    "PlacementFailure",
]
