"""The run of two jobs: measured, grown, and shrunk by their forecasts as the other comes, to their
goals.

The first job alone is measured and gets what helps it. The second, for which the rest is too
little, arrives: the first gives back what it has beyond its own counts. Both reach their goals and
are suspended. Nobody but the autoscaler changes a count.
"""

import re

import pytest

from tests.harness.job_recorder import JobRecorder, Rescale
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.training_runs import epoch_losses

# Two nodes of four CPUs: the first job at its most leaves half a CPU on one and a whole one on the
# other, where the second does not fit. Stated costs: a worker more saves a fifth of the first job's
# time.
FIRST = LightJob(
    "TFJob",
    "first",
    1,
    2,
    annotations={
        "optimus.dl/target-loss": "0.17",
        "optimus.dl/at-target": "suspend",
        "optimus.dl/training-mode": "sync",
        "optimus.dl/global-batch-size": "64",
        "optimus.dl/steps-per-epoch": "10",
        "optimus.dl/max-ps": "1",
        "optimus.dl/max-workers": "4",
    },
    requests={
        "PS": {"cpu": "500m", "memory": "64Mi"},
        "Worker": {"cpu": "1500m", "memory": "64Mi"},
    },
    flags={
        "--epochs": "0",
        "--examples-per-epoch": "640",
        "--example-seconds": "0.02",
        "--model-mbytes": "0.2",
    },
)
SECOND = LightJob(
    "MXJob",
    "second",
    1,
    2,
    annotations={
        "optimus.dl/target-loss": "0.25",
        "optimus.dl/at-target": "suspend",
        "optimus.dl/training-mode": "async",
        "optimus.dl/worker-batch-size": "32",
        "optimus.dl/steps-per-epoch": "20",
        "optimus.dl/min-workers": "2",
        "optimus.dl/max-ps": "2",
        "optimus.dl/max-workers": "3",
    },
    requests={
        "PS": {"cpu": "300m", "memory": "64Mi"},
        "Worker": {"cpu": "600m", "memory": "64Mi"},
        "Scheduler": {"cpu": "100m", "memory": "32Mi"},
    },
    flags={
        "--learning-rate": "0.008",
        "--epochs": "0",
        "--examples-per-epoch": "640",
        "--example-seconds": "0.01",
        "--model-mbytes": "0.1",
    },
)
INTERVAL_ID = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ-\d+")
FORECAST = re.compile(r"remaining \d+ s become \d+ s")


def has_its_share(recorder: JobRecorder, job: LightJob) -> bool:
    """Whether the job was measured and now trains, alone, at all that helps it, with a forecast."""
    measured = [each for each in recorder.rescales(job) if each.measures]
    return (
        len(measured) == 2
        and recorder.is_quiet_at(job, (1, 4))
        and "remainingSeconds" in recorder.status(job)
    )


def given(scenario: Scenario, rescales: list[Rescale]) -> list[Rescale]:
    """Return the rescales that made the first job smaller for the second."""
    why = f"releases capacity to {scenario.namespace}/{SECOND.name}"
    return [
        each
        for each in rescales
        if INTERVAL_ID.fullmatch(each.id) and each.shrinks and each.why.startswith(why)
    ]


def reached_its_goal(recorder: JobRecorder, job: LightJob) -> None:
    """By way of profiling, never Failed, without a step at or below a complete checkpoint trained
    again."""
    rescales, status = recorder.rescales(job), recorder.status(job)
    assert not recorder.ever_failed(job)
    assert not recorder.training_violations(job)
    assert 2 <= len([each for each in rescales if each.measures]) <= 3, rescales
    assert any(each.has_more for each in rescales), rescales
    assert any(each.has_less for each in rescales[:-1]), rescales
    assert rescales[-1].suspends
    assert status["progressPercent"] == 100
    target = float((job.annotations or {})["optimus.dl/target-loss"])
    losses = epoch_losses(recorder.logs.runs(job.name))
    assert min(losses.values()) <= 1.03 * target, losses  # trainer 0 alone does not see every batch
    epochs = sorted(losses)
    assert all(losses[epoch] > 0.97 * target for epoch in epochs[: len(epochs) // 2]), losses


@pytest.mark.timeout(1800)
def test_two_jobs_are_measured_share_the_cluster_by_their_forecasts_and_reach_their_goals(
    scenario: Scenario,
) -> None:
    with JobRecorder(scenario) as recorder:
        scenario.submit(FIRST)
        scenario.wait(
            lambda: has_its_share(recorder, FIRST),
            "the first job is measured and has its share",
            420,
        )
        scenario.submit(SECOND)
        scenario.wait(
            lambda: given(scenario, recorder.rescales(FIRST)), "the first job gives room", 420
        )
        scenario.wait(
            lambda: recorder.phase(SECOND) == "Suspended",
            "the second job is at its goal and suspended",
            420,
        )
        scenario.wait(
            lambda: recorder.phase(FIRST) == "Suspended",
            "the first job is at its goal and suspended",
            420,
        )

        first = recorder.rescales(FIRST)
        assert FORECAST.search(given(scenario, first)[0].why), first
        for job in (FIRST, SECOND):
            reached_its_goal(recorder, job)
