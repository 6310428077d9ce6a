"""A job whose log or patterns cost much harms no other, and its user is told."""

from optimus.progress.types import LogLine
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

GOAL = {"target_loss": "0.12", "training_mode": "sync"}


def print_more(cluster: FakeCluster, fake: FakeJob, texts: list[str]) -> None:
    """The job's pods print these lines within the next second."""
    if fake.pods:
        at = cluster.at
        fake.lines += [LogLine(at + n / (len(texts) + 1), text) for n, text in enumerate(texts)]


def test_the_event_of_a_log_that_is_too_large_says_what_to_change(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.most_lines = 20
    loud = cluster.submit(tf_job("loud", 1, 1, **GOAL))
    cluster.submit(tf_job("quiet", 1, 1, **GOAL))
    for _ in range(120):
        print_more(cluster, loud, [f"batch of worker 0: {n} rows" for n in range(60)])
        harness.run(2)
    assert cluster.reasons("loud").count("LogTooLarge") == 1
    assert "LogTooLarge" not in cluster.reasons("quiet")
    assert "Rescaling" in cluster.reasons("quiet")
    events = [event for event in cluster.events if "LogTooLarge" in event]
    assert "print fewer lines" in str(events)
