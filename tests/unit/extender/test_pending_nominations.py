"""Which planned pods are worth a nomination."""

import pytest

from tests.unit.extender.fake_cluster import FakeCluster


def test_a_pod_that_kube_scheduler_is_binding_is_assumed_until_it_asks_again() -> None:
    cluster = FakeCluster({"a": 2})
    first, second = cluster.job("j", 1, 1)
    nominations = cluster.nominations
    assert cluster.ask(first).kept == ("a",)
    assert {each.pod.name: each.assumed for each in nominations.pending_nominations()} == {
        first: True,
        second: False,
    }
    assert not nominations.still_pending(cluster.pods[first], "a")
    assert nominations.still_pending(cluster.pods[second], "a")
    assert not nominations.still_pending(cluster.pods[second], "b"), "its plan has changed"
    cluster.filter(cluster.pods[first], [])
    assert not any(each.assumed for each in nominations.pending_nominations())


def test_a_bound_or_deleted_pod_is_no_longer_pending() -> None:
    cluster = FakeCluster({"a": 2})
    first, second = cluster.job("j", 1, 1)
    cluster.planner.advance()
    pods = [cluster.pods[first], cluster.pods[second]]
    cluster.bind(first, "a")
    cluster.delete(second)
    assert not any(cluster.nominations.still_pending(pod, "a") for pod in pods)


def test_a_pod_that_was_refused_is_known_as_such_until_it_is_answered_with_a_node() -> None:
    cluster = FakeCluster({"a": 1})
    first, second = cluster.job("j", 1, 1)
    cluster.ask(first)
    refused_at = cluster.now
    cluster.node("a", 2)
    cluster.planner.advance()
    cluster.now += 5
    pending = {each.pod.name: each.refused_at for each in cluster.nominations.pending_nominations()}
    assert pending == {first: refused_at, second: None}
    assert cluster.ask(first).kept == ("a",)
    assert {each.refused_at for each in cluster.nominations.pending_nominations()} == {None}


def test_a_recreated_pod_of_the_same_name_is_not_the_one_to_be_nominated() -> None:
    cluster = FakeCluster({"a": 2})
    first, _ = cluster.job("j", 1, 1)
    cluster.planner.advance()
    old = cluster.pods[first]
    assert cluster.nominations.find_waiting(old) == old
    cluster.change(old, uid="recreated")
    cluster.planner.advance()
    assert cluster.nominations.find_waiting(old) is None
    assert not cluster.nominations.still_pending(old, "a")
    new = cluster.pods[first]
    assert cluster.nominations.find_waiting(new) == new
    assert cluster.nominations.still_pending(new, "a")


@pytest.mark.parametrize(("nodes", "saves"), [(100, False), (1000, False), (1500, True)])
def test_a_nomination_saves_time_where_trying_all_nodes_takes_longer(
    nodes: int, saves: bool
) -> None:
    cluster = FakeCluster({f"node-{at}": 1 for at in range(nodes)})
    assert cluster.nominations.nominations_save_time() == saves
