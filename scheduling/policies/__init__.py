"""The rules that allocate, one module each, named as in the literature; this is the table of their names."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scheduling.allocation import AllocationPolicy
from scheduling.policies.drf import DrfPolicy
from scheduling.policies.fifo import FifoPolicy
from scheduling.policies.optimus import OptimusPolicy
from scheduling.policies.optimus_paper import OptimusPaperPolicy

POLICIES: Mapping[str, Callable[[], AllocationPolicy]] = MappingProxyType(
    {
        OptimusPolicy.name: OptimusPolicy,
        OptimusPaperPolicy.name: OptimusPaperPolicy,
        DrfPolicy.name: DrfPolicy,
        FifoPolicy.name: FifoPolicy,
    }
)
"""Value of ``--policy`` -> how to make that policy with its default settings."""
