"""What an interval decides: scenes of small clusters, and what holds of every plan."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.allocation import JobHistory
from scheduling.interval import Action, Decision, IntervalPlan, IntervalRules, Seen, plan_interval
from scheduling.interval.layout import Layout
from scheduling.jobs import AtTarget, CountBounds, Counts, FixedRole, Job, ReplicaSpec, RescaleRule, Role
from scheduling.nodes import Node
from scheduling.placement.theorem1 import Theorem1
from scheduling.progress.record import SpeedSample, TrainingProgress
from scheduling.resources import Resources
from scheduling.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cluster import TASK, Known, bind, done, job, methods, nodes, steps

AT = 10_000.0
HERE = ["node-00"] * 20


@dataclass
class Scene:
    """A cluster: jobs with the nodes of their pods (none: it waits), and what is known of their future."""

    jobs: list[tuple[Job, list[str]]]
    known: dict[str, Known] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=lambda: nodes(2, 4))
    history: dict[str, JobHistory] = field(default_factory=dict)
    others: list[BoundPod] = field(default_factory=list)
    rules: IntervalRules = field(default_factory=IntervalRules)

    def plan(self) -> IntervalPlan:
        pods = [pod for each, where in self.jobs for pod in (bind(each, where[: sum(each.counts)]) if where else [])]
        snapshot = ClusterSnapshot.of(AT, [each for each, _ in self.jobs], self.nodes, pods + self.others)
        history = {f"uid-{name}": value for name, value in self.history.items()}
        return plan_interval("i7", Seen(snapshot, {}, history), methods(self.known), self.rules)

    def decisions(self) -> dict[str, Decision]:
        return {decision.key.name: decision for decision in self.plan().decisions}


def two(first: str, second: str, of_each: int = 4) -> list[str]:
    return [first] * of_each + [second] * of_each


FULL = two("node-00", "node-01")
BIG = job("big", (3, 5))
NEW = job("new", (1, 2))

SCENES: list[tuple[str, Scene, dict[str, tuple[Action, tuple[int, int], str]]]] = [
    (
        "a job alone grows to what is free",
        Scene([(job("a"), HERE)], {"a": steps(1000)}),
        {"a": (Action.GROW, (3, 5), "remaining 8420 s become 2280 s")},
    ),
    (
        "a job without a forecast is left as it is",
        Scene([(job("a"), HERE)]),
        {"a": (Action.KEEP, (1, 1), "no forecast yet: 3 loss points, 5 needed")},
    ),
    (
        "a gain that does not pay for the restart is not taken",
        Scene([(job("a"), HERE)], {"a": steps(10)}),
        {"a": (Action.KEEP, (1, 1), "not worth a restart of 60 s")},
    ),
    (
        "a gain within the error of the forecast is not taken",
        Scene(
            [(job("a", (3, 4)), FULL)],
            {"a": steps(9000)},
            rules=IntervalRules(rescale_seconds=0.1, hysteresis_fraction=0.5),
        ),
        {"a": (Action.KEEP, (3, 4), "not worth a restart")},
    ),
    (
        "a new job that fits gets the counts of its user before anyone grows",
        Scene([(job("a"), HERE), (NEW, [])], {"a": steps(1000)}),
        {"a": (Action.GROW, (2, 3), ""), "new": (Action.WAIT, (1, 2), "there is room for its 1 PS + 2 workers")},
    ),
    (
        "a running job shrinks so that a new one can start at its minimum",
        Scene([(BIG, FULL), (NEW, [])], {"big": steps(1000)}),
        {
            "big": (Action.SHRINK, (2, 4), "gives room to team/new, which waits for 1 PS + 1 worker"),
            "new": (Action.SHRINK, (1, 1), "not for its 1 PS + 2 workers"),
        },
    ),
    (
        "a new job that is not managed gets its counts whole",
        Scene([(BIG, FULL), (job("new", (1, 2), goal=None), [])], {"big": steps(1000)}),
        {"big": (Action.SHRINK, (2, 3), "gives room to team/new")},
    ),
    (
        "a new job waits where even all minimums leave no room",
        Scene([(replace(BIG, bounds=CountBounds(3, None, 5, None)), FULL), (NEW, [])], {"big": steps(1000)}),
        {"big": (Action.KEEP, (3, 5), ""), "new": (Action.WAIT, (1, 2), "do not fit even with every job")},
    ),
    (
        "a job too big for the cluster takes nothing from anyone",
        Scene([(BIG, FULL), (job("huge", (50, 50), goal=None), [])], {"big": steps(1000)}),
        {"big": (Action.KEEP, (3, 5), "")},
    ),
    (
        "a job at its goal keeps what nobody needs",
        Scene([(BIG, FULL)], {"big": done()}),
        {"big": (Action.KEEP, (3, 5), "its goal is met")},
    ),
    (
        "a job at its goal never grows again",
        Scene([(job("a"), HERE)], {"a": done()}),
        {"a": (Action.KEEP, (1, 1), "")},
    ),
    (
        "a job at its goal gives its room to one that grows",
        Scene([(job("old", (2, 4)), FULL), (job("a"), ["node-01", "node-01"])], {"old": done(), "a": steps(1000)}),
        {"old": (Action.SHRINK, (1, 1), "gives room to team/a"), "a": (Action.GROW, (2, 4), "")},
    ),
    (
        "a job at its goal whose user wants that is suspended and its room given away",
        Scene(
            [(job("old", (2, 4), at_target=AtTarget.SUSPEND), FULL), (job("a"), ["node-01", "node-01"])],
            {"old": done(), "a": steps(1000)},
        ),
        {"old": (Action.SUSPEND, (2, 4), "at-target is suspend"), "a": (Action.GROW, (3, 5), "")},
    ),
    (
        "a job suspended by its user takes nothing",
        Scene([(job("off", (3, 5), suspended=True), []), (job("a"), HERE)], {"a": steps(1000), "off": steps(10)}),
        {"off": (Action.KEEP, (3, 5), "suspended by its user"), "a": (Action.GROW, (3, 5), "")},
    ),
    (
        "a job that says never is left as it is",
        Scene([(job("a", rescale=RescaleRule.NEVER), HERE)], {"a": steps(1000)}),
        {"a": (Action.KEEP, (1, 1), "says never")},
    ),
    (
        "a job that is left alone says why",
        Scene([(job("a", left_alone="Kueue manages it"), HERE)], {"a": steps(1000)}),
        {"a": (Action.KEEP, (1, 1), "Kueue manages it")},
    ),
    (
        "a job in the middle of a rescale is charged with its target",
        Scene(
            [(job("moving"), []), (job("a"), HERE)],
            {"a": steps(1000), "moving": steps(1000)},
            history={"moving": JobHistory(rescaling_to=Counts(2, 2))},
        ),
        {
            "moving": (Action.KEEP, (1, 1), "in the middle of a rescale to 2 PS + 2 workers"),
            "a": (Action.GROW, (1, 3), ""),
        },
    ),
    (
        "a job that was just rescaled is left in peace",
        Scene([(job("a"), HERE)], {"a": steps(1000)}, history={"a": JobHistory(rescales=1, last_rescaled_at=AT - 10)}),
        {"a": (Action.KEEP, (1, 1), "rescaled 10 s ago")},
    ),
    (
        "a job that was rescaled too often does not grow",
        Scene([(job("a"), HERE)], {"a": steps(1000)}, history={"a": JobHistory(rescales=20)}),
        {"a": (Action.KEEP, (1, 1), "rescaled 20 times: it does not grow again")},
    ),
    (
        "a job that was rescaled too often still makes room for a new one",
        Scene([(BIG, FULL), (NEW, [])], {"big": steps(1000)}, history={"big": JobHistory(rescales=20)}),
        {"big": (Action.SHRINK, (2, 4), "gives room"), "new": (Action.SHRINK, (1, 1), "")},
    ),
    (
        "growth that saves less than the other's loss and both restarts is not made room for",
        Scene([(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)], {"a": steps(35), "b": steps(35)}),
        {
            "a": (Action.KEEP, (1, 1), "1 PS + 3 workers do not fit beside what the others keep"),
            "b": (Action.KEEP, (2, 4), "nobody needs what it could give back"),
        },
    ),
    (
        "growth that saves more than the other's loss and both restarts is made room for",
        Scene([(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)], {"a": steps(40), "b": steps(40)}),
        {
            "a": (Action.GROW, (1, 3), "worker 3 saves 41 s of 189 s"),
            "b": (Action.SHRINK, (1, 3), "gives room to team/a, which gains more by it"),
        },
    ),
    (
        "room is promised once: the second new job waits for more",
        Scene(
            [(replace(BIG, bounds=CountBounds(2, None, 4, None)), FULL), (NEW, []), (job("too", (1, 2)), [])],
            {"big": steps(1000)},
        ),
        {
            "big": (Action.SHRINK, (2, 4), "gives room to team/new"),
            "new": (Action.SHRINK, (1, 1), ""),
            "too": (Action.WAIT, (1, 2), "do not fit even with every job that may be resized now at its minimum"),
        },
    ),
    (
        "a new job outside its bounds starts at its minimum where its nearest counts do not fit",
        Scene([(job("a", (1, 6), bounds=CountBounds(max_workers=4)), [])], nodes=nodes(1, 3)),
        {"a": (Action.SHRINK, (1, 1), "its bounds do not allow its 1 PS + 6 workers")},
    ),
    (
        "a new job that was rescaled a moment ago waits at its counts",
        Scene([(job("a"), [])], history={"a": JobHistory(rescales=1, last_rescaled_at=AT - 10)}),
        {"a": (Action.WAIT, (1, 1), "there is room for its 1 PS + 1 worker")},
    ),
    (
        "counts that found no place are not tried again",
        Scene([(job("a"), HERE)], {"a": steps(1000)}, history={"a": JobHistory(unplaceable=(Counts(3, 5),))}),
        {"a": (Action.GROW, (2, 5), "trimmed from 3 PS + 5 workers, which found no place")},
    ),
    (
        "a job being profiled is left at those counts",
        Scene([(job("a"), HERE)], {"a": steps(1000)}, history={"a": JobHistory(profiling_since=AT - 5)}),
        {"a": (Action.KEEP, (1, 1), "being profiled")},
    ),
    (
        "bounds that moved force a rescale without a forecast",
        Scene([(job("a", bounds=CountBounds(min_workers=3)), HERE)]),
        {"a": (Action.GROW, (1, 3), "its bounds do not allow its 1 PS + 1 worker")},
    ),
    (
        "bounds that moved force a rescale that does not pay",
        Scene([(job("a", (1, 3), bounds=CountBounds(max_workers=1)), HERE)], {"a": steps(10)}),
        {"a": (Action.SHRINK, (1, 1), "its bounds do not allow")},
    ),
    (
        "bounds that moved force a rescale also of a job that was just rescaled",
        Scene(
            [(job("a", bounds=CountBounds(min_workers=3)), HERE)],
            history={"a": JobHistory(rescales=50, last_rescaled_at=AT - 1)},
        ),
        {"a": (Action.GROW, (1, 3), "its bounds do not allow")},
    ),
    (
        "bounds that do not fit are said not to",
        Scene([(job("a", bounds=CountBounds(min_workers=30)), HERE)]),
        {"a": (Action.KEEP, (1, 1), "do not fit")},
    ),
    (
        "pods of others are not taken room from",
        Scene([(job("a"), HERE)], {"a": steps(1000)}, others=[BoundPod("x", "node-01", Resources(cpu=3000))]),
        {"a": (Action.GROW, (2, 3), "")},
    ),
    (
        "the room of pods being deleted is planned with",
        Scene(
            [(job("a"), HERE)], {"a": steps(1000)}, others=[BoundPod("x", "node-01", Resources(cpu=3000), leaving=True)]
        ),
        {"a": (Action.GROW, (3, 5), "")},
    ),
]


@pytest.mark.parametrize(("scene", "expected"), [each[1:] for each in SCENES], ids=[each[0] for each in SCENES])
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


def test_an_allocation_that_no_node_can_hold_is_trimmed_with_the_reason() -> None:
    wide = ReplicaSpec(Resources(cpu=3000))
    a = replace(job("a"), worker=wide)
    pods = [replace(pod, resources=spec.resources) for pod, spec in zip(bind(a, HERE[:2]), (a.ps, wide), strict=True)]
    snapshot = ClusterSnapshot.of(AT, [a], nodes(3, 5), pods)
    (decision,) = plan_interval("i7", Seen(snapshot), methods({"a": steps(1000)}), IntervalRules()).decisions
    assert decision.action is Action.GROW
    assert decision.counts.workers == 3
    assert "trimmed from" in decision.reason


def test_rooms_are_freed_before_they_are_taken() -> None:
    actions = [each.action for each in SCENES[11][1].plan().decisions]
    assert actions == [Action.SHRINK, Action.GROW]


def test_a_half_bound_job_keeps_room_for_its_other_pods() -> None:
    half = job("half", (1, 3), goal=None)
    pods = bind(half, HERE[:4])[:2] + bind(job("a"), ["node-01"] * 2)
    snapshot = ClusterSnapshot.of(AT, [half, job("a")], nodes(2, 4), pods)
    (decision,) = plan_interval("i7", Seen(snapshot), methods({"a": steps(1000)}), IntervalRules()).decisions
    assert sum(decision.counts) == 4


def test_a_job_that_lost_pods_and_their_room_goes_on_smaller() -> None:
    half = job("half", (1, 3))
    snapshot = ClusterSnapshot.of(AT, [half], nodes(1, 3), bind(half, HERE[:4])[:2])
    (decision,) = plan_interval("i7", Seen(snapshot), methods({}), IntervalRules()).decisions
    assert decision.counts == Counts(1, 1)
    assert "not all of its 1 PS + 3 workers are placed" in decision.reason


def measured_at(*counts: tuple[int, int]) -> TrainingProgress:
    return TrainingProgress(samples=tuple(SpeedSample(Counts(*each), 1.0, 60.0, AT) for each in counts))


@pytest.mark.parametrize(
    ("progress", "big"),
    [
        pytest.param(measured_at((1, 1)), (2, 3), id="room is made to measure a job that has been measured once"),
        pytest.param(measured_at((1, 1), (1, 2), (2, 1)), (3, 4), id="not for one that has been measured enough"),
        pytest.param(measured_at(), (3, 4), id="not for one that does not train yet"),
    ],
)
def test_room_is_made_to_measure(progress: TrainingProgress, big: tuple[int, int]) -> None:
    old, young = job("old", (3, 4)), job("young")
    pods = bind(old, two("node-00", "node-01")[:7]) + bind(young, ["node-01", "node-02"])
    cluster = [*nodes(2, 4), Node("node-02", Resources(cpu=1000))]
    snapshot = ClusterSnapshot.of(AT, [old, young], cluster, pods)
    seen = Seen(snapshot, {young.uid: progress})
    decided = {
        each.key.name: each
        for each in plan_interval("i7", seen, methods({"old": steps(1000)}), IntervalRules()).decisions
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
    known: dict[str, Known] = {}
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
                draw(st.integers(1, 2)), draw(st.sampled_from([None, 3])), 1, draw(st.sampled_from([None, 4]))
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
        prediction = draw(st.sampled_from([None, steps(10), steps(1000), steps(50000), done()]))
        if prediction is not None:
            known[name] = prediction
        history[name] = draw(
            st.sampled_from(
                [
                    JobHistory(),
                    JobHistory(rescales=20),
                    JobHistory(last_rescaled_at=AT - 1),
                    JobHistory(rescaling_to=Counts(1, 2)),
                    JobHistory(profiling_since=AT - 1),
                    JobHistory(unplaceable=(Counts(2, 2), Counts(3, 4))),
                ]
            )
        )
    return Scene(jobs, known, cluster, history)


@given(scene=scenes(), data=st.data())
def test_the_order_of_input_does_not_matter(scene: Scene, data: st.DataObject) -> None:
    shuffled = replace(
        scene, jobs=data.draw(st.permutations(scene.jobs)), nodes=data.draw(st.permutations(scene.nodes))
    )
    assert repr(shuffled.plan()) == repr(scene.plan())


@given(scene=scenes())
def test_all_that_is_decided_fits_at_once(scene: Scene) -> None:
    """Place every job that takes room after the plan, in the order in which the plan would: everyone has a place."""
    decided = scene.decisions()
    total_cores = sum(node.allocatable["cpu"] for node in scene.nodes)
    used = 0
    for each, where in scene.jobs:
        decision = decided.get(each.key.name)
        moving = scene.history[each.key.name].rescaling_to if each.managed else None
        takes_room = where or (decision is not None and decision.rescales)
        if moving or each.suspended or (decision and decision.action is Action.SUSPEND) or not takes_room:
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
    """With nobody waiting, nobody growing and no bounds moved, no running job is made smaller or slower."""
    decided = scene.decisions()
    for each, where in scene.jobs:
        decision = decided.get(each.key.name)
        if decision is None or decision.action is not Action.SHRINK or not where or not each.bounds.allow(each.counts):
            continue
        now, after = decision.outlook.now_seconds, decision.outlook.after_seconds
        assert now is not None
        assert after is not None
        assert after < now or "gives room to" in decision.reason


def test_a_layout_gives_back_what_it_took() -> None:
    a = job("a")
    snapshot = ClusterSnapshot.of(AT, [a], nodes(2, 4), bind(a, HERE[:2]))
    layout = Layout.of(snapshot, Theorem1())
    before = dict(layout.free)
    assert layout.move(a, Counts(9, 9)) is not None
    assert layout.free == before
    assert layout.move(a, Counts(2, 2)) is None
    layout.release(a.uid)
    assert layout.free == {node.name: node.allocatable for node in snapshot.nodes}
