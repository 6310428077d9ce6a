"""The allocation policies, one module each, named as in the literature."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from optimus.allocation.options import Options, with_options
from optimus.allocation.policy import Policy, per_pool
from optimus.allocation.scorer import LearnedScorer
from optimus.allocation.turns import TurnsPolicy
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.drf import DrfPolicy
from optimus.policies.fifo import FifoPolicy
from optimus.policies.gavel_cost import GavelCostPolicy
from optimus.policies.gavel_fifo import GavelFifoPolicy
from optimus.policies.gavel_ftf import GavelFtfPolicy
from optimus.policies.gavel_hierarchical import GavelHierarchicalPolicy
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.policies.gavel_makespan import GavelMakespanPolicy
from optimus.policies.gavel_sjf import GavelSjfPolicy
from optimus.policies.gavel_throughput import GavelThroughputPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy
from optimus.policies.smd import SmdPolicy
from optimus.policies.srtf import SrtfPolicy
from optimus.policies.tetris import TetrisPolicy

Make = Callable[[Options], Policy]
"""How a policy is made of its options; raises ``ValueError`` with a sentence for users."""


def _of_pools(kind: type[Any]) -> Make:
    return lambda options: per_pool(with_options(kind, options))


@cache
def _learned_on_testbed() -> LearnedScorer:
    """The weights that come with the package."""
    with files("optimus.policies").joinpath("dl2_testbed.npz").open("rb") as file:
        return LearnedScorer.load(file)


def _dl2(options: Options) -> Policy:
    if options:
        raise ValueError(f"there is no option {min(options)!r}: it has none")
    return per_pool(Dl2Policy(_learned_on_testbed(), OptimusPolicy()))


_OF_TURNS: Final[tuple[type[TurnsPolicy], ...]] = (
    GavelLasPolicy,
    GavelFtfPolicy,
    GavelMakespanPolicy,
    GavelFifoPolicy,
    GavelSjfPolicy,
    GavelThroughputPolicy,
    GavelCostPolicy,
    GavelHierarchicalPolicy,
)

POLICIES: Final[Mapping[str, Make]] = MappingProxyType(
    {
        OptimusPolicy.name: _of_pools(OptimusPolicy),
        OptimusPaperPolicy.name: _of_pools(OptimusPaperPolicy),
        DrfPolicy.name: _of_pools(DrfPolicy),
        TetrisPolicy.name: _of_pools(TetrisPolicy),
        SrtfPolicy.name: _of_pools(SrtfPolicy),
        FifoPolicy.name: _of_pools(FifoPolicy),
        Dl2Policy.name: _dl2,
        SmdPolicy.name: partial(with_options, SmdPolicy),
        **{kind.name: partial(with_options, kind) for kind in _OF_TURNS},
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


def policy_options(value: object) -> Mapping[str, Options]:
    """The options of each policy by its name, from the content of a file of YAML or JSON.

    Allowed is a mapping from names in ``POLICIES`` to mappings from names of options to values:
    ``{"gavel-las": {"reset-rounds": 3}, "optimus-paper": {"stop": "task"}}``. A policy without
    an entry, or with an empty one, keeps its usual options; with an empty file, all policies do.

    Raises:
        ValueError: anything else, such as an option that a policy does not have; the message is a
            sentence for users.
    """
    options = dict[str, Options]()
    for name, of_policy in _mapping(value, "policies").items():
        if name not in POLICIES:
            raise ValueError(f"there is no policy {name!r}: there are {', '.join(POLICIES)}")
        options[name] = _mapping(of_policy, f"options of {name}")
        try:
            policy_named(name, options[name])
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from None
    return options


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"a mapping of {what} is expected, not {value!r}")
    return {str(name): each for name, each in value.items()}
