"""The allocation policies by name, one module each, named as in the literature."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from optimus.allocation import AllocationPolicy
from optimus.policies.drf import DrfPolicy
from optimus.policies.fifo import FifoPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy
from optimus.policies.srtf import SrtfPolicy
from optimus.policies.tetris import TetrisPolicy

POLICIES: Mapping[str, Callable[[], AllocationPolicy]] = MappingProxyType(
    {
        OptimusPolicy.name: OptimusPolicy,
        OptimusPaperPolicy.name: OptimusPaperPolicy,
        DrfPolicy.name: DrfPolicy,
        TetrisPolicy.name: TetrisPolicy,
        SrtfPolicy.name: SrtfPolicy,
        FifoPolicy.name: FifoPolicy,
    }
)
"""Value of ``--policy`` -> how to make that policy with its default settings."""

PLACED_BY: Mapping[str, str] = MappingProxyType(
    {
        OptimusPolicy.name: "theorem1",
        OptimusPaperPolicy.name: "theorem1",
        DrfPolicy.name: "spread",
        TetrisPolicy.name: "pack",
        SrtfPolicy.name: "pack",
        FifoPolicy.name: "spread",
    }
)
"""Policy -> the placement that goes with it in the paper's evaluation (section 6.1), where no other
is asked for: DRF under the default of Kubernetes, which spreads; Tetris packs. ``srtf`` and
``fifo`` name none: the one packs, the other spreads."""
