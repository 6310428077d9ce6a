"""kube-scheduler leaves out nodes by rules that neither pods nor nodes show."""

from tests.unit.extender.fake_cluster import FakeCluster

NODES = {"a": 2, "b": 2, "c": 2}
ALL = [*NODES]


def ask_all(cluster: FakeCluster, names: list[str], offered: list[str]) -> list[tuple[str, ...]]:
    """What each pod is answered, asked about in turn; the planner's thread runs between."""
    answers = []
    for name in names:
        answers.append(cluster.ask(name, offered).kept)
        cluster.plan()
    return answers


def test_no_pod_of_the_first_gang_is_answered_where_a_node_is_left_out() -> None:
    cluster = FakeCluster(NODES)
    names = cluster.job("j", 1, 5)
    cluster.plan()
    for _ in range(3):
        assert ask_all(cluster, names, ["a", "b"]) == [()] * 6
    assert cluster.planned_nodes() == {}


def test_a_gang_is_answered_once_a_pod_of_each_shape_was_asked_about() -> None:
    cluster = FakeCluster(NODES)
    names = cluster.job("j", 1, 3)
    cluster.plan()
    ps, *workers = ask_all(cluster, names, ["a", "b"])
    assert ps == ()
    assert () not in workers
    assert {*cluster.planned_nodes().values()} == {"a", "b"}
