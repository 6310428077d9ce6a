"""The policy ``smd``: the sum of utilities, by brute force, and who waits."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import (
    NO_MEMORY,
    Allocation,
    AllocationProblem,
    Candidate,
    ClusterProblem,
    PolicyMemory,
)
from optimus.allocation.fairness import JobObjective
from optimus.allocation.policy import Grant, Pause, PoolProblem, Refusal, grants
from optimus.jobs import CountBounds, Counts
from optimus.policies.smd import SmdPolicy
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import PaperSpeed, candidate, problem, used

BOUNDS = CountBounds(1, 3, 1, 3)


def decide(
    given_problem: AllocationProblem,
    policy: SmdPolicy | None = None,
    memory: PolicyMemory = NO_MEMORY,
    at: float = 0.0,
) -> tuple[dict[str, Grant | Pause | Refusal], PolicyMemory]:
    asked = ClusterProblem(at, (PoolProblem(given_problem),))
    answer, remembered = (policy or SmdPolicy()).decide(asked, memory, 0)
    return dict(answer), remembered


def drawn(seed: int, jobs: int, *, running: float = 0.3) -> AllocationProblem:
    """Jobs with deadlines and weights that do not all fit."""
    draw = np.random.default_rng(seed)
    candidates = []
    for number in range(jobs):
        speed = PaperSpeed(*draw.uniform([4, 0.05, 0.1, 0.01, 0.01], [20, 0.5, 0.6, 0.1, 0.1]))
        made = candidate(
            f"job-{number}",
            speed,
            float(draw.uniform(100, 2000)),
            ps=Resources(cpu=1000 * int(draw.integers(1, 3))),
            worker=Resources(cpu=1000 * int(draw.integers(1, 4)), gpu=int(draw.integers(0, 2))),
            bounds=BOUNDS,
            running=bool(draw.random() < running),
        )
        job = replace(made.job, finish_by=float(draw.uniform(1000, 20000)), counts=Counts(2, 2))
        weight = JobObjective(float(draw.uniform(1, 10)), 0.0)
        candidates.append(replace(made, job=job, objective=weight))
    cores = 1000 * int(draw.integers(3 * jobs, 8 * jobs))
    return problem(Resources(cpu=cores, gpu=2 * jobs), *candidates)


def utility(each: Candidate, counts: Counts, steepness: float = 4.0) -> float:
    """As published, for a job that has just come."""
    assert each.job.finish_by is not None
    assert each.objective is not None
    power = steepness * (each.forecast.at(counts) - each.job.finish_by) / each.job.finish_by
    return each.objective.weight / (1 + float(np.exp(min(power, 50))))


def total(given_problem: AllocationProblem, counts: dict[str, Counts]) -> float:
    return sum(
        utility(each, counts[each.job.uid])
        for each in given_problem.candidates
        if each.job.uid in counts
    )


def granted(answer: dict[str, Grant | Pause | Refusal]) -> dict[str, Counts]:
    return {uid: each.counts for uid, each in grants(answer).items()}


def best_of_all(given_problem: AllocationProblem) -> float:
    """The most that any counts of all jobs are worth, within what there is."""
    every = [Counts(*each) for each in product(range(1, 4), repeat=2)]
    options = [[*([] if each.running else [None]), *every] for each in given_problem.candidates]
    most = 0.0
    for chosen in product(*options):
        asked = Resources()
        for each, counts in zip(given_problem.candidates, chosen, strict=True):
            if counts is not None:
                asked = asked + each.job.demand(counts)
        if asked.fits_in(given_problem.available):
            pairs = zip(given_problem.candidates, chosen, strict=True)
            found = {each.job.uid: counts for each, counts in pairs if counts is not None}
            most = max(most, total(given_problem, found))
    return most


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_no_choice_of_all_is_better(seed: int) -> None:
    given_problem = drawn(seed, 3)
    answer, _ = decide(given_problem)
    best = best_of_all(given_problem)
    assert total(given_problem, granted(answer)) >= 0.99 * best
    assert used(given_problem, Allocation(granted(answer))).fits_in(given_problem.available)


@settings(deadline=None)
@given(given_problem=problems())
def test_running_jobs_go_on_while_their_minimum_fits(given_problem: AllocationProblem) -> None:
    answer, _ = decide(given_problem)
    least = Resources()
    for each in given_problem.candidates:
        least = least + (each.job.demand(each.least) if each.running else Resources())
    for each in given_problem.candidates:
        if each.running and least.fits_in(given_problem.available):
            assert isinstance(answer[each.job.uid], Grant)


def test_of_two_that_wait_the_one_of_more_utility_per_share_runs() -> None:
    late, early = candidate("late"), candidate("early")
    late = replace(late, job=replace(late.job, finish_by=100.0))
    early = replace(early, job=replace(early.job, finish_by=10_000.0))
    answer, _ = decide(problem(Resources(cpu=2000), late, early))
    assert granted(answer) == {"early": Counts(1, 1)}
    assert "gives way to that of others" in answer["late"].reason
    heavy = replace(late, objective=JobObjective(1e9, 0.0))
    assert granted(decide(problem(Resources(cpu=2000), heavy, early))[0]) == {"late": Counts(1, 1)}


def test_a_job_that_waits_beyond_its_deadline_comes_first_in_the_end() -> None:
    """Others of more utility come again and again; the refused one is granted all the same."""
    refused = candidate("refused", steps=50_000.0)
    refused = replace(refused, job=replace(refused.job, finish_by=10_000.0))
    memory, granted_at = NO_MEMORY, None
    for at in range(0, 60_000, 600):
        fresh = candidate(f"fresh-{at}", created_at=float(at))
        asked = problem(Resources(cpu=2000), refused, fresh)
        answer, memory = decide(asked, memory=memory, at=float(at))
        assert len(granted(answer)) == 1
        if "refused" in granted(answer):
            granted_at = at
            break
    assert granted_at is not None
    assert granted_at >= 10_000  # not before it is due


def test_of_those_that_have_waited_too_long_the_oldest_comes_first() -> None:
    def old(uid: str, created_at: float) -> Candidate:
        made = candidate(uid, steps=1e6, created_at=created_at)
        return replace(made, job=replace(made.job, finish_by=created_at + 10.0))

    answer, _ = decide(
        problem(Resources(cpu=2000), old("younger", 50.0), old("older", 1.0)), at=100.0
    )
    assert set(granted(answer)) == {"older"}
    assert "does not fit" in answer["younger"].reason


class TestDeadline:
    def test_is_a_multiple_of_the_time_at_its_users_counts(self) -> None:
        one = candidate("one", created_at=100.0)
        _, memory = decide(problem(Resources(cpu=9000), one), at=100.0)
        assert memory.data["one"] == pytest.approx(100.0 + 2 * one.forecast.at(Counts(1, 1)))

    def test_is_remembered_while_the_job_is_there(self) -> None:
        one = candidate("one", running=True)
        _, before = decide(problem(Resources(cpu=9000), one))
        grown = replace(one, job=replace(one.job, counts=Counts(3, 4)))
        _, after = decide(problem(Resources(cpu=9000), grown), memory=before, at=50.0)
        assert after == before
        _, gone = decide(problem(Resources(cpu=9000)), memory=after)
        assert dict(gone.data) == {}

    def test_of_a_job_without_speed_is_finite(self) -> None:
        still = candidate("still", PaperSpeed(np.inf, 0, 0, 0, 0))
        _, memory = decide(problem(Resources(cpu=9000), still))
        assert memory == PolicyMemory.from_json(memory.as_json())

    def test_that_its_user_sets_counts(self) -> None:
        calm, hurried = candidate("calm"), candidate("hurried")
        due = 1.2 * hurried.forecast.at(Counts(1, 1))
        hurried = replace(hurried, job=replace(hurried.job, finish_by=due))
        calm = replace(calm, job=replace(calm.job, finish_by=50 * due))
        counts = granted(decide(problem(Resources(cpu=8000), calm, hurried))[0])
        assert sum(counts["hurried"]) > sum(counts["calm"])


def test_late_jobs_grow_into_what_would_be_idle() -> None:
    late = candidate("late", steps=1e6, running=True)
    late = replace(late, job=replace(late.job, finish_by=1.0))
    assert sum(granted(decide(problem(Resources(cpu=8000), late), at=100.0)[0])["late"]) > 4


def test_quotas_of_namespaces_hold() -> None:
    jobs = [candidate(uid) for uid in ("a", "b")]
    charge = QuotaCharge(Resources(pods=1), Resources(pods=1))
    quota = Quota("team", "quota", ("pods",), Resources(pods=3), {"a": charge, "b": charge})
    asked = replace(problem(Resources(cpu=50_000), *jobs), quotas=(quota,))
    counts = granted(decide(asked)[0])
    assert len(counts) == 1
    assert sum(sum(each) for each in counts.values()) <= 3
