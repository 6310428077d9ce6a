"""The snapshot: canonical order, free room, bound counts."""

from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import CountBounds, Counts, FixedRole, Job, JobKey, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ClusterSnapshot, ReplicaId

ONE = Resources(cpu=1000, pods=1)
NODES = [Node(f"n{index}", Resources(cpu=4000, pods=10)) for index in range(3)]
PODS = [
    BoundPod("p1", "n0", ONE, ReplicaId("job", Role.PS, 0)),
    BoundPod("p2", "n0", ONE, ReplicaId("job", Role.WORKER, 0)),
    BoundPod("p3", "n1", ONE, ReplicaId("job", Role.WORKER, 1), leaving=True),
    BoundPod("p4", "n1", ONE),
]


def job(**changes: object) -> Job:
    values: dict[str, object] = {
        "key": JobKey("default", "j"),
        "uid": "job",
        "kind": "TFJob",
        "created_at": 0.0,
        "counts": Counts(1, 2),
        "ps": ReplicaSpec(ONE),
        "worker": ReplicaSpec(ONE * 2),
    }
    return Job(**(values | changes))  # type: ignore[arg-type]  # the table above holds the right types


@given(st.permutations(NODES), st.permutations(PODS))
def test_the_order_of_reading_does_not_show(nodes: list[Node], pods: list[BoundPod]) -> None:
    assert ClusterSnapshot.of(1.0, [], nodes, pods) == ClusterSnapshot.of(1.0, [], NODES, PODS)


def test_leaving_pods_still_occupy_room_but_do_not_count_as_placed() -> None:
    snapshot = ClusterSnapshot.of(0.0, [job()], NODES, PODS)
    assert snapshot.free()["n1"] == Resources(cpu=2000, pods=8)
    assert snapshot.bound_counts("job") == Counts(1, 1)


def test_a_jobs_demand_includes_its_fixed_roles() -> None:
    with_scheduler = job(fixed=(FixedRole(Role.SCHEDULER, 1, ReplicaSpec(ONE)),))
    assert with_scheduler.demand() == Resources(cpu=6000, pods=6)
    assert with_scheduler.demand(Counts(2, 1)) == Resources(cpu=5000, pods=5)


@given(st.integers(0, 9), st.integers(0, 9))
def test_clamped_counts_are_allowed(ps: int, workers: int) -> None:
    bounds = CountBounds(2, 4, 1, None)
    assert bounds.allow(bounds.clamp(Counts(ps, workers)))
    assert bounds.allow(Counts(ps, workers)) == (2 <= ps <= 4 and workers >= 1)
