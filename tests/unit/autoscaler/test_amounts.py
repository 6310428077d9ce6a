"""Jobs that are done after an amount of training, by the loop."""

from optimus.kube.contract import Phase
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.models.forecast import Forecast
from optimus.progress.types import LogLine, LogRead
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import STEPS_PER_EPOCH, tf_job


class WithoutLosses(FakeCluster):
    """Logs show epochs and steps, and no losses."""

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        found = super().read(pod, since=since)
        if isinstance(found, Refused):
            return found
        return found._replace(lines=[LogLine(at, _without_loss(text)) for at, text in found.lines])


def _without_loss(text: str) -> str:
    return " ".join(part for part in text.split() if not part.startswith("loss="))


def test_a_job_without_losses_is_measured_and_moved() -> None:
    cluster = WithoutLosses()
    harness = ControllerHarness(cluster, expects=False)
    job = cluster.submit(
        tf_job(
            "a",
            1,
            2,
            target_epochs="400",
            training_mode="sync",
            rescale="any",
            steps_per_epoch=str(STEPS_PER_EPOCH),
        )
    )
    harness.run(200)
    (state,) = harness.controller.managed
    assert isinstance(state.forecasts.current, Forecast)
    assert state.forecasts.current.curve is None
    assert sum(job.counts) > 3
    assert harness.status("a").goal == "400 epochs"


def test_a_job_is_suspended_after_its_steps(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(
        tf_job("a", 1, 2, target_steps="60", training_mode="sync", at_target="suspend")
    )
    harness.run_until("a", Phase.SUSPENDED)
    assert job.suspended
    assert 60 <= job.saved <= 80
