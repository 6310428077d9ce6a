"""The whole loop on a fake cluster: what happens to jobs, and what their users read."""

from autoscaler.jobs.state import TrackedJob
from optimus.jobs import Counts
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


def test_a_job_is_measured_grown_by_its_forecast_and_brought_to_its_target(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    harness = profiling
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", global_batch_size="64")
    )
    harness.run_until("a", "Profiling")
    harness.run_until("a", "AtTarget", seconds=900, tick=2)
    assert cluster.reasons("a").count("Rescaling") >= 4
    moves = harness.status("a").rescales
    assert moves == cluster.reasons("a").count("Rescaled"), "all that were made"
    assert moves - len(harness.state().record.profiled) <= 2
    assert harness.status("a").progress_percent == 100
    assert job.counts.workers > 1, "more workers save most of its time"


def test_a_young_job_is_grown_by_expectation_once_and_told_so(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job(
            "a",
            1,
            1,
            target_loss="0.09",
            training_mode="sync",
            global_batch_size="64",
            steps_per_epoch="20",
            rescale="checkpoint",
        )
    )
    harness.run_until("a", "Profiling")
    status, record = harness.status("a"), harness.state().record
    assert job.counts.workers > 1
    (text, *_) = cluster.messages("Rescaling")
    assert "estimated from its first measurements" in text
    assert record.profiled == (job.counts,), "it counts as a profiling run, without a checkpoint"
    assert record.own_counts == Counts(1, 1)
    assert status.rescales == 1
    assert status.remaining_seconds is None, "nobody is told a time that is not fitted"
    harness.run_until("a", "AtTarget", seconds=1500, tick=2)
    assert cluster.reasons("a").count("Rescaling") < 6


