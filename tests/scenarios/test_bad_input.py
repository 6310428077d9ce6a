"""An invalid object gets an Event, is not changed, and affects no other object."""

from typing import Any

from tests.harness.light_jobs import LightJob
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


def _generation(stored: Any) -> int:
    return int(stored["metadata"]["generation"])
