"""Capacity is divided among namespaces before their jobs compete for it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import Allocation, AllocationProblem, Candidate
from optimus.allocation.deadline import Deadline
from optimus.allocation.fairness import PROPORTIONAL, JobObjective
from optimus.allocation.problem import NamespaceShare
from optimus.jobs import CountBounds, JobKey
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources, total
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import PaperSpeed, candidate, problem

CPUS = 60
ROOM = Resources(cpu=1000 * CPUS)
STEEP = PaperSpeed(compute=1000.0, t1=0.0, t2=0.0, t3=0.0, t4=0.0)
"""As fast again with every worker, whatever the PSs."""
LOG = JobObjective(1.0, PROPORTIONAL)


def of(namespace: str, uid: str, **parameters: object) -> Candidate:
    made = candidate(uid, **parameters)  # type: ignore[arg-type]  # the parameters of a candidate
    job = replace(made.job, key=JobKey(namespace, uid))
    return replace(made, job=job, objective=LOG)


def shared(candidates: Sequence[Candidate], *shares: NamespaceShare) -> AllocationProblem:
    given_shares = shares or tuple(
        NamespaceShare(name) for name in sorted({each.job.key.namespace for each in candidates})
    )
    return replace(problem(ROOM, *candidates), shares=given_shares)


def tasks(asked: AllocationProblem, namespace: str) -> int:
    counts = OptimusPolicy().allocate(asked).counts
    return sum(
        sum(counts[each.job.uid])
        for each in asked.candidates
        if each.job.key.namespace == namespace
    )


def test_a_namespace_gets_no_more_than_its_share_while_another_wants_more() -> None:
    greedy = [of("many", f"m{number}", speed=STEEP, steps=1e12) for number in range(5)]
    both = [*greedy, of("few", "alone")]
    unshared = replace(shared(both), shares=())
    assert tasks(unshared, "few") < CPUS // 4
    fair = shared(both)
    assert tasks(fair, "few") >= min(CPUS // 2 - 2, tasks(shared([both[-1]]), "few"))
    assert tasks(fair, "many") + tasks(fair, "few") > CPUS - 2


def test_what_another_does_not_want_is_used() -> None:
    modest = of("few", "alone", bounds=CountBounds(max_ps=2, max_workers=2))
    found = shared([of("many", "m", speed=STEEP), modest])
    assert tasks(found, "few") == 4
    assert tasks(found, "many") == CPUS - 4


def test_what_is_left_is_divided_among_those_that_want_more() -> None:
    jobs = [of(name, name, speed=STEEP) for name in ("a", "b")]
    found = shared([*jobs, of("c", "c", bounds=CountBounds(max_ps=1, max_workers=1))])
    assert tasks(found, "c") == 2
    assert abs(tasks(found, "a") - tasks(found, "b")) <= 2


def test_weights_and_what_other_jobs_hold_count() -> None:
    jobs = [of(name, name, speed=STEEP) for name in ("a", "b")]
    heavy = shared(jobs, NamespaceShare("a", 3.0), NamespaceShare("b"))
    assert tasks(heavy, "a") == pytest.approx(CPUS * 3 / 4, abs=2)
    holds = shared(jobs, NamespaceShare("a"), NamespaceShare("b", held=Resources(cpu=20_000)))
    # 80 CPUs in all: b has 20 of its 40 already.
    assert tasks(holds, "a") == pytest.approx(40, abs=2)


def test_a_deadline_takes_no_more_than_the_share_while_another_wants_more() -> None:
    urgent = of("many", "m", speed=STEEP, steps=1000.0)
    needs = urgent.forecast.late_seconds(1, 50)
    urgent = replace(urgent, deadline=Deadline(float(needs)))
    assert tasks(shared([urgent]), "many") >= 51
    assert tasks(shared([urgent, of("few", "f", speed=STEEP)]), "many") <= CPUS * 0.6


def test_a_job_gets_no_more_for_claiming_more_work() -> None:
    honest, equal = of("team", "a"), of("team", "b")
    claims = of("team", "b", steps=1e15)
    policy = OptimusPolicy()
    before = policy.allocate(problem(Resources(cpu=14_000), honest, equal)).counts
    after = policy.allocate(problem(Resources(cpu=14_000), honest, claims)).counts
    assert after == before


def used(found: Allocation, candidates: Sequence[Candidate]) -> Resources:
    return total(
        each.job.demand(found.counts[each.job.uid])
        for each in candidates
        if each.job.uid in found.counts
    )


@settings(deadline=None, max_examples=60)
@given(drawn=problems(), names=st.lists(st.sampled_from("ab"), min_size=5, max_size=5))
def test_shares_leave_nothing_idle_and_fit(drawn: AllocationProblem, names: list[str]) -> None:
    """As long as any job may take a further task that fits, it is taken."""
    named = tuple(
        replace(each, job=replace(each.job, key=JobKey(name, each.job.uid)))
        for each, name in zip(drawn.candidates, names, strict=False)
    )
    growing = sorted({each.job.key.namespace for each in named if each.may_grow})
    shares = tuple(map(NamespaceShare, growing)) if len(growing) > 1 else ()
    policy = OptimusPolicy(look_ahead=0, min_gain_fraction=0.0)
    found = policy.allocate(replace(drawn, candidates=named, shares=shares))
    plain = policy.allocate(drawn)
    assert set(found.counts) == set(plain.counts)
    assert used(found, named).fits_in(drawn.available)
    left = drawn.available - used(found, named)
    for each in named:
        counts, bounds = found.counts.get(each.job.uid), each.job.bounds
        if counts is None or not each.may_grow:
            continue
        more = counts._replace(workers=counts.workers + 1)
        fits = each.job.worker.resources.fits_in(left) and bounds.allow(more)
        assert not fits or each.forecast.at(more) >= each.forecast.at(counts)
