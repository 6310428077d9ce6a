"""PyTorchJobs under the autoscaler: when they are not moved, and what is told of their pods."""

from collections.abc import Callable
from typing import Any

import pytest

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.times import format_second
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, pytorch_job, torch_pods
from tests.unit.autoscaler.preempting_cluster import PreemptingCluster


def submitted(cluster: FakeCluster, workers: int = 1, **annotations: str) -> FakeJob:
    """One that keeps its counts until its user moves its bounds."""
    kept = {"max_workers": str(workers), "target_loss": "0.001", "rescale": "any"}
    return cluster.submit(pytorch_job("a", workers, **{**kept, **annotations}))


def lose_its_master(cluster: FakeCluster, job: FakeJob) -> Callable[[], None]:
    master = job.pods.pop(0)

    def back() -> None:
        job.pods.insert(0, master)

    return back


def restart_an_agent(cluster: FakeCluster, job: FakeJob) -> Callable[[], None]:
    status: dict[str, Any] = job.pods[1]["status"]["containerStatuses"][0]
    status["restartCount"], status["state"] = 1, {"waiting": {"reason": "CrashLoopBackOff"}}
    status["lastState"] = {"terminated": {"exitCode": 1}}

    def back() -> None:
        status["state"] = {"running": {"startedAt": format_second(cluster.at)}}

    return back


@pytest.mark.parametrize(
    ("happens", "said", "quiet_seconds"),
    [
        pytest.param(lose_its_master, "its Master is gone", 0, id="its Master is gone"),
        pytest.param(restart_an_agent, "a-worker-0 restarts", 26, id="an agent restarts"),
    ],
)
def test_it_is_not_moved_before_all_its_processes_have_met_again(
    cluster: FakeCluster,
    harness: ControllerHarness,
    happens: Callable[[FakeCluster, FakeJob], Callable[[], None]],
    said: str,
    quiet_seconds: int,
) -> None:
    job = submitted(cluster)
    harness.run_until("a", Phase.TRAINING)
    back = happens(cluster, job)
    job.annotate(min_workers="3", max_workers="3")
    harness.run(60)
    assert (job.runs, job.suspended, job.counts) == (1, False, Counts(0, 1))
    assert said in harness.state().held
    back()
    harness.run(quiet_seconds)
    assert job.runs == 1
    harness.run_till(lambda: job.runs == 2)
    assert job.counts == Counts(0, 3)


def test_replicas_that_its_user_sets_while_it_is_paused_are_its_own() -> None:
    made = PreemptingCluster({"a": 4})
    made.submit_job(pytorch_job("low", 3, target_loss="0.001", rescale="any", max_workers="3"))
    made.step(2)
    made.submit("high", priority=5)
    made.step(1)
    job = made.job("low")
    assert job.suspended
    job.replicas["Worker"]["replicas"] = 1
    job.changed()
    made.step(8)
    made.end("high")
    made.step(4)
    (state,) = [each for each in made.harness.controller.managed if each.job.key.name == "low"]
    assert state.history(made.cluster.at).user_counts == Counts(0, 1)
    assert job.counts == Counts(0, 1)


def test_one_that_does_not_load_its_checkpoint_goes_back_and_is_never_moved_again(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.loads = lambda counts: counts.workers == 1
    job = submitted(cluster)
    harness.run_until("a", Phase.TRAINING)
    harness.run(30)
    job.annotate(min_workers="3", max_workers="3")
    harness.run_till(lambda: job.counts.workers == 3)
    harness.run_till(lambda: job.counts.workers == 1)
    (text,) = cluster.messages("RollingBack")
    assert "it began anew, and not from its checkpoint of step" in text
    runs = job.runs
    for bounds in ("3", "7"):
        job.annotate(min_workers="1", max_workers=bounds)
        harness.run(100)
        job.annotate(min_workers=bounds)
        harness.run(100)
    assert (job.counts, job.runs) == (Counts(0, 1), runs + 1)
    assert "began anew" in harness.status("a").failed_counts[0]


@pytest.mark.parametrize("annotations", [{"rescale": "never"}, {"global_batch_size": None}])
def test_pods_made_for_two_numbers_of_workers_are_told_of(
    cluster: FakeCluster, harness: ControllerHarness, annotations: dict[str, Any]
) -> None:
    job = submitted(cluster)
    job.annotate(**annotations)
    harness.run(10)
    job.replicas["Worker"]["replicas"] = 3
    job.changed()
    job.pods += torch_pods(job, cluster.at, first=1)
    harness.run(10)
    assert (job.runs, job.suspended) == (1, False)
    (text,) = cluster.messages("ReplicasChanged")
    assert "from 1 worker to 3 workers" in text
    assert "never meet" in text


def test_workers_above_the_maximum_of_an_elastic_job_are_told_of(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submitted(cluster, 5, rescale="never")
    job.manifest["spec"]["elasticPolicy"] = {"maxReplicas": 3}
    harness.run(6)
    (text,) = cluster.messages("SurplusReplicas")
    assert text.startswith("2 of its 5 workers are above elasticPolicy.maxReplicas, 3")


def test_nothing_that_is_told_of_it_names_parameter_servers(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    job = cluster.submit(pytorch_job("a", 1, target_loss="0.12", rescale="any"))
    told = set[str]()
    for _ in range(40):
        profiling.run(5)
        shown = profiling.status("a")
        told |= {shown.reason, shown.deadline, str(shown.recommended), *shown.failed_counts}
    assert job.runs > 1
    told |= {message for _, _, message in cluster.events}
    assert any("3 workers" in text for text in told)
    assert not [text for text in told if "PS" in text]
