"""How long capacity is reserved for pods that kube-scheduler never asks about or never binds."""

import pytest

from extender.state.offers import MOST_ANSWERS
from extender.state.questions import ADVANCE_SECONDS, DISTRUST_SECONDS
from tests.unit.extender.fake_cluster import FakeCluster, reasons

AHEAD = int(ADVANCE_SECONDS)


def held_seconds(cluster: FakeCluster, job: str, seconds: int, *asked: str, every: int = 10) -> int:
    """For how many of the seconds something is reserved for a job; some pods are asked about."""
    held = 0
    for at in range(seconds):
        for name in asked if at % every == 0 else ():
            cluster.ask(name)
        cluster.plan()
        held += cluster.state.reservations.ledger.holds(f"uid-{job}")
        cluster.now += 1
    return held


def submit(cluster: FakeCluster, namespace: str, job: str) -> list[str]:
    """A job of two pods in a namespace."""
    return cluster.job(job, 1, 1, namespace=namespace)


def without_advance(cluster: FakeCluster, namespace: str = "other") -> None:
    """A namespace's reservation in advance ends while kube-scheduler works."""
    unasked = submit(cluster, namespace, "unasked")
    held_seconds(cluster, "unasked", AHEAD - 3)
    for name in submit(cluster, "honest", "asked"):
        cluster.place(name)
    held_seconds(cluster, "unasked", 5)
    cluster.delete(*unasked)


def test_pods_that_are_never_asked_about_hold_nothing_after_a_few_seconds() -> None:
    cluster = FakeCluster({"a": 15})
    cluster.job("j", 1, 14)
    assert held_seconds(cluster, "j", 1200) == AHEAD


def test_a_gang_of_which_one_pod_alone_is_asked_about_holds_next_to_nothing() -> None:
    cluster = FakeCluster(dict.fromkeys("abcdefgh", 15))
    first, *_ = cluster.job("j", 1, 14)
    assert held_seconds(cluster, "j", 1200, first) < 0.1 * 1200


@pytest.mark.parametrize("every", [10, 70])
def test_a_gang_that_is_never_bound_holds_a_share_of_the_time_that_vanishes(every: int) -> None:
    """kube-scheduler tries a pod again after 10 s at the latest, where it has no long queue."""
    cluster = FakeCluster(dict.fromkeys("abcdefgh", 15))
    names = cluster.job("j", 1, 14)
    first = held_seconds(cluster, "j", 1200, *names, every=every) / 1200
    later = held_seconds(cluster, "j", 6000, *names, every=every) / 6000
    assert later < min(first / 5, 0.12)


def test_once_all_pods_were_asked_about_the_reservation_lasts_as_usual() -> None:
    cluster = FakeCluster({"a": 1, "b": 1})
    first, second = cluster.job("j", 1, 1)
    assert cluster.ask(first).kept
    cluster.now += AHEAD - 1
    cluster.ask(second, ["b"])
    cluster.now += 59
    cluster.plan()
    assert cluster.state.reservation_count() == 2


def test_it_lasts_longer_while_kube_scheduler_works_through_its_queue() -> None:
    cluster = FakeCluster({"a": 99})
    names = cluster.job("j", 1, 1)
    held = 0
    before = [cluster.other(f"o{at}", 1, priority=1) for at in range(50)]
    for pod in before:
        cluster.filter(pod, ["a"])
        held += held_seconds(cluster, "j", 1)
    assert held == 50
    assert [cluster.place(name) for name in names] == ["a", "a"]
    later = submit(cluster, "ns", "later")
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(later), "the namespace has not lost its advance"


def test_nobody_loses_it_while_kube_scheduler_works_through_pods_that_it_refused() -> None:
    cluster = FakeCluster({"a": 99})
    refused = [cluster.other(f"o{at}", 1000) for at in range(30)]
    for pod in refused:
        cluster.filter(pod, ["a"])
    names = submit(cluster, "newcomer", "j")
    for pod in refused:  # an event has requeued them all
        held_seconds(cluster, "j", 1)
        cluster.filter(pod, ["a"])
    assert cluster.place(names[0]) == cluster.place(names[1]) == "a"
    later = submit(cluster, "newcomer", "later")
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(later)


