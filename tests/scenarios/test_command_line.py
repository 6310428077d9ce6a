"""A user asks for the jobs of a namespace, and pauses one by its annotation."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from optimus.cli.main import main
from optimus.kube.contract import Annotation
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import set_bounds, small_job, wait_training


@pytest.fixture
def ask(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command in the scenario's namespace; returns its answer as JSON, or as text."""
    kubeconfig = str(scenario.optimus.cluster.kubeconfig)

    def run(*command: str, text: bool = False, status: int = 0) -> Any:
        capsys.readouterr()
        words = [*command, *([] if text else ["--json"])]
        assert main([*words, "-n", scenario.namespace, "--kubeconfig", kubeconfig]) == status
        printed = capsys.readouterr().out
        return printed if text else json.loads(printed)

    return run


def annotate(scenario: Scenario, job: LightJob, *, pause: str | None) -> None:
    body = {"metadata": {"annotations": {Annotation.PAUSE: pause}}}
    scenario.api.patch(scenario.path(job), body)


def test_a_user_sees_pauses_and_resumes_a_job(scenario: Scenario, ask: Callable[..., Any]) -> None:
    assert "there is no TFJob, MXJob, PyTorchJob, JobSet or TrainJob" in ask("status", text=True)
    job = small_job("asked", (1, 2))
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        (row,) = ask("status")["jobs"]
        assert (row["name"], row["ps"], row["workers"]) == ("asked", 1, 2)
        assert row["held"]["cpu"] == pytest.approx(0.6)
        assert ask("forecast", "asked")["name"] == "asked"
        annotate(scenario, job, pause="true")
        scenario.wait(
            lambda: "paused by its user" in ask("status", "asked")["reason"],
            "the pause is honoured",
        )
        set_bounds(scenario, job, (1, 3))
        scenario.holds(
            lambda: (
                (found := ask("status", "asked"))["phase"] == "Training"
                and (found["workers"], found["rescale"]) == (2, None)
            ),
            "its changed bounds lead to nothing while it is paused",
            5,
        )
        annotate(scenario, job, pause=None)
        scenario.wait(lambda: ask("status", "asked")["workers"] == 3, "it is changed again")
        scenario.wait(
            lambda: "1 PS + 3 workers" in ask("status", "asked", text=True), "its status shows it"
        )


def test_doctor_finds_nothing_wrong_with_what_the_tests_install(
    scenario: Scenario, ask: Callable[..., Any]
) -> None:
    """Its exit status would be 1."""
    found = ask("doctor")
    states = {each["what"]: each["state"] for each in found["findings"]}
    for what in (
        *("Kubernetes", "CRDs", "training operator", "autoscaler", "scheduler", "paused jobs"),
        *("scheduler's configuration", "autoscaler's Lease", "scheduler's Lease", "nodes"),
    ):
        assert states[what] == "ok", what
