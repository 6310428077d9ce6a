"""The policy ``optimus``: its oracle, single jobs, blocks of tasks, distance from the optimum."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import AllocationProblem, Candidate
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy
from optimus.resources import NONE, Resources
from tests.unit.policies.drawn import problems, speeds
from tests.unit.policies.problems import PaperSpeed, allocate, candidate, objective, problem
from tests.unit.properties import examples


def slow_optimus(given_problem: AllocationProblem, least: float) -> dict[str, Counts]:
    """The same rule by trying every step of every job each time."""
    counts, free = {}, given_problem.available
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
        if demand.fits_in(free):
            counts[each.job.uid], free = each.job.bounds.minimum, free - demand
    while True:
        steps = []
        for rank, each in enumerate(order):
            if each.job.uid not in counts or not each.may_grow:
                continue
            now = counts[each.job.uid]
            for kind, (ps, workers) in enumerate([(0, 1), (1, 0), (1, 1)]):
                after = Counts(now.ps + ps, now.workers + workers)
                cost = each.job.demand(after) - each.job.demand(now)
                if not each.job.bounds.allow(after) or not cost.fits_in(free):
                    continue
                saved = each.forecast.at(now) - each.forecast.at(after)
                if saved > least * each.forecast.at(now):
                    gain = saved / max(cost.dominant(given_problem.capacity)[1], 1e-9)
                    steps.append((-gain, rank, kind, each.job.uid, after, cost))
        if not steps:
            return counts
        _, _, _, uid, counts[uid], cost = min(steps, key=lambda step: step[:3])
        free = free - cost


@settings(deadline=None)
@given(given_problem=problems())
def test_optimus_takes_the_same_steps_as_its_slow_version(given_problem: AllocationProblem) -> None:
    policy = OptimusPolicy()
    assert policy.allocate(given_problem).counts == slow_optimus(
        given_problem, policy.min_gain_fraction
    )


SCENARIOS: list[tuple[str, Candidate, int, Counts, str]] = [
    (
        "stops where more would not help",
        candidate("a"),
        200,
        Counts(19, 17),
        "would save less than",
    ),
    ("stops where the room ends", candidate("a"), 8, Counts(3, 5), "too little cpu is left"),
    (
        "stops at the user's bounds",
        candidate("a", bounds=CountBounds(max_ps=1, max_workers=2)),
        50,
        Counts(1, 2),
        "max-ps 1, max-workers 2",
    ),
    (
        "starts at the user's minimum",
        candidate("a", bounds=CountBounds(min_ps=4)),
        5,
        Counts(4, 1),
        "too little cpu",
    ),
    (
        "gives nothing to a job with nothing left to do",
        candidate("a", steps=0.0),
        50,
        Counts(1, 1),
        "less than",
    ),
    (
        "goes on with the other kind of task when one does not fit",
        candidate("a", worker=Resources(cpu=1000, gpu=1), bounds=CountBounds(min_workers=4)),
        40,
        Counts(7, 4),
        "too little gpu",
    ),
]


@pytest.mark.parametrize(
    ("given_candidate", "cores", "counts", "reason"),
    [s[1:] for s in SCENARIOS],
    ids=[s[0] for s in SCENARIOS],
)
def test_optimus_for_one_job(
    given_candidate: Candidate, cores: int, counts: Counts, reason: str
) -> None:
    answer = OptimusPolicy().allocate(problem(Resources(cpu=cores * 1000, gpu=4), given_candidate))
    assert answer.counts == {"a": counts}
    assert reason in answer.reasons["a"]


@dataclass(frozen=True)
class InPairs:
    """As fast as there are whole pairs of a PS and a worker."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.minimum(np.asarray(ps, float), np.asarray(workers, float)), float)


def test_optimus_adds_a_ps_and_a_worker_together_where_neither_alone_helps() -> None:
    pairs = Candidate(candidate("a").job, Forecast(InPairs(), 100.0))
    answer = OptimusPolicy().allocate(problem(Resources(cpu=9000), pairs))
    assert answer.counts == {"a": Counts(4, 4)}
    assert "PS 5 with worker 5 does not fit: too little cpu is left" in answer.reasons["a"]
    assert OptimusPaperPolicy().allocate(problem(Resources(cpu=9000), pairs)).counts == {
        "a": Counts(1, 1)
    }


def test_optimus_compares_a_gpu_and_cores_by_their_share_of_the_cluster() -> None:
    gpus = candidate("gpu", worker=Resources(cpu=1000, gpu=1))
    cores = candidate("cpu", steps=900.0)
    free = Resources(cpu=20000, gpu=4)
    by_share = OptimusPolicy().allocate(problem(free, gpus, cores)).counts
    assert by_share["cpu"].workers > by_share["gpu"].workers


def test_a_task_that_asks_for_nothing_is_given_while_it_helps() -> None:
    free = candidate("a", ps=NONE, worker=NONE)
    assert OptimusPolicy().allocate(problem(Resources(cpu=1000), free)).counts["a"].workers > 5


def test_optimus_is_near_the_best_of_all_allocations_on_small_clusters() -> None:
    a, b = candidate("a", steps=500.0), candidate("b", PaperSpeed(20.0, 0.2, 0.6, 0.01, 0.01))
    free = Resources(cpu=10000)
    given_problem = problem(free, a, b)
    best = min(
        a.forecast.at(Counts(pa, wa)) + b.forecast.at(Counts(pb, wb))
        for pa, wa, pb, wb in product(range(1, 8), repeat=4)
        if pa + wa + pb + wb <= 10
    )
    assert objective(given_problem, OptimusPolicy().allocate(given_problem)) <= 1.02 * best


@dataclass(frozen=True)
class InSteps:
    """Faster only with every so many PSs and as many workers more."""

    stride: int

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        whole = np.minimum(np.asarray(ps, float), np.asarray(workers, float)) // self.stride
        return np.asarray(0.1 + whole, float)


@pytest.mark.parametrize("stride", [2, 5, 8])
def test_optimus_looks_past_a_plateau(stride: int) -> None:
    stuck = Candidate(candidate("a").job, Forecast(InSteps(stride), 100.0))
    answer = OptimusPolicy().allocate(problem(Resources(cpu=(4 * stride + 1) * 1000), stuck))
    assert answer.counts == {"a": Counts(2 * stride, 2 * stride)}
    near_sighted = OptimusPolicy(look_ahead=0).allocate(problem(Resources(cpu=100000), stuck))
    assert near_sighted.counts == {"a": Counts(1, 1) if stride > 2 else Counts(2, 2)}


RATIOS = {"optimus": 1.10, "optimus-paper": 1.60}


@pytest.mark.parametrize("policy", list(RATIOS))
@examples(40)
@given(
    given_speeds=st.lists(speeds, min_size=2, max_size=2),
    work=st.lists(st.sampled_from([100.0, 1000.0]), min_size=2, max_size=2),
    cores=st.integers(4, 14),
)
def test_how_far_from_the_best_of_all_allocations(
    policy: str, given_speeds: list[PaperSpeed], work: list[float], cores: int
) -> None:
    a, b = (
        candidate(name, speed, steps)
        for name, speed, steps in zip("ab", given_speeds, work, strict=True)
    )
    given_problem = problem(Resources(cpu=cores * 1000), a, b)
    best = min(
        a.forecast.at(Counts(pa, wa)) + b.forecast.at(Counts(pb, wb))
        for pa, wa, pb, wb in product(range(1, cores), repeat=4)
        if pa + wa + pb + wb <= cores
    )
    assert objective(given_problem, allocate(policy, given_problem)) <= RATIOS[policy] * best
