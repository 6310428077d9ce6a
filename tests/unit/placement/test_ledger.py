"""The ledger as a state machine: it always says exactly what a plain list of reservations would
say."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from optimus.jobs import Role
from optimus.placement.ledger import Ledger, Reservation
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId
from tests.unit.properties import examples

NODES = ["a", "b", "c"]
indices = st.integers(0, 3)
JOBS = ["job-1", "job-2", "job-3"]
jobs = st.sampled_from(JOBS)
held = st.tuples(indices, st.sampled_from(NODES), st.integers(0, 5))


def reservation(job: str, at: tuple[int, str, int], expires_at: float) -> Reservation:
    index, node, cpu = at
    return Reservation(ReplicaId(job, Role.WORKER, index), node, Resources(cpu=cpu), expires_at)


class LedgerAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.plain: dict[ReplicaId, Reservation] = {}
        self.now = 0.0

    @rule(job=jobs, gang=st.lists(held, max_size=4), seconds=st.integers(1, 20))
    def hold(self, job: str, gang: list[tuple[int, str, int]], seconds: int) -> None:
        reservations = [reservation(job, at, self.now + seconds) for at in gang]
        self.ledger.hold_gang(job, reservations)
        self.plain = {r: kept for r, kept in self.plain.items() if r.job_uid != job}
        self.plain |= {kept.replica: kept for kept in reservations}

    @rule(job=jobs, index=indices)
    def release(self, job: str, index: int) -> None:
        replica = ReplicaId(job, Role.WORKER, index)
        assert self.ledger.release(replica) == self.plain.pop(replica, None)

    @rule(job=jobs)
    def release_job(self, job: str) -> None:
        assert all(kept.replica.job_uid == job for kept in self.ledger.release_job(job))
        self.plain = {r: kept for r, kept in self.plain.items() if r.job_uid != job}

    @rule(seconds=st.integers(0, 10))
    def expire(self, seconds: int) -> None:
        self.now += seconds
        over = {kept for kept in self.plain.values() if kept.expires_at <= self.now}
        assert set(self.ledger.expire(self.now)) == over
        self.plain = {r: kept for r, kept in self.plain.items() if kept not in over}

    @rule(job=jobs, seconds=st.integers(1, 20))
    def extend(self, job: str, seconds: int) -> None:
        self.ledger.extend(job, self.now + seconds)
        for replica, kept in list(self.plain.items()):
            if replica.job_uid == job:
                until = max(kept.expires_at, self.now + seconds)
                self.plain[replica] = Reservation(replica, kept.node, kept.resources, until)

    @rule(job=jobs, index=indices, seconds=st.integers(0, 20))
    def expire_at(self, job: str, index: int, seconds: int) -> None:
        replica, until = ReplicaId(job, Role.WORKER, index), self.now + seconds
        self.ledger.expire_at(replica, until)
        if replica in self.plain:
            self.plain[replica] = replace(self.plain[replica], expires_at=until)

    @invariant()
    def says_what_the_list_says(self) -> None:
        assert len(self.ledger) == len(self.plain)
        assert {r: self.ledger.get(r) for r in self.plain} == self.plain
        jobs = {replica.job_uid for replica in self.plain}
        assert set(self.ledger.jobs()) == jobs
        assert {job for job in JOBS if self.ledger.holds(job)} == jobs
        for node in NODES:
            promised = total(kept.resources for kept in self.plain.values() if kept.node == node)
            assert self.ledger.held_on(node) == promised
            assert self.ledger.held_by_node().get(node, NONE) == promised
            on_node = [kept for kept in self.plain.values() if kept.node == node]
            jobs_on = sorted({kept.replica.job_uid for kept in on_node})
            assert self.ledger.jobs_on(node) == tuple(jobs_on)
            for job in JOBS:
                of_job = (kept.resources for kept in on_node if kept.replica.job_uid == job)
                assert self.ledger.held_for(job, node) == total(of_job)


LedgerAgainstAList.TestCase.settings = examples(60, stateful_step_count=30)
TestLedgerAgainstAList = LedgerAgainstAList.TestCase


def test_a_reservation_ends_with_the_instant_until_which_it_is_held() -> None:
    ledger = Ledger()
    first, second = reservation("job-1", (0, "a", 1), 10.0), reservation("job-2", (0, "a", 1), 12.0)
    ledger.hold_gang("job-1", [first])
    ledger.hold_gang("job-2", [second])
    assert ledger.expire(9.9) == ()
    assert ledger.expire(10.0) == (first,)
    assert ledger.expire(11.9) == ()
    ledger.expire_at(second.replica, 11.95)
    (ended,) = ledger.expire(11.95)
    assert ended.replica == second.replica
    assert ledger.held_by_node() == {}
