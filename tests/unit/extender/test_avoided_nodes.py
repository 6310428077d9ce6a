"""Nodes that a job's profile asks to avoid."""

from extender.state.event_handlers import EventHandlers, avoided_of
from optimus.kube.profiles import AvoidedNode, JobRef, ProfileStatus, TrainingProfile
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

LATER = 2_000.0
"""After the fake cluster's beginning."""


def place_all(cluster: FakeCluster, names: list[str]) -> set[str | None]:
    return {cluster.place(name) for name in names}


@cases(
    ("nodes", "used"),
    {
        "the job fits on another node": ({"a": 9, "b": 4}, {"b"}),
        "the job fits on no other": ({"a": 9, "b": 1}, {"a"}),
    },
)
def test_a_node_is_avoided_where_the_job_fits_without(
    nodes: dict[str, int], used: set[str]
) -> None:
    cluster = FakeCluster(nodes)
    cluster.spec("j", 1, 2)
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    assert place_all(cluster, cluster.job("j", 1, 2)) == used


def test_other_jobs_use_the_node() -> None:
    cluster = FakeCluster({"a": 9, "b": 4})
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    assert place_all(cluster, cluster.job("k", 1, 2)) == {"a"}


def test_a_time_that_ends_is_forgotten() -> None:
    cluster = FakeCluster({"a": 9, "b": 4})
    cluster.handlers.set_avoided("uid-j", {"a": LATER, "b": LATER + 10})
    cluster.now = LATER
    cluster.planner.advance()
    assert cluster.state.cluster.avoided_by("uid-j") == {"b"}
    assert place_all(cluster, cluster.job("j", 1, 2)) == {"a"}
    cluster.now = LATER + 10
    cluster.planner.advance()
    assert not cluster.state.cluster.avoided


def test_a_gang_that_waits_may_use_the_node_once_the_time_is_over() -> None:
    cluster = FakeCluster({"a": 9, "b": 4})
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    cluster.spec("j", 1, 2)
    cluster.job("j", 1, 1)
    assert avoided_by_gang(cluster) == {"a"}
    cluster.now = LATER
    cluster.planner.advance()
    assert avoided_by_gang(cluster) == frozenset()


def avoided_by_gang(cluster: FakeCluster) -> frozenset[str]:
    found = cluster.state.queue.find("uid-j")
    assert found is not None
    return found.observed.gang.avoided


def test_a_gang_that_waits_is_planned_again_when_its_avoided_nodes_change() -> None:
    cluster = FakeCluster({"a": 9, "b": 4})
    cluster.spec("j", 1, 2)
    cluster.job("j", 1, 1)
    cluster.planner.advance()
    assert avoided_by_gang(cluster) == frozenset()
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    assert avoided_by_gang(cluster) == {"a"}


def test_the_room_of_a_rescale_is_reserved_on_other_nodes() -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    cluster.spec("j", 1, 2)
    old = cluster.job("j", 1, 2)
    (node,) = place_all(cluster, old)
    assert node is not None
    (other,) = {"a", "b"} - {node}
    cluster.handlers.set_avoided("uid-j", {node: LATER})
    cluster.rescale("j", 1, 2, leaving=True)
    assert cluster.state.reservation_count() == 3
    waiting = cluster.job("waiting", 1, 1)
    assert cluster.ask(waiting[0], [other]).kept == ()
    cluster.delete(*old)
    cluster.rescale("j", 1, 2, leaving=False)
    assert place_all(cluster, cluster.job("j", 1, 2)) == {other}
    cluster.assert_not_overcommitted()


def test_the_node_is_used_for_a_rescale_that_fits_nowhere_else() -> None:
    cluster = FakeCluster({"a": 4, "b": 1})
    cluster.spec("j", 1, 2)
    old = cluster.job("j", 1, 2)
    assert place_all(cluster, old) == {"a"}
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    cluster.rescale("j", 1, 2, leaving=True)
    cluster.delete(*old)
    cluster.rescale("j", 1, 2, leaving=False)
    assert place_all(cluster, cluster.job("j", 1, 2)) == {"a"}


def test_avoided_nodes_go_with_their_job() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("j", 1, 2)
    cluster.handlers.set_avoided("uid-j", {"a": LATER})
    cluster.handlers.set_job("uid-j", None)
    assert not cluster.state.cluster.avoided


def profile(*avoided: AvoidedNode) -> TrainingProfile:
    status = ProfileStatus(avoided_nodes=avoided)
    reference = JobRef("TFJob", "j", "uid-j")
    return TrainingProfile(uid="p", namespace="ns", name="j", job=reference, status=status)


def test_what_a_profile_says() -> None:
    given = profile(
        AvoidedNode("a", "2026-01-01T00:00:00Z"), AvoidedNode("b", "tomorrow, after lunch")
    )
    assert avoided_of(given) == {"a": 1767225600.0}
    assert avoided_of(profile()) == {}


def test_a_profile_that_is_removed_says_nothing() -> None:
    cluster = FakeCluster({"a": 4})
    handlers: EventHandlers = cluster.handlers
    given = profile(AvoidedNode("a", "2026-01-01T00:00:00Z"))
    handlers._job_uids["TFJob", "ns", "j"] = "uid-j"
    handlers.profile(None, given)
    assert cluster.state.cluster.avoided_by("uid-j") == {"a"}
    handlers.profile(given, None)
    assert cluster.state.cluster.avoided_by("uid-j") == frozenset()
