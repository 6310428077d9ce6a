"""What holds for every policy, and the greedy ones against figures and slow versions of themselves."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from scheduling.allocation import AllocationPolicy, AllocationProblem, Candidate
from scheduling.jobs import CountBounds, Counts
from scheduling.models.forecast import JobForecast
from scheduling.policies import POLICIES
from scheduling.policies.optimus import OptimusPolicy
from scheduling.policies.optimus_paper import OptimusPaperPolicy, amount
from scheduling.resources import NONE, Resources
from tests.unit.policies.problems import (
    GIB,
    PaperSpeed,
    authors_problem,
    candidate,
    objective,
    problem,
    used,
)

speeds = st.builds(
    PaperSpeed,
    st.floats(1, 30),
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.floats(0, 0.05),
    st.floats(0, 0.05),
)
bounds = st.builds(
    CountBounds,
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(3, 6)),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(3, 6)),
)
tasks = st.builds(
    lambda cpu, gpu: Resources({"cpu": cpu, "gpu": gpu}), st.sampled_from([500, 1000, 2000]), st.sampled_from([0, 0, 1])
)


@st.composite
def problems(draw: st.DrawFn) -> AllocationProblem:
    count = draw(st.integers(0, 5))
    candidates = [
        candidate(
            f"job-{index}",
            draw(speeds),
            draw(st.sampled_from([0.0, 10.0, 1000.0])),
            ps=draw(tasks),
            worker=draw(tasks),
            bounds=draw(bounds),
            may_grow=draw(st.booleans()),
            running=draw(st.booleans()),
            created_at=draw(st.sampled_from([0.0, 1.0])),
        )
        for index in range(count)
    ]
    return problem(Resources(cpu=draw(st.integers(0, 40)) * 1000, gpu=draw(st.integers(0, 8))), *candidates)


every_policy = pytest.mark.parametrize("policy", [make() for make in POLICIES.values()], ids=list(POLICIES))


@every_policy
@settings(deadline=None)
@given(given_problem=problems())
def test_never_gives_more_than_there_is_and_keeps_to_the_bounds(
    policy: AllocationPolicy, given_problem: AllocationProblem
) -> None:
    answer = policy.allocate(given_problem)
    assert used(given_problem, answer).fits_in(given_problem.room)
    for each in given_problem.candidates:
        assert each.job.uid in answer.reasons
        assert each.job.uid not in answer.counts or each.job.bounds.allow(answer.counts[each.job.uid])


@every_policy
@settings(deadline=None)
@given(given_problem=problems(), data=st.data())
def test_the_order_of_candidates_does_not_matter(
    policy: AllocationPolicy, given_problem: AllocationProblem, data: st.DataObject
) -> None:
    shuffled = tuple(data.draw(st.permutations(given_problem.candidates)))
    again = AllocationProblem(given_problem.room, given_problem.capacity, shuffled)
    assert policy.allocate(again) == policy.allocate(given_problem)


@every_policy
def test_says_so_where_nothing_fits(policy: AllocationPolicy) -> None:
    answer = policy.allocate(problem(Resources(cpu=1000), candidate("a")))
    assert not answer.counts
    assert "too little cpu" in answer.reasons["a"]


@every_policy
def test_is_named_as_the_flag_says(policy: AllocationPolicy) -> None:
    assert POLICIES[policy.name]().name == policy.name


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper", "drf"])
def test_a_running_job_keeps_its_seat_before_a_smaller_new_one(policy: str) -> None:
    small = candidate("new")
    big = candidate("old", ps=Resources(cpu=2000), running=True)
    assert set(POLICIES[policy]().allocate(problem(Resources(cpu=4000), small, big)).counts) == {"old"}


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper", "drf"])
def test_a_job_at_its_goal_gives_room_down_to_its_minimum(policy: str) -> None:
    done = candidate("done", bounds=CountBounds(min_workers=2), may_grow=False)
    answer = POLICIES[policy]().allocate(problem(Resources(cpu=20000), done, candidate("other")))
    assert answer.counts["done"] == Counts(1, 2)


# -- optimus


def slow_optimus(given_problem: AllocationProblem, least: float) -> dict[str, Counts]:
    """The same rule by trying every step of every job each time."""
    counts, room = {}, given_problem.room
    order = sorted(
        given_problem.candidates,
        key=lambda c: (
            not c.running,
            c.job.demand(c.job.bounds.minimum).dominant(given_problem.capacity)[1],
            c.job.uid,
        ),
    )
    for each in order:
        demand = each.job.demand(each.job.bounds.minimum)
        if demand.fits_in(room):
            counts[each.job.uid], room = each.job.bounds.minimum, room - demand
    while True:
        steps = []
        for rank, each in enumerate(order):
            if each.job.uid not in counts or not each.may_grow:
                continue
            now = counts[each.job.uid]
            for kind, (ps, workers) in enumerate([(0, 1), (1, 0), (1, 1)]):
                after = Counts(now.ps + ps, now.workers + workers)
                cost = each.job.demand(after) - each.job.demand(now)
                if not each.job.bounds.allow(after) or not cost.fits_in(room):
                    continue
                saved = each.forecast.at(now) - each.forecast.at(after)
                if saved > least * each.forecast.at(now):
                    gain = saved / max(cost.dominant(given_problem.capacity)[1], 1e-9)
                    steps.append((-gain, rank, kind, each.job.uid, after, cost))
        if not steps:
            return counts
        _, _, _, uid, counts[uid], cost = min(steps, key=lambda step: step[:3])
        room = room - cost


@settings(deadline=None)
@given(given_problem=problems())
def test_optimus_takes_the_same_steps_as_its_slow_version(given_problem: AllocationProblem) -> None:
    policy = OptimusPolicy()
    assert policy.allocate(given_problem).counts == slow_optimus(given_problem, policy.least_gain_fraction)


SCENARIOS: list[tuple[str, Candidate, int, Counts, str]] = [
    ("stops where more would not help", candidate("a"), 200, Counts(19, 17), "would save less than"),
    ("stops where the room ends", candidate("a"), 8, Counts(3, 5), "too little cpu is left"),
    (
        "stops at the user's bounds",
        candidate("a", bounds=CountBounds(max_ps=1, max_workers=2)),
        50,
        Counts(1, 2),
        "max-ps 1, max-workers 2",
    ),
    ("starts at the user's minimum", candidate("a", bounds=CountBounds(min_ps=4)), 5, Counts(4, 1), "too little cpu"),
    ("gives nothing to a job with nothing left to do", candidate("a", steps=0.0), 50, Counts(1, 1), "less than"),
    (
        "goes on with the other kind of task when one does not fit",
        candidate("a", worker=Resources(cpu=1000, gpu=1), bounds=CountBounds(min_workers=4)),
        40,
        Counts(7, 4),
        "too little gpu",
    ),
]


@pytest.mark.parametrize(
    ("given_candidate", "cores", "counts", "reason"), [s[1:] for s in SCENARIOS], ids=[s[0] for s in SCENARIOS]
)
def test_optimus_for_one_job(given_candidate: Candidate, cores: int, counts: Counts, reason: str) -> None:
    answer = OptimusPolicy().allocate(problem(Resources(cpu=cores * 1000, gpu=4), given_candidate))
    assert answer.counts == {"a": counts}
    assert reason in answer.reasons["a"]


@dataclass(frozen=True)
class InPairs:
    """As fast as there are whole pairs of a PS and a worker."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.minimum(np.asarray(ps, float), np.asarray(workers, float)), float)


