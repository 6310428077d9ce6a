"""Plans at a change of leaders: adopted by the new one, released by the old one."""

import threading

from optimus.kube.pods import Pod
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def nominated(cluster: FakeCluster, **nodes: str) -> list[Pod]:
    names = cluster.job("j", 1, 1)
    return [
        cluster.change(cluster.pods[name], nominated_node=nodes[name.split("-")[1]])
        for name in names
    ]


def test_a_new_process_adopts_the_plans_of_complete_gangs_from_nominations() -> None:
    cluster = FakeCluster({"a": 1, "b": 1})
    nominated(cluster, ps="b", worker="a")
    assert cluster.planner.adopt_nominations() == ()
    assert cluster.planned_nodes() == {"j-ps-0": "b", "j-worker-0": "a"}


def test_an_assumed_pod_does_not_count_as_a_nomination_of_the_rest() -> None:
    cluster = FakeCluster({"a": 2})
    assumed, other = cluster.job("j", 1, 1)
    assert cluster.ask(assumed).kept == ("a",)
    cluster.change(cluster.pods[assumed], nominated_node="a")
    cluster.planner.release_all()
    assert cluster.planner.adopt_nominations() == ()
    cluster.planner.advance()
    assert cluster.planned_nodes() == {assumed: "a", other: "a"}


def test_nominations_without_room_are_returned_to_be_cleared() -> None:
    cluster = FakeCluster({"a": 1, "b": 1})
    pods = nominated(cluster, ps="a", worker="a")
    assert list(cluster.planner.adopt_nominations()) == pods
    assert cluster.planner.reservation_count() == 0


def test_a_process_that_no_longer_leads_reserves_nothing() -> None:
    cluster = FakeCluster({"a": 2})
    cluster.job("j", 1, 1)
    cluster.planner.advance()
    cluster.planner.release_all()
    assert cluster.planner.reservation_count() == 0


def test_a_binding_of_a_scheduler_that_stopped_is_not_waited_for_as_long() -> None:
    cluster = FakeCluster({"a": 2})
    assumed, _ = cluster.job("j", 1, 1)
    assert cluster.ask(assumed).kept == ("a",)
    cluster.planner.release_all()
    assert cluster.planner.reservation_count() == 1
    cluster.now += 60
    cluster.planner.advance()
    assert "uid-j" not in cluster.planner.reservations.ledger.jobs()


class LatePlans(FakeCluster):
    """Its planner's thread is late, as it is while the Lease is read."""

    def plan(self) -> None:
        threading.Timer(0.1, self.planner.advance).start()


def test_the_first_call_of_a_new_leader_waits_until_its_gang_is_planned() -> None:
    cluster = LatePlans({"a": 2})
    first, _ = cluster.job("j", 1, 1)
    assert cluster.ask(first).kept == ("a",)


def test_later_calls_do_not_wait_as_long_for_a_leader_that_never_comes() -> None:
    cluster = LatePlans({"a": 4})
    cluster.ask(cluster.job("j", 1, 1)[0])
    assert reasons(cluster, cluster.job("k", 1, 1)[0]) == {"job ns/k has not been planned yet"}
