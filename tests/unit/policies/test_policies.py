"""What holds for every policy, and the greedy ones against figures and slow versions of themselves."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from cli.job_table import TableForecast
from scheduling.allocation import AllocationPolicy, AllocationProblem, Candidate
from scheduling.jobs import CountBounds, Counts
from scheduling.models.forecast import JobForecast
from scheduling.policies import POLICIES
from scheduling.policies.optimus import OptimusPolicy
from scheduling.policies.optimus_paper import OptimusPaperPolicy, StopRule, Tie, amount
from scheduling.policies.tetris import TetrisPolicy
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


# -- what every greedy policy shares


@dataclass(frozen=True)
class InSteps:
    """Faster only with every so many PSs and as many workers more."""

    stride: int

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        whole = np.minimum(np.asarray(ps, float), np.asarray(workers, float)) // self.stride
        return np.asarray(0.1 + whole, float)


@pytest.mark.parametrize("stride", [2, 5, 8])
def test_optimus_looks_past_a_plateau(stride: int) -> None:
    stuck = Candidate(candidate("a").job, JobForecast(InSteps(stride), 100.0))
    answer = OptimusPolicy().allocate(problem(Resources(cpu=(4 * stride + 1) * 1000), stuck))
    assert answer.counts == {"a": Counts(2 * stride, 2 * stride)}
    near_sighted = OptimusPolicy(look_ahead=0).allocate(problem(Resources(cpu=100000), stuck))
    assert near_sighted.counts == {"a": Counts(1, 1) if stride > 2 else Counts(2, 2)}


def test_a_forecast_that_answers_for_many_jobs_at_once_gives_the_same() -> None:
    given_problem = authors_problem(60, 200)
    stacked = tuple(replace(each, forecast=as_table(each)) for each in given_problem.candidates)
    assert hasattr(TableForecast, "stacked")
    for make in POLICIES.values():
        one, many = make().allocate(given_problem), make().allocate(replace(given_problem, candidates=stacked))
        assert one.counts == many.counts


def as_table(each: Candidate) -> TableForecast:
    forecast = each.forecast
    assert isinstance(forecast, JobForecast)
    speed = forecast.speed
    assert isinstance(speed, PaperSpeed)
    return TableForecast(forecast.remaining_steps, (speed.compute, speed.t1, speed.t2, speed.t3, speed.t4))


def test_what_is_kept_back_is_kept_from_growth_and_not_from_the_least() -> None:
    given_problem = problem(Resources(cpu=10000), candidate("a"), candidate("b"))
    assert used(given_problem, OptimusPolicy().allocate(replace(given_problem, kept_back=Resources(cpu=4000)))) == (
        Resources(cpu=6000)
    )
    assert used(given_problem, OptimusPolicy().allocate(replace(given_problem, kept_back=Resources(cpu=9000)))) == (
        Resources(cpu=4000)
    )


@every_policy
def test_nobody_gets_less_than_he_holds(policy: AllocationPolicy) -> None:
    if policy.name == "fifo":
        return  # it hands out what users asked for, and nothing else
    holder = replace(candidate("a"), holds=Counts(3, 2), running=True)
    answer = policy.allocate(problem(Resources(cpu=8000), holder, candidate("b")))
    assert answer.counts["a"].ps >= 3
    assert answer.counts["a"].workers >= 2


def test_a_task_too_large_for_every_node_is_not_handed_out() -> None:
    wide = candidate("wide", worker=Resources(cpu=3000))
    given_problem = problem(Resources(cpu=20000), wide, candidate("b"))
    pieces = replace(given_problem, servers={Resources(cpu=4000): 2, Resources(cpu=2000): 6})
    assert OptimusPolicy().allocate(given_problem).counts["wide"].workers > 2
    assert OptimusPolicy().allocate(pieces).counts["wide"].workers == 2


# -- the options of the published rule


def test_the_first_misfit_ends_the_published_loop_or_only_its_own_task() -> None:
    wide, narrow = candidate("wide", steps=90000.0, ps=Resources(cpu=5000), worker=Resources(cpu=5000)), candidate("b")
    given_problem = problem(Resources(cpu=15000), wide, narrow)
    ends, goes_on = (OptimusPaperPolicy(stop=stop).allocate(given_problem).counts for stop in StopRule)
    assert ends["b"] == Counts(1, 1)
    assert sum(goes_on["b"]) == 5


def test_equal_terms_go_to_the_ps_or_to_the_worker() -> None:
    even = Candidate(candidate("a").job, JobForecast(PaperSpeed(1.0, 0.0, 0.0, 0.0, 0.0), 0.0))
    assert OptimusPaperPolicy().allocate(problem(Resources(cpu=9000), even)).counts["a"] == Counts(1, 1)
    both = Candidate(candidate("a").job, JobForecast(Sum(), 100.0))
    by_tie = {tie: OptimusPaperPolicy(tie=tie).allocate(problem(Resources(cpu=3000), both)).counts["a"] for tie in Tie}
    assert by_tie == {Tie.PS: Counts(2, 1), Tie.WORKER: Counts(1, 2)}


@dataclass(frozen=True)
class Sum:
    """As fast as there are tasks."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.asarray(ps, float) + np.asarray(workers, float))


