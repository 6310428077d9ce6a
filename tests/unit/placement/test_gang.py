"""A job's gang and assignment: who its replicas are, what they take, and how a refusal reads."""

from dataclasses import replace

from benchmarks.uneven_placement import job_of
from optimus.jobs import Counts, FixedRole, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import (
    Assignment,
    FixedAssignment,
    Gang,
    Member,
    Placement,
    Server,
    does_not_fit,
    does_not_fit_because,
    gang_shape,
    job_does_not_fit,
    shape,
)
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.placement.random_gangs import fixed

CHIEF = ReplicaSpec(Resources(memory=3))
EVALUATOR = ReplicaSpec(Resources(cpu=1, memory=1))


def a_job() -> Job:
    return replace(
        job_of(Resources(cpu=1), Resources(cpu=2, memory=1)),
        counts=Counts(2, 1),
        fixed=(FixedRole(Role.CHIEF, 1, CHIEF), FixedRole(Role.EVALUATOR, 2, EVALUATOR)),
    )


def two_nodes() -> Capacity:
    free = {"a": Resources(cpu=9, memory=9), "b": Resources(cpu=5, memory=7)}
    return Capacity([Node(name, amount) for name, amount in free.items()], free)


ASSIGNED = Assignment(
    (Server(0, 2, 0), Server(1, 1, 2)),
    (FixedAssignment(Role.CHIEF, 0, 1), FixedAssignment(Role.EVALUATOR, 1, 0)),
)
"""2 PSs on a; 1 PS, 2 workers and the chief on b; the second evaluator on a."""


def test_the_gang_of_a_job_has_a_member_for_each_replica() -> None:
    job = a_job()
    fixed_members = (
        Member(Role.CHIEF, 0, CHIEF),
        Member(Role.EVALUATOR, 0, EVALUATOR),
        Member(Role.EVALUATOR, 1, EVALUATOR),
    )
    ps = [Member(Role.PS, index, job.ps) for index in range(2)]
    workers = [Member(Role.WORKER, index, job.worker) for index in range(3)]
    own = Gang.of(job)
    assert own == Gang(JobKey("ns", "job"), "uid", (*ps, workers[0], *fixed_members))
    other = Gang.of(job, Counts(1, 3))
    assert other == Gang(JobKey("ns", "job"), "uid", (ps[0], *workers, *fixed_members))
    assert own.unbound == own.members
    assert own.demand() == Resources(cpu=6, memory=6)


def test_without_avoided_nodes_they_are_excluded_for_members_that_need_a_node() -> None:
    spec = ReplicaSpec(Resources(cpu=1))
    members = (
        Member(Role.PS, 0, spec, node="a"),
        Member(Role.WORKER, 0, spec, excluded=frozenset({"b"})),
        Member(Role.WORKER, 1, spec),
    )
    gang = Gang(JobKey("ns", "job"), "uid", members, avoided=frozenset({"a", "c"}))
    without = gang.without_avoided()
    assert without.avoided == frozenset()
    assert [each.excluded for each in without.members] == [
        frozenset(),
        frozenset({"a", "b", "c"}),
        frozenset({"a", "c"}),
    ]
    assert [each.node for each in without.members] == ["a", None, None]
    assert (without.key, without.job_uid) == (gang.key, gang.job_uid)


@cases(
    ("members", "differs"),
    {
        "alike": ((fixed(Role.PS, 1), fixed(Role.PS, 1, 1)), False),
        "of two roles": ((fixed(Role.PS, 1), fixed(Role.WORKER, 2)), False),
        "other requests": ((fixed(Role.PS, 1), fixed(Role.PS, 2, 1)), True),
        "one is bound": ((fixed(Role.PS, 1), fixed(Role.PS, 2, 1, "a")), False),
        "other constraints": (
            (
                fixed(Role.PS, 1),
                Member(Role.PS, 1, ReplicaSpec(Resources(cpu=1), NodeConstraints((("x", "y"),)))),
            ),
            True,
        ),
    },
)
def test_whether_replicas_of_a_role_differ(members: tuple[Member, ...], differs: bool) -> None:
    assert Gang(JobKey("ns", "job"), "uid", members).differs_within_roles is differs


def test_the_replicas_of_an_assignment_are_numbered_over_its_servers() -> None:
    assert [*ASSIGNED.replicas(a_job())] == [
        (ReplicaId("uid", Role.PS, 0), 0),
        (ReplicaId("uid", Role.PS, 1), 0),
        (ReplicaId("uid", Role.PS, 2), 1),
        (ReplicaId("uid", Role.WORKER, 0), 1),
        (ReplicaId("uid", Role.WORKER, 1), 1),
        (ReplicaId("uid", Role.CHIEF, 0), 1),
        (ReplicaId("uid", Role.EVALUATOR, 1), 0),
    ]
    assert ASSIGNED.counts == Counts(3, 2)


def test_an_assignment_takes_what_its_replicas_request_and_gives_it_back() -> None:
    job, capacity = a_job(), two_nodes()
    before = capacity.free_by_name()
    ASSIGNED.take_from(capacity, job)
    assert capacity.free_by_name() == {"a": Resources(cpu=6, memory=8), "b": Resources(memory=2)}
    ASSIGNED.give_back_to(capacity, job)
    assert capacity.free_by_name() == before


def test_a_role_without_replicas_takes_nothing_though_no_node_has_its_resource() -> None:
    job, capacity = job_of(Resources(cpu=1), Resources(gpu=1)), two_nodes()
    assignment = Assignment((Server(0, 2, 0),))
    assignment.take_from(capacity, job)
    assert capacity.free_of("cpu") == {"a": 7, "b": 5}
    assignment.give_back_to(capacity, job)
    assert capacity.free_of("cpu") == {"a": 9, "b": 5}


def test_an_assignment_of_nothing_has_no_replicas() -> None:
    assert Assignment().counts == Counts(0, 0)
    assert [*Assignment().replicas(a_job())] == []
    assert Placement("uid").nodes == {}


def test_counts_in_words() -> None:
    roles = {Role.MASTER: 1, Role.CHIEF: 2, Role.EVALUATOR: 0, Role.WORKER: 4, Role.PS: 3}
    assert shape(roles) == "3 PS + 4 workers + 2 chief + 1 master"
    assert shape({}) == "0 PS + 0 workers"
    assert gang_shape(Gang.of(a_job())) == "2 PS + 1 worker + 1 chief + 2 evaluator"


def test_a_refusal_names_the_job_and_its_counts() -> None:
    job = a_job()
    refused = "job ns/job (2 PS + 1 worker + 1 chief + 2 evaluator) does not fit as a whole"
    assert does_not_fit(Gang.of(job)).reason == refused
    assert does_not_fit_because(Gang.of(job), "a port").reason == f"{refused}: a port"
    assert job_does_not_fit(job, job.counts).reason == refused
    twice = replace(job, fixed=(*job.fixed, FixedRole(Role.CHIEF, 2, CHIEF)))
    assert job_does_not_fit(twice, Counts(1, 4)).reason == (
        "job ns/job (1 PS + 4 workers + 3 chief + 2 evaluator) does not fit as a whole"
    )
