"""Workloads: when jobs arrive and which they are. This is the table of their names."""

from collections.abc import Mapping
from types import MappingProxyType

from optimus.simulator.jobs import WorkloadMaker
from optimus.simulator.workload.arrivals import bursts, poisson, uniform
from optimus.simulator.workload.drawing import DrawnWorkload

WORKLOADS: Mapping[str, WorkloadMaker] = MappingProxyType(
    {
        "uniform": DrawnWorkload("uniform", uniform),
        "poisson": DrawnWorkload("poisson", poisson),
        "bursts": DrawnWorkload("bursts", bursts),
    }
)
"""Value of ``--workload`` -> who draws it: the nine job types of Optimus, section 6.1, on its 13
servers."""
