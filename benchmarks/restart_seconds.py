"""How long a rescale stops a job's training: ``python -m benchmarks.restart_seconds``.

Both processes run from ``manifests/`` beside the embedded control plane, with the autoscaler's
usual tick of 2 s. Light training jobs, whose pods are processes of this machine, are moved to and
fro between counts by their bounds. Printed is one line of CSV for each rescale: from the last line
of trainer 0 before it to its first line after it, by the lines' own times. That has in it the
patch, the end of the pods, the resume, the placement, the start of the processes and one step; no
image is pulled and no framework imported."""

import argparse
import csv
import secrets
import sys
import tempfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from localcluster.specs import Backend
from tests.harness.job_recorder import Counts, JobRecorder
from tests.harness.light_jobs import Kind, LightJob
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    Tuning,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import Scenario, scenario_namespace
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

COUNTS: tuple[Counts, ...] = ((1, 2), (2, 3), (1, 3), (2, 2))


def measured(scenario: Scenario, job: LightJob, rescales: int) -> list[float]:
    """Seconds between the runs of a job that is moved so often."""
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, at(job, COUNTS[0]))
        for number in range(1, rescales + 1):
            counts = COUNTS[number % len(COUNTS)]
            set_bounds(scenario, job, counts)
            wait_training(scenario, recorder, at(job, counts))
        runs = [
            instants for run in recorder.logs.runs(job.name) if (instants := _instants(run.lines))
        ]
    scenario.delete(job)
    return [(after[0] - before[-1]).total_seconds() for before, after in pairwise(runs)]


def _instants(lines: list[str]) -> list[datetime]:
    """When trainer 0 printed its steps."""
    return [datetime.fromisoformat(line.split()[0]) for line in lines if "step=" in line]


def main() -> None:
    """Move one job of each kind, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rescales", type=int, default=10, help="of each job")
    options = parser.parse_args()
    tuning = Tuning({**QUICK_TUNING.autoscaler, "tick_seconds": "2"}, QUICK_TUNING.extender)
    kinds: tuple[Kind, ...] = ("TFJob", "MXJob")
    writer = csv.writer(sys.stdout)
    writer.writerow(["kind", "seconds"])
    nodes = training_nodes("4", "4", "4", "4")
    with (
        tempfile.TemporaryDirectory() as folder,
        optimus_cluster("restarts", nodes, tuning, backend=Backend.EMBEDDED) as optimus,
    ):
        optimus.deploy()
        namespace = f"restarts-{secrets.token_hex(4)}"
        with scenario_namespace(optimus, namespace, Path(folder)) as scenario:
            for kind in kinds:
                job = small_job(f"moved-{kind.lower()}", COUNTS[0], kind)
                for seconds in measured(scenario, job, options.rescales):
                    writer.writerow([kind, f"{seconds:.1f}"])


if __name__ == "__main__":
    main()
