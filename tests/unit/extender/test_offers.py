"""For how long it is believed that a gang does not fit on the nodes that it is offered."""

from collections.abc import Callable

import msgspec

from extender.state.offers import Offers, shape_of
from optimus.jobs import NodeConstraints, Role
from optimus.kube.pods import Pod
from optimus.placement.rules import HostPort, PodRules
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases

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


@cases(
    ("times", "seconds"),
    {
        "a second: kube-scheduler may not have seen the room yet": (1, 1),
        "the second time for two": (2, 2),
        "the sixth time for 32": (6, 32),
        "never longer than the setting says": (7, 60),
        "however often": (99, 60),
    },
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


@cases(
    "change",
    {
        "a node that was not offered": lambda offers: offers.node_changed("n"),
        "the job": lambda offers: offers.forget("uid"),
    },
)
def test_the_back_off_is_reset_by_a_change_of(change: Callable[[Offers], object]) -> None:
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


def test_a_recreated_pod_has_not_been_offered_anything() -> None:
    offers = Offers()
    offers.record(POD, (), 0.0)
    offers.forget_pod("uid", "pod")
    assert not offers.was_offered("uid", "pod")


# --- what is known of one job


OTHER = Pod(
    uid="other-pod",
    namespace="ns",
    name="ps-0",
    created_at=0.0,
    replica=ReplicaId("uid", Role.PS, 0),
    resources=Resources(cpu=2),
    constraints=NodeConstraints(),
)


def test_what_pods_of_each_shape_are_not_offered_adds_up() -> None:
    offers = Offers()
    offers.record(POD, {"a"}, 0.0)
    offers.record(POD, {"b"}, 1.0)
    offers.record(OTHER, {"c"}, 2.0)
    offers.exclude(OTHER, "d", 3.0)
    assert offers.absent("uid") == {
        SHAPE: frozenset({"a", "b"}),
        shape_of(OTHER): frozenset({"c", "d"}),
    }
    assert offers.was_offered("uid", "pod")
    assert offers.was_offered("uid", "other-pod")
    assert offers.asks("uid")


def test_pods_that_differ_in_their_rules_alone_have_each_their_own_record() -> None:
    offers = Offers()
    other = msgspec.structs.replace(POD, uid="b", rules=PodRules(ports=(HostPort(80),)))
    offers.record(POD, {"a"}, 0.0)
    offers.record(other, {"b"}, 0.0)
    assert {*offers.absent("uid").values()} == {frozenset({"a"}), frozenset({"b"})}


def test_a_node_that_is_excluded_has_no_other_pod_asked_about() -> None:
    offers = Offers()
    offers.exclude(POD, "a", 0.0)
    assert offers.absent("uid") == {SHAPE: frozenset({"a"})}
    assert not offers.asks("uid")
    assert not offers.was_offered("uid", "pod")


def test_since_when_pods_are_asked_about() -> None:
    offers = Offers()
    assert offers.begin("uid", 7.0) == 7.0
    assert offers.begin("uid", 9.0) == 7.0, "from the first question on"
    offers.record(POD, {"n"}, 9.0)
    offers.does_not_fit("uid", 9.0, 60.0)
    assert offers.back_off_ends("uid") == 10.0
    offers.expire(10.0)
    assert offers.begin("uid", 11.0) == float("-inf"), "after a back-off at once"
    assert offers.back_off_ends("uid") is None


def test_a_node_that_changes_ends_that_wait_too() -> None:
    offers = Offers()
    offers.record(POD, {"n", "m"}, 0.0)
    offers.offers_differ("uid", 5.0, 60.0)
    assert offers.node_changed("other") == ()
    assert offers.waits("uid")
    assert offers.node_changed("n") == ("uid",)
    assert not offers.waits("uid")
    assert not offers.has_refused("uid")
    assert offers.absent("uid") == {SHAPE: frozenset({"m"})}


def test_returns_are_counted_by_replica_and_by_node() -> None:
    offers = Offers()
    asked = [(REPLICA, "n"), (REPLICA, "m"), (OTHER.replica, "n")]
    for replica, node in asked * 2:
        assert replica is not None
        assert not offers.was_not_bound(replica, node, 0.0)
    offers.node_changed("m")
    assert offers.was_not_bound(REPLICA, "n", 0.0)
    assert not offers.was_not_bound(REPLICA, "m", 0.0)


def test_what_pods_are_not_offered_is_copied_again_only_for_those_of_which_it_has_changed() -> None:
    offers, other = Offers(), msgspec.structs.replace(POD, uid="other", resources=Resources(cpu=2))
    offers.record(POD, {"a", "b"}, 0.0)
    offers.record(other, {"a"}, 0.0)
    before = offers.absent("uid")
    offers.record(other, {"c"}, 0.0)
    after = offers.absent("uid")
    assert after == {SHAPE: {"a", "b"}, shape_of(other): {"a", "c"}}
    assert after[SHAPE] is before[SHAPE]
    offers.node_changed("b")
    offers.exclude(other, "d", 0.0)
    assert offers.absent("uid") == {SHAPE: {"a"}, shape_of(other): {"a", "c", "d"}}
    assert before == {SHAPE: {"a", "b"}, shape_of(other): {"a"}}
