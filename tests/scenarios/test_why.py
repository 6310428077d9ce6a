"""A user asks why a job does not run."""

import json

import pytest

from optimus.cli.main import main
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario

WIDE = {"PS": {"cpu": "500m", "memory": "64Mi"}, "Worker": {"cpu": "2500m", "memory": "64Mi"}}


def test_optimus_why_shows_what_a_waiting_job_lacks(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (
        LightJob("TFJob", name, ps=2, workers=3, requests=WIDE) for name in ("first", "second")
    )
    scenario.submit(first)
    scenario.wait_bound(first)
    scenario.submit(second)
    scenario.wait_refused(second, "does not fit as a whole")
    scenario.wait(
        lambda: [each for each in scenario.events("second") if each["reason"] == "Waiting"],
        "the Event Waiting is on the job",
    )
    kubeconfig = str(scenario.optimus.cluster.kubeconfig)
    asked = ["why", "second", "-n", scenario.namespace, "--kubeconfig", kubeconfig]
    capsys.readouterr()
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "waits for nodes: 5 of 5 pods have none" in text
    assert "workers of 2.5 cpu lack a place" in text
    assert "cpu is short" in text
    assert "What you can do:" in text
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "waiting"
    scenario.delete(first)
    scenario.wait_bound(second)
    scenario.wait(
        lambda: main(asked) == 0 and "runs: all 5 pods" in capsys.readouterr().out,
        "the job is said to run",
    )
