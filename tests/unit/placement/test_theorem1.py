"""Theorem 1's rule against an independent brute force, and tables of what it must do where the
theorem is silent."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Job, JobKey, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment, Gang, Placement
from optimus.resources import Resources
from tests.unit.placement.exhaustive_search import (
    Spread,
    gang_of,
    is_even,
    overfull,
    spread_of,
    spreads,
    transfer_time,
)
from tests.unit.placement.random_gangs import (
    RULE,
    Case,
    cases,
    fixed,
    nodes_of,
    placed,
    with_fixed,
)
from tests.unit.properties import examples
from tests.unit.seeded import seeded


@examples(400)
@given(seeded(cases))
def test_no_plan_has_less_transfer_time_or_at_the_same_time_fewer_servers(
    case: Case,
) -> None:
    gang, nodes, free = case
    found = list(spreads(gang, nodes, free))
    answer = RULE.place(gang, Capacity(nodes, free))
    assert isinstance(answer, Placement) == bool(found)
    if isinstance(answer, Placement) and gang.unbound:
        assert not overfull(gang, answer, free)
        spread = spread_of(gang, answer)
        assert spread in found
        assert quality(spread) == min(map(quality, filter(None, found)))


def quality(spread: Spread) -> tuple[float, int]:
    return transfer_time(spread), len(spread)


@examples(300)
@given(
    st.integers(0, 3), st.integers(1, 4), st.integers(1, 2), st.lists(st.integers(0, 4), max_size=5)
)
def test_a_whole_job_takes_what_it_requests_where_its_gang_would_be_best(
    ps: int, workers: int, ps_cpu: int, cpus: list[int]
) -> None:
    nodes, free = nodes_of(**{f"n{at}": cpu for at, cpu in enumerate(cpus)})
    gang, capacity = gang_of(ps, workers, ps_cpu), Capacity(nodes, free)
    found = list(spreads(gang, nodes, free))
    answer = RULE.place_job(job_of(ps, workers, ps_cpu), Counts(ps, workers), capacity)
    assert isinstance(answer, Assignment) == bool(found)
    taken = {
        name: free[name]["cpu"] - sum(left) for name, left in zip(free, capacity.free, strict=True)
    }
    if not isinstance(answer, Assignment):
        assert not any(taken.values())
        return
    spread = {f"n{each.row}": (each.ps, each.workers) for each in answer.servers}
    assert quality(spread) == min(map(quality, found))
    asked = {name: ps_cpu * each[0] + each[1] for name, each in spread.items()}
    assert taken == {name: asked.get(name, 0) for name in free}


def job_of(ps: int, workers: int, ps_cpu: int) -> Job:
    """The job of which `gang_of` gives the pods."""
    return Job(
        key=JobKey("ns", "job"),
        uid="uid",
        kind="TFJob",
        created_at=0.0,
        counts=Counts(ps, workers),
        ps=ReplicaSpec(Resources(cpu=ps_cpu)),
        worker=ReplicaSpec(Resources(cpu=1)),
    )


@examples(100)
@given(seeded(cases), st.integers(0, 2**32))
def test_the_plan_does_not_depend_on_the_order_of_nodes_and_replicas(case: Case, seed: int) -> None:
    gang, nodes, free = case
    rng = random.Random(seed)
    mixed = replace(gang, members=tuple(rng.sample(gang.members, len(gang.members))))
    shuffled = Capacity(
        rng.sample(nodes, len(nodes)), dict(rng.sample(sorted(free.items()), len(free)))
    )
    again = RULE.place(mixed, shuffled)
    assert repr(again) == repr(RULE.place(gang, Capacity(nodes, free)))


PLANS = {
    "the paper's figure 10: two of three servers, one PS and two workers on each": (
        {"a": 3, "b": 3, "c": 3},
        gang_of(2, 4),
        {"a": (1, 2), "b": (1, 2)},
    ),
    "what fits on one server goes on one server": ({"a": 6, "b": 6}, gang_of(2, 4), {"a": (2, 4)}),
    "the server with most room comes first": (
        {"a": 4, "b": 9, "c": 7},
        gang_of(1, 5),
        {"b": (1, 5)},
    ),
    "room too uneven for an even spread: as together as it goes": (
        {"a": 5, "b": 1},
        gang_of(3, 3),
        {"a": (3, 2), "b": (0, 1)},
    ),
    "an uneven spread of the same transfer time on fewer servers": (
        {"a": 5, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1},
        gang_of(3, 3),
        {"a": (3, 2), "b": (0, 1)},
    ),
    "an uneven spread of less transfer time on fewer servers": (
        {"a": 5, "b": 1, "c": 1, "d": 1, "e": 1},
        gang_of(1, 5),
        {"a": (1, 4), "b": (0, 1)},
    ),
    "an uneven spread of less transfer time on as many servers": (
        {"a": 6, "b": 6, "c": 1},
        gang_of(1, 6),
        {"a": (1, 5), "b": (0, 1)},
    ),
    "equal nodes: an uneven spread of less transfer time": (
        {"a": 6, "b": 6},
        gang_of(1, 6),
        {"a": (1, 5), "b": (0, 1)},
    ),
    "equal nodes: an uneven spread on fewer servers": (
        dict.fromkeys("abcd", 8),
        gang_of(4, 6, ps_cpu=3, worker_cpu=2),
        {"a": (2, 1), "b": (2, 1), "c": (0, 4)},
    ),
    "no worker is removed that the transfer time demands beside a PS": (
        {"a": 5, "b": 4, "c": 4},
        gang_of(2, 5),
        {"a": (2, 3), "b": (0, 2)},
    ),
    "fewer PSs than servers: on two where an even spread takes three": (
        {"a": 4, "b": 4, "c": 4},
        gang_of(1, 4, ps_cpu=3),
        {"a": (1, 1), "b": (0, 3)},
    ),
    "a job without PSs is spread evenly too": (
        {"a": 4, "b": 4, "c": 4},
        gang_of(0, 6),
        {"a": (0, 3), "b": (0, 3)},
    ),
}


@pytest.mark.parametrize(("cpus", "gang", "spread"), PLANS.values(), ids=PLANS)
def test_where_a_gang_goes(
    cpus: dict[str, int], gang: Gang, spread: dict[str, tuple[int, int]]
) -> None:
    nodes, free = nodes_of(**cpus)
    assert spread_of(gang, placed(gang, nodes, free)) == spread


REFUSALS = {
    "one short": (gang_of(2, 4), {"a": 5}, "job ns/job (2 PS + 4 workers) does not fit as a whole"),
    "the chief is part of the gang": (
        with_fixed(gang_of(1, 1), fixed(Role.CHIEF, 1)),
        {"a": 2},
        "job ns/job (1 PS + 1 worker + 1 chief) does not fit as a whole",
    ),
    "enough in all, but in pieces too small": (
        gang_of(1, 1, 3, 3),
        {"a": 5, "b": 2},
        "job ns/job (1 PS + 1 worker) does not fit as a whole",
    ),
    "no nodes": (gang_of(1, 1), {}, "job ns/job (1 PS + 1 worker) does not fit as a whole"),
}


def test_a_half_bound_gang_is_completed_around_its_bound_replicas() -> None:
    nodes, free = nodes_of(a=2, b=9, c=9)
    gang = gang_of(2, 4)
    bound = tuple(
        replace(m, node="a") if (m.role, m.index) == (Role.WORKER, 0) else m for m in gang.members
    )
    gang = replace(gang, members=bound)
    spread = spread_of(gang, placed(gang, nodes, free))
    assert spread == {"a": (1, 2), "b": (1, 2)}


def test_forty_pods_on_five_thousand_nodes() -> None:
    nodes = [
        Node(f"n{at:04}", Resources(cpu=16000, memory=64 << 30, pods=110)) for at in range(5000)
    ]
    rng = random.Random(1)
    free = {
        n.name: n.allocatable - Resources(cpu=rng.randrange(16000), pods=rng.randrange(20))
        for n in nodes
    }
    spec = ReplicaSpec(Resources(cpu=2000, memory=4 << 30, pods=1))
    gang = gang_of(16, 24)
    gang = replace(gang, members=tuple(replace(member, spec=spec) for member in gang.members))
    answer = RULE.place(gang, Capacity(nodes, free))
    assert isinstance(answer, Placement)
    spread = spread_of(gang, answer)
    assert is_even(spread)
    assert len(spread) == 6
    assert not overfull(gang, answer, free)
