"""A job is fitted again only when its log has shown something new, or the job has changed."""

from collections import Counter

import pytest

from optimus.errors import NotReady
from optimus.jobs import Job
from optimus.models.forecast import Forecast, forecast_job
from optimus.progress.types import TrainingProgress
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


class Fits:
    """Counts the fits of each job."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

    def __call__(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        self.made[job.key.name] += 1
        return forecast_job(job, progress)


def test_a_job_without_news_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, cluster = Fits(), FakeCluster()
    harness = ControllerHarness(cluster, forecast=fits)
    same = {"min_workers": "2", "max_workers": "2", "min_ps": "1", "max_ps": "1"}
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.02", training_mode="sync", **same))
    harness.run(100)
    train = FakeCluster._train

    monkeypatch.setattr(FakeCluster, "_train", lambda *_: None)
    harness.run(40)
    fits.made.clear()
    intervals = harness.intervals
    harness.run(100)
    assert harness.intervals >= intervals + 3
    assert fits.made["a"] == 0

    job.annotate(target_loss="0.03")
    harness.run(30)
    assert fits.made["a"] == 1

    monkeypatch.setattr(FakeCluster, "_train", train)
    intervals = harness.intervals
    harness.run(100)
    assert fits.made["a"] >= harness.intervals - intervals
