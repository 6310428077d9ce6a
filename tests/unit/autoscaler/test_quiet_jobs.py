"""A job whose counts do not change causes no API call but its spaced profile write."""

from collections import Counter
from typing import Any

import pytest

from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job

SPACING_SECONDS = 5
"""Of the harness."""

BOUNDS = {"min_ps": "1", "max_ps": "1", "min_workers": "2", "max_workers": "2"}
SEAMS = (
    "job",
    "pods_of",
    "suspend",
    "resize_and_resume",
    "unmark",
    "set_goal_met",
    "create",
    "stored",
    "write_status",
    "delete",
    "emit",
)
"""Every call of the API server that the fake cluster answers, but for reads of logs."""


class CountedCluster(FakeCluster):
    """A fake cluster that counts the calls of its API server."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in SEAMS:
            self.calls[name] += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("prints", [True, False])
def test_only_its_profile_is_written_and_that_seldom(prints: bool) -> None:
    cluster = CountedCluster()
    harness = ControllerHarness(cluster)
    jobs = [
        cluster.submit(tf_job(name, 1, 2, target_loss="0.01", training_mode="sync", **BOUNDS))
        for name in ("a", "b")
    ]
    harness.run(60)
    for job in jobs:
        if not prints:
            job.speed = lambda: 1e-9  # type: ignore[method-assign]
    harness.run(2 * SPACING_SECONDS)
    cluster.calls.clear()
    intervals, runs = harness.intervals, [job.runs for job in jobs]
    seconds = 100
    harness.run(seconds)
    planned = harness.intervals - intervals
    assert planned >= 4
    assert [job.runs for job in jobs] == runs
    assert set(cluster.calls) == {"write_status"}
    # Users see at once which interval decided on a job.
    regular = seconds / SPACING_SECONDS if prints else 0
    assert cluster.calls["write_status"] <= len(jobs) * (regular + planned)
    assert cluster.calls["write_status"] >= len(jobs) * planned
