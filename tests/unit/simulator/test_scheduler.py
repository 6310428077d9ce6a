"""The live scheduler acts as the two processes do on a cluster."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits, per_pool
from optimus.allocation.policy import PoolRule
from optimus.interval import IntervalConfig
from optimus.interval.driver import DriverConfig
from optimus.jobs import CountBounds, Counts
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.rescale.disruption import DEFAULT_LIMITS, UNLIMITED, DisruptionLimits, Limit
from optimus.simulator.cluster import SimulatedCluster, SimulatedPhase
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.presets import SchedulerConfig, preset, with_loop
from optimus.simulator.results import Simulation
from optimus.simulator.scheduler import LoopConfig
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

ONE_TASK_EACH = CountBounds(max_ps=1, max_workers=1)


class RecordingPolicy:
    """A policy that records the problems and keeps all counts."""

    name = "recording"
    traits = PolicyTraits(placed_by="theorem1", weighs_restarts=True)

    def __init__(self) -> None:
        self.problems: list[frozenset[str]] = []

    def allocate(self, problem: AllocationProblem) -> Allocation:
        self.problems.append(frozenset(each.job.uid for each in problem.candidates))
        return Allocation({each.job.uid: each.job.counts for each in problem.candidates})


class PhaseLog:
    """Notes at which instants a job was in which phase, and at which counts."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.entries: list[tuple[float, SimulatedPhase, Counts]] = []

    def __call__(self, cluster: SimulatedCluster) -> None:
        state = cluster.states.get(self.uid)
        if state is not None:
            self.entries.append((cluster.now, state.phase, state.job.counts))

    def first(self, phase: SimulatedPhase, counts: Counts) -> float:
        return next(at for at, *seen in self.entries if seen == [phase, counts])


def scheduler_config(policy: PoolRule, interval: IntervalConfig | None = None) -> SchedulerConfig:
    live = LoopConfig(driver=DriverConfig(interval=interval or IntervalConfig(), measures=False))
    return SchedulerConfig(
        name="recording",
        policy=per_pool(policy),
        placement=Theorem1(),
        loop=live,
        forecasts=TrueForecasts(),
    )


def intervals(parameters: Sequence[JobParameters]) -> list[frozenset[str]]:
    policy = RecordingPolicy()
    simulate(
        workload(*(job(f"job-{n}", each) for n, each in enumerate(parameters)), on=nodes(4)),
        scheduler_config(policy),
        1,
    )
    return [problem for problem in policy.problems if problem]


class TestIntervals:
    def test_a_new_job_is_decided_about_a_minute_after_the_last_interval_and_then_every_ten(
        self,
    ) -> None:
        # Decided at 60, since a job came, and at 660 and 1260.
        assert len(intervals([JobParameters(epochs=130)])) == 3

    def test_one_that_comes_later_brings_its_interval_forward(self) -> None:
        # At 60; at 200, when the second comes; at 800; at 1060, when the first has ended; at 1660.
        found = intervals([JobParameters(epochs=106), JobParameters(epochs=160, arrives=200)])
        both, one, other = {"job-0", "job-1"}, {"job-0"}, {"job-1"}
        assert found == [one, both, both, other, other]

    def test_intervals_go_on_while_there_is_no_job(self) -> None:
        # The intervals without a job are at 600, .., 3600; 3610 is too early after the last, 3660
        # is not.
        policy, log = RecordingPolicy(), PhaseLog("late")
        late = job("late", JobParameters(arrives=3610, epochs=10))
        simulate(workload(late), scheduler_config(policy), 1, watch=log)
        assert len(policy.problems) == 1
        assert 3660 in {at for at, *_ in log.entries}


class TestPlacing:
    def test_a_job_is_placed_at_its_users_counts_when_it_arrives(self) -> None:
        found = simulate(
            workload(job("a", JobParameters(arrives=7, counts=Counts(2, 3)))),
            scheduler_config(RecordingPolicy()),
            1,
        )
        assert found.jobs[0].placed_at == 7

    def test_a_waiting_job_starts_when_the_pods_that_hold_its_room_have_left(self) -> None:
        # The first holds the whole cluster and shrinks for the second, whose pods are bound 10 s
        # later.
        may_shrink = CountBounds(min_ps_given=True, min_workers_given=True)
        first = job("first", JobParameters(epochs=600, counts=Counts(1, 3), bounds=may_shrink))
        second = job(
            "second",
            JobParameters(arrives=30, epochs=600, counts=Counts(1, 1), bounds=ONE_TASK_EACH),
        )
        log, other = PhaseLog("first"), PhaseLog("second")

        def watch(cluster: SimulatedCluster) -> None:
            log(cluster)
            other(cluster)

        simulate(
            workload(first, second, on=nodes(1)), preset("optimus", TrueForecasts()), 1, watch=watch
        )
        left = log.first(SimulatedPhase.STARTING, Counts(1, 1))
        assert left - log.first(SimulatedPhase.CLEARING, Counts(1, 3)) == 10
        assert min(at for at, phase, _ in other.entries if phase is SimulatedPhase.TRAINING) == left


