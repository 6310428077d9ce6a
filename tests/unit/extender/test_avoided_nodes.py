"""Nodes that a job's profile asks to avoid."""

from extender.state.cluster import ProfileFacts
from extender.state.event_handlers import avoided_of
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
    cluster.handlers.set_profile("uid-j", ProfileFacts(avoided={"a": LATER}))
    assert place_all(cluster, cluster.job("j", 1, 2)) == used


def test_a_gang_that_waits_may_use_the_node_once_the_time_is_over() -> None:
    cluster = FakeCluster({"a": 9, "b": 4})
    cluster.handlers.set_profile("uid-j", ProfileFacts(avoided={"a": LATER}))
    cluster.spec("j", 1, 2)
    cluster.job("j", 1, 1)
    assert avoided_by_gang(cluster) == {"a"}
    cluster.now = LATER
    cluster.plan()
    assert avoided_by_gang(cluster) == frozenset()


def avoided_by_gang(cluster: FakeCluster) -> frozenset[str]:
    found = cluster.state.queue.find("uid-j")
    assert found is not None
    return found.observed.gang.avoided


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
