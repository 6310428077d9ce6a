"""Jobs whose replicas somebody changes while they run, which the admission policy would refuse."""

import pytest

from optimus.jobs import Counts
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

BEFORE, AFTER = Counts(2, 4), Counts(1, 2)


def bounds(counts: Counts) -> dict[str, str]:
    """Annotations that leave exactly these counts: nothing else moves the job."""
    ps, workers = map(str, counts)
    return {"min_ps": ps, "max_ps": ps, "min_workers": workers, "max_workers": workers}


def submit(cluster: FakeCluster, **annotations: str) -> FakeJob:
    common = {"training_mode": "sync", "target_loss": "0.001", **bounds(BEFORE)}
    return cluster.submit(tf_job("a", BEFORE.ps, BEFORE.workers, **common, **annotations))


def change(job: FakeJob) -> None:
    """As `kubectl apply` of a manifest with other counts and bounds does."""
    job.replicas["PS"]["replicas"], job.replicas["Worker"]["replicas"] = AFTER
    job.annotate(**bounds(AFTER))


def fail(job: FakeJob) -> None:
    """The operator has seen one of its pods being deleted."""
    job.manifest["status"]["conditions"] = [{"type": "Failed", "status": "True", "message": "x"}]
    job.changed()


def changed_text(cluster: FakeCluster) -> str:
    (text,) = cluster.messages("ReplicasChanged")
    return text


@pytest.mark.parametrize("rescale", ["checkpoint", "any"])
@pytest.mark.parametrize("age", [30, 700])
def test_it_is_stopped_at_once_and_begun_again_at_its_users_counts(
    cluster: FakeCluster, harness: ControllerHarness, rescale: str, age: int
) -> None:
    cluster.checkpoints = False
    job = submit(cluster, rescale=rescale)
    harness.run(30)
    cluster.pass_time(age)
    harness.run(1)
    assert (job.counts, job.runs) == (BEFORE, 1)
    change(job)
    cluster.at += 1
    harness.controller.tick()
    assert job.suspended, "before the operator has acted"
    harness.run_till(lambda: job.runs == 2, seconds=15)
    assert (job.counts, job.runs, job.suspended) == (AFTER, 2, False)
    text = changed_text(cluster)
    assert "from 2 PS + 4 workers to 1 PS + 2 workers while it ran" in text
    assert "begun again at 1 PS + 2 workers" in text
    harness.run(30)
    assert cluster.reasons("a").count("ReplicasChanged") == 1


def test_one_that_is_never_rescaled_is_not_stopped(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submit(cluster, rescale="never")
    harness.run(10)
    change(job)
    harness.run(10)
    assert (job.runs, job.suspended) == (1, False)
    assert "to prevent it, suspend the job" in changed_text(cluster)


def test_one_that_the_operator_has_failed_already_gets_the_reason(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submit(cluster)
    harness.run(10)
    change(job)
    fail(job)
    job.pods.clear()
    harness.run(3)
    assert "the training operator has failed it for that" in changed_text(cluster)


def test_one_that_its_user_suspends_for_it_is_not_touched(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submit(cluster)
    harness.run(10)
    job.manifest["spec"]["runPolicy"]["suspend"] = True
    change(job)
    harness.run(10)
    job.manifest["spec"]["runPolicy"]["suspend"] = False
    job.changed()
    harness.run(10)
    assert job.runs == 2
    assert "ReplicasChanged" not in cluster.reasons("a")


def test_pods_that_the_watch_still_shows_do_not_stop_a_job(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    """The copy of the pods is older than that of the job: what is stored decides."""
    job = submit(cluster)
    harness.run(10)
    old = cluster.decoded()[2]
    decoded = cluster.decoded
    job.manifest["spec"]["runPolicy"]["suspend"] = True
    change(job)
    cluster.pass_time(1)
    job.manifest["spec"]["runPolicy"]["suspend"] = False
    job.changed()
    cluster.pass_time(1)
    cluster.decoded = lambda: (*decoded()[:2], old)  # type: ignore[method-assign]  # a slow watch
    harness.run(3)
    assert (job.runs, job.suspended) == (2, False)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["a whole gang", "dynamic workers"])
def test_a_rescale_by_the_autoscaler_is_no_such_change(
    cluster: FakeCluster, harness: ControllerHarness, *, is_dynamic: bool
) -> None:
    """With enableDynamicWorker the pods list no whole gang, and the job is stopped as any other."""
    job = tf_job("a", 1, 2, rescale="any", target_loss="0.001", training_mode="async")
    job.manifest["spec"]["enableDynamicWorker"] = is_dynamic
    cluster.submit(job)
    harness.run(60)
    assert job.runs > 1
    samples = harness.state().progress(cluster.at).samples
    assert {each.counts for each in samples} >= {Counts(1, 2), job.counts}
    assert not {"ReplicasChanged", "HalfPlaced"} & {*cluster.reasons("a")}
