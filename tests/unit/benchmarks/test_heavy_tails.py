"""Jobs with heavy tails, managed and untouched: the figures of their table."""

import pytest

from benchmarks.heavy_tails import SeedResult, run_seed, summary
from optimus.simulator.user_counts import UserCounts


def test_a_job_is_late_from_five_percent_on_and_each_seed_is_one_observation() -> None:
    found = summary(
        [
            SeedResult(
                seed=401,
                untouched_seconds=100.0,
                managed_seconds=120.0,
                ratios=(1.0, 1.05, 1.06, 3.0),
            ),
            SeedResult(
                seed=402, untouched_seconds=100.0, managed_seconds=80.0, ratios=(0.7, 0.8, 0.8, 0.9)
            ),
        ]
    )
    assert found.by_seed == pytest.approx({401: 1.2, 402: 0.8})
    assert found.mean == pytest.approx(1.0)
    assert found.low is not None
    assert found.high is not None
    assert found.low < min(found.by_seed.values())
    assert found.high > max(found.by_seed.values())
    assert (found.late_fraction, found.late_by_seed) == (0.25, {401: 0.5, 402: 0.0})
    assert found.worst == 3.0


def test_both_sides_run_the_same_jobs_and_lone_small_ones_are_not_made_later() -> None:
    found = run_seed(2, (UserCounts.SENSIBLE, 401))
    assert len(found.ratios) == 2
    assert found.ratio <= 1.05
