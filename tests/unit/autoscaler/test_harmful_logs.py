"""A job whose log or patterns cost much harms no other, and its user is told."""

import pytest

from optimus.progress.types import LogLine
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job
from tests.unit.progress.test_patterns import EXPONENTIAL

GOAL = {"target_loss": "0.12", "training_mode": "sync"}


def print_more(cluster: FakeCluster, fake: FakeJob, texts: list[str]) -> None:
    """The job's pods print these lines within the next second."""
    if fake.pods:
        at = cluster.at
        fake.lines += [LogLine(at + n / (len(texts) + 1), text) for n, text in enumerate(texts)]


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_another_namespaces_job_is_rescaled_beside_any_pattern(
    cluster: FakeCluster, harness: ControllerHarness, pattern: str
) -> None:
    """This test hangs where a pattern backtracks."""
    culprit = tf_job("culprit", 1, 1, **GOAL, metrics_format=pattern, checkpoint_format=pattern)
    culprit.manifest["metadata"]["namespace"] = "others"
    cluster.submit(culprit)
    cluster.submit(tf_job("a", 1, 1, **GOAL))
    for _ in range(150):
        print_more(cluster, culprit, ["a" * n for n in (20, 100, 1000)])
        harness.run(2)
        if "a" in cluster.profiles and harness.status("a").phase == "Suspending":
            break
    harness.run_until("a", "Training")
    assert cluster.jobs["a"].counts != (1, 1)


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
