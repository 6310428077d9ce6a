"""The simulator's loop: examples computed by hand, and invariants under every scheduler."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import Allocation, AllocationProblem
from optimus.interval import ProfilingConfig
from optimus.jobs import CountBounds, Counts, TrainingMode
from optimus.placement.per_pod import SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from optimus.simulator.cluster import Phase, SimulatedCluster
from optimus.simulator.engine import WorkloadError, simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.jobs import Straggling, Workload
from optimus.simulator.paper_scheduler import PaperConfig
from optimus.simulator.presets import PreRun, SchedulerConfig, preset, with_pre_run
from tests.unit.properties import examples
from tests.unit.simulator.workloads import JobParameters, Loss, Speed, job, nodes, workload

ONE_TASK_EACH = CountBounds(max_ps=1, max_workers=1)


class Scripted:
    """A policy that gives fixed counts, interval by interval."""

    name = "scripted"

    def __init__(self, *script: dict[str, Counts]) -> None:
        self.script = list(script)

    def allocate(self, problem: AllocationProblem) -> Allocation:
        known = {candidate.job.uid for candidate in problem.candidates}
        counts = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return Allocation({uid: each for uid, each in counts.items() if uid in known})


def published(*script: dict[str, Counts], trims: bool = True) -> SchedulerConfig:
    rules = PaperConfig(looks_ahead=False, trims=trims)
    return SchedulerConfig(
        name="scripted", policy=Scripted(*script), placement=Theorem1(), mode=rules
    )


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

    def test_the_pre_run_delays_a_job_by_its_samples(self) -> None:
        usual = replace(preset("optimus-paper"), pre_run=PreRun(samples=4, seconds=25))
        found = simulate(workload(job("a", JobParameters(arrives=450))), usual, seed=1)
        assert found.jobs[0].placed_at == 600
        late = simulate(workload(job("a", JobParameters(arrives=550))), usual, seed=1)
        assert late.jobs[0].placed_at == 1200

    def test_profiling_runs_are_restarts_that_are_counted_apart(self) -> None:
        only = job("a", JobParameters(epochs=300, steps_per_epoch=10, speed=Speed(batch=0.5)))
        found = simulate(workload(only, on=nodes(4)), preset("optimus"), seed=1).jobs[0]
        assert found.profiling_runs == ProfilingConfig().runs
        assert found.restarts > found.profiling_runs

    def test_a_job_whose_speeds_are_known_beforehand_is_not_profiled(self) -> None:
        only = job("a", JobParameters(epochs=300, steps_per_epoch=10, speed=Speed(batch=0.5)))
        found = simulate(
            workload(only, on=nodes(4)), with_pre_run(preset("optimus"), PreRun()), seed=1
        )
        assert found.jobs[0].profiling_runs == 0
        assert found.jobs[0].restarts > 0


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


RECIPES = st.builds(
    JobParameters,
    arrives=st.sampled_from([0.0, 100.0, 600.0]) | st.floats(0, 1500),
    epochs=st.integers(6, 40),
    counts=st.builds(Counts, st.integers(1, 3), st.integers(1, 3)),
    speed=st.builds(Speed, st.floats(0.2, 3), st.floats(0, 0.5), st.floats(0, 1)),
    steps_per_epoch=st.floats(5, 60),
    mode=st.sampled_from(TrainingMode),
    worker=st.sampled_from([Resources(cpu=1000), Resources(cpu=2000), Resources(cpu=1500)]),
    noise=st.sampled_from([0.0, 0.05]),
    start_seconds=st.floats(0, 20),
    rescale_seconds=st.floats(0, 90),
    straggling=st.none() | st.just(Straggling(600, 100, 0.5)),
    loss=st.builds(Loss, st.floats(0.05, 0.5)),
)
WORKLOADS = st.builds(
    lambda parameters, count: workload(
        *(job(f"job-{n}", each) for n, each in enumerate(parameters)), on=nodes(count)
    ),
    st.lists(RECIPES, min_size=1, max_size=5),
    st.integers(3, 5),
)
SCHEDULERS = st.sampled_from(
    [
        *(preset(name) for name in ("optimus", "optimus-paper", "drf", "fifo", "srtf")),
        # Those that know the truth decide more in a short life.
        *(preset(name, TrueForecasts()) for name in ("optimus", "optimus-paper", "tetris")),
    ]
)


class Witness:
    """Watches a simulation, and adds up each job's work on its own: speed times time."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self.speeds: dict[str, float] = {}
        self.at = 0.0

    def __call__(self, cluster: SimulatedCluster) -> None:
        seconds, self.at = cluster.now - self.at, cluster.now
        assert seconds >= 0
        for node in cluster.nodes:
            assert cluster.used()[node.name].fits_in(node.allocatable)
        for uid, state in cluster.states.items():
            self.steps[uid] = self.steps.get(uid, 0.0) + self.speeds.get(uid, 0.0) * seconds
            training = state.training
            assert training.steps + training.speed * (cluster.now - training.at) == pytest.approx(
                self.steps[uid]
            )
            self.speeds[uid] = training.speed
            assert (training.speed > 0) == (state.phase is Phase.TRAINING)


@examples(40)
@given(WORKLOADS, SCHEDULERS)
def test_no_node_holds_too_much_and_the_work_done_is_speed_times_time_of_training(
    config: Workload, usual: SchedulerConfig
) -> None:
    simulate(config, usual, seed=3, watch=Witness())


@examples(25)
@given(WORKLOADS, SCHEDULERS)
def test_every_job_ends_after_its_arrival_with_all_its_work_done(
    config: Workload, usual: SchedulerConfig
) -> None:
    found = simulate(config, usual, seed=3)
    truths = {each.job.uid: each for each in config.jobs}
    assert {each.uid for each in found.jobs} == set(truths)
    for each in found.jobs:
        assert each.arrived_at <= each.placed_at <= each.finished_at
        assert each.trained_seconds <= each.finished_at - each.placed_at + 1e-6
        assert 1 <= each.epochs <= truths[each.uid].most_epochs


@examples(15)
@given(WORKLOADS, SCHEDULERS, st.randoms())
def test_the_same_seed_gives_the_same_result_in_any_order_of_the_jobs(
    config: Workload, usual: SchedulerConfig, order: object
) -> None:
    jobs, servers = list(config.jobs), list(config.nodes)
    order.shuffle(jobs)  # type: ignore[attr-defined]  # hypothesis types its Random as object
    order.shuffle(servers)  # type: ignore[attr-defined]
    shuffled = Workload(config.name, tuple(jobs), tuple(servers))
    assert repr(simulate(config, usual, 5)) == repr(simulate(shuffled, usual, 5))


@examples(15)
@given(st.lists(RECIPES, min_size=1, max_size=4))
def test_a_job_meets_its_goal_after_the_same_epochs_under_every_policy(
    parameters: list[JobParameters],
) -> None:
    config = workload(*(job(f"job-{n}", each) for n, each in enumerate(parameters)), on=nodes(3))
    by_policy = [
        {
            each.uid: each.epochs
            for each in simulate(config, replace(preset(name), placement=SPREAD), 2).jobs
        }
        for name in ("drf", "fifo")
    ]
    assert by_policy[0] == by_policy[1]
