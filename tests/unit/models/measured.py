"""The measured table of speeds: real MXNet, 1 to 6 PSs and workers; and models of any table."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedTerms
from optimus.models.speed.model import SpeedModel
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


def learned(
    table: dict[Counts, float], numbers: Iterable[int], mode: TrainingMode, batch: Batch
) -> Iterator[tuple[SpeedModel, list[Counts]]]:
    """Models of so many designed samples from the smallest counts on, and what they have not
    seen. The design of few samples is the beginning of that of many."""
    samples: list[SpeedSample] = []
    for number in numbers:
        while len(samples) < number:
            counts = next_sample(samples, list(table), SpeedTerms(mode, batch))
            assert counts is not None
            samples.append(SpeedSample(counts, table[counts], 60.0, 0.0))
        model = SpeedModel.fit(samples, mode, batch)
        assert isinstance(model, SpeedModel)
        seen = {each.counts for each in samples}
        yield model, [counts for counts in table if counts not in seen]
