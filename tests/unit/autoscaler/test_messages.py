"""A job's messages are true when they are read, not only when the interval was planned."""

import re

from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def measured(cluster: FakeCluster) -> FakeJob:
    return cluster.submit(
        tf_job(
            "a", 1, 1, target_loss="0.3", training_mode="sync", at_target="suspend", rescale="any"
        )
    )


def test_a_profiled_job_shows_its_counts(cluster: FakeCluster, harness: ControllerHarness) -> None:
    job = measured(cluster)
    status = harness.run_until("a", "Profiling")
    assert status.reason == f"measuring its speed at {job.counts}"


def test_a_rescale_has_an_event_when_it_begins_and_when_the_job_trains(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    measured(cluster)
    harness.run_until("a", "Suspended", seconds=600)
    first, *_, last = cluster.messages("Rescaling")
    assert re.match(
        r"1 PS \+ 1 worker -> \d+ PS \+ \d+ workers?: run 1 measures its speed at ", first
    ), first
    assert re.match(r"\d+ PS \+ \d+ workers? -> suspended: its goal is met", last), last
    rescaled = cluster.messages("Rescaled")
    assert rescaled
    assert all(re.search(r": it trains, \d+ s after it was decided$", each) for each in rescaled), (
        rescaled
    )


def test_the_reason_says_who_suspended_it(cluster: FakeCluster, harness: ControllerHarness) -> None:
    job = measured(cluster)
    harness.run_until("a", "Suspended", seconds=600)
    assert harness.status("a").reason == "suspended: its goal is met"
    (goal,) = cluster.messages("SuspendedAtTarget")
    assert goal.startswith("its goal is met; ")
    job.manifest["spec"]["runPolicy"]["suspend"] = False
    job.changed()
    harness.run(3)
    assert not job.suspended
    job.manifest["spec"]["runPolicy"]["suspend"] = True
    job.changed()
    harness.run(3)
    assert harness.status("a").reason == "suspended by its user"
