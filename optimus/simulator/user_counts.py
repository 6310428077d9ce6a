"""Jobs that their users submit at counts which suit them, as a user would who has tried some.

A job's best counts are those at which it is fastest alone on the cluster, among up to 16 PSs and 16
workers, placed by theorem 1. Its sensible counts are the fewest replicas that have 0.8 of that
speed."""

from dataclasses import replace
from enum import StrEnum
from typing import Final

from optimus.jobs import Counts
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.speeds import EmptyCluster

_WIDEST: Final = Counts(16, 16)


class UserCounts(StrEnum):
    """How well users know their jobs."""

    SENSIBLE = "sensible"
    BEST = "best"

    def of(self, workload: Workload) -> Workload:
        """The workload with all jobs submitted at these counts."""
        empty = EmptyCluster(workload.nodes, Theorem1())
        part = 1.0 if self is UserCounts.BEST else 0.8
        jobs = tuple(_submitted_at(each, part, empty) for each in workload.jobs)
        return replace(workload, jobs=jobs)


def _submitted_at(simulated: SimulatedJob, part: float, empty: EmptyCluster) -> SimulatedJob:
    rates = dict[Counts, float]()
    for counts in simulated.job.bounds.up_to(_WIDEST):
        servers = empty.servers(simulated.job, counts)
        if servers is not None:
            steps = simulated.steps_in_epoch(counts.workers)
            rates[counts] = simulated.speed.steps_per_second(servers) / steps
    wanted = part * max(rates.values(), default=0.0)
    enough = [counts for counts, rate in rates.items() if rate >= wanted]
    if not enough:
        return simulated
    chosen = min(enough, key=lambda counts: (sum(counts), -rates[counts], counts))
    return replace(simulated, job=replace(simulated.job, counts=chosen))
