"""The measured table of speeds: real MXNet, 1 to 6 PSs and workers."""

import csv
from pathlib import Path

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.progress.types import SpeedSample

_FILE = Path(__file__).parents[2] / "data" / "ps_speed" / "mxnet_ps_links200.csv"
BATCHES = {
    TrainingMode.SYNC: Batch(960, BatchScope.JOB),
    TrainingMode.ASYNC: Batch(160, BatchScope.WORKER),
}


def speeds(mode: TrainingMode) -> dict[Counts, float]:
    """Steps per second of the job: the workers' mean in sync, their sum in async training."""
    table = {}
    with _FILE.open() as lines:
        for row in csv.DictReader(lines):
            if row["mode"] == f"dist_{mode}":
                each = [float(value) for value in row["steps_per_s"].split(";")]
                whole = sum(each) / len(each) if mode is TrainingMode.SYNC else sum(each)
                table[Counts(int(row["ps"]), int(row["workers"]))] = whole
    return table


def sample(counts: Counts, steps_per_second: float, seconds: float = 10.0) -> SpeedSample:
    """A sample of ten seconds."""
    return SpeedSample(counts, steps_per_second, seconds, at=0.0)
