"""What the paper reports (Optimus, EuroSys 2018, sections 6.2 to 6.4): numbers to compare with.

Ratios are to Optimus' own average completion time (JCT) and makespan. Those of figure 15 were read
off the figure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Ratios(NamedTuple):
    """How many times as long as with Optimus."""

    jct: float
    makespan: float


EVALUATION: Final[Mapping[str, Mapping[str, Ratios]]] = MappingProxyType(
    {
        "testbed": {"drf": Ratios(2.39, 1.63), "tetris": Ratios(1.74, 1.22)},
        "async": {"drf": Ratios(1.97, 1.36), "tetris": Ratios(1.64, 1.11)},
        "sync": {"drf": Ratios(2.29, 1.45), "tetris": Ratios(1.91, 1.21)},
        "poisson": {"drf": Ratios(2.15, 1.40), "tetris": Ratios(1.82, 1.15)},
        "trace": {"drf": Ratios(2.21, 1.46), "tetris": Ratios(1.78, 1.24)},
    }
)
"""Setting -> policy -> ratios."""

ALLOCATION_ONLY: Final[Mapping[str, Ratios]] = MappingProxyType(
    {"drf": Ratios(1.62, 1.31), "tetris": Ratios(1.33, 1.14)}
)
"""Their allocation with the placement of Optimus."""

PLACEMENT_ONLY: Final[Mapping[str, Ratios]] = MappingProxyType(
    {"drf": Ratios(1.17, 1.13), "tetris": Ratios(1.12, 1.09)}
)
"""Their placement with the allocation of Optimus."""

ERRORS: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
CONVERGENCE_SENSITIVITY: Final = (1.03, 1.13, 1.25, 1.31, 1.34)
SPEED_SENSITIVITY: Final = (1.075, 1.285, 1.36, 1.47, 1.46)
"""JCT with forecasts that are off by so much, to that without an error."""
