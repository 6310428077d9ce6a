"""What was measured of jobs, as a JSON file: a list of objects.

``job`` (NAMESPACE/NAME), ``workload``, ``type`` and ``mode`` say of which jobs it is true, all of
them if none is given. ``speeds`` names a table as ``optimus evaluate speed`` reads, ``losses`` a
log or a table ``epoch,loss`` as ``optimus evaluate convergence`` reads; both lie relative to the
JSON file."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.speed_table import read_speed_tables
from optimus.cli.training_log import read_training_log
from optimus.jobs import TrainingMode
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.ground_truth.measured import (
    Measured,
    MeasuredSpeed,
    MeasuredTruths,
    RecordedLoss,
)

_FILES: Final = ("speeds", "losses")
_KEYS: Final = ("job", "workload", "type", "mode", *_FILES)
_TYPES: Final = {kind.name.lower(): kind.name for kind in JOB_TYPES}
_MODES: Final = {mode.value: mode for mode in TrainingMode}


def read_measured(file: Path) -> MeasuredTruths:
    """What the file and those that it names say; raises ``BadInput``."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise BadInput(file, f"a JSON file is expected: {problem}") from None
    if not isinstance(found, list) or not found:
        raise BadInput(file, "a list of objects is expected, at least one")
    return MeasuredTruths(tuple(_measured(file, n, each) for n, each in enumerate(found, start=1)))


def _measured(file: Path, number: int, entry: object) -> Measured:
    def error(expected: str) -> BadInput:
        return BadInput(file, f"object {number}: {expected}")

    if not isinstance(entry, dict) or not entry.keys() <= set(_KEYS):
        raise error(f"an object with keys of {', '.join(_KEYS)} is expected")
    if not all(isinstance(each, str) and each for each in entry.values()):
        raise error("texts are expected as values")
    if not any(name in entry for name in _FILES):
        raise error("speeds or losses are expected")
    for name, known in (("type", _TYPES), ("mode", _MODES)):
        if name in entry and entry[name].lower() not in known:
            raise error(f"a {name} among {', '.join(known)} is expected, found {entry[name]!a}")
    kind, mode = entry.get("type"), entry.get("mode")
    return Measured(
        job=entry.get("job"),
        workload=entry.get("workload"),
        type=None if kind is None else _TYPES[kind.lower()],
        mode=None if mode is None else _MODES[mode.lower()],
        speeds=_speeds(file, entry),
        loss=_loss(file, entry),
    )


def _speeds(file: Path, entry: Mapping[str, str]) -> tuple[MeasuredSpeed, ...]:
    if "speeds" not in entry:
        return ()
    tables = read_speed_tables(file.parent / entry["speeds"])
    return tuple(
        MeasuredSpeed(table.mode, {counts: fmean(runs) for counts, runs in table.repeats.items()})
        for table in tables
    )


def _loss(file: Path, entry: Mapping[str, str]) -> RecordedLoss | None:
    if "losses" not in entry:
        return None
    recorded = file.parent / entry["losses"]
    losses = tuple(point.loss for point in read_training_log(recorded).epoch_means())
    if not losses or min(losses) <= 0:
        raise BadInput(recorded, "the losses of completed epochs are expected, all above 0")
    return RecordedLoss(losses)
