"""The simulator's loop: examples computed by hand."""

from dataclasses import replace

import pytest

from optimus.allocation import (
    Allocation,
    AllocationProblem,
    ClusterAllocation,
    ClusterProblem,
    Policy,
    PolicyMemory,
    PolicyTraits,
    per_pool,
)
from optimus.allocation.policy import Grant, Holding
from optimus.jobs import CountBounds, Counts, TargetEpochs
from optimus.nodes import NODE_KIND_LABEL
from optimus.placement.theorem1 import Theorem1
from optimus.policies import POLICIES
from optimus.resources import Resources
from optimus.simulator.cluster import SimulatedCluster, SimulatedPhase
from optimus.simulator.engine import WorkloadError, simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.jobs import Straggling
from optimus.simulator.presets import SchedulerConfig, preset
from optimus.simulator.scheduler import LoopConfig, rounds_driver
from tests.cases import cases
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

ONE_TASK_EACH = CountBounds(max_ps=1, max_workers=1)


class Scripted:
    """A policy that gives fixed counts, interval by interval."""

    name = "scripted"

    def __init__(self, *script: dict[str, Counts], trims: bool = True) -> None:
        self.script = list(script)
        self.traits = PolicyTraits(
            placed_by="theorem1", reads_forecasts=False, time_shared=not trims
        )

    def allocate(self, problem: AllocationProblem) -> Allocation:
        known = {candidate.job.uid for candidate in problem.candidates}
        counts = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return Allocation({uid: each for uid, each in counts.items() if uid in known})


def published(*script: dict[str, Counts], trims: bool = True) -> SchedulerConfig:
    return as_published(per_pool(Scripted(*script, trims=trims)))


def as_published(policy: Policy) -> SchedulerConfig:
    loop = LoopConfig(driver=rounds_driver(policy.traits))
    return SchedulerConfig(name=policy.name, policy=policy, placement=Theorem1(), loop=loop)


class Asked:
    """A policy of the whole cluster: it keeps all counts, and counts the questions."""

    name = "asked"
    traits = PolicyTraits(placed_by="theorem1")

    def __init__(self) -> None:
        self.problems: list[ClusterProblem] = []
        self.memories: list[PolicyMemory] = []
        self.seeds: list[int] = []

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, seed: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        self.problems.append(problem)
        self.memories.append(memory)
        self.seeds.append(seed)
        grants: ClusterAllocation = {
            each.job.uid: Grant(each.job.counts)
            for pool in problem.pools
            for each in pool.allocation.candidates
        }
        return grants, PolicyMemory("asked", 1, {"times": len(self.problems)})


class TestQuestions:
    def test_carry_accounts_and_what_the_policy_remembers(self) -> None:
        policy, long = Asked(), job("a", JobParameters(epochs=100, counts=Counts(1, 1)))
        simulate(workload(long), replace(as_published(policy), forecasts=TrueForecasts()), seed=1)
        first, second = policy.problems
        assert first.account("a").holds is None
        held = second.account("a")
        assert (second.at, held.holds, held.received.seconds) == (600.0, Holding(Counts(1, 1)), 600)
        assert held.progress.step == 600
        assert [each.nodes for each in second.pools[0].kinds] == [2]
        assert [each.of("asked", 1) for each in policy.memories] == [{}, {"times": 1}]
        assert len(set(policy.seeds)) == 2


