"""The allocation policies, one module each, named as in the literature."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from optimus.allocation.options import Options, with_options
from optimus.allocation.policy import Policy, per_pool
from optimus.policies.drf import DrfPolicy
from optimus.policies.fifo import FifoPolicy
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy
from optimus.policies.srtf import SrtfPolicy
from optimus.policies.tetris import TetrisPolicy

Make = Callable[[Options], Policy]
"""How a policy is made of its options; raises ``ValueError`` with a sentence for users."""


def _of_pools(kind: type[Any]) -> Make:
    return lambda options: per_pool(with_options(kind, options))


POLICIES: Final[Mapping[str, Make]] = MappingProxyType(
    {
        OptimusPolicy.name: _of_pools(OptimusPolicy),
        OptimusPaperPolicy.name: _of_pools(OptimusPaperPolicy),
        DrfPolicy.name: _of_pools(DrfPolicy),
        TetrisPolicy.name: _of_pools(TetrisPolicy),
        SrtfPolicy.name: _of_pools(SrtfPolicy),
        FifoPolicy.name: _of_pools(FifoPolicy),
        GavelLasPolicy.name: lambda options: with_options(GavelLasPolicy, options),
    }
)
"""Value of ``--policy`` -> how to make it. What a policy needs of whoever runs it, and the
placement that goes with it, are its ``traits``."""


def policy_named(name: str, options: Options = MappingProxyType({})) -> Policy:
    """A policy by its name, with its usual options but for these.

    Raises:
        ValueError: an option that it does not have, or a value that it does not take.
    """
    return POLICIES[name](options)
