"""The allocation policies by name, one module each, named as in the literature."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from optimus.allocation import PoolPolicy
from optimus.policies.drf import DrfPolicy
from optimus.policies.fifo import FifoPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy
from optimus.policies.srtf import SrtfPolicy
from optimus.policies.tetris import TetrisPolicy

POLICIES: Mapping[str, Callable[[], PoolPolicy]] = MappingProxyType(
    {
        OptimusPolicy.name: OptimusPolicy,
        OptimusPaperPolicy.name: OptimusPaperPolicy,
        DrfPolicy.name: DrfPolicy,
        TetrisPolicy.name: TetrisPolicy,
        SrtfPolicy.name: SrtfPolicy,
        FifoPolicy.name: FifoPolicy,
    }
)
"""Value of ``--policy`` -> how to make that policy with its default settings. What a policy needs
of whoever runs it, and the placement that goes with it, are its ``traits``."""