def test_a_pod_that_is_tried_twice_shows_that_it_has_come_past_those_that_waited() -> None:
    cluster = FakeCluster({"a": 99})
    again = cluster.other("again", 1000)
    submit(cluster, "other", "unasked")
    held = 0
    for _ in range(60):
        cluster.filter(again, ["a"])
        held += held_seconds(cluster, "unasked", 1)
    assert held == AHEAD


def test_pods_that_it_passes_over_do_not_count_as_behind_others() -> None:
    cluster = FakeCluster({"a": 99})
    cluster.job("j", 1, 1)
    held = 0
    for at in range(50):
        cluster.filter(cluster.other(f"o{at}", 1), ["a"])
        held += held_seconds(cluster, "j", 1)
    assert held == AHEAD


def test_a_namespace_that_left_an_advance_unused_is_planned_once_all_pods_were_tried() -> None:
    cluster = FakeCluster({"a": 99})
    without_advance(cluster)
    first, second = submit(cluster, "other", "later")
    honest = submit(cluster, "honest", "next")
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(honest), "the others keep theirs"
    reason = "waiting until every pod of job other/later has been offered nodes"
    assert reasons(cluster, first) == {reason}
    assert reasons(cluster, first) == {reason}
    assert cluster.place(second) == "a"
    assert cluster.place(first) == "a"


def test_pods_that_are_still_to_be_tried_are_requeued_in_case_an_event_was_lost() -> None:
    cluster = FakeCluster({"a": 99})
    without_advance(cluster)
    first, second = submit(cluster, "other", "later")
    cluster.ask(first)
    assert cluster.nominations.pods_to_requeue() == ()
    cluster.now += 2
    assert [pod.name for pod in cluster.nominations.pods_to_requeue()] == [second]


@pytest.mark.parametrize("bound", [0, 1])
def test_a_gang_whose_pods_are_not_bound_where_planned_is_planned_elsewhere_at_once(
    bound: int,
) -> None:
    """Its pods fail one by one: that is no longer pause with each of them."""
    cluster = FakeCluster({"a": 5, "b": 5, "c": 5})
    names = cluster.job("j", 1, 4)
    cluster.plan()
    for _ in range(MOST_ANSWERS):
        for name in names:
            cluster.ask(name)
            cluster.plan()
        cluster.now += 3
    for name in names[:bound]:
        cluster.place(name)
    for name in names[bound:]:
        assert cluster.ask(name).kept, name
        cluster.plan()


def test_the_advance_comes_back() -> None:
    cluster = FakeCluster({"a": 99})
    without_advance(cluster)
    cluster.now += DISTRUST_SECONDS
    later = submit(cluster, "other", "later")
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(later)


def test_nobody_loses_it_while_kube_scheduler_asks_nothing() -> None:
    cluster = FakeCluster({"a": 99})
    submit(cluster, "other", "unasked")
    held_seconds(cluster, "unasked", 100)
    later = submit(cluster, "other", "later")
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(later)


@pytest.mark.parametrize("kind", ["bound in part", "rescaled"])
def test_gangs_that_run_already_are_not_affected(kind: str) -> None:
    cluster = FakeCluster({"a": 99})
    cluster.spec("late", 1, 1)
    names = cluster.job("late", 1, 1, namespace="ns")
    if kind == "rescaled":
        cluster.rescale("late", 1, 1, leaving=False)
    else:
        cluster.bind(names[0], "a")
    without_advance(cluster, "ns")
    held_seconds(cluster, "late", 61 if kind == "bound in part" else 1)
    cluster.ask(names[1])
    cluster.plan()
    assert names[1] in cluster.planned_nodes()


def test_a_binding_ends_the_pauses() -> None:
    cluster = FakeCluster(dict.fromkeys("abcdefgh", 2))
    names = cluster.job("j", 1, 1)
    while not cluster.state.queue.paused:
        held_seconds(cluster, "j", 10, *names, every=10)
    cluster.bind(names[0], "a")
    assert not cluster.state.queue.paused
    assert cluster.place(names[1])


def test_what_was_asked_is_forgotten_with_the_pod() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 1)
    for name in names:
        cluster.ask(name)
    cluster.bind(names[0], "a")
    cluster.delete(names[1])
    assert cluster.state.questions.asked == {}
