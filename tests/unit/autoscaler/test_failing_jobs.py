"""A job whose pods fail says so at once, in its profile, its conditions and one Event."""

from autoscaler.web.copies import copy_of_profiles
from autoscaler.web.rows import row_of
from optimus.kube.contract import Phase
from optimus.kube.profiles import ConditionType, Truth
from optimus.progress.types import LogLine
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def crash(cluster: FakeCluster, fake: FakeJob) -> None:
    """Its workers' program ends with an error again."""
    fake.lines.append(LogLine(cluster.at, "RuntimeError: CUDA out of memory. Tried 2 GiB"))
    fake.lines.append(LogLine(cluster.at, "exiting"))
    for pod in fake.pods:
        (status,) = pod["status"]["containerStatuses"]
        status["restartCount"] += 1
        status["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}


def test_a_crash_loop_is_the_reason_everywhere_and_one_event(cluster: FakeCluster) -> None:
    harness = ControllerHarness(cluster)
    fake = cluster.submit(tf_job("a", 1, 1, target_loss="0.12", rescale="never"))
    harness.run_until("a", "Training")
    cluster.breaks = lambda _: False
    for _ in range(4):
        crash(cluster, fake)
        harness.run(4, tick=2)
    status = harness.status("a")
    words = "exit code 1 after 4 restarts: RuntimeError: CUDA out of memory. Tried 2 GiB"
    assert status.phase is Phase.FAILING
    assert status.reason == f"a-worker-0: CrashLoopBackOff, {words}; 1 more pod too"
    found = {each.type: each for each in status.conditions}[ConditionType.PROGRESSING]
    assert (found.status, found.reason, found.message) == (Truth.FALSE, "Failing", status.reason)
    told = cluster.messages("Failing")
    assert len(told) == 1, "a restart is no other cause"
    assert "CUDA out of memory" in told[0]
    row = row_of(copy_of_profiles(cluster.observe(cluster.at)).jobs["uid-a"])
    assert (row.phase, row.reason) == ("Failing", status.reason)


def test_a_job_that_trains_again_fails_no_more(cluster: FakeCluster) -> None:
    harness = ControllerHarness(cluster)
    fake = cluster.submit(tf_job("a", 1, 1, target_loss="0.12", rescale="never"))
    harness.run_until("a", "Training")
    crash(cluster, fake)
    harness.run_until("a", "Failing")
    for pod in fake.pods:
        (status,) = pod["status"]["containerStatuses"]
        status["state"] = {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
    harness.run_until("a", "Training", "Profiling")


def test_a_job_that_has_failed_says_how_its_pods_ended(cluster: FakeCluster) -> None:
    harness = ControllerHarness(cluster)
    fake = cluster.submit(tf_job("a", 1, 1, target_loss="0.12", rescale="never"))
    harness.run_until("a", "Training")
    crash(cluster, fake)
    harness.run(6)
    fake.manifest["status"]["conditions"] = [
        {"type": "Failed", "status": "True", "message": "TFJob a has failed"}
    ]
    fake.pods.clear()
    fake.changed()
    status = harness.run_until("a", "Failed")
    assert status.reason.startswith("TFJob a has failed; a-worker-0: CrashLoopBackOff, exit code 1")
    assert "CUDA out of memory" in status.reason