def test_without_annotations_nothing_is_done_or_written(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.submit(tf_job("plain", 1, 2))
    harness.run(60)
    assert (cluster.writes, cluster.profiles, cluster.events) == (0, {}, [])


def test_a_job_with_a_bad_annotation_is_left_alone_with_an_event(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.submit(tf_job("bad", 1, 2, target_loss="low"))
    good = cluster.submit(tf_job("good", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run(60)
    assert harness.status("bad").phase == "LeftAlone"
    assert cluster.reasons("bad") == ["LeftAlone"]
    message = next(message for name, _, message in cluster.events if name == "bad")
    assert "optimus.dl/target-loss" in message
    assert "'low'" in message
    assert good.runs > 1, "the other job is profiled all the same"


@cases(
    "least",
    {
        "to its user's counts": Counts(1, 1),
        "as near to them as its user's new bounds allow": Counts(1, 3),
        "nowhere if that is here": None,
    },
)
def test_without_a_forecast_a_job_goes_back_after_its_profiling(
    cluster: FakeCluster, least: Counts | None
) -> None:
    harness = ControllerHarness(cluster, expects=False)
    goal = {"target_loss": "1e-30", "training_mode": "sync", "global_batch_size": "64"}
    job = cluster.submit(tf_job("a", 1, 1, **goal, max_ps="3", max_workers="4"))
    harness.run(50, tick=1)
    measured_last = harness.state().record.profiled[-1]
    assert job.counts == measured_last != Counts(1, 1)
    expected = least or measured_last
    job.annotate(min_ps=str(expected.ps), min_workers=str(expected.workers))
    seen = set()
    for _ in range(100):
        harness.run(1)
        seen.add(job.counts)
    assert seen == {measured_last, expected}


def test_a_log_that_breaks_its_reader_affects_only_its_own_job(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.broken_logs.add("deaf")
    cluster.submit(tf_job("deaf", 1, 1, target_loss="0.12", training_mode="sync"))
    cluster.submit(
        tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", global_batch_size="64")
    )
    harness.run_until("a", "AtTarget", seconds=900, tick=2)
    assert harness.status("deaf").phase == "Training"


def test_a_dry_run_decides_and_writes_nothing(cluster: FakeCluster) -> None:
    harness = ControllerHarness(cluster, dry_run=True)
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run(100)
    assert (cluster.writes, cluster.profiles) == (0, {})
    assert harness.metrics.registry.get_sample_value(
        "optimus_autoscaler_decisions_total", {"action": "keep"}
    )


def test_a_name_that_another_jobs_profile_holds_leaves_the_second_job_alone(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    holder = tf_job("a", 1, 1)
    cluster.create(holder.decoded())
    other = cluster.submit(tf_job("b", 1, 1))
    other.manifest["metadata"]["uid"] = holder.manifest["metadata"][
        "uid"
    ]  # as if of another kind: it lives
    namesake = tf_job("a", 1, 1, target_loss="0.12", training_mode="sync")
    namesake.manifest["metadata"]["uid"] = "uid-of-another"
    cluster.submit(namesake)
    harness.run(40)
    assert namesake.counts == Counts(1, 1)
    assert "ProfileNameTaken" in cluster.reasons("a")


def test_the_profile_of_a_deleted_job_is_replaced(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.create(tf_job("a", 1, 1, target_loss="0.1").decoded())
    namesake = tf_job("a", 1, 1, target_loss="0.12", training_mode="sync")
    namesake.manifest["metadata"]["uid"] = "uid-of-another"
    cluster.submit(namesake)
    harness.run(80)
    assert cluster.profiles["a"].job.uid == "uid-of-another"
    assert "ProfileNameTaken" not in cluster.reasons("a")


def test_a_refused_event_is_retried_later_and_not_at_every_tick(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.refuses_reports = True
    cluster.submit(tf_job("typo", 1, 1, target_loss="low"))
    harness.run(20)
    assert (cluster.events, cluster.profiles) == ([], {})
    cluster.refuses_reports, create_calls = False, cluster.create_calls
    harness.run(80)
    assert cluster.reasons("typo").count("LeftAlone") == 1
    assert harness.status("typo").phase == "LeftAlone"
    assert create_calls < 5


def test_a_refused_status_is_not_retried_at_every_tick(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.refuses_status = True
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run(120)
    assert 1 < cluster.create_calls < 10
    cluster.refuses_status = False
    harness.run_until("a", "Profiling", seconds=40)


def test_a_log_without_a_loss_gets_one_event(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", loss_metric="other"))
    harness.run(200)
    assert cluster.reasons("a").count("LogNotUnderstood") == 1


def test_a_job_that_ends_is_reported_as_ended(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(tf_job("a", 1, 1, target_loss="0.001", training_mode="sync"))
    harness.run_until("a", "Training")
    job.manifest["status"]["conditions"] = [
        {"type": "Succeeded", "status": "True", "message": "all workers are done"}
    ]
    job.pods.clear()
    harness.controller.tick()
    assert (harness.status("a").phase, harness.status("a").reason) == (
        "Completed",
        "all workers are done",
    )
    assert harness.controller.managed.states == {}


def test_what_is_known_of_pods_is_what_observing_them_again_would_show() -> None:
    cluster = FakeCluster(cpus=9)
    harness = ControllerHarness(cluster)
    for name in ("a", "b"):
        cluster.submit(tf_job(name, 1, 2, target_loss="0.12", training_mode="sync"))
    kept = halves = 0
    for second in range(120):
        cluster.pass_time(1.0)
        for pod in cluster.jobs["a"].pods[-1:]:
            pod["spec"]["nodeName"] = None if second % 20 > 15 else "n"
        observation = cluster.observe(cluster.at)
        for state in harness.controller.managed:
            run = state.gang.run
            state.update(observation, nodes_changed=False)
            kept += run is not None and state.gang.run is run
            halves += state.gang.half_bound_since is not None
            shown = of_pods(state)
            state.gang.seen = None
            state.update(observation, nodes_changed=False)
            assert of_pods(state) == shown
        harness.controller.tick()
    assert kept > 50
    assert halves > 5


def of_pods(state: TrackedJob) -> tuple[object, ...]:
    """What a job's state has from its pods."""
    gang = (
        state.gang.half_bound_since,
        state.was_fully_bound,
        state.record.gang_uids,
        state.gang.waits,
    )
    return (
        state.gang.run,
        state.gang.run_started_at,
        state.gang.is_ending,
        state.gang.changed_from,
        *gang,
    )


def test_the_metric_of_jobs_follows_their_phases(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    def shown(phase: str) -> float | None:
        name = "optimus_autoscaler_jobs"
        return harness.metrics.registry.get_sample_value(name, {"phase": phase})

    harness.run(1)
    assert (shown("Waiting"), shown("Training")) == (0, 0)
    for name in ("a", "b"):
        cluster.submit(tf_job(name, 1, 1, target_loss="0.12", rescale="never"))
    harness.run(3)
    assert shown("Training") == 2
    cluster.jobs["a"].annotate(target_loss=None)
    harness.run(3)
    assert shown("Training") == 1
