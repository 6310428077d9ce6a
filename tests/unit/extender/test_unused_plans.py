"""How long capacity is reserved for pods that kube-scheduler never asks about or never binds."""

import pytest

from extender.state.extender_state import UNASKED_SECONDS
from tests.unit.extender.fake_cluster import FakeCluster


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


def test_pods_that_are_never_asked_about_hold_nothing_after_a_few_seconds() -> None:
    cluster = FakeCluster({"a": 15})
    cluster.job("j", 1, 14)
    assert held_seconds(cluster, "j", 1200) == UNASKED_SECONDS


@pytest.mark.parametrize("every", [10, 70])
def test_a_gang_that_is_never_bound_holds_a_share_of_the_time_that_vanishes(every: int) -> None:
    """kube-scheduler tries a pod again after 10 s at the latest, where it has no long queue."""
    cluster = FakeCluster(dict.fromkeys("abcdefgh", 15))
    names = cluster.job("j", 1, 14)
    first = held_seconds(cluster, "j", 1200, *names, every=every) / 1200
    later = held_seconds(cluster, "j", 6000, *names, every=every) / 6000
    assert later < min(first / 5, 0.12)