class TestTurns:
    """``gavel-las``: rounds of 600 s; a move takes 10 s to leave and 30 s in all."""

    def test_two_jobs_take_turns_on_one_place(self) -> None:
        """Who runs goes on until it has received a round more than the other."""
        jobs = [job(name, JobParameters(epochs=300, bounds=ONE_TASK_EACH)) for name in "ab"]
        turns = list[tuple[float, str]]()

        def watch(cluster: SimulatedCluster) -> None:
            training = [
                uid for uid, each in cluster.states.items() if each.phase is SimulatedPhase.TRAINING
            ]
            assert len(training) <= 1
            if training and (not turns or turns[-1][1] != training[0]):
                turns.append((cluster.now, training[0]))

        found = simulate(workload(*jobs, on=nodes(1, cpu=2)), preset("gavel-las"), 1, watch)
        assert "".join(who for _, who in turns) == "abab"
        assert [at for at, _ in turns[:2]] == pytest.approx([0, 1200 + 10])
        a, b = found.jobs
        assert abs(a.finished_at - b.finished_at) <= 1200
        assert a.pauses == 1

    def test_the_shortest_goes_first_by_what_is_expected_of_jobs_that_are_never_resized(
        self,
    ) -> None:
        """A speed model would need samples at several counts."""
        long = job("a", JobParameters(epochs=100))
        short = job("b", JobParameters(arrives=400, epochs=10))
        goals = {"a": 100, "b": 10}
        jobs = [
            replace(each, job=replace(each.job, goal=TargetEpochs(goals[each.job.uid])))
            for each in (long, short)
        ]
        found = simulate(workload(*jobs, on=nodes(1, cpu=2)), preset("gavel-sjf"), 1)
        a, b = found.jobs
        assert a.pauses == 1
        assert b.finished_at < 1000 < a.finished_at

    def test_each_job_goes_to_the_kind_that_suits_it(self) -> None:
        """b is as fast on both nodes, a half as fast on the second."""
        kinds = [
            replace(node, labels={NODE_KIND_LABEL: kind})
            for node, kind in zip(nodes(2, cpu=2), ("first", "second"), strict=True)
        ]
        parameters = JobParameters(epochs=100, bounds=ONE_TASK_EACH)
        a = replace(job("a", parameters), kind_speeds={"second": 0.5})
        found = simulate(workload(a, job("b", parameters), on=tuple(kinds)), preset("gavel-las"), 1)
        assert [each.finished_at for each in found.jobs] == pytest.approx([1000, 1000])
        assert [each.pauses + each.restarts for each in found.jobs] == [0, 0]

    @pytest.mark.parametrize("policy", [each for each in POLICIES if each.startswith("gavel-")])
    @cases(
        ("counts", "of_worker", "of_node"),
        {
            "its PSs are more than one kind holds": (Counts(10, 3), 2, 6),
            "a fast kind has the cores for its workers, but not on whole nodes": (
                Counts(2, 3),
                4,
                7,
            ),
            "no kind holds its workers, but all nodes do": (Counts(2, 4), 4, 7),
        },
    )
    def test_a_job_runs_where_the_nodes_hold_it(
        self, policy: str, counts: Counts, of_worker: int, of_node: int
    ) -> None:
        two_kinds = tuple(
            replace(node, labels={NODE_KIND_LABEL: "fast" if number < 2 else "slow"})
            for number, node in enumerate(nodes(5, cpu=of_node))
        )
        ps, worker = Resources(cpu=2000), Resources(cpu=1000 * of_worker)
        parameters = JobParameters(counts=counts, ps=ps, worker=worker)
        only = replace(job("a", parameters), kind_speeds={"slow": 0.5})
        found = simulate(workload(only, on=two_kinds), preset(policy), 1)
        assert [each.pauses for each in found.jobs] == [0]

    def test_a_job_on_slow_nodes_takes_longer(self) -> None:
        slow = tuple(replace(node, labels={NODE_KIND_LABEL: "slow"}) for node in nodes(1))
        only = replace(job("a", JobParameters(bounds=ONE_TASK_EACH)), kind_speeds={"slow": 0.25})
        for config in (preset("gavel-las"), preset("fifo"), online()):
            found = simulate(workload(only, on=slow), config, 1)
            assert found.jobs[0].finished_at == pytest.approx(400)


def online() -> SchedulerConfig:
    return preset("optimus", TrueForecasts())


