"""The simulated cluster: what a rescale does to capacity and training, and when."""

from dataclasses import replace

from optimus.allocation.policy import Service
from optimus.interval.capacity_plan import CapacityPlan, Held
from optimus.jobs import NO_COUNTS, Counts, Role
from optimus.lifecycle import received_until
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.placement.theorem1 import Theorem1
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason, RescaleRecord, Step
from optimus.resources import NONE, Resources
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase
from optimus.simulator.executor import SimulatedExecutor, begin_rescale
from optimus.simulator.training import Training
from optimus.snapshot import ReplicaId
from tests.unit.simulator.workloads import PS, WORKER, JobParameters, job, nodes

RESCALE, START, LEAVING = 30.0, 5.0, 10.0


class Harness:
    """One job on a cluster whose rescales are advanced after each event, as the scheduler does."""

    def __init__(
        self,
        on: tuple[Node, ...] | None = None,
        *,
        measures_prices: bool = False,
    ) -> None:
        on = on or nodes(2)
        self.cluster = SimulatedCluster(on, LEAVING, measures_prices=measures_prices)
        truth = job("a", JobParameters(epochs=100, rescale_seconds=RESCALE, start_seconds=START))
        self.state = SimulatedJobState(truth, truth.job, Training(truth, seed=1), 0.0)
        self.cluster.add(self.state)
        self.steps: list[tuple[float, str]] = []

    def run(self, to: float) -> None:
        while self.cluster.next_at <= to:
            self.cluster.advance(self.cluster.next_at)
            self.advance()
        self.cluster.advance(to)
        self.cluster.catch_up()

    def advance(self, placement: tuple[Held, ...] | None = None, free_at: float = 0.0) -> None:
        cluster, state = self.cluster, self.state
        if state.rescale is None:
            return

        def headroom() -> CapacityPlan:
            return CapacityPlan.of(cluster.snapshot(), Theorem1(), leaving_counts=True)

        SimulatedExecutor(cluster, state, headroom, 600.0).advance(placement, free_at)
        step = "over" if state.rescale is None else state.rescale.record.step_text
        self.steps.append((cluster.now, step))

    @property
    def service(self) -> Service:
        return received_until(self.state.record, self.cluster.now)

    def place(self, *where: str) -> None:
        self.cluster.place(self.state, held(*where))

    def move(
        self, *where: str, purpose: RescalePurpose = RescalePurpose.INTERVAL, free_at: float = 0.0
    ) -> None:
        """Begin to move it to one PS on the first of these nodes, and a worker on each other."""
        self._begin(Counts(1, len(where) - 1), purpose)
        self.advance(held(*where), free_at)

    def pause(self) -> None:
        self._begin(NO_COUNTS, RescalePurpose.INTERVAL, PauseReason.POLICY)
        self.advance()

    def _begin(
        self, target: Counts, purpose: RescalePurpose, pause: PauseReason | None = None
    ) -> None:
        now, before = self.cluster.now, self.state.job.counts
        record = RescaleRecord(
            "i1",
            now,
            before,
            target,
            "why",
            Step.CHECKPOINT,
            now,
            purpose=purpose,
            pause=pause,
        )
        begin_rescale(self.state, record)


def held(*where: str) -> tuple[Held, ...]:
    ps = Held(ReplicaId("a", Role.PS, 0), where[0], PS)
    workers = (
        Held(ReplicaId("a", Role.WORKER, n), node, WORKER) for n, node in enumerate(where[1:])
    )
    return ps, *workers


def running(*, measures_prices: bool = False) -> Harness:
    harness = Harness(measures_prices=measures_prices)
    harness.place("node-0", "node-0")
    harness.run(START + 100)
    return harness


class TestService:
    """Nodes 0 and 1 are of two kinds, of 4 cores each; a task takes one."""

    @staticmethod
    def _bound(*where: str) -> Harness:
        kinds = {"node-0": "fast", "node-1": "slow"}
        harness = Harness(
            tuple(replace(each, labels={NODE_KIND_LABEL: kinds[each.name]}) for each in nodes(2))
        )
        harness.place(*where)
        return harness

    def test_is_counted_from_the_binding_on_by_share_and_kind(self) -> None:
        harness = self._bound("node-0", "node-0")
        harness.run(40.0)
        assert harness.service == Service(40.0, {"fast": 40.0})

    def test_of_workers_on_several_kinds_is_divided(self) -> None:
        harness = self._bound("node-0", "node-0", "node-0", "node-1")
        harness.run(60.0)
        by_kind = harness.service.by_kind
        assert dict(by_kind) == {"fast": 40.0, "slow": 20.0}

    def test_ends_with_a_stop_and_goes_on_after_it(self) -> None:
        harness = self._bound("node-0", "node-0")
        harness.run(40.0)
        harness.pause()
        harness.run(100.0)
        assert harness.service.seconds == 40.0
        harness.move("node-1", "node-1")
        harness.run(110.0)
        by_kind = harness.service.by_kind
        assert dict(by_kind) == {"fast": 40.0, "slow": 10.0}


