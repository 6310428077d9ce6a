"""The published policy: its authors' own figures, and each of its options."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import Candidate
from optimus.jobs import Counts
from optimus.models.forecast import Forecast
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy, StopRule, Tie, amount
from optimus.resources import NONE, Resources
from tests.cases import cases
from tests.unit.policies.problems import (
    GIB,
    PaperSpeed,
    authors_problem,
    candidate,
    objective,
    problem,
)

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


@pytest.mark.parametrize(
    ("jobs", "nodes", "gpus"), [(250, 1000, 0), (500, 2000, 0), (1000, 4000, 1)]
)
def test_the_repaired_rule_is_better_than_the_published_one(
    jobs: int, nodes: int, gpus: int
) -> None:
    given_problem = authors_problem(jobs, nodes, gpus)
    ours, theirs = (
        objective(given_problem, make().allocate(given_problem))
        for make in (OptimusPolicy, OptimusPaperPolicy)
    )
    assert ours < theirs


@cases(
    ("cost", "expected"),
    {
        "cores": (Resources(cpu=4000, memory=GIB), 4.0),
        "GiB": (Resources(cpu=1000, memory=32 * GIB), 32.0),
        "GPUs": (Resources({"cpu": 4000, "gpu": 1}), 1.0),
        "CPU where the shares are equal": (Resources(cpu=8000, memory=24 * GIB), 8.0),
        "nothing counts as one": (NONE, 1.0),
    },
)
def test_amount_of_the_dominant_resource(cost: Resources, expected: float) -> None:
    assert amount(cost, Resources({"cpu": 16000, "memory": 48 * GIB, "gpu": 2})) == expected


def test_the_first_misfit_ends_the_published_loop_or_only_its_own_task() -> None:
    wide, narrow = (
        candidate("wide", steps=90000.0, ps=Resources(cpu=5000), worker=Resources(cpu=5000)),
        candidate("b"),
    )
    given_problem = problem(Resources(cpu=15000), wide, narrow)
    ends, goes_on = (
        OptimusPaperPolicy(stop=stop).allocate(given_problem).counts for stop in StopRule
    )
    assert ends["b"] == Counts(1, 1)
    assert sum(goes_on["b"]) == 5


def test_equal_terms_go_to_the_ps_or_to_the_worker() -> None:
    even = Candidate(candidate("a").job, Forecast(PaperSpeed(1.0, 0.0, 0.0, 0.0, 0.0), 0.0))
    assert OptimusPaperPolicy().allocate(problem(Resources(cpu=9000), even)).counts["a"] == Counts(
        1, 1
    )
    both = Candidate(candidate("a").job, Forecast(Sum(), 100.0))
    by_tie = {
        tie: OptimusPaperPolicy(tie=tie).allocate(problem(Resources(cpu=3000), both)).counts["a"]
        for tie in Tie
    }
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
