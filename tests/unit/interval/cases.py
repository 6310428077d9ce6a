"""Cases of small clusters: jobs, forecasts, history, and the decisions expected."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from optimus.allocation import JobHistory, PlacementFailure
from optimus.interval import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    IntervalPlan,
    plan_interval,
)
from optimus.jobs import AtTarget, CountBounds, Counts, Job, RescaleRule
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cluster import Sync, bind, done, job, nodes, steps, strategies

AT = 10_000.0
ON_NODE_00 = ["node-00"] * 20


@dataclass
class Case:
    """A cluster: jobs with the nodes of their pods (none: it waits), and their forecasts."""

    jobs: list[tuple[Job, list[str]]]
    known: dict[str, Forecast] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=lambda: nodes(2, 4))
    history: dict[str, JobHistory] = field(default_factory=dict)
    others: list[BoundPod] = field(default_factory=list)
    rules: IntervalConfig = field(default_factory=IntervalConfig)
    arrived: tuple[Job, ...] = ()

    def plan(self) -> IntervalPlan:
        pods = [
            pod
            for each, where in self.jobs
            for pod in (bind(each, where[: sum(each.counts)]) if where else [])
        ]
        snapshot = ClusterSnapshot.of(
            AT, [each for each, _ in self.jobs], self.nodes, pods + self.others
        )
        history = {f"uid-{name}": value for name, value in self.history.items()}
        return plan_interval(
            "i7",
            IntervalInput(snapshot, {}, history, arrived=self.arrived),
            strategies(self.known),
            self.rules,
        )

    def decisions(self) -> dict[str, Decision]:
        return {decision.key.name: decision for decision in self.plan().decisions}


def on_two_nodes(first: str, second: str, of_each: int = 4) -> list[str]:
    return [first] * of_each + [second] * of_each


def placement_failure(ps: int, workers: int, ago: float, lifted: bool = False) -> JobHistory:
    return JobHistory(
        placement_failures=(
            PlacementFailure(Counts(ps, workers), Counts(1, 1), AT - ago, 600.0, lifted),
        )
    )


FULL = on_two_nodes("node-00", "node-01")
OFTEN = JobHistory(moves=tuple(AT - seconds for seconds in (3200, 2400, 1800, 1200, 600)))
BIG = job("big", (3, 5))
NEW = job("new", (1, 2))
ALONE = [(job("a"), ON_NODE_00)]
BESIDE = [(BIG, FULL), (NEW, [])]
A_FORECAST: dict[str, Forecast] = {"a": steps(1000)}
BIG_FORECAST: dict[str, Forecast] = {"big": steps(1000)}


class Expected(NamedTuple):
    """What is decided of a job, with a part of its reason."""

    action: Action
    counts: tuple[int, int]
    reason: str = ""


def expected(action: Action, ps: int, workers: int, reason: str = "") -> Expected:
    return Expected(action, (ps, workers), reason)


grow, shrink, keep, wait, suspend = (
    partial(expected, action)
    for action in (Action.GROW, Action.SHRINK, Action.KEEP, Action.WAIT, Action.SUSPEND)
)

CASES: dict[str, tuple[Case, dict[str, Expected]]] = {
    "a job alone grows to what is free": (
        Case(ALONE, A_FORECAST),
        {"a": grow(3, 5, "remaining 8420 s become 2280 s")},
    ),
    "a job without a forecast is left as it is": (
        Case(ALONE),
        {"a": keep(1, 1, "no forecast yet: 3 loss points, 5 needed")},
    ),
    "a gain that does not pay for the restart is not taken": (
        Case(ALONE, {"a": steps(10)}),
        {"a": keep(1, 1, "a move needs more than 5% (a restart costs 60 s")},
    ),
    "a gain within the error of the forecast is not taken": (
        Case(
            [(job("a", (3, 4)), FULL)],
            {"a": steps(9000)},
            rules=IntervalConfig(rescale_seconds=0.1, hysteresis_fraction=0.5),
        ),
        {"a": keep(3, 4, "; a move needs more than ")},
    ),
    "a new job that fits gets the counts of its user before anyone grows": (
        Case([(job("a"), ON_NODE_00), (NEW, [])], A_FORECAST),
        {"a": grow(2, 3), "new": wait(1, 2, "there is free capacity for its 1 PS + 2 workers")},
    ),
    "a running job shrinks so that a new one can start at its minimum": (
        Case(BESIDE, BIG_FORECAST),
        {
            "big": shrink(2, 4, "releases capacity to team/new, which waits for 1 PS + 1 worker"),
            "new": shrink(1, 1, "capacity for 1 PS + 1 worker, not for its 1 PS + 2 workers"),
        },
    ),
    "a job that has lost its forecast returns to its user's counts where another waits": (
        Case(BESIDE, history={"big": JobHistory(user_counts=Counts(2, 3))}),
        {
            "big": shrink(2, 3, "releases capacity to team/new, which waits for 1 PS + 1 worker"),
            "new": shrink(1, 1, "there is free capacity for 1 PS + 1 worker"),
        },
    ),
    "it returns where only its workers are more than its user's": (
        Case(BESIDE, history={"big": JobHistory(user_counts=Counts(3, 3))}),
        {
            "big": shrink(3, 3, "releases capacity to team/new"),
            "new": shrink(1, 1, "there is free capacity for 1 PS + 1 worker"),
        },
    ),
    "it keeps what it has where nobody waits": (
        Case([(BIG, FULL)], history={"big": JobHistory(user_counts=Counts(2, 3))}),
        {"big": keep(3, 5, "no forecast yet")},
    ),
    "it gives nothing to a running job that would grow": (
        Case(
            [(job("big", (2, 4)), FULL[:6]), (job("a"), FULL[6:])],
            A_FORECAST,
            history={"big": JobHistory(user_counts=Counts(1, 1))},
        ),
        {"big": keep(2, 4, "no forecast yet"), "a": keep(1, 1)},
    ),
    "it keeps what its user gave it": (
        Case(BESIDE, history={"big": JobHistory(user_counts=Counts(3, 5))}),
        {"big": keep(3, 5, "no forecast yet"), "new": wait(1, 2, "do not fit even with every job")},
    ),
    "it keeps all while it may not be moved again": (
        Case(
            BESIDE, history={"big": JobHistory(user_counts=Counts(2, 3), last_rescaled_at=AT - 10)}
        ),
        {"big": keep(3, 5, "no forecast yet"), "new": wait(1, 2, "do not fit even with every job")},
    ),
    "a new job that is not managed gets its counts whole": (
        Case([(BIG, FULL), (job("new", (1, 2), goal=None), [])], BIG_FORECAST),
        {"big": shrink(2, 3, "releases capacity to team/new")},
    ),
    "a new job waits where even all minimums leave no room": (
        Case([(replace(BIG, bounds=CountBounds(3, None, 5, None)), FULL), (NEW, [])], BIG_FORECAST),
        {"big": keep(3, 5), "new": wait(1, 2, "do not fit even with every job")},
    ),
    "a job too big for the cluster takes nothing from anyone": (
        Case([(BIG, FULL), (job("huge", (50, 50), goal=None), [])], BIG_FORECAST),
        {"big": keep(3, 5)},
    ),
    "a job at its goal keeps what nobody needs": (
        Case([(BIG, FULL)], {"big": done()}),
        {"big": keep(3, 5, "its goal is met")},
    ),
    "a job at its goal never grows again": (Case(ALONE, {"a": done()}), {"a": keep(1, 1)}),
    "a job at its goal gives its room to one that grows": (
        Case(
            [(job("old", (2, 4)), FULL), (job("a"), ["node-01", "node-01"])],
            {"old": done(), "a": steps(1000)},
        ),
        {"old": shrink(1, 1, "releases capacity to team/a"), "a": grow(2, 4)},
    ),
    "a job at its goal whose user wants that is suspended and its room given away": (
        Case(
            [
                (job("old", (2, 4), at_target=AtTarget.SUSPEND), FULL),
                (job("a"), ["node-01", "node-01"]),
            ],
            {"old": done(), "a": steps(1000)},
        ),
        {"old": suspend(2, 4, "at-target is suspend"), "a": grow(3, 5)},
    ),
    "a job suspended by its user takes nothing": (
        Case(
            [(job("off", (3, 5), suspended=True), []), (job("a"), ON_NODE_00)],
            {"a": steps(1000), "off": steps(10)},
        ),
        {"off": keep(3, 5, "suspended by its user"), "a": grow(3, 5)},
    ),
    "a job that says never is left as it is": (
        Case([(job("a", rescale=RescaleRule.NEVER), ON_NODE_00)], A_FORECAST),
        {"a": keep(1, 1, "says never")},
    ),
    "a job that is left alone says why": (
        Case([(job("a", left_alone="Kueue manages it"), ON_NODE_00)], A_FORECAST),
        {"a": keep(1, 1, "Kueue manages it")},
    ),
    "a job in the middle of a rescale is charged with its target": (
        Case(
            [(job("moving"), []), (job("a"), ON_NODE_00)],
            {"a": steps(1000), "moving": steps(1000)},
            history={"moving": JobHistory(rescaling_to=Counts(2, 2))},
        ),
        {"moving": keep(1, 1, "in the middle of a rescale to 2 PS + 2 workers"), "a": grow(1, 3)},
    ),
    "a job that was just rescaled stays as it is during the cooldown": (
        Case(ALONE, A_FORECAST, history={"a": JobHistory(rescales=1, last_rescaled_at=AT - 10)}),
        {"a": keep(1, 1, "rescaled 10 s ago")},
    ),
    "a job that was rescaled too often within an hour does not grow": (
        Case(ALONE, A_FORECAST, history={"a": OFTEN}),
        {"a": keep(1, 1, "rescaled 5 times within an hour: it may grow in 400 s")},
    ),
    "a job that is being suspended for good leaves its room to others": (
        Case(
            [(job("met", (1, 3)), ON_NODE_00), (job("a"), ["node-01"] * 2)],
            A_FORECAST,
            history={"met": JobHistory(rescaling_to=Counts(0, 0))},
        ),
        {"met": keep(1, 3, "being suspended: its goal is met"), "a": grow(3, 5)},
    ),
    "a job that was rescaled as often in its life, but not within an hour, grows": (
        Case(
            ALONE,
            A_FORECAST,
            history={"a": JobHistory(rescales=40, moves=(AT - 3600.0, *OFTEN.moves[1:]))},
        ),
        {"a": grow(3, 5)},
    ),
    "a job that was rescaled too often still makes room for a new one": (
        Case(BESIDE, BIG_FORECAST, history={"big": OFTEN}),
        {"big": shrink(2, 4, "releases capacity to"), "new": shrink(1, 1)},
    ),
    "growth that saves less than the other's loss and both restarts is not made room for": (
        Case(
            [(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)],
            {"a": steps(35), "b": steps(35)},
        ),
        {
            "a": keep(1, 1, "1 PS + 3 workers do not fit beside what the others keep"),
            "b": keep(2, 4, "no other job needs the capacity"),
        },
    ),
    "growth that saves more than the other's loss and both restarts is made room for": (
        Case(
            [(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)],
            {"a": steps(400), "b": steps(400)},
        ),
        {
            "a": grow(1, 3, "worker 4 does not fit: too little cpu is left"),
            "b": shrink(1, 3, "releases capacity to team/a, which gains more by it"),
        },
    ),
    "room is promised once: the second new job waits for more": (
        Case(
            [
                (replace(BIG, bounds=CountBounds(2, None, 4, None)), FULL),
                (NEW, []),
                (job("too", (1, 2)), []),
            ],
            BIG_FORECAST,
        ),
        {
            "big": shrink(2, 4, "releases capacity to team/new"),
            "new": shrink(1, 1),
            "too": wait(
                1, 2, "do not fit even with every job that may be resized now at its minimum"
            ),
        },
    ),
    "a new job outside its bounds starts at its minimum where its nearest counts do not fit": (
        Case([(job("a", (1, 6), bounds=CountBounds(max_workers=4)), [])], nodes=nodes(1, 3)),
        {"a": shrink(1, 1, "its bounds do not allow its 1 PS + 6 workers")},
    ),
    "a new job that was rescaled a moment ago waits at its counts": (
        Case([(job("a"), [])], history={"a": JobHistory(rescales=1, last_rescaled_at=AT - 10)}),
        {"a": wait(1, 1, "there is free capacity for its 1 PS + 1 worker")},
    ),
    "counts that found no place are not tried again": (
        Case(ALONE, A_FORECAST, history={"a": placement_failure(3, 5, ago=9000)}),
        {
            "a": grow(
                2, 3, "trimmed from 3 PS + 5 workers, which are not tried: its pods were not placed"
            )
        },
    ),
    "counts that found no place are tried again when the nodes have changed": (
        Case(ALONE, A_FORECAST, history={"a": placement_failure(3, 5, ago=9000, lifted=True)}),
        {"a": grow(3, 5)},
    ),
    "a job that just found no place does not grow, whatever the nodes": (
        Case(ALONE, A_FORECAST, history={"a": placement_failure(3, 5, ago=600, lifted=True)}),
        {"a": keep(1, 1, "not placed at 3 PS + 5 workers, 600 s ago: it does not grow for 1200")},
    ),
    "a job that just found no place still makes room for a new one": (
        Case(BESIDE, BIG_FORECAST, history={"big": placement_failure(4, 6, ago=600)}),
        {"big": shrink(2, 4, "releases capacity to"), "new": shrink(1, 1)},
    ),
    "bounds whose counts just found no place are not tried at once": (
        Case(
            [(job("a", bounds=CountBounds(min_workers=3)), ON_NODE_00)],
            history={"a": placement_failure(1, 3, ago=600)},
        ),
        {
            "a": keep(
                1,
                1,
                "its bounds do not allow its 1 PS + 1 worker, but its pods were not placed at 1 PS",
            )
        },
    ),
    "bounds whose counts found no place are tried again after a rest, with a forecast or without": (
        Case(
            [
                (job("a", bounds=CountBounds(min_workers=3)), ON_NODE_00),
                (job("b", bounds=CountBounds(min_workers=2)), ON_NODE_00),
            ],
            {"b": steps(1000)},
            nodes=nodes(2, 6),
            history={
                "a": placement_failure(1, 3, ago=1200),
                "b": placement_failure(1, 2, ago=1200),
            },
        ),
        {"a": grow(1, 3, "its bounds"), "b": grow(3, 5, "its bounds")},
    ),
    "a job being profiled is left at those counts": (
        Case(ALONE, A_FORECAST, history={"a": JobHistory(profiling_since=AT - 5)}),
        {"a": keep(1, 1, "being profiled")},
    ),
    "bounds that moved force a rescale without a forecast": (
        Case([(job("a", bounds=CountBounds(min_workers=3)), ON_NODE_00)]),
        {"a": grow(1, 3, "its bounds do not allow its 1 PS + 1 worker")},
    ),
    "bounds that moved force a rescale that does not pay": (
        Case([(job("a", (1, 3), bounds=CountBounds(max_workers=1)), ON_NODE_00)], {"a": steps(10)}),
        {"a": shrink(1, 1, "its bounds do not allow")},
    ),
    "bounds that moved force a rescale also of a job that was just rescaled": (
        Case(
            [(job("a", bounds=CountBounds(min_workers=3)), ON_NODE_00)],
            history={"a": JobHistory(rescales=50, last_rescaled_at=AT - 1)},
        ),
        {"a": grow(1, 3, "its bounds do not allow")},
    ),
    "bounds that do not fit are said not to": (
        Case([(job("a", bounds=CountBounds(min_workers=30)), ON_NODE_00)]),
        {"a": keep(1, 1, "do not fit")},
    ),
    "pods of others are not taken room from": (
        Case(ALONE, A_FORECAST, others=[BoundPod("x", "node-01", Resources(cpu=3000))]),
        {"a": grow(2, 3)},
    ),
    "the room of pods being deleted is planned with": (
        Case(
            ALONE, A_FORECAST, others=[BoundPod("x", "node-01", Resources(cpu=3000), leaving=True)]
        ),
        {"a": grow(3, 5)},
    ),
    "a running job that is a little faster with less shrinks for a new one, too": (
        Case(BESIDE, {"big": steps(100, Sync(work=1.0, overhead=0.1))}),
        {
            "big": shrink(2, 2, "releases capacity to team/new, which waits for 1 PS + 1 worker"),
            "new": shrink(1, 1),
        },
    ),
    "a running job that is a little faster with less keeps what nobody needs": (
        Case([(BIG, FULL)], {"big": steps(100, Sync(work=1.0, overhead=0.1))}),
        {"big": keep(3, 5, "; a move needs more than ")},
    ),
}
