"""Jobs on a small cluster, what is known of them, and what is measured next."""

from optimus.allocation import JobHistory, PlacementFailure
from optimus.interval import ProfilingConfig
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.profiling import (
    MeasuredJobs,
    ProfilingMove,
    plan_profiling,
)
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cluster import bind, job, nodes

AT = 10_000.0

CONFIG = ProfilingConfig()


def measured_at(
    *counts: tuple[int, int], seconds: float = 60.0, trained: float = 100.0
) -> TrainingProgress:
    samples = tuple(
        SpeedSample(Counts(*each), each[1] / (1 + each[1] / each[0]), seconds, AT)
        for each in counts
    )
    return TrainingProgress(samples=samples, trained_seconds=trained)


FIRST = measured_at((1, 2))

YOUNG = job("a", (1, 2))


def cluster(
    *jobs: Job, cores: int = 16, bound: bool = True, others: list[BoundPod] | None = None
) -> ClusterSnapshot:
    pods = [
        pod
        for index, each in enumerate(jobs)
        for pod in bind(each, [f"node-{index:02}"] * sum(each.counts))
    ]
    return ClusterSnapshot.of(
        AT, jobs, nodes(len(jobs) + 1, cores), (pods if bound else []) + (others or [])
    )


def plan(
    snapshot: ClusterSnapshot,
    progress: dict[str, TrainingProgress],
    history: dict[str, JobHistory] | None = None,
    config: ProfilingConfig = CONFIG,
) -> tuple[ProfilingMove, ...]:
    return plan_profiling(snapshot, measured_of(progress, history), free_capacity(snapshot), config)


def free_capacity(snapshot: ClusterSnapshot) -> CapacityPlan:
    return CapacityPlan.of(snapshot, Theorem1(), leaving_counts=True)


def measured_of(
    progress: dict[str, TrainingProgress], history: dict[str, JobHistory] | None = None
) -> MeasuredJobs:
    return MeasuredJobs(
        {f"uid-{name}": each for name, each in progress.items()},
        {f"uid-{name}": each for name, each in (history or {}).items()},
    )


IN_VAIN = PlacementFailure(Counts(2, 2), Counts(1, 2), AT - 600, 600.0)
