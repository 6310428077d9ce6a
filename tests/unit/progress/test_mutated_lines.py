"""Garbage never stops the reading of a log, nor makes its state grow."""

import random
import re
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Final

import msgspec
import pytest

from benchmarks.log_forms import invented, mutated_lines, wrongly_met
from optimus.jobs import Counts, Role, TargetEpochs
from optimus.models.forecast import goal_is_met
from optimus.progress.log import MAX_LOSSES, MAX_METRICS, MAX_VALUES, ProgressLog
from optimus.progress.state import LogState
from tests.cases import cases
from tests.unit.progress.jobs import stamped
from tests.unit.progress.reads import DATA, LATER, SYNC, read
from tests.unit.progress.test_forms import FORMS
from tests.unit.properties import sampled

_LINES: Final = [
    line
    for path in sorted(DATA.rglob("*.log"))
    for line in path.read_text(errors="replace").splitlines()
] + [line for form in FORMS for line in form["lines"]]


def read_in_parts(lines: Sequence[str]) -> ProgressLog:
    """A log that is read, stored and restored again and again."""
    log = ProgressLog(SYNC)
    for begin in range(0, len(lines), 500):
        part = stamped(lines[begin : begin + 500], start=float(begin))
        log.observe("job-worker-0", Role.WORKER, 0, Counts(1, 1), part, "run")
        stored = msgspec.json.decode(msgspec.json.encode(log.to_state()), type=LogState)
        log = ProgressLog.from_state(SYNC, stored)
    return log


def check(log: ProgressLog) -> None:
    """What holds of any log."""
    progress = log.progress(LATER)
    assert len(progress.losses) <= MAX_LOSSES
    assert all(isfinite(point.loss) for point in progress.losses)
    assert len(progress.metrics) <= MAX_METRICS
    for series in progress.metrics:
        assert len(series.points) <= MAX_VALUES
        assert all(isfinite(point.loss) for point in series.points)
    assert progress.epoch is None or isfinite(progress.epoch)


@pytest.mark.parametrize("seed", sampled(range(4)))
def test_mutated_lines_of_many_logs(seed: int) -> None:
    check(read_in_parts(list(mutated_lines(_LINES, 1000, random.Random(seed)))))


@cases(
    "line",
    {
        "one word": "loss" * 10**6,
        "one number": "1" * 10**6,
        "a position without numbers": "epoch " * 10**5,
        "sides": "val 1 train " * 10**5,
        "brackets": "[" * 10**6,
        "dictionaries": "{'loss': " * 10**5,
        "bytes": "\udcff\x00\x1b[" * 10**5,
        "a bar without an end": "Epoch 1: 50%|" + "#" * 10**6,
        "settings": "Namespace(" + "a='" * 10**5,
        "names": " ".join(f"n{n}_loss={n}" for n in range(10**5)),
        "a loss with many digits": "epoch=1 loss=" + "9" * 10**5,
        "an epoch with many digits": "epoch=" + "9" * 10**5 + " loss=1",
    },
)
def test_a_line_of_megabytes(line: str) -> None:
    check(read_in_parts([line, "epoch=1 loss=0.5", line, "epoch=2 loss=0.4"]))


@pytest.mark.parametrize("seed", sampled(range(3)))
def test_no_value_is_read_that_is_no_token_of_its_line(seed: int) -> None:
    assert invented(_LINES, 3000, seed) == []


def test_no_goal_is_met_by_a_mutation() -> None:
    """A loss that no line has is not read, so that no goal below all of them is met."""
    assert wrongly_met([form["lines"] for form in FORMS], 400, seed=0) == []


def _first_epoch(lines: Sequence[str]) -> Sequence[str]:
    """The lines of a log with values before its first epoch is over; none where it shows none."""
    known = 0
    for count in range(1, min(len(lines), 60)):
        progress = read(lines[:count])
        if (progress.epoch or 0.0) >= 1:
            break
        if progress.losses or progress.metrics:
            known = count
    return lines[:known]


@pytest.mark.parametrize("path", sampled(sorted(DATA.rglob("*.log"))), ids=lambda path: path.name)
def test_no_epoch_is_met_by_a_word_that_is_not_known(path: Path) -> None:
    """The words of a log are replaced one by one, as if another program had printed it."""
    lines = _first_epoch(path.read_text(errors="replace").splitlines())
    words = sorted({word for line in lines for word in re.findall(r"[A-Za-z]{2,}", line)})
    positions = [each for each in words if each.lower() in _POSITIONS]
    for word in positions:
        other = [re.sub(rf"(?<![A-Za-z]){word}(?![A-Za-z])", "Quux", line) for line in lines]
        values = [line for line in other if not _ENDED.search(line)]
        assert not goal_is_met(TargetEpochs(1.0), read(values)), word


_ENDED: Final = re.compile(r"Time cost|Train-|Validation-")
"""MXNet's lines at the end of an epoch."""
_POSITIONS: Final = ("batch", "step", "iter", "iteration", "global", "speed", "update")
