"""Checkpoints now and then: what a stop loses, who waits for one, and what a restart takes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits, per_pool
from optimus.interval.driver import DriverConfig
from optimus.jobs import CountBounds, Counts, RescaleRule
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase
from optimus.simulator.engine import Observer, simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.jobs import Checkpoints, Workload
from optimus.simulator.presets import SchedulerConfig, preset
from optimus.simulator.scheduler import LoopConfig
from optimus.simulator.stops import Stops
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.training import Training
from optimus.simulator.workload import WORKLOADS
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

ALONE = (Counts(1, 1),)
EVERY_100 = Checkpoints(every_seconds=100.0)
GROWN = Counts(1, 2)


def training(checkpoints: Checkpoints | None, speed: float = 2.0) -> Training:
    truth = job("a", JobParameters(epochs=100, speed=Speed(speed)))
    return Training(replace(truth, checkpoints=checkpoints), seed=1)


class GrowingPolicy:
    """Wants one worker more from the second interval on."""

    name = "growing"
    traits = PolicyTraits(placed_by="theorem1", weighs_restarts=True)

    def __init__(self) -> None:
        self.asked = 0

    def allocate(self, problem: AllocationProblem) -> Allocation:
        self.asked += bool(problem.candidates)
        wanted = GROWN if self.asked > 1 else Counts(1, 1)
        return Allocation({each.job.uid: wanted for each in problem.candidates})


class Moves:
    """When a job was first stopped for a rescale, and what was lost by then."""

    def __init__(self) -> None:
        self.at: float | None = None
        self.waited = False
        self.lost_seconds = 0.0

    def __call__(self, cluster: SimulatedCluster) -> None:
        state: SimulatedJobState | None = cluster.states.get("a")
        if state is not None and self.at is None:
            self.waited |= state.awaits_stop
            if state.is_stopped:
                self.at, self.lost_seconds = cluster.now, state.training.lost_seconds


def run_growing(stops: Stops, epochs: int, watch: Observer) -> None:
    """A job that its policy wants to grow after 660 s; an epoch takes 10 s at 1 + 1."""
    config = SchedulerConfig(
        name="growing",
        policy=per_pool(GrowingPolicy()),
        placement=Theorem1(),
        loop=LoopConfig(driver=DriverConfig(measures=False)),
        forecasts=TrueForecasts(),
    )
    bounds = CountBounds(max_ps=1, max_workers=2)
    submitted = workload(job("a", JobParameters(epochs=epochs, bounds=bounds)), on=nodes(4))
    simulate(stops.of(submitted), config, 1, watch)


def moved(stops: Stops) -> Moves:
    """How it was moved."""
    moves = Moves()
    run_growing(stops, 150, moves)
    return moves


class TestWhatAStopLoses:
    def test_nothing_where_a_job_saves_when_it_is_stopped(self) -> None:
        run = training(None)
        run.begin(0.0, ALONE)
        assert run.stop(130.0) == 0.0
        assert run.steps == pytest.approx(260)
        assert run.progress().checkpoint_at is None

    def test_all_since_the_last_checkpoint(self) -> None:
        run = training(EVERY_100)
        run.begin(10.0, ALONE)
        assert run.stop(240.0) == pytest.approx(30)
        assert (run.steps, run.epochs) == pytest.approx((400, 40))
        assert (run.trained_seconds, run.lost_seconds) == pytest.approx((230, 30))

    def test_all_of_it_before_the_first(self) -> None:
        run = training(EVERY_100)
        run.begin(0.0, ALONE)
        assert run.stop(99.0) == pytest.approx(99)
        assert (run.steps, run.epochs) == (0.0, 0.0)

    def test_seconds_are_counted_from_a_start(self) -> None:
        run = training(EVERY_100)
        run.begin(0.0, ALONE)
        run.stop(120.0)
        run.begin(200.0, ALONE)
        assert (run.next_save_at, run.steps) == pytest.approx((300, 200))

    def test_a_lost_epoch_is_gone_from_the_log_and_shows_the_same_loss_again(self) -> None:
        run = training(EVERY_100)
        run.begin(0.0, ALONE)
        run.advance(130.0)
        before = run.progress()
        assert len(before.losses) == 26
        run.stop(130.0)
        assert len(run.progress().losses) == 20
        assert run.progress().checkpoint_at == pytest.approx(100)
        run.begin(200.0, ALONE)
        run.advance(230.0)
        assert run.progress().losses == before.losses

    @given(st.lists(st.floats(1.0, 400.0), min_size=1, max_size=8), st.floats(5.0, 300.0))
    def test_what_is_kept_and_what_is_lost_is_what_was_trained(
        self, lengths: list[float], every: float
    ) -> None:
        run, at = training(Checkpoints(every_seconds=every), speed=0.1), 0.0
        for length in lengths:
            run.begin(at, ALONE)
            at += length
            assert run.stop(at) < every * (1 + 1e-6)
        kept_seconds = run.trained_seconds - run.lost_seconds
        assert run.trained_seconds == pytest.approx(sum(lengths))
        assert run.steps == pytest.approx(0.1 * kept_seconds, abs=1e-6)


class TestWhoWaits:
    def test_at_any_time_the_job_is_moved_at_once_and_loses_what_it_trained_since(self) -> None:
        stops = Stops(Checkpoints(every_seconds=400), RescaleRule.ANY)
        moves = moved(stops)
        assert moves.at == pytest.approx(660)
        assert not moves.waited
        assert moves.lost_seconds == pytest.approx(260)

    def test_by_default_the_product_waits_for_the_next_checkpoint_and_loses_nothing(self) -> None:
        stops = Stops(Checkpoints(every_seconds=400), RescaleRule.CHECKPOINT)
        moves = moved(stops)
        assert moves.waited
        assert moves.at == pytest.approx(800)
        assert moves.lost_seconds == pytest.approx(0)

    def test_a_job_that_never_saves_is_never_moved(self) -> None:
        moves = moved(Stops(Checkpoints(every_seconds=1e9), RescaleRule.CHECKPOINT))
        assert moves.waited
        assert moves.at is None


class TestASaveThatTakesTime:
    @staticmethod
    def outage(save_seconds: float) -> tuple[float, float, float]:
        """How long the moved job's pods stayed, how long it did not train, and what it lost."""
        stopped, left, again, lost = list[float](), list[float](), list[float](), 0.0

        def watch(cluster: SimulatedCluster) -> None:
            nonlocal lost
            state = cluster.states.get("a")
            if state is None or not state.restarts:
                return
            stopped.append(cluster.now)
            lost = state.training.lost_seconds
            if not any(pod.leaving for pod in state.pods):
                left.append(cluster.now)
            if state.phase is SimulatedPhase.TRAINING:
                again.append(cluster.now)

        run_growing(Stops(save_seconds=save_seconds), 150, watch)
        return left[0] - stopped[0], again[0] - stopped[0], lost

    def test_the_pods_stay_for_it_and_the_job_trains_later_by_it(self) -> None:
        left, again, lost = self.outage(0.0)
        later_left, later_again, later_lost = self.outage(40.0)
        assert (later_left, later_again) == pytest.approx((left + 40, again + 40))
        assert lost == later_lost == 0.0


class TestWhatARestartTakes:
    def test_it_is_one_of_the_measured_times(self) -> None:
        run = Training(replace(job("a"), restart_seconds=(5.0, 50.0)), seed=1)
        drawn = [run.draw_rescale_seconds() for _ in range(64)]
        assert set(drawn) == {5.0, 50.0}

    def test_without_any_it_is_the_jobs_own(self) -> None:
        assert training(None).draw_rescale_seconds() == 30.0

    def test_longer_ones_end_later(self) -> None:
        submitted: Workload = WORKLOADS["uniform"](8, stream(2, Purpose.WORKLOAD))

        def total(seconds: float) -> float:
            config = preset("drf")
            found = simulate(Stops(restart_seconds=(seconds,)).of(submitted), config, 2)
            return sum(each.completion_seconds for each in found.jobs)

        assert total(400.0) > total(10.0)
