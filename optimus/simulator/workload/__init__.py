"""Workloads: when jobs arrive and which they are. This is the table of their names."""

from collections.abc import Mapping
from types import MappingProxyType

from optimus.simulator.jobs import WorkloadMaker
from optimus.simulator.workload.arrivals import bursts, poisson, uniform
from optimus.simulator.workload.random_jobs import RandomWorkload

WORKLOADS: Mapping[str, WorkloadMaker] = MappingProxyType(
    {
        "uniform": RandomWorkload("uniform", uniform),
        "poisson": RandomWorkload("poisson", poisson),
        "bursts": RandomWorkload("bursts", bursts),
    }
)
"""Value of ``--workload`` -> who draws it: the nine job types of Optimus, section 6.1, on its 13
servers."""
