"""Published logs of real training: each is read as an eye reads it, at its head, middle and end."""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.state import epoch_index
from optimus.progress.types import LossPoint, TrainingProgress
from tests.unit.progress.jobs import stamped
from tests.unit.progress.reads import DATA, LATER, SYNC

PUBLISHED: Final = DATA / "published"
NO_TRAINING: Final = {
    "gluonnlp__language_model__bert_lm_12_768_12_400_2500_wikitext103",
    "gluonnlp__named_entity_recognition__data_statistic",
    "gluonnlp__syntactics__biaffine-ptb-test",
}
"""They hold no progress: a result, numbers of a data set, a result."""


def _by_eye() -> dict[str, list[dict[str, str]]]:
    rows = defaultdict(list)
    with (PUBLISHED / "read_by_eye.tsv").open() as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            rows[row["log"]].append(row)
    return rows


BY_EYE: Final = _by_eye()
LOGS: Final = sorted(path.stem for path in PUBLISHED.glob("*.log"))


def progress_until(file: Path, beginning: str) -> TrainingProgress:
    """The progress after the last line that begins so; of the whole log for none."""
    texts = file.read_text().splitlines()
    beginning = beginning.replace("\\t", "\t")
    last = max(n for n, text in enumerate(texts, 1) if text.startswith(beginning))
    log = ProgressLog(SYNC)
    log.observe("log", Role.WORKER, 0, Counts(1, 1), stamped(texts[:last]), "run")
    return log.progress(LATER)


def last_point(progress: TrainingProgress, what: str) -> LossPoint:
    """The last value of the loss, of a metric, or of an evaluation."""
    if what == "loss":
        return progress.losses[-1]
    name = what.removeprefix("evaluated ")
    series = [
        each.points
        for each in progress.metrics
        if each.name.split()[-1] == name.split()[-1] and each.evaluated == what.startswith("eval")
    ]
    return series[0][-1]


@pytest.mark.parametrize("name", LOGS)
def test_a_published_log_is_read_as_by_eye(name: str) -> None:
    file = PUBLISHED / f"{name}.log"
    assert (name in BY_EYE) != (name in NO_TRAINING)
    for row in BY_EYE.get(name, []):
        progress = progress_until(file, row["line"])
        if row["what"] == "declared epochs":
            assert progress.declared.epochs == int(row["value"])
            continue
        point = last_point(progress, row["what"])
        assert point.loss == pytest.approx(float(row["value"]), rel=1e-6), row["line"]
        assert row["epoch"] in ("", str(epoch_index(point))), row["line"]
    if name in NO_TRAINING:
        progress = progress_until(file, "")
        assert (progress.losses, progress.epoch, progress.step) == ((), None, None)


def test_every_log_of_a_training_gives_a_value_to_aim_at() -> None:
    without = set()
    for name in LOGS:
        progress = progress_until(PUBLISHED / f"{name}.log", "")
        metrics = [each for each in progress.metrics if each.rises is not None and each.points]
        if progress.epoch is None or not (progress.losses or metrics):
            without.add(name)
    assert without == NO_TRAINING
