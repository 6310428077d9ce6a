"""A job that is no faster with more keeps none of it."""

from collections.abc import Sequence
from dataclasses import replace

from optimus.jobs import Counts, TargetEpochs
from optimus.simulator.cluster import SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset
from tests.unit.simulator.workloads import JobParameters, job, nodes, workload


class SameSpeed:
    def steps_per_second(self, _servers: Sequence[Counts], _: Sequence[float] = (), /) -> float:
        return 1.0


def test_a_job_that_is_no_faster_with_more_ends_within_twice_its_own_counts() -> None:
    parameters = JobParameters(0.0, 36, goal=TargetEpochs(36), noise=0.02, steps_per_epoch=100)
    flat = replace(job("flat", parameters), speed=SameSpeed(), most_epochs=36)
    seen = list[tuple[float, Counts]]()

    def watch(cluster: SimulatedCluster) -> None:
        seen.extend((cluster.now, state.job.counts) for state in cluster.states.values())

    simulate(workload(flat, on=nodes(16, 4)), preset("optimus"), 1, watch)
    assert max(sum(counts) for _, counts in seen) <= 16
    assert max(max(counts) for at, counts in seen if at >= 300) <= 2