class TestCoursesByHand:
    def test_one_job_at_constant_speed_ends_when_its_work_is_done(self) -> None:
        # 10 epochs of 10 steps at 1 step a second, from its arrival on.
        found = simulate(
            workload(job("a", JobParameters(arrives=5, bounds=ONE_TASK_EACH))), online(), seed=1
        )
        assert found.jobs[0].finished_at == pytest.approx(5 + 100)
        assert found.jobs[0].restarts == 0
        assert found.makespan_seconds == pytest.approx(100)

    def test_a_start_takes_its_time(self) -> None:
        only = job("a", JobParameters(start_seconds=7, bounds=ONE_TASK_EACH))
        assert simulate(workload(only), online(), seed=1).jobs[0].finished_at == pytest.approx(107)

    def test_of_two_jobs_and_one_place_the_second_starts_when_the_first_ends(self) -> None:
        first = job("a", JobParameters(arrives=0, bounds=ONE_TASK_EACH))
        second = job("b", JobParameters(arrives=1, bounds=ONE_TASK_EACH, epochs=20))
        found = simulate(workload(first, second, on=nodes(1, cpu=2)), online(), seed=1)
        assert [each.finished_at for each in found.jobs] == pytest.approx([100, 100 + 200])
        assert found.jobs[1].placed_at == pytest.approx(100)

    def test_as_published_a_job_waits_for_the_next_interval(self) -> None:
        found = simulate(
            workload(job("a", JobParameters(arrives=5))), published({"a": Counts(1, 1)}), seed=1
        )
        assert found.jobs[0].placed_at == 600
        assert found.jobs[0].finished_at == pytest.approx(700)

    def test_a_rescale_costs_its_seconds_and_nothing_else(self) -> None:
        # 600 steps at 1 a second from 0 to 600; 30 s of nothing; the other 1,400 at 3 a second.
        only = job("a", JobParameters(epochs=200))
        script = published({"a": Counts(1, 1)}, {"a": Counts(1, 3)})
        found = simulate(workload(only), script, seed=1).jobs[0]
        assert found.finished_at == pytest.approx(600 + 30 + 1400 / 3)
        assert found.restarts == 1
        assert found.trained_seconds == pytest.approx(600 + 1400 / 3)

    def test_a_job_that_gets_nothing_is_paused_and_goes_on_later(self) -> None:
        # Its pods take 10 of the 30 s of a rescale to leave; the other 20 are paid when it comes
        # back.
        script = published({"a": Counts(1, 1)}, {}, {"a": Counts(1, 1)})
        found = simulate(workload(job("a", JobParameters(epochs=100))), script, seed=1).jobs[0]
        assert (found.pauses, found.restarts) == (1, 0)
        assert found.finished_at == pytest.approx(1200 + 20 + 400)

    def test_a_job_that_does_not_fit_is_trimmed(self) -> None:
        # 9 tasks on 2 nodes of 4: 7 workers beside one PS, at 7 steps a second.
        jobs = workload(job("a", JobParameters(epochs=70)), on=nodes(2))
        found = simulate(jobs, published({"a": Counts(1, 9)}), seed=1)
        assert found.jobs[0].finished_at == pytest.approx(100)

    def test_a_job_that_does_not_fit_is_paused_without_trimming(self) -> None:
        script = published({"a": Counts(1, 9)}, {"a": Counts(1, 1)}, trims=False)
        assert simulate(workload(job("a")), script, seed=1).jobs[0].placed_at == 600

    def test_a_slow_worker_slows_its_job_for_as_long_as_it_straggles(self) -> None:
        # Always one worker of one straggles, so to speak: the wait for it is nothing, and it never
        # ends.
        habit = Straggling(seconds_between=1e-9, seconds=1e9, speed_fraction=0.5)
        found = simulate(
            workload(job("a", JobParameters(straggling=habit, bounds=ONE_TASK_EACH))),
            online(),
            seed=1,
        )
        assert found.jobs[0].finished_at == pytest.approx(200)

    def test_a_job_spread_over_servers_is_as_slow_as_its_true_speed(self) -> None:
        apart = job("a", JobParameters(counts=Counts(2, 2), speed=Speed(each=1, apart=1)))
        script = {"a": Counts(2, 2)}
        assert simulate(
            workload(apart, on=nodes(1)), published(script), 1
        ).makespan_seconds == pytest.approx(50)
        assert simulate(
            workload(apart, on=nodes(2, cpu=2)), published(script), 1
        ).makespan_seconds == pytest.approx(100)

    def test_as_the_authors_released_it_a_job_is_allocated_from_its_arrival_on(self) -> None:
        # Its speeds are known at once, and 20 epochs are taken as left: it grows without a loss.
        only = job("a", JobParameters(arrives=600, steps_per_epoch=100, speed=Speed(batch=0.5)))
        found = simulate(workload(only, on=nodes(4)), preset("optimus-paper"), seed=1)
        assert found.jobs[0].placed_at == 600
        assert found.timeline[-2].workers > 1
        assert found.forecasts[0].at == 600
        assert found.forecasts[0].total_epochs == pytest.approx(20)


class TestImpossibleWorkloads:
    def test_a_job_that_fits_nowhere_is_named_before_anything_runs(self) -> None:
        big = job("big", JobParameters(worker=Resources(cpu=9000)))
        with pytest.raises(
            WorkloadError,
            match=r"default/big does not fit on the empty cluster, even at its minimum",
        ):
            simulate(workload(big), online(), seed=1)

    def test_a_job_that_never_gets_on_is_named(self) -> None:
        still = job("still", JobParameters(speed=Speed(each=0.0), bounds=ONE_TASK_EACH))
        with pytest.raises(WorkloadError, match="nothing happens any more to default/still"):
            simulate(workload(still), online(), seed=1)

    def test_jobs_are_identified_by_their_uid(self) -> None:
        with pytest.raises(WorkloadError, match="2 jobs have the UID a"):
            simulate(workload(job("a"), job("b"), job("a")), online(), seed=1)

    def test_without_a_job_there_is_nothing_to_run(self) -> None:
        with pytest.raises(WorkloadError, match="no job"):
            simulate(workload(), online(), seed=1)

    def test_a_job_that_no_policy_ever_starts_is_named(self) -> None:
        with pytest.raises(
            WorkloadError, match="under scripted, nothing happens any more to default/a"
        ):
            simulate(workload(job("a")), published({}), seed=1)

    def test_a_job_is_named_whose_own_counts_the_cluster_never_holds(self) -> None:
        large = job("large", JobParameters(counts=Counts(1, 500)))
        with pytest.raises(
            WorkloadError, match=r"cannot hold default/large at 1 PS \+ 500 workers"
        ):
            simulate(workload(large), preset("fifo", TrueForecasts()), seed=1)
