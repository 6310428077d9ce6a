"""The jobs of these tests: small light jobs whose step takes some 0.3 s, and how their counts are
moved."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.harness.job_recorder import Counts, JobRecorder
from tests.harness.light_jobs import Kind, LightJob
from tests.harness.scenario import Scenario
from tests.harness.waiting import LONG_SECONDS

SMALL: Final = {"cpu": "200m", "memory": "64Mi"}
_ENDLESS: Final = {"--epochs": "0", "--examples-per-epoch": "640"}


def small_job(
    name: str,
    counts: Counts,
    kind: Kind = "TFJob",
    requests: Mapping[str, Mapping[str, str]] | None = None,
) -> LightJob:
    """Return a job whose bounds hold it at its counts until a test moves them; it trains until it
    is deleted."""
    mode = {"optimus.dl/training-mode": "sync", "optimus.dl/global-batch-size": "64"}
    if kind == "MXJob":
        mode = {"optimus.dl/training-mode": "async", "optimus.dl/worker-batch-size": "32"}
    common = {
        "optimus.dl/target-loss": "0.081",
        "optimus.dl/rescale": "any",
        "optimus.dl/steps-per-epoch": "10",
    }
    return LightJob(
        kind,
        name,
        *counts,
        annotations={**common, **mode, **bounds(counts)},
        requests=requests or {"PS": SMALL, "Worker": SMALL, "Scheduler": SMALL},
        flags=_ENDLESS,
    )


def counted_job(name: str, counts: Counts, steps: int) -> LightJob:
    """Return such a job whose goal is a number of steps, so that what is left of it is known. Each
    of its replicas takes three CPUs of a node."""
    wide = {"cpu": "3", "memory": "64Mi"}
    job = small_job(name, counts, requests={"PS": wide, "Worker": wide})
    own = {key: text for key, text in (job.annotations or {}).items() if "target" not in key}
    return replace(job, annotations={**own, "optimus.dl/target-steps": str(steps)})


def bounds(counts: Counts, least: Counts | None = None) -> dict[str, str]:
    """Return the annotations that leave exactly these counts, or down to ``least`` fewer ones."""
    (ps, workers), (least_ps, least_workers) = counts, least or counts
    return {
        "optimus.dl/min-ps": str(least_ps),
        "optimus.dl/max-ps": str(ps),
        "optimus.dl/min-workers": str(least_workers),
        "optimus.dl/max-workers": str(workers),
    }


def set_bounds(
    scenario: Scenario, job: LightJob, counts: Counts, least: Counts | None = None
) -> None:
    """Change the job's bounds as its user would, which asks for a rescale to these counts."""
    annotations = bounds(counts, least)
    scenario.api.patch(scenario.path(job), {"metadata": {"annotations": annotations}})


def at(job: LightJob, counts: Counts) -> LightJob:
    """Return the same job at other counts."""
    return replace(job, ps=counts[0], workers=counts[1])


def wait_training(
    scenario: Scenario, recorder: JobRecorder, job: LightJob, seconds: float = LONG_SECONDS
) -> None:
    """Wait until the job trains at its counts, has saved a checkpoint in this run, and its profile
    says so. Then the recorder has all that led there."""

    def trains() -> bool:
        pods = scenario.pods(job)
        steps = recorder.logs.steps_of_present(pods)
        saved = [each.step for each in steps if each.checkpoint == each.step]
        running = [
            pod
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running"
        ]
        is_whole = len(running) == len(pods) == job.pods
        return bool(saved) and is_whole and recorder.is_quiet_at(job, (job.ps, job.workers))

    scenario.wait(
        trains, f"{job.name} trains at {job.ps} + {job.workers} and has saved a checkpoint", seconds
    )
    recorder.catch_up()
