"""The rules beside Theorem 1, the order of gangs, and scores."""

from dataclasses import replace

from benchmarks.uneven_placement import job_of
from optimus.jobs import Counts, FixedRole, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment, FixedAssignment, Placement, Server
from optimus.placement.per_pod import PACK, SPREAD, PerPod
from optimus.placement.queue.order import WaitingGang, order_key
from optimus.placement.scoring import free_room_scores, planned_scores
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.placement.exhaustive_search import gang_of, overfull, spread_of
from tests.unit.placement.random_gangs import nodes_of

FREE = {"a": Resources(cpu=4), "b": Resources(cpu=3), "c": Resources(cpu=1)}
NODES = [Node(name, Resources(cpu=4)) for name in FREE]


@cases(
    ("rule", "spread"),
    {
        "spreading keeps the nodes level": (SPREAD, {"a": (1, 2), "b": (0, 1)}),
        "packing fills the fullest node first": (PACK, {"c": (1, 0), "b": (0, 3)}),
    },
)
def test_where_replicas_go_one_by_one(rule: PerPod, spread: dict[str, tuple[int, int]]) -> None:
    gang = gang_of(1, 3)
    answer = rule.place(gang, Capacity(NODES, FREE))
    assert isinstance(answer, Placement)
    assert not overfull(gang, answer, FREE)
    assert spread_of(gang, answer) == spread


@cases(
    ("rule", "expected", "left"),
    {
        "spreading": (
            SPREAD,
            Assignment((Server(1, 1, 1), Server(0, 0, 1)), (FixedAssignment(Role.CHIEF, 0, 0),)),
            {"a": 1, "b": 1, "c": 1},
        ),
        "packing": (
            PACK,
            Assignment(
                (Server(1, 1, 0), Server(2, 0, 1), Server(0, 0, 1)),
                (FixedAssignment(Role.CHIEF, 0, 1),),
            ),
            {"a": 3, "b": 0, "c": 0},
        ),
    },
)
def test_where_a_whole_job_goes_and_what_it_takes(
    rule: PerPod, expected: Assignment, left: dict[str, int]
) -> None:
    """The chief, then the PS, then the workers."""
    chief = FixedRole(Role.CHIEF, 1, ReplicaSpec(Resources(cpu=2)))
    job = replace(job_of(Resources(cpu=1), Resources(cpu=1)), fixed=(chief,))
    capacity = Capacity(NODES, FREE)
    assert rule.place_job(job, Counts(1, 2), capacity) == expected
    assert capacity.free_of("cpu") == left


@cases(
    ("rule", "spread"),
    {"spreading": (SPREAD, {"c": (0, 1), "d": (0, 1)}), "packing": (PACK, {"c": (0, 2)})},
)
def test_no_replica_goes_to_a_node_that_it_may_not_go_to(
    rule: PerPod, spread: dict[str, tuple[int, int]]
) -> None:
    nodes, free = nodes_of(a=4, b=4, c=4, d=4)
    gang, excluded = gang_of(0, 2), frozenset({"a", "b", "unknown"})
    gang = replace(gang, members=tuple(replace(m, excluded=excluded) for m in gang.members))
    answer = rule.place(gang, Capacity(nodes, free))
    assert isinstance(answer, Placement)
    assert spread_of(gang, answer) == spread


def waiting(
    uid: str, cpu: int, since: float, ran_before: bool = False, priority: int = 0
) -> WaitingGang:
    return WaitingGang(uid, Resources(cpu=cpu), since, ran_before, priority)


@cases(
    ("first", "second"),
    {
        "a job that has run before a new one": (waiting("z", 9, 90, True), waiting("a", 1, 0)),
        "a higher priority before all else": (
            waiting("z", 9, 99, priority=1),
            waiting("a", 1, 0, True),
        ),
        "a higher priority among those that have run": (
            waiting("z", 9, 99, True, priority=1),
            waiting("a", 1, 0, True),
        ),
        "a higher priority among those past the age limit": (
            waiting("z", 9, 20, priority=1),
            waiting("a", 1, 0),
        ),
        "new ones by ascending demand": (waiting("z", 1, 99), waiting("a", 2, 90)),
        "past the age limit the oldest goes first": (waiting("z", 9, 10), waiting("a", 1, 99)),
        "of two past the limit the older one": (waiting("z", 9, 10), waiting("a", 1, 20)),
        "of two that have run the older one, whatever they demand": (
            waiting("z", 9, 10, True),
            waiting("a", 1, 20, True),
        ),
        "at the age limit demand counts still": (waiting("a", 1, 50), waiting("z", 9, 40)),
        "UIDs break ties": (waiting("a", 1, 99), waiting("z", 1, 99)),
    },
)
def test_order_of_gangs(first: WaitingGang, second: WaitingGang) -> None:
    keys = [
        order_key(gang, Resources(cpu=10), now=100, age_limit_seconds=60)
        for gang in (first, second)
    ]
    assert keys[0] < keys[1]


def test_scores() -> None:
    assert planned_scores(["a", "b"], "b") == {"a": 0, "b": 10}
    free = {"a": 4, "b": 3, "c": 1, "d": -1}
    assert free_room_scores(["a", "b", "c", "d"], free) == {"a": 10, "b": 7, "c": 2, "d": 0}
    assert free_room_scores(["a", "b", "c"], free, frozenset({"c"})) == {"a": 9, "b": 6, "c": 10}
    assert free_room_scores(["a", "unknown"], {}) == {"a": 0, "unknown": 0}
