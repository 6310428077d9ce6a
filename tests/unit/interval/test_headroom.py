"""Headroom: the capacity free now, less what is kept for jobs that are being rescaled."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import FailedCounts
from optimus.interval.capacity_plan import (
    CapacityPlan,
    Claim,
    headroom,
    largest_fit,
)
from optimus.jobs import CountBounds, Counts, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ClusterSnapshot, ReplicaId
from tests.cases import cases

ONE = Resources(cpu=1, pods=1)


def job(uid: str, *, zone: str = "") -> Job:
    spec = ReplicaSpec(ONE, NodeConstraints(selector=(("zone", zone),) if zone else ()))
    counts = Counts(1, 1)
    return Job(
        key=JobKey("team", uid),
        uid=uid,
        kind="TFJob",
        created_at=0.0,
        counts=counts,
        ps=spec,
        worker=spec,
    )


def pods_of(uid: str, on: str, *, leaving: bool = False) -> list[BoundPod]:
    """A PS and workers of a job, one on each of these nodes."""
    roles = [(Role.PS, 0), *((Role.WORKER, index) for index in range(len(on)))]
    return [
        BoundPod(f"{uid}-{role}-{index}", node, ONE, ReplicaId(uid, role, index), leaving)
        for (role, index), node in zip(roles, on, strict=False)
    ]


def cluster(cpus: dict[str, int], pods: list[BoundPod]) -> ClusterSnapshot:
    """Nodes by name; each is of the zone that its name begins with."""
    nodes = [
        Node(name, Resources(cpu=cpu, pods=110), {"zone": name[0]}) for name, cpu in cpus.items()
    ]
    return ClusterSnapshot.of(0.0, (), nodes, pods)


def free_cpus(plan: CapacityPlan) -> dict[str, int]:
    return {node: max(amount["cpu"], 0) for node, amount in plan.free.items()}


def free_after(snapshot: ClusterSnapshot, *claims: Claim) -> dict[str, int]:
    return free_cpus(headroom(snapshot, Theorem1(), claims))


@cases(
    ("claim", "free"),
    {
        "larger target: the job's own pods count towards it": (
            Claim(job("a"), Counts(1, 4)),
            {"n": 1},
        ),
        "smaller target: the capacity of its pods is not free yet": (
            Claim(job("a"), Counts(1, 1)),
            {"n": 3},
        ),
        "stopped job whose target does not fit: nothing is free": (
            Claim(job("a"), Counts(4, 4), is_stopped=True),
            {"n": 0},
        ),
        "training job whose target does not fit: nothing is kept for it": (
            Claim(job("a"), Counts(4, 4)),
            {"n": 3},
        ),
    },
)
@pytest.mark.parametrize("leaving", [True, False])
def test_headroom_beside_a_job_that_is_placed_again(
    claim: Claim, free: dict[str, int], leaving: bool
) -> None:
    assert free_after(cluster({"n": 6}, pods_of("a", "nnn", leaving=leaving)), claim) == free


@cases(
    ("target", "free"),
    {
        "the target fits beside the pods": (Counts(1, 3), {"m": 0, "n": 2}),
        "the target does not fit": (Counts(4, 4), {"m": 0, "n": 0}),
    },
)
def test_headroom_beside_a_job_whose_pods_stay(target: Counts, free: dict[str, int]) -> None:
    snapshot = cluster({"m": 2, "n": 4}, pods_of("a", "mm"))
    claim = Claim(job("a"), target, keeps_pods=True, is_stopped=True)
    assert free_after(snapshot, claim) == free


def test_a_stopped_job_without_capacity_closes_only_nodes_that_admit_it() -> None:
    claim = Claim(job("a", zone="m"), Counts(3, 3), is_stopped=True)
    assert free_after(cluster({"m1": 2, "m2": 2, "n": 4}, []), claim) == {"m1": 0, "m2": 0, "n": 4}


def test_capacity_of_leaving_pods_is_kept_for_their_own_job() -> None:
    snapshot = cluster({"n": 4}, pods_of("a", "nnnn", leaving=True))
    plan = headroom(snapshot, Theorem1(), [Claim(job("b"), Counts(1, 1), is_stopped=True)])
    assert not plan.fits(job("b"), Counts(1, 1))
    plan = headroom(snapshot, Theorem1(), [Claim(job("a"), Counts(1, 3), is_stopped=True)])
    assert [held.node for held in plan.held["a"]] == ["n"] * 4


def test_a_stopped_job_takes_capacity_before_a_training_one() -> None:
    snapshot = cluster({"n": 4}, [])
    claims = [Claim(job("a"), Counts(1, 2)), Claim(job("b"), Counts(1, 2), is_stopped=True)]
    for each in (claims, claims[::-1]):
        assert list(headroom(snapshot, Theorem1(), each).held) == ["b"]


def test_a_pod_on_a_deleted_node_is_ignored() -> None:
    snapshot = cluster({"n": 4}, pods_of("a", "xn", leaving=True))
    assert free_after(snapshot, Claim(job("a"), Counts(1, 2))) == {"n": 1}


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.text("lmn", min_size=1, max_size=4), st.booleans()),
        max_size=2,
    ),
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(1, 4),
            st.integers(1, 4),
            st.booleans(),
            st.booleans(),
        )
    ),
    st.integers(0, 6),
)
def test_headroom_excludes_bound_pods_and_counts_each_claim_once(
    bound: list[tuple[str, str, bool]], claimed: list[tuple[str, int, int, bool, bool]], cpus: int
) -> None:
    pods = [
        pod
        for uid, on, leaving in {uid: (uid, on, leaving) for uid, on, leaving in bound}.values()
        for pod in pods_of(uid, on, leaving=leaving)
    ]
    snapshot = cluster(dict.fromkeys("lmn", cpus), pods)
    claims = {
        uid: Claim(job(uid), Counts(ps, workers), keeps_pods, is_stopped)
        for uid, ps, workers, keeps_pods, is_stopped in claimed
    }
    now = free_cpus(CapacityPlan.of(snapshot, Theorem1(), leaving_counts=True))
    plan = headroom(snapshot, Theorem1(), list(claims.values()))
    for node, free in free_cpus(plan).items():
        assert free <= now[node]
        taken = 0
        for uid in "ab":
            own = [
                pod
                for pod in pods
                if pod.node == node and pod.replica is not None and pod.replica.job_uid == uid
            ]
            kept = sum(held.node == node for held in plan.held.get(uid, ()))
            keeps_pods = uid not in claims or claims[uid].keeps_pods
            taken += sum(pod.leaving for pod in own) + kept if keeps_pods else max(len(own), kept)
        assert free in (0, max(cpus - taken, 0))


def promised(counts: Counts) -> Claim:
    return Claim(job("w"), counts, keeps_pods=True, is_promised=True)


@cases(
    ("counts", "free"),
    {"all of it": (Counts(1, 4), 3), "as much of it as there is": (Counts(1, 9), 0)},
)
def test_what_is_promised_to_a_job_that_waits_is_not_free(counts: Counts, free: int) -> None:
    assert sum(free_after(cluster({"a": 4, "b": 4}, []), promised(counts)).values()) == free


def test_a_stopped_job_comes_before_a_promise() -> None:
    stopped = Claim(job("s"), Counts(1, 5), is_stopped=True)
    plan = headroom(cluster({"a": 8}, []), Theorem1(), [promised(Counts(1, 3)), stopped])
    assert plan.usage("s") == Resources(cpu=6, pods=6)
    assert plan.usage("w")["cpu"] == 2


@cases(
    ("most", "bounds", "found"),
    {
        "all that is asked for": (Counts(2, 4), CountBounds(), Counts(2, 4)),
        "fewer, in about that ratio": (Counts(4, 8), CountBounds(), Counts(3, 5)),
        "not fewer than allowed": (Counts(4, 8), CountBounds(min_workers=6), None),
    },
)
def test_the_most_that_fits(most: Counts, bounds: CountBounds, found: Counts | None) -> None:
    plan = headroom(cluster({"a": 4, "b": 4}, []), Theorem1(), [])
    assert largest_fit(plan, replace(job("j"), bounds=bounds), most) == found


def test_counts_that_failed_are_not_found() -> None:
    plan = headroom(cluster({"a": 8}, []), Theorem1(), [])
    failed = FailedCounts(Counts(2, 4), Counts(1, 1), "OOMKilled")
    assert largest_fit(plan, job("j"), Counts(2, 6), (failed,)) == Counts(1, 3)
