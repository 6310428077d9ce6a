"""What an interval decides: scenes of small clusters, and what holds of every plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import JobHistory, PlacementFailure
from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, plan_interval
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import (
    AtTarget,
    CountBounds,
    Counts,
    FixedRole,
    Job,
    ReplicaSpec,
    RescaleRule,
    Role,
)
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot
from tests.unit.interval.cluster import TASK, bind, done, job, methods, nodes, steps
from tests.unit.interval.scenes import AT, HERE, SCENES, Scene, two


@pytest.mark.parametrize(
    ("scene", "expected"), [each[1:] for each in SCENES], ids=[each[0] for each in SCENES]
)
def test_scene(scene: Scene, expected: dict[str, tuple[Action, tuple[int, int], str]]) -> None:
    decided = scene.decisions()
    found = {name: (each.action, tuple(each.counts)) for name, each in decided.items()}
    assert found == {name: (action, counts) for name, (action, counts, _) in expected.items()}
    for name, (_, _, words) in expected.items():
        assert words in decided[name].reason


def test_a_cordoned_node_is_no_room() -> None:
    cluster = nodes(2, 4)
    cluster[1] = replace(cluster[1], cordoned=True)
    decided = Scene([(job("a"), HERE)], {"a": steps(1000)}, nodes=cluster).decisions()
    assert sum(decided["a"].counts) == 4


def beside_a_wide_one(count: int, cores: int) -> dict[str, Decision]:
    """Job ``a`` with workers of 3 cores and job ``b`` with tasks of one, on so many nodes."""
    wide = ReplicaSpec(Resources(cpu=3000))
    a, b = replace(job("a"), worker=wide), job("b")
    pods = [
        replace(pod, resources=spec.resources)
        for pod, spec in zip(bind(a, HERE[:2]), (a.ps, wide), strict=True)
    ]
    snapshot = ClusterSnapshot.of(
        AT, [a, b], nodes(count, cores), [*pods, *bind(b, ["node-01"] * 2)]
    )
    known = methods({"a": steps(100_000), "b": steps(1000)})
    return {
        each.key.name: each
        for each in plan_interval("i7", IntervalInput(snapshot), known, IntervalConfig()).decisions
    }


def test_an_allocation_that_no_node_can_hold_is_trimmed_with_the_reason() -> None:
    decision = beside_a_wide_one(4, 4)["a"]
    assert decision.action is Action.GROW
    assert decision.counts.workers == 3
    assert "trimmed from" in decision.reason


def test_room_in_pieces_too_small_for_one_job_is_left_to_another() -> None:
    decided = beside_a_wide_one(
        6, 5
    )  # 6 workers of 3 cores find a place, one for each node; the sum would do for 9
    assert decided["a"].counts.workers == 6
    assert (
        "worker 7 does not fit: too little cpu, capacity on one node for a task of cpu=3000"
        in decided["a"].reason
    )
    assert decided["a"].counts.ps + sum(decided["b"].counts) == 2 * 6


def test_rooms_are_freed_before_they_are_taken() -> None:
    actions = [each.action for each in SCENES[11][1].plan().decisions]
    assert actions == [Action.SHRINK, Action.GROW]


def test_a_half_bound_job_keeps_room_for_its_other_pods() -> None:
    half = job("half", (1, 3), goal=None)
    pods = bind(half, HERE[:4])[:2] + bind(job("a"), ["node-01"] * 2)
    snapshot = ClusterSnapshot.of(AT, [half, job("a")], nodes(2, 4), pods)
    (decision,) = plan_interval(
        "i7", IntervalInput(snapshot), methods({"a": steps(1000)}), IntervalConfig()
    ).decisions
    assert sum(decision.counts) == 4


def test_a_job_that_lost_pods_and_their_room_goes_on_smaller() -> None:
    half = job("half", (1, 3))
    snapshot = ClusterSnapshot.of(AT, [half], nodes(1, 3), bind(half, HERE[:4])[:2])
    (decision,) = plan_interval(
        "i7", IntervalInput(snapshot), methods({}), IntervalConfig()
    ).decisions
    assert decision.counts == Counts(1, 1)
    assert "not all of its 1 PS + 3 workers are placed" in decision.reason


def measured_at(*counts: tuple[int, int]) -> TrainingProgress:
    return TrainingProgress(
        samples=tuple(SpeedSample(Counts(*each), 1.0, 60.0, AT) for each in counts)
    )


@pytest.mark.parametrize(
    ("progress", "big"),
    [
        pytest.param(
            measured_at((1, 1)),
            (2, 3),
            id="room is made to measure a job that has been measured once",
        ),
        pytest.param(
            measured_at((1, 1), (1, 2), (2, 1)),
            (3, 4),
            id="not for one that has been measured enough",
        ),
        pytest.param(measured_at(), (3, 4), id="not for one that does not train yet"),
    ],
)
def test_room_is_made_to_measure(progress: TrainingProgress, big: tuple[int, int]) -> None:
    old, young = job("old", (3, 4)), job("young")
    pods = bind(old, two("node-00", "node-01")[:7]) + bind(young, ["node-01", "node-02"])
    cluster = [*nodes(2, 4), Node("node-02", Resources(cpu=1000))]
    snapshot = ClusterSnapshot.of(AT, [old, young], cluster, pods)
    seen = IntervalInput(snapshot, {young.uid: progress})
    decided = {
        each.key.name: each
        for each in plan_interval(
            "i7", seen, methods({"old": steps(1000)}), IntervalConfig()
        ).decisions
    }
    assert decided["old"].counts == big
    assert decided["young"].action is Action.KEEP


def test_fixed_roles_are_part_of_the_demand() -> None:
    chief = job("a", fixed=(FixedRole(Role.CHIEF, 1, ReplicaSpec(TASK)),))
    decided = Scene([(chief, HERE)], {"a": steps(1000)}).decisions()
    assert sum(decided["a"].counts) == 7


# -- what holds of every plan


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    cluster = nodes(draw(st.integers(1, 4)), draw(st.integers(2, 8)))
    free = {node.name: node.allocatable["cpu"] // 1000 for node in cluster}
    jobs: list[tuple[Job, list[str]]] = []
    known: dict[str, Forecast] = {}
    history: dict[str, JobHistory] = {}
    for index in range(draw(st.integers(0, 5))):
        name = f"job{index}"
        counts = (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
        each = job(
            name,
            counts,
            draw(st.sampled_from([job("x").goal, job("x").goal, job("x").goal, None])),
            created_at=float(draw(st.integers(0, 10))),
            bounds=CountBounds(
                draw(st.integers(1, 2)),
                draw(st.sampled_from([None, 3])),
                1,
                draw(st.sampled_from([None, 4])),
            ),
            rescale=draw(st.sampled_from(RescaleRule)),
            at_target=draw(st.sampled_from(AtTarget)),
            suspended=draw(st.sampled_from([False, False, False, True])),
        )
        where = [node for node, left in free.items() for _ in range(left)][: sum(counts)]
        if each.suspended or len(where) < sum(counts) or draw(st.booleans()):
            where = []
        for node in where:
            free[node] -= 1
        jobs.append((each, where))
        forecast = draw(st.sampled_from([None, steps(10), steps(1000), steps(50000), done()]))
        if forecast is not None:
            known[name] = forecast
        history[name] = draw(
            st.sampled_from(
                [
                    JobHistory(),
                    JobHistory(rescales=20),
                    JobHistory(last_rescaled_at=AT - 1),
                    JobHistory(rescaling_to=Counts(1, 2)),
                    JobHistory(profiling_since=AT - 1),
                    JobHistory(
                        placement_failures=(
                            PlacementFailure(Counts(3, 4), Counts(1, 1), AT - 10_000, 600.0),
                        )
                    ),
                    JobHistory(
                        placement_failures=(
                            PlacementFailure(Counts(2, 2), Counts(1, 1), AT - 10, 600.0),
                        )
                    ),
                ]
            )
        )
    return Scene(jobs, known, cluster, history)


@given(scene=scenes(), data=st.data())
def test_the_order_of_input_does_not_matter(scene: Scene, data: st.DataObject) -> None:
    shuffled = replace(
        scene,
        jobs=data.draw(st.permutations(scene.jobs)),
        nodes=data.draw(st.permutations(scene.nodes)),
    )
    assert repr(shuffled.plan()) == repr(scene.plan())


@given(scene=scenes())
def test_all_that_is_decided_fits_at_once(scene: Scene) -> None:
    """All that the jobs hold after the plan is no more than the cluster has."""
    decided = scene.decisions()
    total_cores = sum(node.allocatable["cpu"] for node in scene.nodes)
    used = 0
    for each, where in scene.jobs:
        decision = decided.get(each.key.name)
        moving = scene.history[each.key.name].rescaling_to if each.managed else None
        takes_room = where or (decision is not None and decision.rescales)
        if (
            moving
            or each.suspended
            or (decision and decision.action is Action.SUSPEND)
            or not takes_room
        ):
            continue
        used += each.demand(decision.counts if decision else each.counts)["cpu"]
    assert used <= total_cores


@given(scene=scenes())
def test_nobody_is_moved_who_may_not_be(scene: Scene) -> None:
    decided = scene.decisions()
    for each, where in scene.jobs:
        history = scene.history[each.key.name]
        if each.goal is None:
            assert each.key.name not in decided
            continue
        decision = decided[each.key.name]
        assert decision.reason
        if each.suspended or each.rescale is RescaleRule.NEVER or history.rescaling_to is not None:
            assert not decision.rescales
        if decision.rescales:
            assert each.bounds.allow(decision.counts)
        grows = decision.counts.ps > each.counts.ps or decision.counts.workers > each.counts.workers
        if history.rescales >= 20 and each.bounds.allow(each.counts) and where:
            assert not grows


@given(scene=scenes())
def test_shrinking_is_for_somebody(scene: Scene) -> None:
    """No running job shrinks unless another takes its room, its bounds moved, or it gets faster."""
    decided = scene.decisions()
    for each, where in scene.jobs:
        decision = decided.get(each.key.name)
        if (
            decision is None
            or decision.action is not Action.SHRINK
            or not where
            or not each.bounds.allow(each.counts)
        ):
            continue
        now, after = decision.now_seconds, decision.after_seconds
        assert now is not None
        assert after is not None
        assert after < now or "gives room to" in decision.reason


def test_a_capacity_plan_gives_back_what_it_took() -> None:
    a = job("a")
    snapshot = ClusterSnapshot.of(AT, [a], nodes(2, 4), bind(a, HERE[:2]))
    room = CapacityPlan.of(snapshot, Theorem1())
    before = dict(room.free)
    assert room.move(a, Counts(9, 9)) is not None
    assert room.free == before
    assert room.move(a, Counts(2, 2)) is None
    room.release(a.uid)
    assert room.free == {node.name: node.allocatable for node in snapshot.nodes}
