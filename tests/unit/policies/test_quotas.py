"""What a quota leaves is one more resource, of which the shares know nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import AllocationProblem, Candidate
from optimus.jobs import Counts, JobKey, ReplicaSpec
from optimus.policies.optimus import OptimusPolicy
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import POOL_POLICIES, allocate, candidate, problem
from tests.unit.properties import examples

_VAST = 10**15
EQUIVALENT = ["optimus", "drf", "srtf", "fifo"]
"""Policies of which shares decide nothing else; Tetris aligns with all resources."""


def in_namespace(each: Candidate, namespace: str) -> Candidate:
    return replace(each, job=replace(each.job, key=JobKey(namespace, each.job.key.name)))


def quota_of(namespace: str, room: int, candidates: tuple[Candidate, ...]) -> Quota:
    """A quota on CPU, of which each task takes what it requests."""

    def asked(spec: ReplicaSpec) -> Resources:
        return Resources({"requests.cpu": spec.resources["cpu"]})

    charges = {
        each.job.uid: QuotaCharge(asked(each.job.ps), asked(each.job.worker))
        for each in candidates
        if each.job.key.namespace == namespace
    }
    room_left = Resources({"requests.cpu": room})
    return Quota(namespace, "quota compute", ("requests.cpu",), room_left, charges)


def as_resources(given_problem: AllocationProblem) -> AllocationProblem:
    """The same problem with a resource of the nodes for each quota, too vast to have a share."""
    names = {each.namespace: f"quota-{each.namespace}" for each in given_problem.quotas}

    def with_quota(spec: ReplicaSpec, name: str) -> ReplicaSpec:
        return ReplicaSpec(Resources({**spec.resources, name: spec.resources["cpu"]}))

    candidates = []
    for each in given_problem.candidates:
        name = names[each.job.key.namespace]
        ps, worker = with_quota(each.job.ps, name), with_quota(each.job.worker, name)
        candidates.append(replace(each, job=replace(each.job, ps=ps, worker=worker)))
    rooms = {names[each.namespace]: each.room["requests.cpu"] for each in given_problem.quotas}
    return AllocationProblem(
        Resources({**given_problem.available, **rooms}),
        Resources({**given_problem.capacity, **dict.fromkeys(rooms, _VAST)}),
        tuple(candidates),
    )


@pytest.mark.parametrize("name", EQUIVALENT)
@examples(60)
@given(drawn=problems(), rooms=st.tuples(st.integers(-2, 25), st.integers(-2, 25)))
def test_a_quota_is_one_more_resource_of_its_namespace(
    name: str, drawn: AllocationProblem, rooms: tuple[int, int]
) -> None:
    candidates = tuple(
        in_namespace(each, f"ns-{number % 2}") for number, each in enumerate(drawn.candidates)
    )
    quotas = tuple(
        quota_of(f"ns-{number}", room * 1000, candidates) for number, room in enumerate(rooms)
    )
    with_quotas = replace(drawn, candidates=candidates, quotas=quotas)
    as_one_more = allocate(name, as_resources(with_quotas))
    assert allocate(name, with_quotas).counts == as_one_more.counts


@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_a_full_quota_holds_back_its_own_namespace_alone(policy: str) -> None:
    candidates = tuple(
        in_namespace(candidate(uid), namespace) for uid, namespace in (("a", "near"), ("b", "far"))
    )
    given_problem = replace(
        problem(Resources(cpu=40_000), *candidates),
        quotas=(quota_of("near", 3_000, candidates),),
    )
    counts = allocate(policy, given_problem).counts
    assert sum(counts["a"]) <= 3
    unlimited = allocate(policy, problem(Resources(cpu=40_000), *candidates)).counts
    assert sum(counts["b"]) >= sum(unlimited["b"])


def test_a_minimum_beyond_the_quota_is_not_admitted_and_says_why() -> None:
    candidates = (in_namespace(candidate("a"), "near"),)
    given_problem = replace(
        problem(Resources(cpu=40_000), *candidates),
        quotas=(quota_of("near", 1_500, candidates),),
    )
    answer = OptimusPolicy().allocate(given_problem)
    assert not answer.counts
    assert answer.reasons["a"] == (
        "its minimum of 1 PS + 1 worker does not fit: quota compute of namespace near leaves 1.5 "
        "of requests.cpu, and 1 PS + 1 worker would take 2"
    )


def test_the_reason_names_the_quota_the_resource_and_the_figures() -> None:
    candidates = (in_namespace(candidate("a"), "near"),)
    given_problem = replace(
        problem(Resources(cpu=40_000), *candidates),
        quotas=(quota_of("near", 5_000, candidates),),
    )
    answer = OptimusPolicy().allocate(given_problem)
    assert answer.counts == {"a": Counts(2, 3)}
    expected = "quota compute of namespace near leaves 0 of requests.cpu, and worker 4 would take 1"
    assert answer.reasons["a"] == expected
