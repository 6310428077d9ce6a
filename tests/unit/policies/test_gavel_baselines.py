"""AlloX, Gandiva and space sharing, which only the loop of ``benchmarks.gavel_rounds`` has."""

from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.gavel_allox import allox
from benchmarks.gavel_rounds import Active, TraceJob, problem_of
from benchmarks.gavel_space_sharing import Gandiva, Pairs, max_min_of_pairs
from optimus.allocation.time_shares import SharesProblem

SPEEDS = (4.0, 2.0, 1.0)


def problem(
    *steps: float, workers: tuple[int, int, int], notes: tuple[Mapping[str, float], ...] = ()
) -> SharesProblem:
    """Jobs of one worker and equal speeds, all submitted at once."""
    jobs = [
        Active(index, TraceJob(0.0, left, 1, 1.0, SPEEDS, "a job", {}), left)
        for index, left in enumerate(steps)
    ]
    for job, note in zip(jobs, notes, strict=False):
        job.notes = note
    return problem_of(jobs, workers, now=100.0)


def pairs_of(jobs: int, part: float) -> Pairs:
    """All pairs, in which each job makes this part of its own speed."""
    which = [(first, second) for second in range(jobs) for first in range(second)]
    return Pairs(np.array(which), np.full((len(which), 2, 3), part) * SPEEDS)


def test_allox_runs_the_shortest_job_first_on_the_only_worker() -> None:
    shares, notes = allox(problem(300.0, 100.0, 200.0, workers=(1, 0, 0)))
    assert shares.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert notes == [{}, {"kind": 0.0}, {}]


def test_allox_keeps_a_job_where_it_runs() -> None:
    shares, _ = allox(problem(300.0, 1.0, workers=(1, 0, 1), notes=({"kind": 0.0}, {})))
    assert shares.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_allox_assigns_nothing_when_all_workers_are_kept() -> None:
    shares, _ = allox(problem(300.0, 1.0, workers=(1, 0, 0), notes=({"kind": 0.0}, {})))
    assert shares.tolist() == [[1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("part", "alone", "together"),
    [
        pytest.param(0.8, 0.0, 1.0, id="a pair that makes more than its jobs in turns"),
        pytest.param(0.4, 0.5, 0.0, id="a pair that makes less"),
    ],
)
def test_the_fairest_shares_of_one_worker_are_those_of_the_pair_if_it_makes_more(
    part: float, alone: float, together: float
) -> None:
    shares, _ = max_min_of_pairs(problem(9.0, 9.0, workers=(1, 0, 0)), pairs_of(2, part))
    assert shares[:, 0] == pytest.approx([alone, alone, together], abs=1e-5)
    assert shares[:, 1:].sum() == pytest.approx(0.0, abs=1e-5)


def test_no_job_has_more_than_all_the_time_and_no_kind_more_than_its_workers() -> None:
    pairs = pairs_of(5, 0.6)
    shares, _ = max_min_of_pairs(problem(*range(1, 6), workers=(1, 1, 1)), pairs)
    time = shares[:5].sum(axis=1)
    for row, jobs in enumerate(pairs.jobs):
        time[jobs] += shares[5 + row].sum()
    assert (time <= 1 + 1e-5).all()
    assert (shares.sum(axis=0) <= 1 + 1e-5).all()


def test_gandiva_draws_no_pair_while_all_jobs_fit() -> None:
    shares, notes = Gandiva(0)(problem(9.0, 9.0, workers=(1, 1, 0)), pairs_of(2, 0.9))
    assert shares[:2] == pytest.approx(np.array([[0.5, 0.5, 0.0]] * 2))
    assert not shares[2:].any()
    assert notes == [{}, {}]


def test_gandiva_keeps_a_pair_that_is_worth_it_and_draws_anew_where_it_is_not() -> None:
    gandiva, pairs = Gandiva(0), pairs_of(4, 0.9)
    before, notes = gandiva(problem(*[9.0] * 4, workers=(1, 0, 0)), pairs)
    after, _ = gandiva(problem(*[9.0] * 4, workers=(1, 0, 0), notes=tuple(notes)), pairs)
    assert (before[4:] > 0).any(axis=1).sum() == 2
    assert after.tolist() == before.tolist()
    numbers = [note["pair"] for note in notes]
    _, anew = gandiva(problem(*[9.0] * 4, workers=(1, 0, 0), notes=tuple(notes)), pairs_of(4, 0.1))
    assert min(note["pair"] for note in anew) > max(numbers)


def test_two_runs_of_gandiva_with_a_seed_are_equal() -> None:
    drawn = [
        Gandiva(3)(problem(*[9.0] * 6, workers=(1, 1, 0)), pairs_of(6, 0.9))[0] for _ in range(2)
    ]
    assert drawn[0].tolist() == drawn[1].tolist()
