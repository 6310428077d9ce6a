"""A second run of a workload is not profiled: it starts at the counts that the first one's speeds
and losses let choose."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.harness.api import OPTIMUS, Json, in_namespace
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job

EPOCHS = 90
BOUNDS = {"min-ps": "1", "max-ps": "2", "min-workers": "1", "max-workers": "4"}


def a_run(name: str) -> LightJob:
    """A job of 90 epochs of ten steps, which meets its goal on the way."""
    job = small_job(name, (1, 1))
    annotations = {
        **(job.annotations or {}),
        **{f"optimus.dl/{bound}": count for bound, count in BOUNDS.items()},
        "optimus.dl/target-loss": "0.3",
        "optimus.dl/workload": "digits",
    }
    flags = {**job.flags, "--epochs": str(EPOCHS)}
    return replace(job, annotations=annotations, flags=flags)


def profiled(job: LightJob) -> LightJob:
    """The job with a deadline far away: one with a deadline is measured at all counts that a fit
    needs, and not only where that is expected to save time."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(job, annotations={**(job.annotations or {}), "optimus.dl/finish-by": tomorrow})


def runs_of(scenario: Scenario) -> list[Json]:
    path = in_namespace(OPTIMUS, scenario.namespace, "workloadprofiles", "digits")
    profile = scenario.api.find(path) or {}
    return list((profile.get("status") or {}).get("runs") or ())


def test_a_second_run_of_a_workload_is_not_profiled(scenario: Scenario) -> None:
    first, second = profiled(a_run("first")), a_run("second")
    with JobRecorder(scenario) as recorder:
        scenario.submit(first)
        scenario.wait(
            lambda: any("metAt" in run for run in runs_of(scenario)),
            "its workload's profile has a run that met its goal",
            300,
        )
        assert any(each.measures for each in recorder.rescales(first)), "the first was profiled"
        (run,) = runs_of(scenario)
        assert len({(each["ps"], each["workers"]) for each in run["samples"]}) >= 3
        scenario.delete(first)
        scenario.wait(lambda: not scenario.pods(first), "the first is gone")
        scenario.submit(second)
        scenario.wait(
            lambda: recorder.rescales(second) and recorder.is_quiet_at(second),
            "the second trains at the counts that were chosen for it",
        )
        begun = recorder.rescales(second)[0]
        assert (begun.purpose, begun.before) == ("admission", (1, 1)), str(begun)
        assert sum(begun.target) > 2
        assert not any(each.measures for each in recorder.rescales(second))
        assert "Profiling" not in {each.get("phase") for each in recorder.statuses(second)}
        assert any(each.get("earlierRuns") == 1 for each in recorder.statuses(second))
        assert not recorder.ever_failed(second)
    (used,) = scenario.wait_events("second", "EarlierRunsUsed")["EarlierRunsUsed"]
    assert used.endswith("its speed is not profiled")
