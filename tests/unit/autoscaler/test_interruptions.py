"""Users, restarts and other writers interrupt at the worst moment: nothing stays stuck."""

import msgspec
import pytest

from optimus.jobs import Role
from optimus.kube.contract import Phase
from optimus.kube.profile_codec import pack, unpack
from optimus.kube.profiles import JobRef, ProfileStatus, RescaleStatus, TrainingProfile
from optimus.progress.pod_progress import PodState
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import SUSPENDED_BY, tf_job


@pytest.mark.parametrize("goal", [None, "low"])
def test_a_job_that_loses_its_goal_in_the_middle_of_a_rescale_is_resumed(
    cluster: FakeCluster, harness: ControllerHarness, goal: str | None
) -> None:
    job = cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run_till(lambda: job.suspended)
    job.annotate(target_loss=goal)
    harness.restart()
    harness.run(30)
    assert not job.suspended
    assert SUSPENDED_BY not in job.manifest["metadata"]["annotations"]
    assert job.pods
    if goal is not None:
        assert harness.status("a").phase is Phase.LEFT_ALONE


def test_a_profile_in_another_namespace_that_names_the_job_is_ignored(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", rescale="never")
    )
    forged = RescaleStatus("forged", "2027-01-15T08:00:00Z", 1, 1, 0, 0, "because", "suspend")
    cluster.profiles["forged"] = TrainingProfile(
        uid="p",
        namespace="elsewhere",
        name="forged",
        job=JobRef("TFJob", "a", "uid-a"),
        status=ProfileStatus(rescale=forged),
    )
    harness.run(30)
    assert not job.suspended


def test_a_job_that_ends_between_two_autoscalers_is_reported(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(tf_job("a", 1, 1, target_loss="0.001", training_mode="sync"))
    harness.run_until("a", "Training")
    job.manifest["status"]["conditions"] = [
        {"type": "Failed", "status": "True", "message": "a worker failed"}
    ]
    job.pods.clear()
    harness.restart()
    for _ in range(3):
        harness.controller.tick()
    assert (harness.status("a").phase, harness.status("a").reason) == (
        Phase.FAILED,
        "a worker failed",
    )
    assert harness.controller.managed.states == {}


def test_a_lower_goal_resumes_a_job_that_was_suspended_at_the_old_one(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="0.3", training_mode="sync", at_target="suspend")
    )
    harness.run_until("a", "Suspended", seconds=600)
    job.annotate(target_loss="0.2")
    harness.run(20)
    assert not job.suspended
    harness.run_until("a", "Suspended", seconds=600)
    assert harness.status("a").progress_percent == 100


def test_an_inconsistent_saved_state_affects_its_own_job_only(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    cluster.submit(tf_job("odd", 1, 1, target_loss="0.12", training_mode="sync"))
    good = cluster.submit(tf_job("good", 1, 1, target_loss="0.12", training_mode="sync"))
    profiling.run(20)
    status = profiling.status("odd")
    assert status.state is not None
    saved = unpack(status.state, "odd", cluster.at)
    saved.log.pods = [PodState("odd-worker-0", Role.PS, 0, tells_loss=True, step=1)]
    cluster.write_status(
        cluster.profiles["odd"], msgspec.structs.replace(status, state=pack(saved))
    )
    profiling.restart()
    runs = good.runs
    profiling.run(60)
    assert good.runs > runs


def test_an_unknown_quota_costs_few_restarts() -> None:
    harness = ControllerHarness(cluster := FakeCluster(cpus=40, quota=6))
    job = cluster.submit(
        tf_job("a", 1, 2, target_loss="0.0501", training_mode="sync", rescale="any")
    )
    trained = 0
    for _ in range(300):
        harness.run(4, tick=4)
        if job.pods and all(pod["status"]["phase"] == "Running" for pod in job.pods):
            trained += 4
    assert cluster.reasons("a").count("RollingBack") <= 4
    assert trained >= 900
    assert len(harness.state().record.placement_failures) <= 8


def test_bounds_that_change_while_the_job_is_suspended_are_respected(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job("a", 4, 4, target_loss="0.0501", training_mode="sync", rescale="any")
    )
    harness.run_until("a", "Training")
    job.annotate(max_workers="2")
    harness.run_till(lambda: job.suspended)
    job.annotate(max_workers=None, min_workers="4")
    for _ in range(60):
        harness.run(1)
        assert job.suspended or job.counts.workers >= 4
    assert not job.suspended


def test_a_user_may_suspend_again_a_job_resumed_after_its_goal(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job(
            "a", 1, 2, target_loss="0.3", training_mode="sync", at_target="suspend", rescale="any"
        )
    )
    harness.run_until("a", "Suspended", seconds=600)
    for suspend in (False, True):
        job.manifest["spec"]["runPolicy"]["suspend"] = suspend
        job.changed()
        harness.run(20)
        assert job.suspended is suspend
        assert SUSPENDED_BY not in job.manifest["metadata"]["annotations"]
    job.annotate(target_loss="0.1")
    harness.run(20)
    assert job.suspended
