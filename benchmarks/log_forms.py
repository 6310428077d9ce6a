"""What is read of a folder of training logs, and what a line costs:
``python -m benchmarks.log_forms FOLDER [--mutated 100000] [--seed 0]``.

Reads each ``*.log`` and ``*.log.xz`` as the log of a pod, and counts those that give progress and a
value to aim at: a loss, or a metric of which the direction is known. Then lines of these logs are
mutated (characters deleted, doubled, moved, replaced by bytes of any kind; runs of up to 100,000
characters) and parsed: the slowest shows whether the time of a line is bounded, and no value may be
read that is no token of its line. ``--forms FILE`` mutates whole logs, too, of which no goal may be
met by a number that they do not have. Times are processor time. The result is one JSON object.
"""

import argparse
import json
import lzma
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

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


def main() -> None:
    """Read the folder once and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mutated", type=int, default=10_000, help="lines to be mutated")
    parser.add_argument("--forms", type=Path, help="logs as JSON lines, such as forms.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    files = sorted([*given.folder.glob("*.log"), *given.folder.glob("*.log.xz")])
    logs = {file.name: lines_of(file) for file in files}
    found = figures(logs, given.mutated, given.seed)
    if given.forms is not None:
        forms = [json.loads(line)["lines"] for line in given.forms.read_text().splitlines()]
        lines = [line for each in forms for line in each]
        found["invented in forms"] = len(invented(lines, given.mutated, given.seed))
        found["wrongly met"] = len(wrongly_met(forms, given.mutated // 10, given.seed))
    print(json.dumps(found, indent=2))


def lines_of(file: Path) -> list[str]:
    """The lines of a log, packed or not."""
    packed = file.read_bytes()
    content = lzma.decompress(packed) if file.suffix == ".xz" else packed
    return content.decode(errors="replace").splitlines()


def figures(logs: dict[str, list[str]], mutated: int, seed: int) -> dict[str, object]:
    """The share that is read, and the processor time of a line."""
    kinds: dict[str, list[str]] = {"a loss": [], "a metric alone": [], "nothing": []}
    began = time.process_time()
    for name, lines in logs.items():
        kinds[what_is_read(progress_of(lines))].append(name)
    seconds = time.process_time() - began
    lines = [line for each in logs.values() for line in each]
    read = len(logs) - len(kinds["nothing"])
    return {
        "logs": len(logs),
        "read": {kind: len(names) for kind, names in kinds.items()},
        "share": round(read / max(len(logs), 1), 3),
        "not read": kinds["nothing"],
        "microseconds a line": round(seconds / max(len(lines), 1) * 1e6, 1),
        "mutated lines": mutated,
        "invented": len(invented(lines, mutated, seed)),
        "milliseconds of the slowest": round(slowest(lines, mutated, seed) * 1e3, 1),
    }


def progress_of(
    lines: Sequence[str], on_line: Callable[[str, ParsedLine | None], None] | None = None
) -> TrainingProgress:
    """The progress as of a pod whose log this is."""
    log = ProgressLog(OPTIONS, on_line=on_line)
    stamped = [LogLine(float(second), text) for second, text in enumerate(lines)]
    log.observe("log", Role.WORKER, 0, Counts(1, 1), stamped, "file")
    return log.progress(float(len(lines)))


def what_is_read(progress: TrainingProgress) -> str:
    """Whether there is progress and a value to aim at."""
    if progress.epoch is None and progress.step is None:
        return "nothing"
    if progress.losses:
        return "a loss"
    has_metric = any(each.rises is not None for each in progress.metrics if each.points)
    return "a metric alone" if has_metric else "nothing"


def slowest(lines: Sequence[str], count: int, seed: int) -> float:
    """The processor seconds of the slowest mutated line."""
    longest = 0.0
    for line in mutated_lines(lines, count, random.Random(seed)):
        began = time.process_time()
        parse_line(clean(line), OPTIONS)
        longest = max(longest, time.process_time() - began)
    return longest


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


if __name__ == "__main__":
    main()
