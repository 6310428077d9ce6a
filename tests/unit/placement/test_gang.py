"""A job's gang and assignment: who its replicas are, what they take, and how a refusal reads."""

from dataclasses import replace

from benchmarks.uneven_placement import job_of
from optimus.jobs import Counts, FixedRole, Job, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import (
    Assignment,
    FixedAssignment,
    Gang,
    Server,
    does_not_fit,
    does_not_fit_because,
    job_does_not_fit,
)
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

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
