"""A rescale after which the job's pods fail is undone, and not tried again."""

from tests.harness.api import KUBEFLOW, PLURALS
from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, TOO_MANY = (1, 2), (1, 3)
GUARD = 'case "$TF_CONFIG" in *worker-2*) exit 3;; esac; exec "$@"'
"""Ends with an error at once wherever the job has a third worker."""


def test_counts_at_which_the_pods_fail_are_undone_once(scenario: Scenario) -> None:
    job = small_job("frail", BEFORE)
    body = job.manifest(scenario.namespace)
    for spec in body["spec"]["tfReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        container["command"] = ["sh", "-c", GUARD, "sh", *container["command"]]
    with JobRecorder(scenario) as recorder:
        scenario.create(KUBEFLOW, PLURALS[job.kind], body)
        wait_training(scenario, recorder, job)
        set_bounds(scenario, job, TOO_MANY)
        scenario.wait(
            lambda: (scenario.profile(job) or {}).get("status", {}).get("failedCounts"),
            "its profile names the counts at which it failed",
        )
        wait_training(scenario, recorder, at(job, BEFORE))
        scenario.holds(
            lambda: not scenario.stored(job)["spec"]["runPolicy"].get("suspend"),
            "it is not moved there again",
            15,
        )
        assert not recorder.ever_failed(job)
    (failed,) = scenario.profile(job)["status"]["failedCounts"]  # type: ignore[index]
    assert failed.startswith("1 PS + 3 workers: frail-")
    assert "ended with exit code 3" in failed
    (event,) = (each for each in scenario.events(job.name) if each["reason"] == "RollingBack")
    assert "(1 PS + 2 workers -> 1 PS + 3 workers) is undone" in event["message"]
