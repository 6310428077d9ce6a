"""One job under real forecasts: profiled, grown, shrunk for a second job, grown again.

A virtual cluster with jobs of known speed and loss; the models get only what a log would contain.
"""

from dataclasses import dataclass, field, replace

from optimus.allocation import JobHistory, per_pool
from optimus.interval import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    ProfilingConfig,
    Strategies,
    plan_interval,
)
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.profiling import MeasuredJobs, plan_profiling, run_is_over
from optimus.jobs import Counts, Job, TargetLoss, TrainingMode
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.progress.types import LossPoint, SpeedSample, TrainingProgress
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cluster import Sync, job, nodes

STEPS_PER_EPOCH = 3
TICK_SECONDS = 5.0
TRUTH = Sync(work=8.0, fixed=0.1, link=0.3, overhead=0.01)
INTERVAL = IntervalConfig(rescale_seconds=10.0, cooldown_seconds=30.0)
PROFILING = ProfilingConfig(steady_seconds=20.0, trained_limit_seconds=600.0)


@dataclass
class VirtualJob:
    """A job, the steps it has trained, and the seconds at each of its counts."""

    job: Job
    steps: float = 0.0
    seconds: dict[Counts, float] = field(default_factory=dict)
    history: JobHistory = field(default_factory=JobHistory)

    def train(self, seconds: float) -> None:
        counts = self.job.counts
        self.steps += seconds * float(TRUTH.steps_per_second(*counts))
        self.seconds[counts] = self.seconds.get(counts, 0.0) + seconds

    @property
    def epoch(self) -> float:
        return self.steps / STEPS_PER_EPOCH

    def progress(self, now: float) -> TrainingProgress:
        epochs = range(1, int(self.epoch) + 1)
        return TrainingProgress(
            losses=tuple(
                LossPoint(1 / (0.05 * epoch + 1) + 0.05, float(epoch), epoch * STEPS_PER_EPOCH)
                for epoch in epochs
            ),
            epoch=self.epoch,
            step=int(self.steps),
            steps_per_epoch=float(STEPS_PER_EPOCH),
            samples=tuple(
                SpeedSample(counts, float(TRUTH.steps_per_second(*counts)), seconds, now)
                for counts, seconds in self.seconds.items()
            ),
            trained_seconds=sum(self.seconds.values()),
        )


@dataclass
class VirtualCluster:
    """Places jobs by Theorem 1; a rescale takes no time."""

    at: float = 0.0
    virtual_jobs: dict[str, VirtualJob] = field(default_factory=dict)
    plan: CapacityPlan = field(
        default_factory=lambda: CapacityPlan.of(
            ClusterSnapshot.of(0.0, [], nodes(3, 4), []), Theorem1()
        )
    )

    def submit(self, name: str, counts: tuple[int, int]) -> None:
        given_job = job(name, counts, TargetLoss(0.1), created_at=self.at, mode=TrainingMode.SYNC)
        self.virtual_jobs[given_job.uid] = VirtualJob(given_job)

    def end(self, name: str) -> None:
        self.plan.release(f"uid-{name}")
        del self.virtual_jobs[f"uid-{name}"]

    def counts(self, name: str) -> Counts:
        return self.virtual_jobs[f"uid-{name}"].job.counts

    def snapshot(self) -> ClusterSnapshot:
        pods = [
            BoundPod(f"{held.replica}", held.node, held.resources, held.replica)
            for uid in self.virtual_jobs
            for held in self.plan.held.get(uid, ())
        ]
        return ClusterSnapshot.of(
            self.at,
            [virtual_job.job for virtual_job in self.virtual_jobs.values()],
            nodes(3, 4),
            pods,
        )

    def train(self, seconds: float) -> None:
        """Time passes; waiting jobs are placed, placed jobs train and are profiled."""
        for _ in range(int(seconds / TICK_SECONDS)):
            self.at += TICK_SECONDS
            for uid, virtual_job in self.virtual_jobs.items():
                if (
                    self.plan.is_placed(uid)
                    or self.plan.move(virtual_job.job, virtual_job.job.counts) is None
                ):
                    virtual_job.train(TICK_SECONDS)
            self.profile()

    def profile(self) -> None:
        measured = MeasuredJobs(self.progress(), self.histories())
        for virtual_job in self.virtual_jobs.values():
            if virtual_job.history.profiling_since is not None and run_is_over(
                virtual_job.job, self.at, measured, PROFILING
            ):
                virtual_job.history = replace(virtual_job.history, profiling_since=None)
        measured = MeasuredJobs(self.progress(), self.histories())
        for move in plan_profiling(self.snapshot(), measured, self.plan, PROFILING):
            virtual_job = self.virtual_jobs[move.uid]
            self.rescale(virtual_job, move.counts)
            profiled = (*virtual_job.history.profiled, move.counts)
            virtual_job.history = replace(
                virtual_job.history, profiled=profiled, profiling_since=self.at
            )

    def interval(self) -> dict[str, Decision]:
        interval_input = IntervalInput(self.snapshot(), self.progress(), self.histories())
        plan = plan_interval(
            f"at-{self.at:.0f}",
            interval_input,
            Strategies(per_pool(OptimusPolicy()), Theorem1()),
            INTERVAL,
        )
        for decision in plan.decisions:
            virtual_job = self.virtual_jobs[decision.uid]
            if decision.rescales:
                self.rescale(virtual_job, decision.counts)
                virtual_job.history = replace(
                    virtual_job.history,
                    rescales=virtual_job.history.rescales + 1,
                    moves=(*virtual_job.history.moves, self.at),
                    last_rescaled_at=self.at,
                )
        return {decision.key.name: decision for decision in plan.decisions}

    def rescale(self, virtual_job: VirtualJob, counts: Counts) -> None:
        assert self.plan.move(virtual_job.job, counts) is None
        virtual_job.job = replace(virtual_job.job, counts=counts)

    def progress(self) -> dict[str, TrainingProgress]:
        return {
            uid: virtual_job.progress(self.at) for uid, virtual_job in self.virtual_jobs.items()
        }

    def histories(self) -> dict[str, JobHistory]:
        return {uid: virtual_job.history for uid, virtual_job in self.virtual_jobs.items()}


def test_a_job_is_profiled_grows_shrinks_for_a_second_job_and_grows_again() -> None:
    cluster = VirtualCluster()
    cluster.submit("first", (1, 2))
    cluster.train(200)
    assert len(cluster.virtual_jobs["uid-first"].history.profiled) == PROFILING.runs
    cluster.interval()
    assert sum(cluster.counts("first")) == 12, "the only job grows to the whole cluster"
    cluster.train(60)

    cluster.submit("second", (1, 2))
    cluster.train(10)
    assert cluster.interval()["first"].action is Action.SHRINK, (
        "makes room for the second job's minimum"
    )
    assert cluster.counts("second") == Counts(1, 1)
    shared = cluster.counts("first")
    cluster.train(60)

    cluster.end("second")
    cluster.train(60)
    assert cluster.interval()["first"].action is Action.GROW
    assert sum(cluster.counts("first")) == 12 > sum(shared)
    cluster.train(300)
    assert not cluster.interval()["first"].rescales, "then it keeps its counts"
