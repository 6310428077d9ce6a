"""The kind of nodes that a job's workers are held to, as its profile says."""

from optimus.jobs import Binding
from optimus.kube.profiles import JobRef, NodeKind, ProfileStatus, TrainingProfile
from tests.unit.extender.fake_cluster import FakeCluster

FAST = Binding("kind", "fast")


def two_kinds(fast: int, slow: int) -> FakeCluster:
    cluster = FakeCluster({})
    cluster.node("fast", fast, kind="fast")
    cluster.node("slow", slow, kind="slow")
    return cluster


def nodes_of(cluster: FakeCluster, names: list[str]) -> dict[str, str | None]:
    return {name: cluster.place(name) for name in names}


def test_workers_go_to_the_kind_and_the_ps_where_there_is_room() -> None:
    cluster = two_kinds(fast=2, slow=9)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_binding("uid-j", FAST)
    assert nodes_of(cluster, cluster.job("j", 1, 2)) == {
        "j-ps-0": "slow",
        "j-worker-0": "fast",
        "j-worker-1": "fast",
    }


def test_a_job_waits_while_its_kind_is_full_and_others_do_not() -> None:
    cluster = two_kinds(fast=1, slow=9)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_binding("uid-j", FAST)
    names = cluster.job("j", 1, 2)
    assert not cluster.ask(names[0]).kept
    assert set(nodes_of(cluster, cluster.job("k", 1, 2)).values()) == {"slow"}
    cluster.node("fast", 3, kind="fast")
    cluster.planner.advance()
    assert nodes_of(cluster, names)["j-worker-0"] == "fast"


def test_a_gang_that_waits_is_planned_again_when_it_is_released() -> None:
    cluster = two_kinds(fast=1, slow=9)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_binding("uid-j", FAST)
    names = cluster.job("j", 1, 2)
    assert not cluster.ask(names[0]).kept
    cluster.handlers.set_binding("uid-j", None)
    assert set(nodes_of(cluster, names).values()) == {"slow"}


def test_the_room_of_a_resume_is_reserved_on_nodes_of_the_kind() -> None:
    cluster = two_kinds(fast=2, slow=3)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_binding("uid-j", FAST)
    cluster.rescale("j", 1, 2, leaving=False)
    assert cluster.state.reservation_count() == 3
    assert not cluster.ask(cluster.job("k", 1, 2)[0]).kept


def test_what_a_profile_says() -> None:
    cluster = two_kinds(fast=2, slow=9)
    cluster.spec("j", 1, 2)
    kind = NodeKind("kind", "fast")
    given = TrainingProfile(
        uid="p",
        namespace="ns",
        name="j",
        job=JobRef("TFJob", "j", "uid-j"),
        status=ProfileStatus(node_kind=kind),
    )
    cluster.handlers._job_uids["TFJob", "ns", "j"] = "uid-j"
    cluster.handlers.profile(None, given)
    assert cluster.state.cluster.bindings == {"uid-j": FAST}
    cluster.handlers.profile(given, None)
    assert not cluster.state.cluster.bindings
    cluster.handlers.profile(None, given)
    cluster.handlers.set_job("uid-j", None)
    assert not cluster.state.cluster.bindings
