"""The pairs of the simulator: the jobs are those of the live clusters, and what a row says."""

import pytest

from benchmarks.live_jobs import Saving, planned_jobs
from benchmarks.virtual_pairs import Pair, row, run_pair, seeds_of, simulated
from optimus.jobs import Counts
from optimus.simulator.training import Training


def test_simulated_jobs_train_as_long_as_their_stated_costs_say() -> None:
    for planned in planned_jobs(3, (2, 3), 300.0, Saving(True, 3600.0)):
        training = Training(simulated(planned), 3)
        training.begin(planned.arrives_at, (Counts(2, 3),))
        seconds = training.finish_at - planned.arrives_at
        assert seconds == pytest.approx(planned.training_seconds(2, 3))


def test_jobs_of_few_replicas_end_sooner_where_they_are_managed() -> None:
    pair = run_pair((Counts(1, 2), 1), mean_seconds=100.0)
    assert len(pair.managed) == len(pair.untouched) == 6
    assert pair.ratio < 1


def test_a_row_counts_late_jobs_and_means_the_ratios_of_the_seeds() -> None:
    pairs = [
        Pair(Counts(2, 3), 1, (50.0, 106.0), (100.0, 100.0)),
        Pair(Counts(2, 3), 2, (105.0, 103.0), (100.0, 100.0)),
    ]
    found = row(pairs)
    assert found["managed / untouched"] == pytest.approx((0.78 + 1.04) / 2)
    assert (found["jobs"], found["jobs more than 5 % late"], found["worst"]) == (4, 1, 1.06)
    assert found["interval"][0] < found["managed / untouched"] < found["interval"][1]


def test_seeds_are_one_or_a_range() -> None:
    assert (seeds_of("7"), seeds_of("3-5")) == ((7,), (3, 4, 5))
