"""Training logs as files: any format that is read from pods, or a CSV ``epoch,loss``."""

import bz2
import codecs
import gzip
import io
import lzma
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import IO, Final

import numpy as np

from optimus.cli.command import BadInput
from optimus.cli.exports import as_lines, check_rows, header_of, is_csv, what_is_missing
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Counts, LossGoal, Role, TargetMetric, TrainingMode
from optimus.models.convergence import MEDIAN_OF, LearningRateSchedule, LossSeries
from optimus.models.forecast import schedule_of
from optimus.models.goals import meets
from optimus.models.metric_goal import MetricAsLoss, as_losses
from optimus.progress.log import ProgressLog
from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from optimus.progress.state import epoch_index
from optimus.progress.types import (
    NOTHING_DECLARED,
    Declared,
    LogLine,
    LossPoint,
    PodRun,
    SpeedSample,
    TrainingProgress,
)

_ALL: Final = 10**9
_STRETCHES: Final = 64
_AT_ONCE: Final = 5000
"""Lines between two moves of a progress bar."""
_Opener = Callable[[IO[bytes]], gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File]
_ARCHIVES: Final[tuple[tuple[str, str, bytes, _Opener], ...]] = (
    ("gzip", ".gz", b"\x1f\x8b", lambda packed: gzip.GzipFile(fileobj=packed)),
    ("xz", ".xz", b"\xfd7zXZ\x00", lzma.LZMAFile),
    ("bzip2", ".bz2", b"BZh", bz2.BZ2File),
)
"""Each with its suffix and its first bytes."""
_MOST_UNPACKED: Final = 1 << 30
"""An archive of a few kilobytes may hold more than any memory."""
_LEAST_STATES: Final = 20
_MOST_STATES: Final = 200
"""Of a line that a progress bar has rewritten often, at most so many states are read."""
_SPEED: Final = re.compile(
    r"\b(\d+\.?\d*)\s?(?:it|batch|step)(?:es|s)?/s|\b(\d+\.?\d*)\s?(m?s)/(?:it|batch|step)\b"
)
_INSTANT: Final = re.compile(
    r"\b(20\d\d)[-/.](\d\d)[-/.](\d\d)[T _,]\s?(\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
)
"""In the prefix of a line. Its zone does not matter: only differences do."""
_CONTROLS: Final = bytes(each for each in range(32) if each not in b"\b\t\n\v\f\r\x1b")
_SAMPLE: Final = 1 << 16
_FORMATS: Final = (
    "a log of MXNet, Keras or TensorFlow, lines of name=value, or a CSV epoch,loss is expected"
)


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The losses of a log in training order, by epoch or, where it has none, by step."""

    file: Path
    points: tuple[LossPoint, ...]
    declared: Declared = NOTHING_DECLARED
    """What the program has said of the whole run."""
    diverged: str = ""
    """The sentence about last losses that are not numbers; empty otherwise."""
    per_second: float | None = None
    """Epochs or steps, as ``points`` have them, by the instants that its lines begin with, or by
    the speeds that they print; ``None`` where there are neither."""

    @property
    def schedule(self) -> LearningRateSchedule | None:
        """The run's end and the schedule of its learning rate, if they are declared."""
        return schedule_of(self.declared, self.points)

    @property
    def in_epochs(self) -> bool:
        """Whether the log has epochs."""
        return all(point.epoch is not None for point in self.points)

    def epoch_means(self) -> tuple[LossPoint, ...]:
        """One point per completed epoch, numbered from 1; without epochs, each point is one."""
        means = _means(self.points) if self.in_epochs else self.points
        return tuple(replace(each, epoch=float(n), step=None) for n, each in enumerate(means, 1))


def _means(points: Sequence[LossPoint]) -> list[LossPoint]:
    """One point per completed epoch."""
    series = LossSeries.of(points)
    rates = {(epoch_index(point) or 0) + 1.0: point.learning_rate for point in points}
    pairs = zip(series.k.tolist(), series.complete_loss.tolist(), strict=False)
    return [LossPoint(loss, k, learning_rate=rates[k]) for k, loss in pairs]


