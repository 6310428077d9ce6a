"""A young job is moved to counts that are expected to be good, before a forecast can be fitted."""

from dataclasses import replace

from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job


def test_a_young_job_is_moved_by_expectation_and_measured_there(scenario: Scenario) -> None:
    job = small_job("young", (1, 1))
    wide = {"optimus.dl/max-ps": "2", "optimus.dl/max-workers": "4"}
    job = replace(job, annotations={**(job.annotations or {}), **wide})
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        scenario.wait(
            lambda: recorder.rescales(job) and recorder.is_quiet_at(job),
            "it trains at other counts",
        )
        moved = recorder.rescales(job)[0]
        assert moved.why.startswith("estimated from its first measurements"), str(moved)
        assert (moved.measures, moved.before) == (True, (1, 1)), str(moved)
        assert sum(moved.target) > 2
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
