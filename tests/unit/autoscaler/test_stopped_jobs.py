"""What a job that is stopped for a rescale returns to: its capacity, its counts and its price."""

import pytest

from optimus.jobs import Counts
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

START_SECONDS = 60
"""Of the harness: how long pods may take to be placed."""

AT_ONCE_SECONDS = 25
"""Two searches for capacity, a stop and a start."""


def submit(cluster: FakeCluster, name: str, counts: Counts, **annotations: str) -> FakeJob:
    given = {"target_loss": "0.06", "training_mode": "sync", "rescale": "any"}
    return cluster.submit(tf_job(name, counts.ps, counts.workers, **{**given, **annotations}))


def take_its_room(cluster: FakeCluster, workers: int) -> None:
    """A job that is not managed is placed before all others, whatever is reserved for them."""
    thief = cluster.submit(tf_job("thief", 1, workers))
    cluster.jobs = {"thief": thief, **cluster.jobs}


@pytest.fixture
def shrinking() -> tuple[ControllerHarness, FakeCluster, FakeJob]:
    """A job of 1 PS and 8 workers that is stopped to have 6 workers."""
    cluster = FakeCluster(cpus=12)
    harness = ControllerHarness(cluster)
    bounds = {"min_ps": "1", "max_ps": "1", "min_workers": "1"}
    job = submit(cluster, "a", Counts(1, 8), max_workers="8", **bounds)
    harness.run(3)
    job.annotate(max_workers="6")
    harness.run_till(lambda: job.suspended and not job.pods)
    return harness, cluster, job


def test_one_whose_capacity_is_lost_goes_to_what_fits_and_never_to_more(
    shrinking: tuple[ControllerHarness, FakeCluster, FakeJob],
) -> None:
    harness, cluster, job = shrinking
    take_its_room(cluster, workers=5)
    seen = set[Counts]()
    for _ in range(AT_ONCE_SECONDS):
        harness.run(1, tick=1)
        if not job.suspended:
            seen.add(job.counts)
    assert job.pods
    assert not job.leaving
    assert all(each.workers <= 6 for each in seen), "the others were promised the difference"
    assert job.counts == Counts(1, 5)


def test_and_returns_to_good_counts_once_there_is_room(
    shrinking: tuple[ControllerHarness, FakeCluster, FakeJob],
) -> None:
    harness, cluster, job = shrinking
    take_its_room(cluster, workers=9)
    harness.run(START_SECONDS + 15)
    assert job.counts == Counts(1, 1)
    del cluster.jobs["thief"]
    for _ in range(600):
        harness.run(2)
        if job.counts.workers >= 4 and job.pods and not job.leaving:
            return
    raise AssertionError(f"it stays at {job.counts}: {harness.status('a').reason}")


def test_of_two_that_wait_for_the_same_room_one_grows() -> None:
    cluster = FakeCluster(cpus=16, checkpoints=False)
    harness = ControllerHarness(cluster)
    bounds = {"min_ps": "1", "max_ps": "1", "max_workers": "2", "rescale": "checkpoint"}
    jobs = [submit(cluster, name, Counts(1, 2), **bounds) for name in ("a", "b")]
    harness.run(660)
    for job in jobs:
        job.annotate(min_workers="6", max_workers="6")
    for name in ("a", "b"):
        harness.run_until(name, "WaitingForCheckpoint")
    cluster.submit(tf_job("new", 1, 4))
    cluster.checkpoints = True
    harness.run(60)
    assert sorted(job.counts for job in jobs) == [Counts(1, 2), Counts(1, 6)]
    assert all(job.pods for job in jobs)


def test_the_next_leader_goes_on_to_the_counts_that_were_found(
    shrinking: tuple[ControllerHarness, FakeCluster, FakeJob],
) -> None:
    harness, cluster, job = shrinking
    take_its_room(cluster, workers=5)
    for _ in range(START_SECONDS + 15):
        harness.run(1, tick=1)
        stored = harness.status("a").rescale
        if stored is not None and stored.step.startswith("undo-"):
            break
    assert (stored.return_ps, stored.return_workers) == (1, 5) if stored else False
    harness.restart()
    harness.run(20)
    assert (job.counts, bool(job.pods), job.suspended) == (Counts(1, 5), True, False)
