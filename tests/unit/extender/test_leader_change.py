"""A new leader completes what the last one began, before anything else."""

from tests.unit.extender.fake_cluster import FakeCluster, reasons


def test_a_gang_that_is_bound_in_part_keeps_its_room() -> None:
    cluster = FakeCluster({"a": 2}, leads=False)
    bound, waits = cluster.job("part", 1, 1)
    cluster.bind(bound, "a")
    (urgent,) = cluster.job("urgent", 0, 1, priority=1000)
    assert reasons(cluster, urgent) == {"job ns/urgent has not been planned yet"}
    cluster.leading.begin()
    cluster.plan()
    assert reasons(cluster, urgent) == {"job ns/urgent (1 worker) does not fit as a whole"}
    assert cluster.place(waits) == "a"


def test_the_first_call_of_a_kube_scheduler_that_begins_to_lead_is_answered() -> None:
    cluster = FakeCluster({"a": 2}, leads=False)
    callbacks = cluster.state.callbacks
    cluster.state.callbacks = callbacks._replace(called_as_follower=cluster.leading.begin)
    first, *_ = cluster.job("j", 1, 1)
    assert cluster.ask(first).kept == ("a",)