class TestAFirstStart:
    def test_it_takes_room_at_once_and_trains_when_its_pods_have_started(self) -> None:
        harness = Harness()
        cluster, state = harness.cluster, harness.state
        harness.place("node-0", "node-1")
        assert cluster.used() == {"node-0": PS, "node-1": WORKER}
        assert (state.phase, cluster.next_at) == (SimulatedPhase.STARTING, START)
        harness.run(START)
        assert state.phase is SimulatedPhase.TRAINING
        assert state.training.run is not None
        assert state.training.run.servers == (Counts(1, 0), Counts(0, 1))
        history = state.history(0.0)
        assert (history.rescales, state.restarts, history.rescaling_to) == (0, 0, None)

    def test_of_a_job_that_its_policy_starts_waits_until_others_have_left_the_room(self) -> None:
        harness = Harness()
        cluster, state = harness.cluster, harness.state
        state.suspended_by, state.pause = "submission", PauseReason.POLICY
        harness.move("node-0", "node-0", free_at=8.0)
        assert cluster.used() == {"node-0": NONE, "node-1": NONE}
        assert cluster.snapshot().free()["node-0"] == Resources(cpu=2000)
        harness.run(8.0)
        assert cluster.used()["node-0"] == PS + WORKER
        harness.run(8.0 + START)
        assert (state.phase, state.record.rescales) == (SimulatedPhase.TRAINING, 0)
        assert harness.steps == [(0, "start"), (8, "start"), (8 + START, "over")]


class TestARescale:
    def test_is_the_products_state_machine_on_virtual_time(self) -> None:
        harness = running()
        began = harness.cluster.now
        harness.move("node-1", "node-1", "node-1")
        assert harness.state.job.counts == Counts(1, 1), "resized when the job is resumed"
        harness.run(began + RESCALE)
        assert harness.steps == [
            (began, "empty"),
            (began + LEAVING, "start"),
            (began + RESCALE, "over"),
        ]

    def test_the_old_pods_hold_their_room_until_they_have_left(self) -> None:
        harness = running()
        cluster, state = harness.cluster, harness.state
        harness.move("node-1", "node-1", "node-1")
        assert state.training.run is None
        assert cluster.used() == {"node-0": PS + WORKER, "node-1": NONE}
        free = cluster.snapshot().free()
        assert (free["node-0"], free["node-1"]) == (Resources(cpu=2000), Resources(cpu=1000))
        harness.run(cluster.now + LEAVING)
        assert cluster.used() == {"node-0": NONE, "node-1": PS + WORKER * 2}

    def test_training_stands_still_for_as_long_as_a_rescale_takes(self) -> None:
        harness = running()
        state, began = harness.state, harness.cluster.now
        steps = state.training.steps
        harness.move("node-1", "node-1", "node-1")
        on_its_way = state.history(0.0)
        harness.run(began + RESCALE)
        arrived_there = state.history(0.0)
        assert (on_its_way.rescaling_to, arrived_there.rescaling_to) == (Counts(1, 2), None)
        assert (state.training.steps, state.phase) == (steps, SimulatedPhase.TRAINING)
        assert (arrived_there.rescales, arrived_there.last_rescaled_at) == (1, began + RESCALE)
        harness.run(began + RESCALE + 10)
        assert state.training.steps == steps + 20

    def test_one_that_measures_begins_a_profiling_run_that_no_cooldown_follows(self) -> None:
        harness = running()
        began = harness.cluster.now
        harness.move("node-1", "node-1", "node-1", purpose=RescalePurpose.PROFILING)
        harness.run(began + RESCALE)
        history = harness.state.history(0.0)
        assert (history.profiling_since, history.rescales, history.last_rescaled_at) == (
            began + RESCALE,
            1,
            None,
        )
        assert harness.state.restarts == 1

    def test_the_users_own_counts_are_reported_until_an_interval_changes_them(self) -> None:
        harness = running()
        state = harness.state
        state.record = replace(state.record, profiled=(Counts(1, 2),), own_counts=Counts(1, 1))
        reported = [state.history(0.0).own_counts]
        for purpose, node in (
            (RescalePurpose.PROFILING, "node-1"),
            (RescalePurpose.INTERVAL, "node-0"),
        ):
            harness.move(node, node, node, purpose=purpose)
            harness.run(harness.cluster.now + RESCALE)
            reported.append(state.history(0.0).own_counts)
        assert reported == [None, Counts(1, 1), None]

    def test_costs_the_time_without_training_where_that_is_measured(self) -> None:
        prices = []
        for measures_prices in (True, False):
            harness = running(measures_prices=measures_prices)
            assert harness.state.history(0.0).prices == (), "a first start is no rescale"
            harness.move("node-0", "node-0", "node-1")
            harness.run(harness.cluster.now + RESCALE)
            prices.append(harness.state.history(0.0).prices)
        assert prices == [(RESCALE,), ()]


class TestAPause:
    def test_the_room_is_free_when_the_pods_have_left_and_a_return_costs_the_rest_of_a_restart(
        self,
    ) -> None:
        harness = running()
        cluster, state, began = harness.cluster, harness.state, harness.cluster.now
        harness.pause()
        assert (cluster.used()["node-0"], state.is_paused) == (PS + WORKER, True)
        harness.run(began + LEAVING)
        assert (state.phase, cluster.used()["node-0"]) == (SimulatedPhase.WAITING, NONE)
        harness.run(began + 500)
        assert state.is_paused
        harness.move("node-1", "node-1")
        assert cluster.next_at == began + 500 + RESCALE - LEAVING
        assert (state.record.pauses, state.is_paused) == (1, False)
        assert [step for _, step in harness.steps] == ["empty", "over", "start"]


class TestTime:
    def test_a_job_ends_where_its_work_does_and_gives_its_room_back(self) -> None:
        harness = running()
        harness.run(START + 1000)
        assert (harness.state.phase, harness.state.ended_at) == (SimulatedPhase.ENDED, START + 1000)
        assert harness.cluster.used()["node-0"] == NONE
        assert harness.cluster.states == {}
