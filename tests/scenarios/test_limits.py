"""A job's own activeDeadlineSeconds holds over a rescale, which restarts its count; and gangs of a
namespace do not lock each other in its quota."""

import re
import secrets
from datetime import UTC, datetime

from tests.harness.api import CORE, KUBEFLOW, PLURALS, Json, in_namespace
from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (1, 3)
DEADLINE = 300


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_active_seconds_are_carried_over_a_rescale(scenario: Scenario) -> None:
    job = small_job("limited", BEFORE)
    body = job.manifest(scenario.namespace)
    body["spec"].setdefault("runPolicy", {})["activeDeadlineSeconds"] = DEADLINE
    with JobRecorder(scenario) as recorder:
        scenario.create(KUBEFLOW, PLURALS["TFJob"], body)
        wait_training(scenario, recorder, job)
        began = instant(scenario.stored(job)["status"]["startTime"])
        set_bounds(scenario, job, AFTER)
        wait_training(scenario, recorder, at(job, AFTER))
    stored = scenario.stored(job)
    left = stored["spec"]["runPolicy"]["activeDeadlineSeconds"]
    assert left < DEADLINE
    resumed = instant(stored["status"]["startTime"])
    assert DEADLINE - left <= resumed - began + 1
    # The rest of the deadline is long, so that a busy machine trains within it: its user cuts it.
    soon = int(datetime.now(UTC).timestamp() - resumed) + 10
    policy = {"runPolicy": {"activeDeadlineSeconds": soon}}
    scenario.api.patch(scenario.path(job), {"spec": policy})

    def is_failed() -> bool:
        # The operator looks at the deadline only when something happens to the job.
        touched = {"metadata": {"annotations": {"tests/touched": secrets.token_hex(4)}}}
        scenario.api.patch(scenario.path(job), touched)
        return "Failed" in scenario.conditions(job)

    scenario.wait(is_failed, "the operator ends it at its deadline")
    (failed,) = [
        each for each in scenario.stored(job)["status"]["conditions"] if each["type"] == "Failed"
    ]
    assert soon - 1 <= instant(failed["lastTransitionTime"]) - resumed < DEADLINE


def quota(pods: str) -> Json:
    spec = {"hard": {"pods": pods}}
    kind = {"apiVersion": "v1", "kind": "ResourceQuota"}
    return {**kind, "metadata": {"name": "training"}, "spec": spec}


def test_of_two_gangs_with_halves_of_a_quota_the_later_makes_way(scenario: Scenario) -> None:
    """Four pods are allowed; of a TFJob and an MXJob of four the later gets one or two."""
    first, later = small_job("first", (1, 3)), small_job("later", (1, 2), "MXJob")
    scenario.create(CORE, "resourcequotas", quota("2"))
    scenario.submit(first)

    def is_tried_seldom() -> bool:
        tries = (each.get("count") or 1 for each in scenario.events("first"))
        return len(scenario.pods(first)) == 2 and sum(tries) >= 12

    scenario.wait(is_tried_seldom, "the operator tries the first one at growing distances")
    path = in_namespace(CORE, scenario.namespace, "resourcequotas", "training")
    scenario.wait_until_older(first)
    scenario.api.patch(path, {"spec": quota("4")["spec"]})
    scenario.submit(later)
    scenario.wait(lambda: scenario.pods(later), "both have a part of their pods")
    with JobRecorder(scenario) as recorder:
        wait_training(scenario, recorder, first)
    assert (
        "paused-for-gang"
        in scenario.stored(later)["metadata"]["annotations"]["optimus.dl/suspended-by"]
    )
    (told,) = [each for each in scenario.events("later") if each["reason"] == "Preempted"]
    assert "/first, which came first and lacks" in told["message"]
    assert any(re.search("later holds [12]", each["message"]) for each in scenario.events("first"))
    scenario.delete(first)
    scenario.wait_bound(later)