def read_training_log(file: Path, metric: str | None = None) -> TrainingLog:
    """Read a log; ``metric`` is the name of the loss, where it is not one of the usual.

    One that rises, such as an accuracy, is read as its error, which falls as a loss does."""
    if metric is not None and describe(metric).rises:
        aim = TargetMetric(metric, 1.0, at_least=True, evaluated=describe(metric).evaluated or None)
        return read_metric(file, aim)[0]
    lines = read_log_lines(file)
    check_rows(file, lines, metric or "loss")
    progress = read_progress(lines, metric)
    points = tuple(_of_log(file, lines, progress, metric))
    return _training_log(file, points, progress)


def read_metric(file: Path, goal: TargetMetric) -> tuple[TrainingLog, MetricAsLoss]:
    """The values that a goal is about, as losses, from a log or a CSV with a column of them."""
    lines = read_log_lines(file)
    progress = read_progress(lines, None, (goal.name,))
    found = as_losses(goal, progress.metrics)
    if isinstance(found, NotReady):
        if is_csv(lines):
            expected = f"a column {goal.name!r} beside 'epoch' is expected"
            raise BadInput(file, f"{expected}; it has {','.join(header_of(lines))[:80]!a}")
        raise BadInput(file, found.reason)
    return _training_log(file, found.losses, progress), found


def _training_log(
    file: Path, points: tuple[LossPoint, ...], progress: TrainingProgress
) -> TrainingLog:
    diverged = progress.diagnostic or "the last losses are not numbers"
    newest = progress.samples[-1:]
    in_epochs = all(point.epoch is not None for point in points)
    unit = (progress.steps_per_epoch or progress.units_per_epoch) if in_epochs else 1.0
    per_second = newest[0].steps_per_second / unit if newest and unit else None
    said = diverged if progress.diverged else ""
    return TrainingLog(file, points, progress.declared, said, per_second)


def met_at(
    points: Sequence[LossPoint], goal: LossGoal, declared: Declared = NOTHING_DECLARED
) -> float | None:
    """The epochs (steps) after which losses first met a goal, as ``models.goals.meets`` says.

    A target: the first of the two epochs that meet it; without epochs the last of the 20 points. A
    threshold: the last epoch of its plateau. Before the third epoch nothing is met."""
    series = LossSeries.of(points)
    means, k = series.complete_loss, series.k
    if isinstance(goal, ConvergenceThreshold):
        whole = _means(points) if series.in_epochs else []
        ends = (n for n in range(1, len(whole) + 1) if meets(goal, whole[:n], declared))
        end = next(ends, None)
        return None if end is None else whole[end - 1].epoch
    if not series.in_epochs:
        if len(means) < MEDIAN_OF:
            return None
        means = np.median(np.lib.stride_tricks.sliding_window_view(means, MEDIAN_OF), axis=1)
        met, k = means <= goal.loss, k[MEDIAN_OF - 1 :]
    else:
        met = (means[:-1] <= goal.loss) & (means[1:] <= goal.loss)
    first = np.flatnonzero(met)
    return float(k[first[0]]) if first.size else None


def read_log_lines(file: Path) -> list[str]:
    """The lines of a text file, which may be packed with gzip, xz or bzip2; ``-``: standard input.

    Those of an export are as a program would print them (``exports``). Raises ``BadInput`` for an
    archive that is damaged, or holds more than 1 GiB, and for a file that is empty or no text."""
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    for name, suffix, beginning, unpack in _ARCHIVES:
        if file.suffix.lower() == suffix or content.startswith(beginning):
            content = _unpacked(file, content, name, unpack)
            break
    _check_text(file, content)
    return [state for line in as_lines(content) for state in _states(line)]


def _check_text(file: Path, content: bytes) -> None:
    content = content.lstrip(b"\0")  # a log that was cut while its program wrote on
    if not content.strip():
        raise BadInput(file, "the lines of a training log are expected, this file is empty")
    sample = content[:_SAMPLE]
    is_utf16 = sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not is_utf16 and len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) / 50:
        raise BadInput(
            file,
            "the text of a training log is expected, this file is binary: of TensorBoard's events "
            "the download as CSV is read, of UTF-16 only what begins with a byte order mark",
        )


