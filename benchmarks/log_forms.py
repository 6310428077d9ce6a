"""Mutated training logs, and values that are read of them though they have no such token.

Characters are deleted, doubled, moved, or replaced by bytes of any kind; runs are of up to 100,000
characters."""

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from optimus.jobs import Counts, Role, TrainingMode
from optimus.progress.formats import parse_line
from optimus.progress.lines import records, whole_lines
from optimus.progress.log import ProgressLog
from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, clean
from optimus.progress.printed_values import number_of, plain
from optimus.progress.types import LogLine, TrainingProgress

OPTIONS = LogFormatOptions(mode=TrainingMode.SYNC)
LONGEST = 100_000


def progress_of(
    lines: Sequence[str], on_line: Callable[[str, ParsedLine | None], None] | None = None
) -> TrainingProgress:
    """The progress as of a pod whose log this is."""
    log = ProgressLog(OPTIONS, on_line=on_line)
    stamped = [LogLine(float(second), text) for second, text in enumerate(lines)]
    log.observe("log", Role.WORKER, 0, Counts(1, 1), stamped, "file")
    return log.progress(float(len(lines)))


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_IN_A_TOKEN = re.compile(r"\w|[.,:/+-]+\d")


def whole_numbers(text: str) -> set[float]:
    """The numbers that are tokens of a text: nothing of a number or a word is around them."""
    return {
        float(found[0])
        for found in _NUMBER.finditer(text)
        if not _IN_A_TOKEN.match(text, found.end())
        and not re.match(r"\w", text[max(found.start() - 1, 0) : found.start()])
    }


def invented(lines: Sequence[str], count: int, seed: int) -> list[str]:
    """The mutated lines in which a value is read that is no token of them."""
    found = []
    for mutated in mutated_lines(lines, count, random.Random(seed)):
        text = clean(mutated)
        parsed = parse_line(text, OPTIONS)
        if parsed is not None and len(text) <= 2000 and not _values(parsed) <= _tokens(text):
            found.append(text)
    return found


def _values(parsed: ParsedLine) -> set[float]:
    read = [*parsed.values.items(), *parsed.evaluated.items()]
    return {value for name, value in read if math.isfinite(value) and describe(name).is_metric}


def _tokens(text: str) -> set[float]:
    cells = re.split(r"[,;|\t]|: ", text.replace('"', "")) if text.count(",") > 1 else ()
    return {
        *whole_numbers(plain(text).replace("'s ", "_")),
        *(number for cell in cells if (number := number_of(cell)) is not None),
    }


def _note(read: list[ParsedLine], _: str, parsed: ParsedLine | None) -> None:
    if parsed is not None:
        read.append(parsed)


def wrongly_met(logs: Sequence[Sequence[str]], count: int, seed: int) -> list[list[str]]:
    """The logs with mutated lines of which a value is read that they do not have, by which a goal
    might be met."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        lines = list(draw.choice(logs))
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(lines))
            lines[at] = next(mutated_lines([lines[at]], 1, draw))
        read: list[ParsedLine] = []
        progress = progress_of(lines, partial(_note, read))
        values = {value for each in read for value in _values(each)}
        losses = {point.loss for point in progress.losses} - {each.loss for each in read}
        texts = (clean(record) for line in lines for record in records(line))
        tokens = {token for text in texts for part in whole_lines(text) for token in _tokens(part)}
        if losses or not values <= tokens:
            found.append(lines)
    return found


def mutated_lines(lines: Sequence[str], count: int, draw: random.Random) -> Iterator[str]:
    """Lines with one to four mutations each."""
    for _ in range(count if lines else 0):
        line = draw.choice(lines)
        for _ in range(draw.randint(1, 4)):
            line = mutated(line, draw)
        yield line


def mutated(line: str, draw: random.Random) -> str:
    """The line with one mutation."""
    at, end = sorted(draw.randint(0, len(line)) for _ in range(2))
    cut = line[at:end]
    times = draw.choice((2, 3, 50, 5000))
    inserted = draw.choice(
        (
            "",
            cut * min(times, 1 + LONGEST // max(len(cut), 1)),
            draw.choice(" \t=:[]{}'\"/|%,.0123456789eE+-_@(") * times,
            draw.randbytes(12).decode(errors="replace"),
            draw.choice(("nan", "inf", "-1e999", "\r", "\b", "\x1b[0m", "\x00", "é", "━", "loss=")),
        )
    )
    kept = cut if draw.random() < 0.5 else ""
    return line[:at] + inserted + kept + line[end:]
