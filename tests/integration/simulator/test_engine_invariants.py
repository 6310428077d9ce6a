"""The simulator's loop: invariants of whole simulations under every scheduler."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, TrainingMode
from optimus.placement.per_pod import SPREAD
from optimus.resources import Resources
from optimus.simulator.cluster import SimulatedCluster, SimulatedPhase
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import EquationForecasts, TrueForecasts
from optimus.simulator.jobs import Straggling, Workload
from optimus.simulator.presets import SchedulerConfig, preset
from tests.unit.properties import examples
from tests.unit.simulator.workloads import JobParameters, Loss, Speed, job, nodes, workload

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
        *(
            preset(name)
            for name in ("optimus", "optimus-paper", "drf", "fifo", "srtf", "smd", "gavel-las")
        ),
        # Those that know the truth decide more in a short life.
        *(preset(name, TrueForecasts()) for name in ("optimus", "optimus-paper", "tetris")),
        *(preset(name, EquationForecasts()) for name in ("optimus", "optimus-paper")),
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
            assert (training.speed > 0) == (state.phase is SimulatedPhase.TRAINING)


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
