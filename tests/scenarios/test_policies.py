"""Policies that decide anew, on a cluster: one pauses jobs, one goes with a placement rule of its
own."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.harness.job_recorder import JobRecorder
from tests.harness.optimus_cluster import OptimusCluster
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import SMALL, counted_job, small_job, wait_training


@pytest.fixture
def decided(optimus: OptimusCluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Both processes run by a policy and a placement rule, on nodes of all kinds alike, and no job
    is moved to be measured; afterwards as before."""
    policy, placement = request.param
    before = optimus.tuning
    rules = {"policy": policy, "placement": placement, "profiling_samples": "1"}
    optimus.tuning = replace(
        before,
        autoscaler={**before.autoscaler, **rules},
        extender={**before.extender, "placement": placement, "one_kind": "false"},
    )
    optimus.deploy()
    yield
    optimus.tuning = before
    optimus.deploy()


@pytest.mark.embedded
@pytest.mark.parametrize("decided", [("srtf", "pack")], ids=["srtf"], indirect=True)
@pytest.mark.usefixtures("decided")
def test_a_long_job_is_paused_for_a_short_one_and_goes_on_from_its_checkpoint(
    scenario: Scenario,
) -> None:
    long, short = counted_job("long", (1, 3), 100_000), counted_job("short", (1, 1), 80)
    short = replace(short, flags={**short.flags, "--epochs": "8"})  # of ten steps each
    with JobRecorder(scenario) as recorder:
        scenario.submit(long)
        wait_training(scenario, recorder, long)
        scenario.submit(short)
        scenario.wait(lambda: recorder.phase(long) == "Paused", "the long job is paused")
        assert recorder.status(long)["reason"].startswith("paused by the policy")
        scenario.wait(lambda: "Succeeded" in scenario.conditions(short), "the short job has ended")
        wait_training(scenario, recorder, long)
        assert len(recorder.logs.runs(long.name)) == 2, "it was begun again once"
        assert not recorder.ever_failed(long)
        assert not recorder.training_violations(long)
    (why,) = scenario.wait_events(long.name, "Paused")["Paused"]
    assert "a remaining time shorter than its" in why
    scenario.wait_events(long.name, "Resumed")


@pytest.mark.embedded
@pytest.mark.parametrize("decided", [("drf", "spread")], ids=["drf"], indirect=True)
@pytest.mark.usefixtures("decided")
def test_a_job_gets_its_fair_share_on_as_many_nodes_as_it_has_replicas(scenario: Scenario) -> None:
    job = small_job("shared", (1, 1), requests={"PS": SMALL, "Worker": SMALL})
    more = {"optimus.dl/max-ps": "2", "optimus.dl/max-workers": "2"}
    job = replace(job, annotations={**(job.annotations or {}), **more})
    grown = replace(job, ps=2, workers=2)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, grown)
        (rescale,) = recorder.rescales(job)
        assert rescale.why.startswith("its fair share by dominant resource is 2 PS + 2 workers")
        assert [sum(each.values()) for each in scenario.placement(grown).values()] == [1] * 4
        assert not recorder.training_violations(job)