PROFILED = replace(preset("optimus"), loop=LoopConfig(driver=DriverConfig(expects=False)))
"""Every young job is profiled, whatever is to be expected of it."""


class TestProfiling:
    def test_a_profiling_run_measures_for_a_minute(self) -> None:
        only = job("a", JobParameters(epochs=400, counts=Counts(1, 2), speed=Speed(1.0, batch=0.2)))
        log = PhaseLog("a")
        simulate(workload(only, on=nodes(5)), PROFILED, 1, watch=log)
        phases = [(at, phase) for at, phase, _ in log.entries]
        begins = [
            at
            for n, (at, phase) in enumerate(phases)
            if phase is SimulatedPhase.TRAINING and phases[n - 1][1] is not phase
        ]
        ends = [
            at
            for n, (at, phase) in enumerate(phases)
            if phase is SimulatedPhase.CLEARING and phases[n - 1][1] is not phase
        ]
        for begin, end in zip(begins[:4], ends[:4], strict=True):
            assert 60 <= end - begin <= 70


class TestExpectation:
    def test_a_new_job_is_moved_after_half_a_minute_and_measured_for_a_minute(self) -> None:
        only = job(
            "a", JobParameters(epochs=400, counts=Counts(1, 2), speed=Speed(0.02, batch=0.5))
        )
        log = PhaseLog("a")
        found = simulate(workload(only, on=nodes(20)), preset("optimus"), 1, watch=log)
        trained = [
            (at, counts) for at, phase, counts in log.entries if phase is SimulatedPhase.TRAINING
        ]
        first = [at for at, counts in trained if counts == Counts(1, 2)]
        assert 30 <= first[-1] - first[0] <= 40
        moved = next(counts for _, counts in trained if counts != Counts(1, 2))
        assert moved.workers > 2
        assert (
            log.first(SimulatedPhase.CLEARING, moved) - log.first(SimulatedPhase.TRAINING, moved)
            >= 60
        )
        assert 1 <= found.jobs[0].profiling_runs < 4


class FixedPolicy:
    """Gives every job one PS and two workers."""

    name = "fixed"
    traits = PolicyTraits(placed_by="theorem1", weighs_restarts=True)

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return Allocation({each.job.uid: Counts(1, 2) for each in problem.candidates})


def limited(limits: DisruptionLimits, usual: SchedulerConfig | None = None) -> SchedulerConfig:
    by_seconds = scheduler_config(FixedPolicy(), IntervalConfig(fairness=None))
    return with_loop(usual or by_seconds, disruption=limits)


ONE = DisruptionLimits(Limit(number=1))


class Stops:
    """Notes when jobs stop for a rescale, and how many are stopped at once."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.most: Counter[str] = Counter()

    def __call__(self, cluster: SimulatedCluster) -> None:
        stopped = [each for each in cluster.states.values() if each.is_stopped]
        for each in stopped:
            self.at.setdefault(each.job.uid, cluster.now)
        namespaces = Counter(each.job.key.namespace for each in stopped)
        self.most |= namespaces | Counter({"all": len(stopped)})


class TestDisruption:
    @pytest.mark.parametrize(
        ("limits", "most"),
        [
            pytest.param(UNLIMITED, 4, id="without a limit all four"),
            pytest.param(DisruptionLimits(Limit(number=3)), 3, id="a number"),
            pytest.param(DisruptionLimits(Limit(percent=50)), 2, id="a part of the jobs"),
            pytest.param(DEFAULT_LIMITS, 1, id="the product's default"),
        ],
    )
    def test_no_more_jobs_are_stopped_at_once_than_allowed(
        self, limits: DisruptionLimits, most: int
    ) -> None:
        jobs = [job(name, JobParameters(epochs=100)) for name in "abcd"]
        stops = Stops()
        found = simulate(workload(*jobs, on=nodes(4)), limited(limits), 1, stops)
        assert stops.most["all"] == most
        assert [each.restarts for each in found.jobs] == [1, 1, 1, 1]


def test_a_change_that_is_not_worth_its_restart_is_not_made() -> None:
    only = workload(job("a", JobParameters(epochs=100)), on=nodes(4))

    def found(seconds: float) -> Simulation:
        interval = IntervalConfig(rescale_seconds=seconds)
        return simulate(only, scheduler_config(OptimusPolicy(), interval), 1)

    assert found(60.0).jobs[0].restarts > 0
    assert found(1000.0).jobs[0].restarts == 0
