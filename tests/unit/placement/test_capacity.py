"""Whole jobs and gangs on one index, which stays in order while jobs come and go."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given

from benchmarks.uneven_placement import job_of
from optimus.jobs import (
    Counts,
    FixedRole,
    Job,
    NodeConstraints,
    ReplicaSpec,
    Role,
    Toleration,
)
from optimus.nodes import Node, Taint
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment, DoesNotFit, Gang, PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources, total
from tests.unit.properties import examples
from tests.unit.seeded import seeded

RULES: tuple[PlacementRule, ...] = (Theorem1(), SPREAD, PACK)
Cluster = tuple[list[Node], dict[str, Resources]]
ONE_CPU = Resources(cpu=1)

CONSTRAINTS = (
    NodeConstraints(),
    NodeConstraints(),
    NodeConstraints((("pool", "a"),)),
    NodeConstraints(tolerations=(Toleration("dedicated", "Exists"),)),
)


def _spec(rng: random.Random) -> ReplicaSpec:
    asked = Resources(cpu=rng.randint(0, 4), memory=rng.randint(0, 3))
    return ReplicaSpec(asked, rng.choice(CONSTRAINTS))


def a_cluster(rng: random.Random) -> Cluster:
    """A few classes of nodes; some are overcommitted, some tainted."""
    nodes: list[Node] = []
    free: dict[str, Resources] = {}
    for _ in range(rng.randint(1, 4)):
        whole = Resources(cpu=rng.randint(1, 16), memory=rng.randint(1, 12))
        left = Resources(cpu=rng.randint(-1, whole["cpu"]), memory=rng.randint(-1, whole["memory"]))
        taints = rng.choice([(), (), (), (Taint("dedicated"),)])
        for _ in range(rng.randint(1, 4)):
            name = f"n{rng.randint(0, 10**6):07}-{len(nodes)}"
            nodes.append(Node(name, whole, {"pool": rng.choice("ab")}, taints))
            free[name] = left
    return nodes, free


def a_job(rng: random.Random) -> Job:
    return replace(
        job_of(ONE_CPU, ONE_CPU),
        counts=Counts(rng.randint(0, 6), rng.randint(0, 7)),
        ps=_spec(rng),
        worker=_spec(rng),
        fixed=tuple(
            FixedRole(Role.CHIEF, rng.randint(1, 2), _spec(rng)) for _ in range(rng.randint(0, 1))
        ),
    )


def jobs_and_a_cluster(rng: random.Random) -> tuple[list[Job], Cluster]:
    return [a_job(rng) for _ in range(rng.randint(1, 6))], a_cluster(rng)


def jobs_in_turns(rng: random.Random) -> tuple[list[Job], list[int], Cluster]:
    """Jobs, and which of them is placed or taken back at each turn."""
    jobs = [a_job(rng) for _ in range(rng.randint(1, 4))]
    return jobs, rng.choices(range(4), k=rng.randint(0, 12)), a_cluster(rng)


def placed_as_gang(
    rule: PlacementRule, job: Job, cluster: Cluster
) -> Counter[tuple[Role, str]] | str:
    answer = rule.place(Gang.of(job), Capacity(*cluster))
    if isinstance(answer, DoesNotFit):
        return answer.reason
    return Counter((replica.role, node) for replica, node in answer.nodes.items())


def placed_as_job(
    rule: PlacementRule, job: Job, capacity: Capacity
) -> Counter[tuple[Role, str]] | str:
    answer = rule.place_job(job, job.counts, capacity)
    if isinstance(answer, DoesNotFit):
        return answer.reason
    return Counter(
        (replica.role, capacity.nodes[row].name) for replica, row in answer.replicas(job)
    )


@examples(300)
@given(job=seeded(a_job), cluster=seeded(a_cluster))
def test_a_whole_job_is_placed_as_its_gang_is(job: Job, cluster: Cluster) -> None:
    for rule in RULES:
        assert placed_as_job(rule, job, Capacity(*cluster)) == placed_as_gang(rule, job, cluster)


@examples(100)
@given(seeded(jobs_and_a_cluster))
def test_jobs_in_sequence_take_what_they_are_placed_on(case: tuple[list[Job], Cluster]) -> None:
    several, (nodes, whole) = case
    for rule in RULES:
        free = whole
        capacity = Capacity(nodes, free)
        for job in several:
            found = placed_as_job(rule, job, capacity)
            assert found == placed_as_gang(rule, job, (nodes, free))
            if isinstance(found, Counter):
                asked = {Role.PS: job.ps, Role.WORKER: job.worker} | {
                    each.role: each.spec for each in job.fixed
                }
                free = {
                    name: left
                    - total(
                        asked[role].resources * count
                        for (role, node), count in found.items()
                        if node == name
                    )
                    for name, left in free.items()
                }
            assert capacity.free_by_name() == free
            assert_is_in_order(capacity)


@examples(100)
@given(first=seeded(a_job), second=seeded(a_job), cluster=seeded(a_cluster))
def test_undo_restores_the_index(first: Job, second: Job, cluster: Cluster) -> None:
    for rule in RULES:
        capacity = Capacity(*cluster)
        rule.place_job(first, first.counts, capacity)
        before, mark, twin = capacity.free_by_name(), capacity.mark(), capacity.copy()
        rule.place_job(second, second.counts, capacity)
        capacity.undo_to(mark)
        assert capacity.free_by_name() == before == twin.free_by_name()
        assert_is_in_order(capacity)
        assert placed_as_job(rule, second, twin) == placed_as_job(rule, second, capacity)


@examples(150)
@given(seeded(jobs_in_turns))
def test_an_index_with_a_history_answers_like_a_new_one(
    case: tuple[list[Job], list[int], Cluster],
) -> None:
    """An index that was taken from and given back to answers like one made of what is free now."""
    several, turns, cluster = case
    for rule in RULES:
        capacity, there = Capacity(*cluster), dict[int, Assignment]()
        for turn in turns:
            job = several[turn % len(several)]
            if turn % len(several) in there:
                there.pop(turn % len(several)).give_back_to(capacity, job)
            else:
                rebuilt = placed_as_job(rule, job, Capacity(cluster[0], capacity.free_by_name()))
                assignment = rule.place_job(job, job.counts, capacity)
                if isinstance(assignment, DoesNotFit):
                    assert rebuilt == assignment.reason
                else:
                    there[turn % len(several)] = assignment
                    assert rebuilt == Counter(
                        (replica.role, capacity.nodes[row].name)
                        for replica, row in assignment.replicas(job)
                    )
            assert_is_in_order(capacity)


def assert_is_in_order(capacity: Capacity) -> None:
    """Every node is counted once, among nodes of which just the same is free."""
    roomiest, most = capacity.roomiest_class(), capacity.largest_free()
    assert roomiest is None or (
        capacity.class_sizes[roomiest[0]] > 0
        and roomiest[1] == most == capacity.free[capacity.first_rows(roomiest[0], 1)[0]]
    )
    assert (roomiest is not None) == (most in capacity.free)
    for column in range(len(most)) if roomiest is not None else ():
        if capacity.is_unrivalled(column):
            assert all(row[column] < most[column] for row in capacity.free if row != most)
    found = []
    for number, size in enumerate(capacity.class_sizes.tolist()):
        rows = capacity.first_rows(number, len(capacity.nodes))
        assert len(rows) == size
        assert rows == sorted(rows)
        assert all(list(capacity.free[row]) == capacity.class_free[number].tolist() for row in rows)
        found += rows
    assert sorted(found) == list(range(len(capacity.nodes)))
    assert capacity.count_free() == Counter(capacity.free)
    assert capacity.count_free(found[::2]) == Counter(capacity.free[row] for row in found[::2])


# --- questions and copies


def some_nodes() -> Capacity:
    """Two nodes of a pool, one of another that is tainted, and one of which less is free."""
    four = Resources(cpu=4, memory=8)
    nodes = [
        Node("a", four, {"pool": "x"}),
        Node("b", four, {"pool": "x"}),
        Node("c", four, {"pool": "y"}, (Taint("dedicated"),)),
        Node("d", Resources(cpu=8), {"pool": "y"}),
    ]
    free = {node.name: node.allocatable for node in nodes} | {"b": Resources(cpu=1, memory=2)}
    return Capacity(nodes, free)


def test_dominant_shares_of_jobs_at_their_counts() -> None:
    capacity = some_nodes()  # 20 CPUs and 24 of memory in all
    plain = job_of(ONE_CPU, Resources(cpu=2, memory=6))
    with_gpu = job_of(ONE_CPU, Resources(gpu=1))
    counts = [Counts(2, 4), Counts(2, 0), Counts(1, 1), Counts(0, 0)]
    shares = capacity.shares([plain, plain, with_gpu, plain], counts)
    assert shares == [1.0, 0.1, float("inf"), 0.0]
    assert capacity.shares([], []) == []
    assert len(Capacity([], {}).shares([plain], [Counts(1, 1)])) == 1, "of an empty cluster, too"
    overcommitted = Capacity([Node("a", Resources(cpu=2))], {"a": Resources(cpu=2, memory=1)})
    needs_memory = job_of(ONE_CPU, Resources(memory=1))
    assert overcommitted.shares([needs_memory], [Counts(1, 9)]) == [0.5], "of none there is none"


def test_a_copy_without_some_nodes_has_nothing_free_there() -> None:
    capacity = some_nodes()
    capacity.take(0, (1, 0))
    twin = capacity.without(["a", "unknown"])
    assert twin.free_by_name()["a"] == Resources()
    assert twin.free_of("cpu") == {"a": 0, "b": 1, "c": 4, "d": 8}
    assert_is_in_order(twin)
    mark = twin.mark()
    twin.take(3, (2, 0))
    twin.undo_to(mark)
    assert twin.free_of("cpu") == {"a": 0, "b": 1, "c": 4, "d": 8}
    assert capacity.free_of("cpu") == {"a": 3, "b": 1, "c": 4, "d": 8}, "the original stays"
    capacity.undo_to(0)
    assert capacity.free_of("cpu")["a"] == 4
