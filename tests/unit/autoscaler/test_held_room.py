"""While a job is stopped for a rescale no other is measured or grown in the room it needs."""

from optimus.jobs import Counts
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def submit(cluster: FakeCluster, name: str, workers: int, **most: str) -> FakeJob:
    settings = {"target_epochs": "1000", "training_mode": "sync", "rescale": "any", **most}
    return cluster.submit(tf_job(name, 1, workers, **settings))


def submit_stopped(cluster: FakeCluster, workers: int) -> FakeJob:
    """A job of so many workers, no more and no other PS, until its user says so."""
    return submit(cluster, "a", workers, max_ps="1", max_workers=str(workers))


def submit_young(cluster: FakeCluster) -> FakeJob:
    """A job whose speed is measured at more workers where they fit."""
    return submit(cluster, "young", 1, max_ps="4", max_workers="4")


def until_stopped(harness: ControllerHarness, job: FakeJob, workers: int) -> None:
    """Its user wants so many workers: it is suspended for that, and its pods are about to leave."""
    job.annotate(min_workers=str(workers), max_workers=str(workers))
    harness.run_till(lambda: job.leaving)


def stays(harness: ControllerHarness, young: FakeJob, seconds: int) -> None:
    """A young job trains on as it is, although its speed was to be measured."""
    for _ in range(seconds):
        harness.run(1)
        assert (young.counts, young.suspended) == (Counts(1, 1), False)


def test_alone_it_is_measured() -> None:
    harness = ControllerHarness(cluster := FakeCluster(cpus=7))
    young = submit_young(cluster)
    harness.run(29)
    assert young.counts != Counts(1, 1)


def test_while_its_own_pods_are_still_leaving() -> None:
    harness = ControllerHarness(cluster := FakeCluster(cpus=7, lingering_seconds=30))
    job = submit_stopped(cluster, 2)
    harness.run(3)
    until_stopped(harness, job, workers=4)
    young = submit_young(cluster)
    stays(harness, young, 29)
    harness.run(4, tick=1)
    assert len(job.pods) == 5


def test_while_an_unmanaged_job_holds_its_room() -> None:
    """Neither what it wants nor what it had fits, so that it waits for capacity."""
    harness = ControllerHarness(cluster := FakeCluster(cpus=12, lingering_seconds=3))
    job = submit_stopped(cluster, 7)
    harness.run(3)
    until_stopped(harness, job, workers=8)
    cluster.submit(tf_job("unmanaged", 1, 2))
    young = submit_young(cluster)
    stays(harness, young, 30)
    assert not job.pods
    del cluster.jobs["unmanaged"]
    harness.run(2)
    assert job.pods
