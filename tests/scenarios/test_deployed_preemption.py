"""Gang preemption with the deployed manifests: the component grants the rights that it needs."""

from collections.abc import Iterator

import pytest

from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.optimus_cluster import OptimusCluster
from tests.harness.scenario import Scenario

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WIDE = {"PS": {"cpu": "1"}, "Worker": {"cpu": "2"}, "Scheduler": {"cpu": "1"}}
"""A node of four CPUs holds two workers, or one and two others."""


# At its most it leaves at most one CPU of each node. Stated costs: a worker more and a PS more each
# save a good tenth of its time. Its work is stated, too: on a busy machine the first losses of a
# goal would say that so little is left that no worker is worth a restart.
ELASTIC = LightJob(
    "TFJob",
    "elastic",
    1,
    2,
    annotations={
        "optimus.dl/target-epochs": "400",
        "optimus.dl/rescale": "any",
        "optimus.dl/training-mode": "sync",
        "optimus.dl/global-batch-size": "64",
        "optimus.dl/steps-per-epoch": "10",
        "optimus.dl/max-ps": "2",
        "optimus.dl/max-workers": "4",
    },
    requests={
        "PS": {"cpu": "500m", "memory": "64Mi"},
        "Worker": {"cpu": "3", "memory": "64Mi"},
    },
    flags={
        "--epochs": "0",
        "--examples-per-epoch": "640",
        "--example-seconds": "0.02",
        "--model-mbytes": "0.2",
    },
)


@pytest.fixture
def preempting(optimus: OptimusCluster) -> Iterator[None]:
    """The extender runs with the component; afterwards without it again."""
    optimus.deploy("preemption")
    if optimus.api.find(f"{CLASSES}/urgent") is None:
        optimus.api.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    yield
    optimus.deploy()


@pytest.mark.usefixtures("preempting")
def test_an_mxjob_makes_room_for_a_tfjob_and_comes_back(scenario: Scenario) -> None:
    """Four nodes of four CPUs hold both low jobs, and besides them no third one."""
    first = LightJob("TFJob", "first", 1, 3, requests=WIDE, script=SLEEP)
    second = LightJob("MXJob", "second", 1, 3, requests=WIDE, script=SLEEP)
    scenario.submit(first)
    scenario.wait_bound(first)
    scenario.wait_until_older(first)  # the youngest has to go
    scenario.submit(second)
    scenario.wait_bound(second)
    urgent = LightJob("TFJob", "urgent", 1, 3, requests=WIDE, script=SLEEP, priority="urgent")
    scenario.submit(urgent)
    scenario.wait_bound(urgent)
    scenario.wait_refused(second, "Insufficient cpu")
    assert len(scenario.bound(first)) == first.pods
    assert "Failed" not in scenario.conditions(second)
    scenario.wait_events("second", "Preempted", "Resumed")
    scenario.delete(urgent)
    scenario.wait_bound(second)


def test_an_elastic_job_shrinks_for_a_higher_one_and_nobody_is_preempted(
    scenario: Scenario, preempting: None
) -> None:
    """Without the autoscaler it would be preempted as a whole."""
    with JobRecorder(scenario) as recorder:
        scenario.submit(ELASTIC)
        scenario.wait(
            lambda: (
                recorder.is_quiet_at(ELASTIC, (1, 4), (2, 4))
                and "remainingSeconds" in recorder.status(ELASTIC)
            ),
            "it is measured and has all workers",
            400,
        )
        urgent = LightJob("TFJob", "urgent", 1, 2, requests=WIDE, script=SLEEP, priority="urgent")
        scenario.submit(urgent)
        scenario.wait_bound(urgent)
        scenario.wait(
            lambda: any(
                recorder.is_quiet_at(ELASTIC, counts) for counts in ((1, 2), (2, 2), (1, 3), (2, 3))
            ),
            "it trains with fewer workers",
        )
        released = [each for each in recorder.rescales(ELASTIC) if "releases capacity" in each.why]
        assert released
        assert all(each.target[1] < each.before[1] for each in released)
        assert not recorder.ever_failed(ELASTIC)
        assert not recorder.training_violations(ELASTIC)
    event_reasons = {event["reason"] for event in scenario.events(ELASTIC.name)}
    assert event_reasons.isdisjoint({"Preempted", "Resumed"})
    assert not [each for each in scenario.events("urgent") if each["reason"] == "Preempting"]
