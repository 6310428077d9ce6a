"""A policy that pauses jobs, on a cluster: a short job runs, and the long one goes on after it."""

from dataclasses import replace

from autoscaler.jobs.managed import Holds
from optimus.errors import NotReady
from optimus.jobs import Counts, Job
from optimus.kube.contract import Annotation, Phase
from optimus.models.forecast import Forecast
from optimus.progress.types import TrainingProgress
from optimus.rescale.words import PauseReason
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job
from tests.unit.interval.cluster import steps

COUNTS = {"min_ps": "1", "max_ps": "1", "min_workers": "3", "max_workers": "3"}
USUAL = {"training_mode": "sync", "target_loss": "0.001", "rescale": "any", **COUNTS}
STEPS = {"long": 20_000, "long-2": 20_000, "short": 100, "short-2": 100, "stranger": 30_000}
PAUSES = Holds(pauses=frozenset({PauseReason.POLICY}))


def by_name(job: Job, _: TrainingProgress, /) -> Forecast | NotReady:
    return steps(STEPS[job.key.name])


def srtf_on(cluster: FakeCluster, holds: Holds = PAUSES) -> ControllerHarness:
    timing = replace(TIMING, holds=holds)
    return ControllerHarness(
        cluster, policy="srtf", forecast=by_name, timing=timing, instance="one"
    )


def submit(cluster: FakeCluster, name: str, **annotations: str | None) -> FakeJob:
    """A job that fills the cluster of four cores."""
    cluster.cpus = 4
    job = cluster.submit(tf_job(name, 1, 3))
    job.annotate(**{**USUAL, **annotations})
    return job


def end(cluster: FakeCluster, job: FakeJob) -> None:
    """The job succeeds."""
    job.pods.clear()
    job.manifest["status"]["conditions"] = [{"type": "Succeeded", "status": "True"}]
    job.changed()
    del cluster.jobs[job.name]


def mark_of(job: FakeJob) -> str:
    return str(job.manifest["metadata"]["annotations"].get(Annotation.SUSPENDED_BY, ""))


def test_a_long_job_is_paused_for_a_short_one_and_goes_on_from_its_checkpoint(
    cluster: FakeCluster,
) -> None:
    harness = srtf_on(cluster)
    long = submit(cluster, "long")
    harness.run_until("long", Phase.TRAINING)
    harness.run(60)
    assert long.runs == 1
    short = submit(cluster, "short")
    status = harness.run_until("long", Phase.PAUSED)
    harness.run_until("short", Phase.TRAINING)
    saved = long.saved
    assert saved > 0
    assert mark_of(long).endswith("one paused-by-policy")
    assert status.reason.startswith("paused by the policy until it is its turn: paused for jobs of")
    (told,) = [text for name, *each, text in cluster.events if (name, each) == ("long", ["Paused"])]
    assert "a remaining time shorter than its" in told
    harness.run(120)
    assert long.suspended
    assert (short.runs, short.counts) == (1, Counts(1, 3))
    end(cluster, short)
    harness.run_until("long", Phase.TRAINING)
    assert (mark_of(long), long.runs, long.counts) == ("", 2, Counts(1, 3))
    assert long.step >= saved
    assert cluster.reasons("long").count("Resumed") == 1


def test_a_job_that_is_never_rescaled_is_not_paused(cluster: FakeCluster) -> None:
    harness = srtf_on(cluster)
    long = submit(cluster, "long", rescale="never")
    harness.run_until("long", Phase.TRAINING)
    short = submit(cluster, "short")
    harness.run(100)
    assert (long.suspended, long.runs, short.runs) == (False, 1, 0)


def test_a_paused_job_that_is_not_to_be_rescaled_any_more_is_resumed(cluster: FakeCluster) -> None:
    harness = srtf_on(cluster)
    long = submit(cluster, "long")
    harness.run_until("long", Phase.TRAINING)
    short = submit(cluster, "short")
    harness.run_until("long", Phase.PAUSED)
    long.annotate(rescale="never")
    end(cluster, short)
    harness.run_until("long", Phase.TRAINING)
    assert not long.suspended


def test_without_a_fit_a_long_job_is_paused_by_what_is_expected_of_it(cluster: FakeCluster) -> None:
    harness = ControllerHarness(
        cluster, policy="srtf", timing=replace(TIMING, holds=PAUSES), instance="one"
    )
    long = submit(cluster, "long", target_loss=None, target_steps="100000")
    harness.run_until("long", Phase.TRAINING)
    harness.run(60)
    short = submit(cluster, "short", target_loss=None, target_steps="1000")
    harness.run_until("long", Phase.PAUSED)
    harness.run_until("short", Phase.TRAINING)
    harness.run(200)
    assert (long.runs, short.runs, long.suspended, short.suspended) == (1, 1, True, False)
    end(cluster, short)
    harness.run_until("long", Phase.TRAINING)


def test_a_job_whose_place_is_taken_is_resumed_and_waits_in_the_queue(cluster: FakeCluster) -> None:
    harness = srtf_on(cluster)
    long = submit(cluster, "long")
    harness.run_until("long", Phase.TRAINING)
    short = submit(cluster, "short")
    harness.run_until("long", Phase.PAUSED)
    harness.run_until("short", Phase.TRAINING)
    # Its pods are pending, and long has none.
    stranger = submit(cluster, "stranger", rescale="never")
    end(cluster, short)
    harness.run(20)
    assert harness.status("long").phase is Phase.PAUSED
    harness.run_until("long", Phase.STARTING)
    end(cluster, stranger)
    harness.run_until("long", Phase.TRAINING)
    assert long.runs == 2
