"""An invalid object gets an Event, is not changed, and affects no other object."""

import contextlib
import http.client
import json
from typing import Any

from localcluster.node.pod_processes import PORTS_ANNOTATION
from tests.harness.api import CORE
from tests.harness.light_jobs import POOL, SLEEP, LightJob
from tests.harness.optimus_cluster import SCHEDULER
from tests.harness.scenario import Scenario


def warnings(scenario: Scenario, name: str) -> list[str]:
    return [event["message"] for event in scenario.events_of_type(name, "Warning")]


def test_a_job_for_a_missing_scheduler_waits_and_affects_no_other(
    scenario: Scenario,
) -> None:
    lost = LightJob(
        "TFJob", "lost", scheduler="nobody", annotations={"optimus.dl/target-loss": "0.2"}
    )
    scenario.submit(lost)
    scenario.wait(lambda: len(scenario.pods(lost)) == lost.pods, "its pods exist")
    other = LightJob("MXJob", "other", 1, 2)
    scenario.submit(other)
    scenario.wait_bound(other)
    scenario.holds(lambda: not scenario.bound(lost), "no pod of the lost job is placed", 2)
    line = "schedulerName: optimus-scheduler"
    scenario.wait(
        lambda: any(line in sentence for sentence in warnings(scenario, "lost")),
        "an Event names the line to add",
    )


def test_an_invalid_annotation_gets_an_event_with_its_value_and_the_valid_ones(
    scenario: Scenario,
) -> None:
    named = ("optimus.dl/max-workers", "-3", "whole number")
    wrong = {"optimus.dl/target-loss": "0.2", "optimus.dl/max-workers": "-3"}
    job = LightJob("TFJob", "typo", annotations=wrong)
    scenario.submit(job)
    scenario.wait_bound(job)

    def sentences() -> list[str]:
        return [each for each in warnings(scenario, "typo") if all(part in each for part in named)]

    scenario.wait(sentences, f"a Warning names {', '.join(named)}")
    scenario.wait(lambda: scenario.training_log("typo-worker-0"), "the job trains all the same")
    assert _generation(scenario.stored(job)) == 1


def test_a_log_of_an_unknown_format_gets_an_event_and_the_job_completes(
    scenario: Scenario,
) -> None:
    chatter = "while true; do echo all is well; sleep 0.02; done"
    job = LightJob(
        "MXJob", "chatter", 1, 1, annotations={"optimus.dl/target-loss": "0.2"}, script=chatter
    )
    scenario.submit(job)
    scenario.wait_bound(job)
    scenario.wait(
        lambda: [
            each
            for each in warnings(scenario, "chatter")
            if "loss" in each and "optimus.dl/metrics-format" in each
        ],
        "the log is complained of, and the annotation is named that says its format",
    )
    scenario.wait(
        lambda: ((scenario.profile(job) or {}).get("status") or {}).get("complaint"),
        "its profile says so too",
    )
    assert _generation(scenario.stored(job)) == 1


def test_a_malformed_request_gets_an_error_and_the_next_job_is_placed(
    scenario: Scenario,
) -> None:
    answer = json.loads(ask_extender(scenario, b"{}"))
    assert answer["Error"], answer
    job = LightJob("TFJob", "next", 1, 1, script=SLEEP)
    scenario.submit(job)
    scenario.wait_bound(job)


def test_a_node_without_capacity_is_not_used(scenario: Scenario) -> None:
    empty = {"metadata": {"name": "empty-node", "labels": dict(POOL)}, "spec": {}}
    scenario.api.create(f"{CORE}/nodes", empty)
    try:
        job = LightJob("TFJob", "careful", 2, 4, script=SLEEP)
        scenario.submit(job)
        assert "empty-node" not in scenario.wait_bound(job)
    finally:
        scenario.api.delete(f"{CORE}/nodes/empty-node")


def ask_extender(scenario: Scenario, body: bytes) -> bytes:
    """Send a body to the extender's filter and return its answer, which must come with 200."""
    ports = json.loads(
        scenario.optimus.pod_of(SCHEDULER)["metadata"]["annotations"][PORTS_ANNOTATION]
    )
    connection = http.client.HTTPConnection("127.0.0.1", int(ports["8888"]), timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read()


def _generation(stored: Any) -> int:
    return int(stored["metadata"]["generation"])
