"""The allocation policies by name, one module each, named as in the literature."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from optimus.allocation import ClusterPolicy, PoolPolicy
from optimus.policies.drf import DrfPolicy
from optimus.policies.fifo import FifoPolicy
from optimus.policies.gavel_las import GavelLasPolicy
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
"""Policies that choose the counts of one pool: name -> how to make it with its default settings."""

CLUSTER_POLICIES: Mapping[str, Callable[[], ClusterPolicy]] = MappingProxyType(
    {GavelLasPolicy.name: GavelLasPolicy}
)
"""Policies that are asked for the whole cluster, likewise."""

ALL_POLICIES: Mapping[str, Callable[[], PoolPolicy | ClusterPolicy]] = MappingProxyType(
    {**POLICIES, **CLUSTER_POLICIES}
)
"""Value of ``--policy`` -> how to make it. What a policy needs of whoever runs it, and the
placement that goes with it, are its ``traits``."""
