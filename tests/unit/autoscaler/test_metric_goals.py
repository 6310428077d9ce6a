"""Jobs whose goal is a metric of their log, by the loop."""

import re

import pytest

from optimus.kube.contract import Phase
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.progress.types import LogLine, LogRead
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import STEPS_PER_EPOCH, tf_job

LOSS = re.compile(r"loss=(\S+)")


class OnlyAccuracies(FakeCluster):
    """Logs show an accuracy, which is one less the loss, and no loss."""

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        found = super().read(pod, since=since)
        if isinstance(found, Refused):
            return found
        lines = [LogLine(at, LOSS.sub(_accuracy, text)) for at, text in found.lines]
        return found._replace(lines=lines)


def _accuracy(loss: "re.Match[str]") -> str:
    return f"accuracy={1 - float(loss[1]):.6f}"


def test_a_job_with_an_accuracy_is_measured_moved_and_suspended_at_its_goal() -> None:
    cluster = OnlyAccuracies()
    harness = ControllerHarness(cluster)
    job = cluster.submit(
        tf_job(
            "a",
            1,
            2,
            target="accuracy>=90%",
            training_mode="sync",
            rescale="any",
            at_target="suspend",
            steps_per_epoch=str(STEPS_PER_EPOCH),
        )
    )
    harness.run(150)
    (state,) = harness.controller.managed
    assert state.shown_forecast is not None
    assert sum(job.counts) > 3
    status = harness.status("a")
    assert status.remaining_seconds is not None, "its work is known, and its speed where it is"
    assert status.goal == "accuracy >= 0.9"
    assert status.metric.startswith("accuracy 0.")
    assert not status.complaint

    harness.run_until("a", Phase.SUSPENDED)
    # 1 / (0.5 k + 1) + 0.05 is 0.1 after 38 epochs, and the mean of each is above its end.
    assert 38 * STEPS_PER_EPOCH <= job.step <= 44 * STEPS_PER_EPOCH


@pytest.mark.parametrize(
    ("goal", "why"),
    [
        ({"target": "mAP>=0.5"}, "its log has shown no mAP yet; it has accuracy"),
        ({"target_loss": "0.5"}, "no training loss was found"),
    ],
)
def test_a_job_whose_log_never_shows_its_goal_gets_an_event_and_is_not_stopped_for_long(
    goal: dict[str, str], why: str
) -> None:
    cluster = OnlyAccuracies()
    harness = ControllerHarness(cluster)
    job = cluster.submit(
        tf_job("a", 1, 2, training_mode="sync", steps_per_epoch=str(STEPS_PER_EPOCH), **goal)
    )
    harness.run(60)
    runs = job.runs
    harness.run(60)
    assert job.runs == runs <= 3
    assert job.step > 2 * STEPS_PER_EPOCH
    assert why in harness.status("a").reason
