"""Reclaiming capacity finds the donors that a search from scratch finds, in fewer attempts."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import Candidate, Grant, per_pool
from optimus.interval import IntervalConfig, IntervalInput
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Eligibility, JobView
from optimus.interval.settle.reclaim import Limits, Reclaim, Reclaimed, is_donor
from optimus.interval.settle.settlement import Settlement, _trims
from optimus.interval.settle.undecided import Undecided
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cases import AT
from tests.unit.interval.cluster import Sync, bind, classified, job, nodes, steps

LEAST = Counts(1, 1)


def full_node(workers: list[int], free: int) -> tuple[CapacityPlan, list[JobView]]:
    """Jobs of one PS each that fill a node up to ``free`` cores."""
    jobs = [job(f"j{index}", (1, count)) for index, count in enumerate(workers)]
    cluster = nodes(1, sum(workers) + len(workers) + free)
    pods = [pod for each in jobs for pod in bind(each, ["node-00"] * sum(each.counts))]
    plan = CapacityPlan.of(ClusterSnapshot.of(AT, jobs, cluster, pods), Theorem1())
    return plan, [classified(each, Eligibility.RESIZABLE, LEAST) for each in jobs]


def reclaim_from(donors: list[JobView], cost: float = 1.0, attempts: int = 1000) -> Reclaim:
    allocated = {each.job.uid: LEAST for each in donors}
    return Reclaim(tuple((each, cost) for each in donors), allocated, {}, attempts)


def donors_by_exhaustive_search(
    plan: CapacityPlan, donors: list[JobView], wanted: Job, max_cost: float
) -> list[JobView] | None:
    trial, shrunk = plan.copy(), list[JobView]()
    for donor in donors:
        max_cost -= 1.0
        if max_cost <= 0:
            return None
        assert trial.move(donor.job, LEAST) is None
        shrunk.append(donor)
        if trial.fits(wanted, wanted.counts):
            return shrunk
    return None


@given(
    workers=st.lists(st.integers(2, 5), max_size=6),
    free=st.integers(0, 3),
    asked=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    max_cost=st.sampled_from([2.5, float("inf")]),
)
def test_finds_the_donors_that_an_exhaustive_search_finds(
    workers: list[int], free: int, asked: list[int], max_cost: float
) -> None:
    plan, jobs = full_node(workers, free)
    left, reclaim = list(jobs), reclaim_from(jobs)
    decided: dict[str, Counts] = {}
    reclaim.decided = decided
    for index, count in enumerate(asked):
        new = job(f"new{index}", (1, count))
        expected = donors_by_exhaustive_search(plan, left, new, max_cost)

        def moves(trial: CapacityPlan, job: Job = new) -> str | None:
            return trial.move(job, job.counts)

        found = reclaim.find(plan, moves, Limits(max_cost))
        if expected is None:
            assert isinstance(found, str)
            assert found or not left
            continue
        assert isinstance(found, Reclaimed)
        assert [each for each, _ in found.donors] == expected
        plan.adopt(found.plan)
        for each in [*expected, classified(new, Eligibility.WAITING, LEAST)]:
            decided[each.job.uid] = LEAST if each in left else new.counts
            reclaim.moved(each, decided[each.job.uid])
        left = left[len(expected) :]


@pytest.mark.parametrize("waiting", [1, 50])
def test_a_repeated_refusal_costs_one_attempt_for_any_number_of_donors(waiting: int) -> None:
    plan, jobs = full_node([3] * 40, 0)
    reclaim = reclaim_from(jobs)
    new = job("new", (50, 50))
    for _ in range(waiting):
        assert isinstance(
            reclaim.find(plan, lambda trial: trial.move(new, new.counts), Limits()), str
        )
    assert 1000 - reclaim.attempts_left == 40 + waiting


def test_the_attempts_of_an_interval_are_bounded() -> None:
    plan, jobs = full_node([3] * 40, 0)
    reclaim, new = reclaim_from(jobs, attempts=60), job("new", (20, 20))
    assert isinstance(reclaim.find(plan, lambda trial: trial.move(new, new.counts), Limits()), str)
    assert -1 <= reclaim.attempts_left <= 0
    refusal = reclaim.find(plan, lambda trial: trial.move(new, new.counts), Limits())
    assert isinstance(refusal, str)
    assert "in the next interval" in refusal


def test_a_job_that_may_not_grow_again_shrinks_after_all_others() -> None:
    plan, jobs = full_node([3, 3], 1)
    worn, other = replace(jobs[0], capped=True), jobs[1]
    allocation = {each.job.uid: Grant(LEAST) for each in jobs}
    settlement = settled(plan, allocation, [worn, other])
    new, large = job("new", (1, 1)), job("large", (2, 3))
    found = settlement.reclaim.find(plan, lambda trial: trial.move(new, new.counts), Limits())
    assert isinstance(found, Reclaimed)
    assert found.donors == ((other, LEAST),)
    found = settlement.reclaim.find(plan, lambda trial: trial.move(large, large.counts), Limits())
    assert isinstance(found, Reclaimed)
    assert found.donors == ((other, LEAST), (worn, LEAST))


def test_a_job_that_may_not_grow_again_shrinks_for_no_growth_of_another() -> None:
    plan, jobs = full_node([3, 3], 1)
    worn, other = replace(jobs[0], capped=True), jobs[1]
    allocation, new = {each.job.uid: Grant(LEAST) for each in jobs}, job("new", (1, 2))

    def reclaimed(donors: list[JobView], max_cost: float) -> Reclaimed | str:
        settlement = settled(plan, allocation, donors)
        return settlement.reclaim.find(
            plan, lambda trial: trial.move(new, new.counts), Limits(max_cost)
        )

    assert isinstance(reclaimed([worn], 1e9), str)
    assert isinstance(reclaimed([other], 1e9), Reclaimed)


def settled(plan: CapacityPlan, answer: Mapping[str, Grant], donors: list[JobView]) -> Settlement:
    """Nothing is decided yet."""
    inputs, policy = IntervalInput(ClusterSnapshot.of(AT, [], [], [])), per_pool(OptimusPolicy())
    undecided = Undecided(inputs, policy, IntervalConfig(), donors, plan)
    return Settlement.of(undecided, plan, answer, donors)


def fast_with_ps(counts: tuple[int, int]) -> JobView:
    """A job that runs, and is fast with many PSs."""
    own, forecast = job("a", counts), steps(1000, Sync(work=40.0, link=3.0))
    candidate = Candidate(own, forecast, running=True)
    return classified(own, Eligibility.RESIZABLE, LEAST, candidate=candidate)


@cases(
    ("wanted", "gives"),
    {
        "fewer workers": ((1, 3), True),
        "fewer workers, with which it is faster": ((1, 6), True),
        "fewer workers and more PSs, with which it is faster": ((2, 6), False),
        "fewer workers and more PSs, with which it is slower": ((2, 1), True),
        "more": ((2, 7), False),
        "as many": ((1, 7), False),
    },
)
def test_what_a_job_would_change_to_is_given_to_others(
    wanted: tuple[int, int], gives: bool
) -> None:
    assert is_donor(fast_with_ps((1, 7)), Counts(*wanted)) is gives


@pytest.mark.parametrize(
    ("start", "end"),
    [((4, 6), (1, 1)), ((1, 1), (4, 6)), ((1, 6), (4, 2)), ((3, 1), (1, 4)), ((2, 2), (2, 3))],
)
def test_counts_are_trimmed_one_task_at_a_time(
    start: tuple[int, int], end: tuple[int, int]
) -> None:
    way = [Counts(*start), *_trims(fast_with_ps(start), Counts(*start), Counts(*end)), Counts(*end)]
    steps_taken = [
        (abs(after.ps - before.ps), abs(after.workers - before.workers))
        for before, after in pairwise(way)
    ]
    assert set(steps_taken) <= {(0, 1), (1, 0)}
    assert len(steps_taken) == abs(end[0] - start[0]) + abs(end[1] - start[1])
