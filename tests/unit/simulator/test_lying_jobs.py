"""A job that is no faster with more keeps none of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from optimus.jobs import Counts, TargetEpochs
from optimus.simulator.cluster import SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset
from tests.unit.simulator.workloads import JobParameters, job, nodes, workload


class Flat:
    """A step per second, whatever the counts."""

    def steps_per_second(self, _servers: Sequence[Counts], _: Sequence[float] = (), /) -> float:
        return 1.0


class Over(Exception):
    """All of interest has happened."""


@dataclass
class Watch:
    """The only job's counts, by instant."""

    until: float
    seen: list[tuple[float, Counts]] = field(default_factory=list)

    def __call__(self, cluster: SimulatedCluster) -> None:
        self.seen += [(cluster.now, state.job.counts) for state in cluster.states.values()]
        if cluster.now >= self.until:
            raise Over


def test_a_job_that_is_no_faster_with_more_ends_within_twice_its_own_counts() -> None:
    goal = TargetEpochs(20_000)
    parameters = JobParameters(0.0, 20_000, goal=goal, noise=0.02, steps_per_epoch=100)
    flat = replace(job("flat", parameters), speed=Flat(), most_epochs=20_000)
    watch = Watch(until=3600.0)
    with pytest.raises(Over):
        simulate(workload(flat, on=nodes(16, 4)), preset("optimus"), 1, watch)
    assert max(sum(counts) for _, counts in watch.seen) <= 16
    assert max(max(counts) for at, counts in watch.seen if at >= 300) <= 2
