"""The counts at which users submit jobs that they know, and what these jobs take untouched."""

from dataclasses import dataclass

import pytest

from optimus.jobs import CountBounds, Counts
from optimus.simulator.engine import simulate
from optimus.simulator.presets import FIXED, preset
from optimus.simulator.user_counts import UserCounts
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload


@dataclass(frozen=True)
class Peaked(Speed):
    """Fastest at 5 workers, whatever the PSs."""

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = (), /
    ) -> float:
        workers = sum(server.workers for server in servers)
        return (0.0, 1.0, 2.0, 3.0, 4.5, 5.0, 4.0)[min(workers, 6)]


@pytest.mark.parametrize(
    ("known", "expected"),
    [(UserCounts.SENSIBLE, Counts(1, 4)), (UserCounts.BEST, Counts(1, 5))],
)
def test_users_choose_by_the_speed_alone_on_the_cluster(
    known: UserCounts, expected: Counts
) -> None:
    (found,) = known.of(workload(job("a", JobParameters(speed=Peaked())), on=nodes(3))).jobs
    assert found.job.counts == expected


def test_they_stay_within_the_jobs_bounds_and_what_fits() -> None:
    bounded = job("a", JobParameters(speed=Peaked(), bounds=CountBounds(max_workers=3)))
    large = job("b", JobParameters(speed=Peaked()))
    first, second = UserCounts.BEST.of(workload(bounded, large, on=nodes(1, cpu=3))).jobs
    assert (first.job.counts, second.job.counts) == (Counts(1, 2), Counts(1, 2))


def test_fixed_places_jobs_at_once_and_moves_none() -> None:
    first = job("first", JobParameters(arrives=7, epochs=100, counts=Counts(1, 2)))
    second = job("second", JobParameters(arrives=90, counts=Counts(1, 1)))
    found = simulate(workload(first, second, on=nodes(1)), preset(FIXED), 1)
    first_done, second_done = found.jobs
    assert (first_done.placed_at, first_done.restarts) == (7, 0)
    assert first_done.trained_seconds == pytest.approx(100 * 10 / 2, rel=0.1)
    assert second_done.placed_at >= first_done.finished_at