def _states(line: str) -> list[str]:
    """A line, or of one that a bar has rewritten some states, the last too."""
    if line.count("\r") < _LEAST_STATES:
        return [line]
    states = [state for state in line.split("\r") if state.strip()] or [line]
    every = -(-len(states) // _MOST_STATES)
    return states[::-every][::-1]


def stretches(lines: Sequence[str], most: int) -> list[slice]:
    """All lines in stretches; of more than ``most`` characters half as many, spread evenly."""
    size = sum(map(len, lines))
    if size <= most:
        return [slice(at, at + _AT_ONCE) for at in range(0, len(lines), _AT_ONCE)]
    length = max(len(lines) * most // size // (2 * _STRETCHES), 1)
    last = max(len(lines) - length, 0)
    begins = sorted({last * n // (_STRETCHES - 1) for n in range(_STRETCHES)})
    return [slice(begin, begin + length) for begin in begins]


def _unpacked(file: Path, content: bytes, name: str, unpack: _Opener) -> bytes:
    try:
        with unpack(io.BytesIO(content)) as archive:
            text = archive.read(_MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as damage:
        expected = f"a complete {name} archive is expected: {str(damage).rstrip('.')}"
        raise BadInput(file, expected) from damage
    if len(text) > _MOST_UNPACKED:
        raise BadInput(file, f"at most {_MOST_UNPACKED >> 30} GiB of text in an archive is read")
    return text


def _of_log(
    file: Path, lines: Sequence[str], progress: TrainingProgress, metric: str | None
) -> Sequence[LossPoint]:
    if not progress.losses:
        named = f"named {metric!r} " if metric else ""
        found = progress.diagnostic or f"no training loss {named}was found in {len(lines)} lines"
        expected = what_is_missing(lines, metric) or f"{_FORMATS}; {found} (here: --metric NAME)"
        raise BadInput(file, expected, 1 if is_csv(lines) else None)
    for index, point in enumerate(progress.losses, 1):
        if point.loss < 0:
            loss = f"loss {index} is {point.loss:g}"
            raise BadInput(file, f"losses of 0 or more are expected, {loss}")
    known = [point for point in progress.losses if point.epoch is not None]
    if len(known) > len(progress.losses) / 2:
        return known  # the others were printed before the length of an epoch was known
    return [replace(point, epoch=None) for point in progress.losses]


def read_progress(
    lines: Sequence[str],
    metric: str | None,
    aims: tuple[str, ...] = (),
    on_line: Callable[[str, ParsedLine | None], None] | None = None,
    parts: Iterable[slice] = (slice(None),),
) -> TrainingProgress:
    """The progress as read from a pod's log, with all losses; ``aims`` are the goal's metrics.

    ``on_line`` is told of each line and what it says. Only ``parts`` of the lines are read; others
    are passed over, as in the log of a pod that prints too much."""
    options = LogFormatOptions(mode=TrainingMode.SYNC, loss_metric=metric, aims=aims)
    printed: list[float] = []

    def note(text: str, parsed: ParsedLine | None) -> None:
        if parsed is not None and parsed.trained:
            printed.extend(_speeds(text))
        if on_line is not None:
            on_line(text, parsed)

    log = ProgressLog(options, max_losses=_ALL, max_values=_ALL, on_line=note)
    instants, before = _instants(lines), 0
    for part in parts:
        first, end, _ = part.indices(len(lines))
        times = instants[part] or range(first, end)
        stamped = [LogLine(float(at), text) for at, text in zip(times, lines[part], strict=True)]
        run = PodRun("file", skipped=first > before)
        log.observe("log", Role.WORKER, 0, Counts(1, 1), stamped, run)
        before = end
    progress = log.progress(math.inf)
    if not instants:
        newest = [SpeedSample(Counts(1, 1), median(printed[-50:]), 0, 0)] if printed else []
        progress = replace(progress, samples=tuple(newest))
    return progress


def _speeds(text: str) -> Iterator[float]:
    """The speeds in steps per second that a line prints."""
    for steps, seconds, unit in _SPEED.findall(text):
        value = float(steps or seconds)
        if value > 0:
            yield value if steps else (1000 if unit == "ms" else 1) / value


def _instants(lines: Sequence[str]) -> list[float]:
    """The instants that lines begin with, in seconds, rising; a line without one has that of the
    line before. Empty where no time passes."""
    found, at = [], 0.0
    for line in lines:
        match = _INSTANT.search(line[:60])
        if match is not None:
            with suppress(ValueError):  # a month 13
                day, clock = "-".join(match.group(1, 2, 3)), match[4].replace(",", ".")
                at = max(at, datetime.fromisoformat(f"{day}T{clock}Z").timestamp())
        found.append(at)
    first = next(filter(None, found), 0.0)
    return [each or first for each in found] if at > first else []
