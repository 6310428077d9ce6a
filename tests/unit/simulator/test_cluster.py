"""The simulated cluster: what a move does to room and training, and when."""

from dataclasses import replace

from optimus.allocation.policy import Service
from optimus.interval.capacity_plan import Held
from optimus.jobs import Counts, Role
from optimus.nodes import NODE_KIND_LABEL
from optimus.placement.theorem1 import Theorem1
from optimus.rescale.purpose import RescalePurpose
from optimus.resources import NONE, Resources
from optimus.simulator.cluster import (
    JobState,
    Move,
    Phase,
    SimulatedCluster,
)
from optimus.simulator.training import Training
from optimus.snapshot import ReplicaId
from tests.unit.simulator.workloads import PS, WORKER, JobParameters, job, nodes

RESCALE, START, LEAVING = 30.0, 5.0, 10.0


def arrived(
    cluster: SimulatedCluster, name: str = "a", *, visible_at: float | None = None
) -> JobState:
    truth = job(name, JobParameters(epochs=100, rescale_seconds=RESCALE, start_seconds=START))
    seen = cluster.now if visible_at is None else visible_at
    state = JobState(truth, truth.job, Training(truth, seed=1), seen)
    cluster.add(state)
    return state


def move_to(
    state: JobState,
    *where: str,
    free_at: float = 0.0,
    purpose: RescalePurpose = RescalePurpose.INTERVAL,
) -> Move:
    """A PS on the first of these nodes, and a worker on each of the others."""
    held = [Held(ReplicaId(state.job.uid, Role.PS, 0), where[0], PS)]
    held += [
        Held(ReplicaId(state.job.uid, Role.WORKER, n), node, WORKER)
        for n, node in enumerate(where[1:])
    ]
    return Move(Counts(1, len(where) - 1), tuple(held), free_at, purpose)


def running() -> tuple[SimulatedCluster, JobState]:
    cluster = SimulatedCluster(nodes(2), LEAVING)
    state = arrived(cluster)
    cluster.move(state, move_to(state, "node-0", "node-0"))
    cluster.advance(START + 100)
    cluster.catch_up()
    return cluster, state


class TestService:
    """Nodes 0 and 1 are of two kinds, of 4 cores each; a task takes one."""

    @staticmethod
    def _bound(*where: str) -> tuple[SimulatedCluster, JobState]:
        kinds = {"node-0": "fast", "node-1": "slow"}
        of_kinds = [replace(node, labels={NODE_KIND_LABEL: kinds[node.name]}) for node in nodes(2)]
        cluster = SimulatedCluster(of_kinds, LEAVING)
        state = arrived(cluster)
        cluster.move(state, move_to(state, *where))
        return cluster, state

    def test_is_counted_from_the_binding_on_by_share_and_kind(self) -> None:
        cluster, state = self._bound("node-0", "node-0")
        cluster.advance(40.0)
        assert cluster.service(state) == Service(40.0, {"fast": 40.0})

    def test_of_workers_on_several_kinds_is_divided(self) -> None:
        cluster, state = self._bound("node-0", "node-0", "node-0", "node-1")
        cluster.advance(60.0)
        assert dict(cluster.service(state).by_kind) == {"fast": 40.0, "slow": 20.0}

    def test_ends_with_a_stop_and_goes_on_after_it(self) -> None:
        cluster, state = self._bound("node-0", "node-0")
        cluster.advance(40.0)
        cluster.pause(state)
        cluster.advance(100.0)
        assert cluster.service(state).seconds == 40.0
        cluster.move(state, move_to(state, "node-1", "node-1", free_at=100.0))
        cluster.advance(110.0)
        assert dict(cluster.service(state).by_kind) == {"fast": 40.0, "slow": 10.0}


class TestAFirstStart:
    def test_it_takes_room_at_once_and_trains_when_its_pods_have_started(self) -> None:
        cluster = SimulatedCluster(nodes(2), LEAVING)
        state = arrived(cluster)
        cluster.move(state, move_to(state, "node-0", "node-1"))
        assert cluster.used() == {"node-0": PS, "node-1": WORKER}
        assert (state.phase, cluster.next_at) == (Phase.STARTING, START)
        cluster.advance(START)
        assert state.phase is Phase.TRAINING
        assert state.training.run is not None
        assert state.training.run.servers == (Counts(1, 0), Counts(0, 1))

    def test_it_waits_until_others_have_left_the_room(self) -> None:
        cluster = SimulatedCluster(nodes(2), LEAVING)
        state = arrived(cluster)
        cluster.move(state, move_to(state, "node-0", "node-0", free_at=8.0))
        assert cluster.used() == {"node-0": NONE, "node-1": NONE}
        assert cluster.free_capacity(Theorem1()).free["node-0"] == Resources(cpu=2000)
        cluster.advance(8.0)
        assert cluster.used()["node-0"] == PS + WORKER
        cluster.advance(8.0 + START)
        assert state.phase is Phase.TRAINING

    def test_it_counts_as_no_rescale(self) -> None:
        _, state = running()
        assert (
            state.record.rescales,
            state.restarts,
            state.history(0.0).rescaling_to,
        ) == (0, 0, None)


