"""A job learns from earlier jobs of its workload; where it cannot, it goes on as without one."""

import logging

import pytest

from autoscaler.metrics import Metrics
from autoscaler.profile.workloads import WorkloadRecorder
from optimus.kube.errors import ErrorKind
from optimus.kube.profile_codec import unpack
from optimus.kube.profiles import ProfileStatus
from optimus.kube.times import format_second
from optimus.models.earlier_runs import KEPT_SECONDS
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, FakeJob, tf_job
from tests.unit.autoscaler.fake_workloads import FakeWorkloads

GOAL = {"target_loss": "0.25", "rescale": "any"}
"""1 / (0.5 k + 1) + 0.05 is met at k = 8; the means of two epochs are at most that after 10."""
KEY = "team", "resnet"


def a_job(name: str, workers: int = 2, **annotations: str) -> FakeJob:
    return tf_job(name, 1, workers, **{**GOAL, "workload": "resnet", **annotations})


def end(cluster: FakeCluster, fake: FakeJob, condition: str = "Succeeded") -> None:
    fake.manifest["status"]["conditions"] = [{"type": condition, "status": "True"}]
    fake.pods.clear()
    fake.changed()
    cluster.pass_time(1)


def harness_after_a_run(cluster: FakeCluster) -> ControllerHarness:
    """One run was profiled and trained to its goal, and has ended."""
    harness = ControllerHarness(cluster, expects=False)
    first = cluster.submit(a_job("first"))
    harness.run_until("first", "AtTarget", tick=2)
    end(cluster, first)
    harness.run(1)
    del cluster.jobs["first"]
    harness.run(1)
    return harness


def events(cluster: FakeCluster, name: str, reason: str) -> list[str]:
    return [text for job, each, text in cluster.events if (job, each) == (name, reason)]


def profiling_runs(status: ProfileStatus) -> int:
    return len(unpack(status.state, "job", 1e12).record.profiled)


def test_what_a_run_has_shown_is_kept() -> None:
    cluster = FakeCluster()
    harness_after_a_run(cluster)
    profile = cluster.workloads.all()[KEY]
    (run,) = profile.runs
    assert run.uid == "uid-first"
    assert len({each.counts for each in run.samples}) >= 3
    assert run.met_at == 10
    assert run.every_epoch
    stored = cluster.workloads.objects[KEY]["status"]
    assert stored["runCount"] == 1
    assert stored["sampleCount"] == len(run.samples)
    assert stored["epochsToGoal"] == run.met_at


def test_a_second_run_is_not_profiled_and_begins_at_good_counts() -> None:
    cluster = FakeCluster()
    harness = harness_after_a_run(cluster)
    second = cluster.submit(a_job("second", 1))
    harness.run(1)
    status, phases = harness.status("second"), set[str]()
    for _ in range(60):
        harness.run(1)
        found = harness.status("second")
        phases.add(str(found.phase))
        if found.phase != "AtTarget":
            status = found
    assert "Profiling" not in phases
    assert sum(second.counts) > 8, "it had 1 PS + 1 worker"
    assert status.rescales == 1
    assert status.earlier_runs == 1, "its own training replaces it once its goal is met"
    assert profiling_runs(status) == 0
    harness.run_until("second", "AtTarget", tick=2)
    assert harness.status("second").rescales <= 2


def test_a_job_that_differs_gets_an_event_and_is_measured_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    harness = harness_after_a_run(cluster)
    second = cluster.submit(a_job("second"))
    usual = FakeJob.speed
    monkeypatch.setattr(FakeJob, "speed", lambda fake: usual(fake) * (0.2 if fake is second else 1))
    harness.run(400)
    (dropped,) = events(cluster, "second", "EarlierRunsDropped")
    assert "steps/s at" in dropped
    assert "; earlier runs predict" in dropped
    assert harness.status("second").earlier_runs == 0
    harness.restart()
    harness.run(30)
    assert harness.status("second").earlier_runs == 0, "a restart does not forget it"
    assert cluster.workloads.all()[KEY].runs[-1].differed, "others know it before it has ended"
    end(cluster, second)
    harness.run(2)
    first, last = cluster.workloads.all()[KEY].runs
    assert (first.differed, last.differed) == (False, True)


