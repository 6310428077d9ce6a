"""A job with a deadline is told early that no counts meet it, and is in time after it was moved."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job


def a_job(deadline: str) -> LightJob:
    """A job of weeks, which can be measured at one other pair of counts."""
    job = small_job("due", (1, 1))
    annotations = {
        each: value
        for each, value in (job.annotations or {}).items()
        if each != "optimus.dl/target-loss"
    }
    own = {
        "optimus.dl/target-epochs": "1000000",
        "optimus.dl/finish-by": deadline,
        "optimus.dl/max-workers": "2",
    }
    return replace(job, annotations={**annotations, **own})


def after(days: float) -> str:
    """The time so many days from now, as the annotation has it."""
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")


def test_a_deadline_that_no_counts_meet_is_said_and_one_that_is_moved_is_met(
    scenario: Scenario,
) -> None:
    job = a_job(after(days=0.1))
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        (message, *others) = scenario.wait_events(job.name, "DeadlineAtRisk")["DeadlineAtRisk"]
        assert "no counts meet it" in message
        assert not others
        assert recorder.rescales(job), "it was measured before that was said"
        later = {"metadata": {"annotations": {"optimus.dl/finish-by": after(days=3000)}}}
        scenario.api.patch(scenario.path(job), later)
        scenario.wait(
            lambda: ": met at " in str(recorder.status(job).get("deadline")),
            "its profile says that the deadline is met",
        )
        scenario.wait(lambda: recorder.is_quiet_at(job), "it trains")
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
