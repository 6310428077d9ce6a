"""Published logs of real training: each is read as an eye reads it, at its head, middle and end."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Final

import pytest

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.state import epoch_index
from optimus.progress.types import Declared, LogLine, LossPoint, TrainingProgress
from tests.unit.progress.jobs import stamped
from tests.unit.progress.reads import DATA, LATER, SYNC

PUBLISHED: Final = DATA / "published"
NO_TRAINING: Final = {
    "gluonnlp__language_model__bert_lm_12_768_12_400_2500_wikitext103",
    "gluonnlp__named_entity_recognition__data_statistic",
    "gluonnlp__syntactics__biaffine-ptb-test",
}
"""They hold no progress: a result, numbers of a data set, a result."""


def _table(name: str) -> dict[str, list[dict[str, str]]]:
    """The rows of a table made by eye, by log."""
    rows = defaultdict(list)
    with (PUBLISHED / name).open() as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            rows[row["log"]].append(row)
    return rows


BY_EYE: Final = _table("read_by_eye.tsv")
RUNS: Final = {log: row for log, (row,) in _table("runs_by_eye.tsv").items()}
LOGS: Final = sorted(path.stem for path in PUBLISHED.glob("*.log"))


@cache
def read(name: str) -> dict[str, TrainingProgress]:
    """The progress after the last line with each beginning of the table; of the whole log for
    ``""``. The log is read once, in pieces, as a pod's is."""
    lines = stamped((PUBLISHED / f"{name}.log").read_text().splitlines())
    beginnings = {"", *(row["line"] for row in BY_EYE.get(name, ()))}
    ends = {each: _last(lines, each.replace("\\t", "\t")) for each in beginnings}
    log, done, found = ProgressLog(SYNC), 0, {}
    for beginning, end in sorted(ends.items(), key=lambda each: each[1]):
        log.observe("log", Role.WORKER, 0, Counts(1, 1), lines[done:end], "run")
        found[beginning], done = log.progress(LATER), end
    return found


def _last(lines: Sequence[LogLine], beginning: str) -> int:
    return max(n for n, line in enumerate(lines, 1) if line.text.startswith(beginning))


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
    assert (name in BY_EYE) != (name in NO_TRAINING)
    for row in BY_EYE.get(name, []):
        progress = read(name)[row["line"]]
        if row["what"] == "declared epochs":
            assert progress.declared.epochs == int(row["value"])
            continue
        point = last_point(progress, row["what"])
        assert point.loss == pytest.approx(float(row["value"]), rel=1e-6), row["line"]
        assert row["epoch"] in ("", str(epoch_index(point))), row["line"]
    if name in NO_TRAINING:
        progress = read(name)[""]
        assert (progress.losses, progress.epoch, progress.step) == ((), None, None)


def declared(row: dict[str, str]) -> Declared:
    """What a run declares, from its row."""
    warm_up, _, unit = row["warm-up"].partition(" ")
    amount = float(warm_up) if warm_up else None
    return Declared(
        epochs=int(row["epochs"]) if row["epochs"] else None,
        steps=int(row["steps"]) if row["steps"] else None,
        batch=int(row["batch"]) if row["batch"] else None,
        learning_rate=float(row["learning rate"]) if row["learning rate"] else None,
        schedule=row["schedule"] or None,
        drops=tuple(map(float, row["drops"].split())),
        drop_factor=float(row["factor"]) if row["factor"] else None,
        warmup_epochs=amount if unit == "epochs" else None,
        warmup_steps=amount if unit == "steps" else None,
        warmup_fraction=amount if unit == "of all" else None,
    )


def names(progress: TrainingProgress, *, evaluated: bool) -> set[str]:
    """The metrics of one side, without the words before them."""
    return {each.name.split()[-1] for each in progress.metrics if each.evaluated == evaluated}


@pytest.mark.parametrize("name", LOGS)
def test_what_a_published_log_declares_and_measures(name: str) -> None:
    progress, row = read(name)[""], RUNS[name]
    assert progress.declared == declared(row)
    assert names(progress, evaluated=False) == set(row["metrics"].split())
    assert names(progress, evaluated=True) == set(row["evaluated"].split())


def test_the_tables_have_a_row_for_every_log_and_no_other() -> None:
    assert set(RUNS) == set(LOGS)
    assert set(BY_EYE) == set(LOGS) - NO_TRAINING
    assert len(LOGS) == 91


def test_every_log_of_a_training_gives_a_value_to_aim_at() -> None:
    without = set()
    for name in LOGS:
        progress = read(name)[""]
        metrics = [each for each in progress.metrics if each.rises is not None and each.points]
        if progress.epoch is None or not (progress.losses or metrics):
            without.add(name)
    assert without == NO_TRAINING