def test_the_priority_factor_holds_back_jobs_at_their_beginning() -> None:
    young, old = candidate("a-young"), candidate("b-old", running=True)
    given_problem = problem(Resources(cpu=5000), young, old)
    assert sum(OptimusPaperPolicy().allocate(given_problem).counts["a-young"]) == 3
    held_back = OptimusPaperPolicy(priority_factor=0.5)
    assert sum(held_back.allocate(given_problem).counts["a-young"]) == 2
    known = replace(held_back, beginning={"a-young": False, "b-old": True})
    assert sum(known.allocate(given_problem).counts["a-young"]) == 3


# -- srtf, tetris


def test_srtf_gives_the_shortest_job_what_helps_it_before_the_next() -> None:
    short, long = candidate("z-short", steps=10.0), candidate("a-long", steps=1000.0)
    answer = POLICIES["srtf"]().allocate(problem(Resources(cpu=10000), short, long))
    assert answer.counts == {"z-short": Counts(4, 4), "a-long": Counts(1, 1)}


@pytest.mark.parametrize(
    ("work_weight", "first"),
    [
        pytest.param(1.0, "small", id="small and short comes first"),
        pytest.param(0.0, "wide", id="without regard to work the one that fills the room best"),
    ],
)
def test_tetris_weighs_alignment_and_work(work_weight: float, first: str) -> None:
    small = candidate("small", steps=10.0)
    wide = candidate("wide", steps=1000.0, ps=Resources(cpu=2000), worker=Resources(cpu=2000))
    answer = TetrisPolicy(work_weight=work_weight).allocate(problem(Resources(cpu=14000), small, wide))
    other = "wide" if first == "small" else "small"
    assert answer.counts[first].ps > 1
    assert answer.counts[other] == Counts(1, 1)


# -- how near the best

RATIOS = {"optimus": 1.10, "optimus-paper": 1.60}


@pytest.mark.parametrize("policy", list(RATIOS))
@settings(max_examples=40, deadline=None)
@given(
    given_speeds=st.lists(speeds, min_size=2, max_size=2),
    work=st.lists(st.sampled_from([100.0, 1000.0]), min_size=2, max_size=2),
    cores=st.integers(4, 14),
)
def test_how_far_from_the_best_of_all_allocations(
    policy: str, given_speeds: list[PaperSpeed], work: list[float], cores: int
) -> None:
    a, b = (candidate(name, speed, steps) for name, speed, steps in zip("ab", given_speeds, work, strict=True))
    given_problem = problem(Resources(cpu=cores * 1000), a, b)
    best = min(
        a.forecast.at(Counts(pa, wa)) + b.forecast.at(Counts(pb, wb))
        for pa, wa, pb, wb in product(range(1, cores), repeat=4)
        if pa + wa + pb + wb <= cores
    )
    assert objective(given_problem, POLICIES[policy]().allocate(given_problem)) <= RATIOS[policy] * best