def test_a_profile_to_which_nothing_is_added_is_deleted_after_thirty_days() -> None:
    cluster = FakeCluster()
    harness = harness_after_a_run(cluster)
    cluster.at += KEPT_SECONDS - 100
    harness.run(30)
    assert cluster.workloads.objects
    cluster.at += 100
    harness.run(61)
    assert not cluster.workloads.objects


def test_another_namespace_learns_nothing() -> None:
    cluster = FakeCluster()
    harness = harness_after_a_run(cluster)
    fake = a_job("second")
    fake.manifest["metadata"]["namespace"] = "others"
    cluster.submit(fake)
    harness.run(20)
    assert harness.status("second").earlier_runs == 0


@pytest.mark.parametrize("kind", [ErrorKind.NOT_FOUND, ErrorKind.FORBIDDEN, ErrorKind.INVALID])
def test_what_cannot_be_written_is_said_once_and_costs_nothing_else(
    kind: ErrorKind, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster()
    cluster.workloads.refuse = kind
    with caplog.at_level(logging.WARNING):
        harness = harness_after_a_run(cluster)
        cluster.submit(a_job("second"))
        harness.run_until("second", "AtTarget", tick=2)
    said = [each for each in caplog.messages if "workload team/resnet" in each]
    assert len(said) == 1
    assert "is not kept for later ones" in said[0]


@pytest.mark.parametrize(
    ("kind", "waits"),
    [(ErrorKind.TRANSIENT, True), (ErrorKind.NOT_LEADING, True), (ErrorKind.FORBIDDEN, False)],
)
def test_what_is_refused_for_good_does_not_wait_for_ever(kind: ErrorKind, waits: bool) -> None:
    cluster = FakeCluster()
    cluster.workloads.refuse = kind
    harness = harness_after_a_run(cluster)
    harness.run(11 * 61, tick=2)
    cluster.workloads.refuse = None
    harness.run(61)
    assert bool(cluster.workloads.objects) is waits


def test_a_conflict_is_read_again() -> None:
    cluster = FakeCluster()
    cluster.workloads.conflicts = 1
    harness_after_a_run(cluster)
    assert len(cluster.workloads.all()[KEY].runs) == 1


def test_a_job_that_failed_leaves_its_speeds_and_not_its_losses() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    first = cluster.submit(a_job("first"))
    harness.run(60)
    end(cluster, first, "Failed")
    harness.run(1)
    (run,) = cluster.workloads.all()[KEY].runs
    assert run.samples
    assert not run.losses


def unnamed(name: str, command: str = "train", seed: str = "1") -> FakeJob:
    """A job whose user names no workload, and that writes to a folder of its own."""
    fake = tf_job(name, 1, 1, **GOAL)
    container = {
        "name": "tensorflow",
        "image": "images/digits:1",
        "command": [command, f"--out=/runs/{name}"],
        "env": [{"name": "SEED", "value": seed}],
        "resources": {"requests": {"cpu": "1"}},
    }
    for role in fake.manifest["spec"]["tfReplicaSpecs"].values():
        role["template"]["spec"]["containers"] = [container]
    return fake


def kept_of_an_unnamed_job(cluster: FakeCluster, name: str = "first") -> ControllerHarness:
    harness = ControllerHarness(cluster, expects=False)
    fake = cluster.submit(unnamed(name))
    harness.run_until(name, "AtTarget", tick=2)
    end(cluster, fake)
    harness.run(1)
    del cluster.jobs[name]
    harness.run(1)
    return harness


def test_jobs_that_run_the_same_learn_from_one_another_without_an_annotation() -> None:
    cluster = FakeCluster()
    harness = kept_of_an_unnamed_job(cluster)
    ((namespace, workload),) = cluster.workloads.objects
    assert (namespace, workload[:5]) == ("team", "auto-")
    second = cluster.submit(unnamed("second"))
    harness.run(40)
    assert sum(second.counts) > 8, "it had 1 PS + 1 worker"
    assert profiling_runs(harness.status("second")) == 0


@cases(
    "other",
    {"another command": {"command": "evaluate"}, "another value in its environment": {"seed": "2"}},
)
def test_a_job_that_runs_something_else_is_measured_itself(other: dict[str, str]) -> None:
    cluster = FakeCluster()
    harness = kept_of_an_unnamed_job(cluster)
    cluster.submit(unnamed("second", **other))
    harness.run_until("second", "Profiling")
    assert harness.status("second").earlier_runs == 0


def test_how_long_others_took_is_told_to_the_first_job_of_a_workload() -> None:
    cluster = FakeCluster()
    harness = kept_of_an_unnamed_job(cluster)
    cluster.submit(unnamed("second", "evaluate"))
    harness.run(4)
    told = harness.controller.managed.states["uid-second"].progress(0.0)
    assert [each.epochs for each in told.lengths] == [(10.0,)]
    assert not told.earlier


def test_a_run_is_written_no_more_often_than_it_has_something_new() -> None:
    cluster = FakeCluster()
    harness = harness_after_a_run(cluster)
    before = cluster.workloads.calls
    assert before <= 6, "speeds, goal and end: one read and one write each"
    harness.run(30)
    assert cluster.workloads.calls == before


def test_a_namespace_has_a_maximum_number_of_names() -> None:
    """As where each job has a name of its own: the oldest go, and no more are added meanwhile."""
    cluster = FakeCluster()
    for number in range(120):
        namespace = "team" if number < 119 else "other"
        name = f"w{number:03}"
        made = format_second(START_AT - 1000 + number)
        metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}
        cluster.workloads.objects[namespace, name] = {
            "metadata": {**metadata, "creationTimestamp": made}
        }
    harness = ControllerHarness(cluster, expects=False)
    first = cluster.submit(a_job("first"))
    harness.run(40)
    end(cluster, first)
    harness.run(1)
    left = [name for namespace, name in cluster.workloads.objects if namespace == "team"]
    assert left == [f"w{number:03}" for number in range(10, 119)]
    harness.run(300)
    left = [name for namespace, name in cluster.workloads.objects if namespace == "team"]
    assert 80 < len(left) < 100
    assert "w118" in left
    second = cluster.submit(a_job("second"))
    harness.run(60)
    harness.run_until("second", "Training", "Profiling")
    end(cluster, second)
    harness.run(1)
    assert KEY in cluster.workloads.objects
    assert ("other", "w119") in cluster.workloads.objects


def test_names_that_no_user_gave_go_first_where_there_are_too_many() -> None:
    fakes, namespace = FakeWorkloads(), "team"
    for number in range(110):
        name = f"auto-{number:03}" if number % 2 else f"w{number:03}"
        fakes.stored(namespace, name)
    recorder = WorkloadRecorder(fakes, Metrics())
    recorder.expire(fakes.all().values(), START_AT)
    left = [name for _, name in fakes.objects]
    assert len(left) == 100
    assert sum(name.startswith("w") for name in left) == 55


def test_what_waits_of_one_namespace_leaves_room_to_the_others() -> None:
    recorder = WorkloadRecorder(FakeWorkloads(refuse=ErrorKind.TRANSIENT), Metrics())
    for number in range(2000):
        assert recorder._may_wait("many", f"w{number}") is (number < 100)
        if number < 100:
            recorder.waiting["many", f"w{number}"] = {}
    assert recorder._may_wait("other", "w")