def test_optimus_adds_a_ps_and_a_worker_together_where_neither_alone_helps() -> None:
    pairs = Candidate(candidate("a").job, JobForecast(InPairs(), 100.0))
    answer = OptimusPolicy().allocate(problem(Resources(cpu=9000), pairs))
    assert answer.counts == {"a": Counts(4, 4)}
    assert "PS 4 with worker 4 saves 8 s of 33 s" in answer.reasons["a"]
    assert OptimusPaperPolicy().allocate(problem(Resources(cpu=9000), pairs)).counts == {"a": Counts(1, 1)}


def test_optimus_compares_a_gpu_and_cores_by_their_share_of_the_cluster() -> None:
    gpus = candidate("gpu", worker=Resources(cpu=1000, gpu=1))
    cores = candidate("cpu", steps=900.0)
    room = Resources(cpu=20000, gpu=4)
    by_share = OptimusPolicy().allocate(problem(room, gpus, cores)).counts
    assert by_share["cpu"].workers > by_share["gpu"].workers


def test_a_task_that_asks_for_nothing_is_given_while_it_helps() -> None:
    free = candidate("a", ps=NONE, worker=NONE)
    assert OptimusPolicy().allocate(problem(Resources(cpu=1000), free)).counts["a"].workers > 5


def test_optimus_is_near_the_best_of_all_allocations_on_small_clusters() -> None:
    a, b = candidate("a", steps=500.0), candidate("b", PaperSpeed(20.0, 0.2, 0.6, 0.01, 0.01))
    room = Resources(cpu=10000)
    given_problem = problem(room, a, b)
    best = min(
        a.forecast.at(Counts(pa, wa)) + b.forecast.at(Counts(pb, wb))
        for pa, wa, pb, wb in product(range(1, 8), repeat=4)
        if pa + wa + pb + wb <= 10
    )
    assert objective(given_problem, OptimusPolicy().allocate(given_problem)) <= 1.02 * best


