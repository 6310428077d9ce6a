"""While a job is stopped for a rescale nobody begins to measure or to grow in the room that it
needs."""

from optimus.jobs import Counts
from tests.unit.autoscaler.mayor import ControllerHarness
from tests.unit.autoscaler.town import FakeCluster
from tests.unit.autoscaler.trainee import FakeJob, tf_job


def submit(town: FakeCluster, name: str, workers: int, most_workers: int) -> FakeJob:
    bounds = {"max_workers": str(most_workers), "min_ps": "1", "max_ps": "1"}
    return town.submit(
        tf_job(name, 1, workers, target_loss="0.06", training_mode="sync", rescale="any", **bounds)
    )


def until_stopped(mayor: ControllerHarness, job: FakeJob, workers: int) -> None:
    """Its user wants so many workers: it is suspended for that, and its pods are about to leave."""
    job.annotate(min_workers=str(workers), max_workers=str(workers))
    for _ in range(60):
        mayor.rule(1)
        if job.leaving:
            return
    raise AssertionError("the job was not suspended")


def stays(mayor: ControllerHarness, young: FakeJob, seconds: int) -> None:
    """A young job trains on as it is, although its speed was to be measured."""
    for _ in range(seconds):
        mayor.rule(1)
        assert (young.counts, young.suspended) == (Counts(1, 1), False)


def test_while_its_own_pods_still_take_what_it_comes_back_to() -> None:
    mayor = ControllerHarness(town := FakeCluster(cpus=7, lingering_seconds=30))
    job = submit(town, "a", 2, 2)
    mayor.rule(3)
    until_stopped(mayor, job, workers=4)
    young = submit(town, "young", 1, 4)
    stays(mayor, young, 29)
    mayor.rule(4)
    assert len(job.pods) == 5


def test_while_a_stranger_is_in_its_place() -> None:
    mayor = ControllerHarness(town := FakeCluster(cpus=12, lingering_seconds=3))
    job = submit(town, "a", 2, 2)
    mayor.rule(3)
    until_stopped(mayor, job, workers=7)
    town.submit(tf_job("stranger", 1, 2))
    young = submit(town, "young", 1, 4)
    stays(mayor, young, 30)
    assert not job.pods
    del town.trainees["stranger"]
    mayor.rule(2)
    assert job.pods
