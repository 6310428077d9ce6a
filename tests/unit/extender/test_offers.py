"""For how long it is believed that a gang does not fit on the nodes that it is offered."""

from collections.abc import Callable

import pytest

from extender.state.offers import Offers, shape_of
from optimus.jobs import NodeConstraints, Role
from optimus.kube.pods import Pod
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

REPLICA = ReplicaId("uid", Role.WORKER, 0)
POD = Pod(
    uid="pod",
    namespace="ns",
    name="worker-0",
    created_at=0.0,
    replica=REPLICA,
    resources=Resources(cpu=1),
    constraints=NodeConstraints(),
)
SHAPE = shape_of(POD)


def refused(times: int) -> tuple[Offers, float]:
    """A job whose back-off has ended so often but once; when its last one began."""
    offers, now = Offers(), 0.0
    for _ in range(times):
        offers.expire(now)
        offers.record(POD, {"n"}, now)
        offers.does_not_fit("uid", now, 60.0)
        began, now = now, offers.next_end
    return offers, began


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        pytest.param(1, 1, id="a second: kube-scheduler may not have seen the room yet"),
        pytest.param(2, 2, id="the second time for two"),
        pytest.param(6, 32, id="the sixth time for 32"),
        pytest.param(7, 60, id="never longer than the setting says"),
        pytest.param(99, 60, id="however often"),
    ],
)
def test_each_back_off_lasts_twice_as_long(times: int, seconds: int) -> None:
    offers, began = refused(times)
    assert offers.expire(began + seconds - 0.1) == ()
    assert offers.absent("uid") == {SHAPE: frozenset({"n"})}
    assert offers.was_offered("uid", "pod")
    assert offers.expire(began + seconds) == ("uid",)
    assert offers.absent("uid") == {}
    assert not offers.was_offered("uid", "pod")
    assert offers.asks("uid")
    assert offers.expire(began + seconds) == ()


def test_a_back_off_that_runs_is_not_begun_again() -> None:
    offers, began = refused(3)
    offers.does_not_fit("uid", began + 3.0, 60.0)
    assert offers.expire(began + 4.0) == ("uid",)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda offers: offers.node_changed("n"), id="a node that was not offered"),
        pytest.param(lambda offers: offers.forget("uid"), id="the job"),
    ],
)
def test_the_back_off_starts_anew_with_a_change_of(change: Callable[[Offers], object]) -> None:
    offers, began = refused(5)
    change(offers)
    assert offers.absent("uid").get(SHAPE, frozenset()) == frozenset()
    assert not offers.has_refused("uid")
    offers.expire(began + 60.0)
    offers.record(POD, {"n"}, 100.0)
    offers.does_not_fit("uid", 100.0, 60.0)
    assert offers.expire(101.0) == ("uid",)


def test_a_change_of_another_node_ends_no_back_off() -> None:
    offers, began = refused(5)
    assert offers.node_changed("other") == ()
    assert offers.expire(began + 15.9) == ()


def test_a_node_that_changes_is_not_held_to_its_returns() -> None:
    offers = Offers()
    returns = [offers.came_back(REPLICA, "n", 0.0) for _ in range(4)]
    offers.node_changed("n")
    assert [*returns, offers.came_back(REPLICA, "n", 0.0)] == [False, False, True, True, False]


def test_a_pod_made_anew_has_not_been_offered_anything() -> None:
    offers = Offers()
    offers.record(POD, (), 0.0)
    offers.forget_pod("uid", "pod")
    assert not offers.was_offered("uid", "pod")