# -- as published

AUTHORS = [
    (100, 1000, 0, 4718, 18978.9),
    (250, 1000, 0, 6344, 50468.9),
    (500, 1000, 0, 6733, 131505.6),
    (500, 2000, 0, 13082, 101343.5),
    (1000, 4000, 1, 11569, 277958.7),
]


@pytest.mark.parametrize(("jobs", "nodes", "gpus", "wanted", "seconds"), AUTHORS)
def test_the_published_rule_gives_what_the_authors_program_gives(
    jobs: int, nodes: int, gpus: int, wanted: int, seconds: float
) -> None:
    given_problem = authors_problem(jobs, nodes, gpus)
    answer = OptimusPaperPolicy().allocate(given_problem)
    assert sum(sum(counts) for counts in answer.counts.values()) == wanted
    assert objective(given_problem, answer) == pytest.approx(seconds, abs=0.05)


@pytest.mark.parametrize(("jobs", "nodes", "gpus"), [(250, 1000, 0), (500, 2000, 0), (1000, 4000, 1)])
def test_the_repaired_rule_is_better_than_the_published_one(jobs: int, nodes: int, gpus: int) -> None:
    given_problem = authors_problem(jobs, nodes, gpus)
    ours, theirs = (
        objective(given_problem, make().allocate(given_problem)) for make in (OptimusPolicy, OptimusPaperPolicy)
    )
    assert ours < theirs


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        pytest.param(Resources(cpu=4000, memory=GIB), 4.0, id="cores"),
        pytest.param(Resources(cpu=1000, memory=32 * GIB), 32.0, id="GiB"),
        pytest.param(Resources({"cpu": 4000, "gpu": 1}), 1.0, id="GPUs"),
        pytest.param(Resources(cpu=8000, memory=24 * GIB), 8.0, id="CPU where the shares are equal"),
        pytest.param(NONE, 1.0, id="nothing counts as one"),
    ],
)
def test_amount_of_the_dominant_resource(cost: Resources, expected: float) -> None:
    assert amount(cost, Resources({"cpu": 16000, "memory": 48 * GIB, "gpu": 2})) == expected


# -- drf, fifo


def test_drf_gives_equal_shares_in_pairs() -> None:
    wide = candidate("wide", ps=Resources(cpu=2000), worker=Resources(cpu=2000))
    answer = POLICIES["drf"]().allocate(problem(Resources(cpu=16000), candidate("a"), wide))
    assert answer.counts == {"a": Counts(4, 4), "wide": Counts(2, 2)}


def test_fifo_seats_the_oldest_first_at_its_own_counts() -> None:
    old, new = candidate("z-old", created_at=1.0), candidate("a-new", created_at=2.0)
    answer = POLICIES["fifo"]().allocate(problem(Resources(cpu=3000), new, old))
    assert answer.counts == {"z-old": Counts(1, 1)}
    assert "jobs that came before" in answer.reasons["a-new"]
