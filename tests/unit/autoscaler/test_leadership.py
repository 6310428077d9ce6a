"""Who leads, when it stops, and what it may not send: a fake Lease and a fake clock."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.leadership import (
    Election,
    Fence,
    Leadership,
    LeadershipState,
    readiness_text,
)
from optimus.kube.leases import Lease
from tests.harness.leases import MemoryStore, check_store
from tests.unit.properties import examples


@dataclass
class Time:
    """A clock that all share; each instance has its own zero."""

    now: float = 1000.0

    def clock(self, zero: float = 0.0) -> "Clock":
        return Clock(self, zero)


@dataclass
class Clock:
    time: Time
    zero: float

    def __call__(self) -> float:
        return self.time.now - self.zero


@dataclass
class Instance:
    """One autoscaler, which steps when it is due unless it is frozen."""

    name: str
    store: MemoryStore
    time: Time
    zero: float = 0.0
    frozen: bool = False
    due: float = 0.0
    election: Election = field(init=False)
    fence: Fence = field(init=False)

    def __post_init__(self) -> None:
        clock = self.time.clock(self.zero)
        self.fence = Fence(clock)
        self.election = Election(self.store, self.name, self.fence, timer=clock, wall=lambda: 1.7e9)

    def state(self) -> LeadershipState:
        return self.election.state

    def may_write(self) -> bool:
        return self.fence.why_not() is None

    def step_if_due(self) -> None:
        if not self.frozen and self.time.now >= self.due:
            self.due = self.time.now + self.election.step()


def run(time: Time, seconds: float, *instances: Instance) -> None:
    """Let so much time pass; never may two of them write."""
    end = time.now + seconds
    while time.now < end:
        for each in instances:
            each.step_if_due()
            assert sum(each.may_write() for each in instances) <= 1
        time.now += 0.05


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def pair(time: Time, store: MemoryStore) -> tuple[Instance, Instance]:
    """A leader, and a standby whose clock has another zero."""
    leader, standby = Instance("one", store, time), Instance("two", store, time, zero=-5e6)
    leader.step_if_due()
    run(time, 3.0, leader, standby)
    assert (leader.state(), standby.state()) == (LeadershipState.LEADER, LeadershipState.STANDBY)
    assert standby.election.holder == "one"
    return leader, standby


def test_the_first_one_leads_at_once_and_the_second_stands_by(
    time: Time, store: MemoryStore
) -> None:
    leader, standby = pair(time, store)
    run(time, 100.0, leader, standby)
    assert (leader.state(), standby.state()) == (LeadershipState.LEADER, LeadershipState.STANDBY)
    assert store.lease is not None
    assert (store.lease.holder, store.lease.transitions) == ("one", 0)


def test_a_leader_that_ends_is_followed_within_twelve_seconds(
    time: Time, store: MemoryStore
) -> None:
    leader, standby = pair(time, store)
    leader.frozen = True
    run(time, 9.0, leader, standby)
    assert standby.state() is LeadershipState.STANDBY
    run(time, 3.0, leader, standby)
    assert standby.state() is LeadershipState.LEADER
    assert store.lease is not None
    assert store.lease.transitions == 1


def test_a_lease_that_is_released_is_taken_at_the_next_look(time: Time, store: MemoryStore) -> None:
    leader, standby = pair(time, store)
    leader.election.release()
    assert not leader.may_write()
    leader.frozen = True
    run(time, 1.1, leader, standby)
    assert standby.state() is LeadershipState.LEADER


def test_an_instance_that_wakes_after_forty_seconds_may_write_nothing(
    time: Time, store: MemoryStore
) -> None:
    leader, standby = pair(time, store)
    leader.frozen = True
    run(time, 40.0, leader, standby)
    assert standby.state() is LeadershipState.LEADER
    reason = leader.fence.why_not()
    assert reason is not None
    assert "ran out" in reason
    leader.frozen = False
    run(time, 2.0, leader, standby)
    assert (leader.state(), standby.state()) == (LeadershipState.LOST, LeadershipState.LEADER)
    assert leader.election.holder == "two"
    run(time, 30.0, leader, standby)
    assert leader.state() is LeadershipState.LOST, "it does not take part again"


def test_an_instance_that_nobody_could_follow_goes_on_after_an_outage(
    time: Time, store: MemoryStore
) -> None:
    leader, standby = pair(time, store)
    store.silent = True
    run(time, 6.0, leader, standby)
    assert leader.may_write()
    run(time, 60.0, leader, standby)
    assert leader.state() is LeadershipState.FENCED
    assert not leader.may_write()
    store.silent = False
    run(time, 1.2, leader)
    assert leader.state() is LeadershipState.LEADER


def test_a_renewal_is_valid_from_before_it_was_sent(time: Time, store: MemoryStore) -> None:
    class Slow(MemoryStore):
        """Answers 5 s after a renewal was sent."""

        def _write(self, lease: Lease):  # type: ignore[no-untyped-def]  # as there
            answer = super()._write(lease)
            if self.writes > 1:
                time.now += 5.0
            return answer

    slow = Slow()
    leader = Instance("one", slow, time)
    leader.step_if_due()
    time.now += 1.0
    leader.step_if_due()
    assert leader.may_write()
    time.now += 2.1
    assert not leader.may_write()


def test_a_renewal_whose_answer_is_lost_is_recognised(time: Time, store: MemoryStore) -> None:
    leader, standby = pair(time, store)
    store.answer_lost = True
    run(time, 5.0, leader, standby)
    assert leader.state() is LeadershipState.LEADER
    assert not store.answer_lost


@pytest.mark.parametrize("how", ["answer_lost", "unreadable_answer"])
def test_a_take_over_whose_answer_is_lost_is_recognised(
    time: Time, store: MemoryStore, how: str
) -> None:
    setattr(store, how, True)
    leader = Instance("one", store, time)
    run(time, 3.0, leader)
    assert leader.state() is LeadershipState.LEADER
    held = store.lease
    assert held is not None
    assert held.transitions == 0


def test_a_renewal_without_a_known_version_is_not_sent_unguarded(
    time: Time, store: MemoryStore
) -> None:
    leader, _ = pair(time, store)
    store.unreadable_answer = True
    run(time, 1.0, leader)
    assert store.lease is not None
    store.lease = replace(store.lease, holder="two", transitions=7, version="77")
    run(time, 2.0, leader)
    assert leader.state() is LeadershipState.LOST
    assert store.lease.holder == "two"


def test_a_deleted_lease_is_not_recreated_before_its_holder_has_stopped(
    time: Time, store: MemoryStore
) -> None:
    leader, standby = pair(time, store)
    leader.frozen = True
    store.lease = None
    run(time, 9.0, leader, standby)
    assert standby.state() is LeadershipState.STANDBY
    run(time, 3.0, leader, standby)
    assert standby.state() is LeadershipState.LEADER


def test_the_holder_of_a_deleted_lease_stops(time: Time, store: MemoryStore) -> None:
    leader, _ = pair(time, store)
    store.lease = None
    run(time, 1.5, leader)
    assert leader.state() is LeadershipState.LOST


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["freeze one", "freeze two", "cut one", "cut two", "lose answer"]),
            st.floats(0.1, 25.0),
        ),
        max_size=6,
    )
)
def test_never_two_may_write_whatever_freezes_or_is_cut_off(
    troubles: list[tuple[str, float]],
) -> None:
    time, store = Time(), MemoryStore()
    one, two = Instance("one", store, time), Instance("two", store, time, zero=123.0)
    stores = {"one": store, "two": store}
    for trouble, seconds in troubles:
        each = {"one": one, "two": two}.get(trouble.split()[-1])
        if trouble == "lose answer":
            store.answer_lost = True
        elif each is not None and trouble.startswith("freeze"):
            each.frozen = True
        elif each is not None:
            each.election._store = MemoryStore(silent=True)
        run(time, seconds, one, two)
        one.frozen = two.frozen = False
        for instance in (one, two):
            instance.election._store = stores[instance.name]
    run(time, 30.0, one, two)
    states = [one.state(), two.state()]
    assert states.count(LeadershipState.LEADER) == 1 or LeadershipState.LOST in states


def test_the_fake_lease_does_what_api_servers_do() -> None:
    check_store(MemoryStore())


def test_a_thread_renews_until_it_is_stopped_and_then_releases() -> None:
    store = MemoryStore()
    fence = Fence()
    leadership = Leadership(Election(store, "one", fence, duration_seconds=1.0))
    leadership.start()
    assert leadership.wait(180.0) is LeadershipState.LEADER
    assert readiness_text(leadership) == "ok: leader"
    first = store.writes
    while store.writes < first + 2:
        assert leadership.silent_seconds < 180.0
    leadership.stop()
    assert store.lease is not None
    assert store.lease.holder == ""
    assert fence.why_not() is not None


def test_what_readyz_says_of_a_standby_and_of_the_only_one() -> None:
    store = MemoryStore(lease=Lease("two", 10.0, 3, "9"))
    election = Election(store, "one", Fence())
    election.step()
    assert readiness_text(Leadership(election)) == "ok: standby; two leads"
    only = Leadership()
    assert readiness_text(only) == "ok: leader"
    assert only.wait(1.0) is LeadershipState.LEADER
