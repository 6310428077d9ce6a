"""What is told of a job whose memory is near its limit."""

from collections.abc import Callable

import pytest

from optimus.kube.contract import Phase
from optimus.kube.profiles import Condition, ConditionType, Truth
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

GI = 2**30
KEPT = {"min_workers": "2", "max_workers": "2", "max_ps": "1"}


@pytest.fixture
def job(cluster: FakeCluster, harness: ControllerHarness) -> FakeJob:
    """It trains at 1 PS + 2 workers, whose limit is 1 Gi."""
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.001", workload="w", **KEPT))
    harness.run_until("a", Phase.TRAINING)
    for pod in job.pods[1:]:
        pod["spec"]["containers"][0]["resources"]["limits"] = {"memory": "1Gi"}
    return job


def condition(harness: ControllerHarness) -> Condition | None:
    found = harness.status("a").conditions
    return next((each for each in found if each.type is ConditionType.MEMORY_PRESSURE), None)


def told(cluster: FakeCluster) -> list[str]:
    return [text for _, reason, text in cluster.events if reason == "MemoryNearLimit"]


def test_a_pod_near_its_limit_is_told_once_and_not_any_more_when_it_is_not(
    cluster: FakeCluster, harness: ControllerHarness, job: FakeJob
) -> None:
    cluster.used = {"a-ps-0": 5 * GI, "a-worker-0": GI // 2, "a-worker-1": GI * 9 // 10}
    harness.run(200)
    assert told(cluster) == ["a-worker-1 uses 90% of its memory limit (0.9 of 1 Gi)"]
    found = condition(harness)
    assert found is not None
    assert (found.status, found.message) == (Truth.TRUE, told(cluster)[0])
    cluster.used["a-worker-1"] = GI // 2
    harness.run(200)
    found = condition(harness)
    assert found is not None
    assert found.status is Truth.FALSE


@cases(
    ("used", "is_told"),
    {
        "a leak": (lambda minute: 0.3 + 0.01 * minute, True),
        "a start": (lambda minute: min(0.1 + 0.1 * minute, 0.7), False),
        "noise": (lambda minute: 0.6 + 0.02 * (minute % 3), False),
    },
)
def test_it_is_told_when_growing_memory_will_be_full(
    cluster: FakeCluster,
    harness: ControllerHarness,
    job: FakeJob,
    used: Callable[[int], float],
    is_told: bool,
) -> None:
    for minute in range(35):
        cluster.used = {"a-worker-0": int(used(minute) * GI)}
        harness.run(60)
    assert bool(told(cluster)) is is_told
    assert all("is full in" in each and "of 1 Gi" in each for each in told(cluster))


def test_without_a_metrics_api_nothing_is_said(
    cluster: FakeCluster, harness: ControllerHarness, job: FakeJob
) -> None:
    harness.run(200)
    assert condition(harness) is None
    assert not told(cluster)


def test_later_runs_are_told_what_its_pods_used_at_most(
    cluster: FakeCluster, harness: ControllerHarness, job: FakeJob
) -> None:
    for used in (GI // 4, GI // 2, GI // 8):
        cluster.used = {"a-ps-0": used // 2, "a-worker-1": used}
        harness.run(62)
    job.manifest["status"]["conditions"] = [{"type": "Succeeded", "status": "True"}]
    harness.run(10)
    (run,) = cluster.workloads.all()["team", "w"].runs
    assert (run.ps_memory, run.worker_memory) == (GI // 4, GI // 2)