class TestARescale:
    def test_the_old_pods_hold_their_room_until_they_have_left(self) -> None:
        cluster, state = running()
        cluster.move(state, move_to(state, "node-1", "node-1", "node-1"))
        assert state.training.run is None
        assert cluster.used() == {"node-0": PS + WORKER, "node-1": NONE}
        free = cluster.free_capacity(Theorem1()).free
        assert (free["node-0"], free["node-1"]) == (Resources(cpu=2000), Resources(cpu=1000))
        cluster.advance(cluster.now + LEAVING)
        assert cluster.used() == {"node-0": NONE, "node-1": PS + WORKER * 2}

    def test_training_stands_still_for_as_long_as_a_rescale_takes(self) -> None:
        cluster, state = running()
        began, steps = cluster.now, state.training.steps
        cluster.move(state, move_to(state, "node-1", "node-1", "node-1"))
        on_its_way = state.history(0.0)
        cluster.advance(began + RESCALE)
        arrived_there = state.history(0.0)
        assert (on_its_way.rescaling_to, arrived_there.rescaling_to) == (Counts(1, 2), None)
        assert (state.training.steps, state.phase) == (steps, Phase.TRAINING)
        assert (arrived_there.rescales, arrived_there.last_rescaled_at) == (1, began + RESCALE)
        cluster.advance(began + RESCALE + 10)
        cluster.catch_up()
        assert state.training.steps == steps + 20

    def test_one_that_measures_begins_a_profiling_run_and_is_counted_apart(self) -> None:
        cluster, state = running()
        began = cluster.now
        cluster.move(
            state, move_to(state, "node-1", "node-1", "node-1", purpose=RescalePurpose.PROFILING)
        )
        cluster.advance(began + RESCALE)
        history = state.history(0.0)
        assert (history.profiling_since, history.rescales, history.last_rescaled_at) == (
            began + RESCALE,
            0,
            None,
        )
        assert state.restarts == 1

    def test_the_users_own_counts_are_reported_until_an_interval_changes_them(self) -> None:
        cluster, state = running()
        state.record = replace(state.record, profiled=(Counts(1, 2),), own_counts=Counts(1, 1))
        reported = [state.history(0.0).own_counts]
        for purpose, node in (
            (RescalePurpose.PROFILING, "node-1"),
            (RescalePurpose.INTERVAL, "node-0"),
        ):
            cluster.move(state, move_to(state, node, node, node, purpose=purpose))
            cluster.advance(cluster.now + RESCALE)
            reported.append(state.history(0.0).own_counts)
        assert reported == [None, Counts(1, 1), None]


class TestAPause:
    def test_the_room_is_free_when_the_pods_have_left_and_a_return_costs_the_rest_of_a_restart(
        self,
    ) -> None:
        cluster, state = running()
        began = cluster.now
        cluster.pause(state)
        assert cluster.used()["node-0"] == PS + WORKER
        cluster.advance(began + LEAVING)
        assert (state.phase, cluster.used()["node-0"]) == (Phase.WAITING, NONE)
        cluster.advance(began + 500)
        cluster.move(state, move_to(state, "node-1", "node-1", free_at=cluster.now))
        assert cluster.next_at == began + 500 + RESCALE - LEAVING
        assert state.record.pauses == 1


class TestTime:
    def test_a_job_in_its_pre_run_is_not_seen(self) -> None:
        cluster = SimulatedCluster(nodes(2), LEAVING)
        state = arrived(cluster, visible_at=50.0)
        assert cluster.visible == []
        assert not cluster.snapshot().jobs
        assert cluster.next_at == 50.0
        assert cluster.advance(50.0)
        assert cluster.visible == [state]

    def test_a_job_ends_where_its_work_does_and_gives_its_room_back(self) -> None:
        cluster, state = running()
        assert cluster.advance(START + 1000)
        assert (state.phase, state.ended_at) == (Phase.ENDED, START + 1000)
        assert cluster.used()["node-0"] == NONE
        assert cluster.states == {}


class TestPrice:
    """A restart of 30 s."""

    @staticmethod
    def _moved(*, measures_prices: bool) -> JobState:
        cluster = SimulatedCluster(nodes(2), LEAVING, measures_prices=measures_prices)
        state = arrived(cluster)
        cluster.move(state, move_to(state, "node-0", "node-0"))
        cluster.advance(START + 100)
        assert state.history(cluster.now).prices == (), "a first start is no rescale"
        cluster.move(state, move_to(state, "node-0", "node-0", "node-1", free_at=cluster.now))
        cluster.advance(cluster.now + RESCALE + 1)
        return state

    def test_of_a_rescale_is_the_time_without_training(self) -> None:
        assert self._moved(measures_prices=True).history(0.0).prices == (RESCALE,)

    def test_is_assumed_where_it_is_not_measured(self) -> None:
        assert self._moved(measures_prices=False).history(0.0).prices == ()
