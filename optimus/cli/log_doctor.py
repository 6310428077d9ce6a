"""``optimus doctor LOG``: what is read in a training log, as what, and what is missing."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from optimus.cli.command import Answer, Progress
from optimus.cli.exports import is_csv, what_is_missing
from optimus.cli.table import table
from optimus.cli.training_log import read_log_lines, read_progress, stretches
from optimus.progress.formats import parse_line
from optimus.progress.lines import split_prefix
from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, clean
from optimus.progress.types import Declared, LossPoint, MetricSeries, TrainingProgress

_NO_CHECKPOINT: Final = (
    "no line says that a checkpoint is complete: by default a job is moved only right after one; "
    "print checkpoint=STEP after each save"
)
_NO_STEP: Final = (
    "no line says which step it is of: a goal in steps cannot be seen; print step=STEP for one"
)
_TOO_LARGE: Final = "{} of {} lines, between those that are read, are passed over: the log is large"
_MOST_CHARACTERS: Final = 10 << 20
"""Only parts of a larger log are read, so that it takes some seconds."""
_LAST_LINES: Final = 2000
_ERROR: Final = re.compile(
    r"\b(?i:out of memory)\b|\bOOM(?:Killed)?\b"
    r"|\bstd::bad_alloc\b|\bSegmentation fault\b|\b[Cc]ore dumped\b|\bNo space left on device\b"
    r"|^(?:[\w.]{1,80}\.)?\w{0,60}(?:Error|Exception|Interrupt)(?::\s|$)|\bNCCL (?:error|failure)\b"
    r"|^Killed$|\bFATAL\b|^panic: ",
    re.ASCII,
)
_EXAMPLE_CHARACTERS: Final = 72
_LINES_TO_ADD: Final = (
    (
        "Keras",
        (
            "keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: "
            "print(f\"epoch={epoch + 1} loss={logs['loss']:.6g}\", flush=True))"
        ),
    ),
    ("TensorFlow loop", 'print(f"epoch={epoch} step={step} loss={float(loss):.6g}", flush=True)'),
    (
        "MXNet Module",
        (
            'model.fit(..., eval_metric="ce", '
            "batch_end_callback=mx.callback.Speedometer(batch_size, 50))"
        ),
    ),
    (
        "MXNet Gluon",
        'print(f"epoch={epoch} step={step} loss={loss.mean().asscalar():.6g}", flush=True)',
    ),
    ("PyTorch", 'print(f"epoch={epoch} step={step} loss={loss.item():.6g}", flush=True)'),
)


def last_error(lines: Sequence[str]) -> str:
    """The last line that says why a program ends, such as the last of a traceback; else nothing.

    Behind it the training does not go on: an error that it survives is none."""
    for line in reversed(lines):
        text = clean(line)
        if _ERROR.search(split_prefix(text).text.strip()) is not None:
            return text.strip()
        parsed = parse_line(text, LogFormatOptions())
        if parsed is not None and parsed.trained:
            return ""
    return ""


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One thing that was found in a log."""

    what: str
    value: str
    line: str = ""
    """An example."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings in one log, and what it lacks."""

    file: Path
    lines: int
    read: int
    """Lines that say something of the training."""
    forms: Counter[str]
    """The number of lines that each form has parsed."""
    progress: TrainingProgress
    examples: dict[str, str]
    """The last line in which each thing was found."""
    passed_over: int = 0
    """Lines that were not looked at, as the log is too large."""
    error: str = ""
    """The last line that says why the program has ended."""
    first_lines: tuple[str, ...] = ()
    export: str = ""
    """A sentence on what an export lacks."""

    @classmethod
    def of(cls, file: Path, metric: str | None, bar: Progress) -> "Diagnosis":
        """The diagnosis of a file; ``metric`` is the name of the loss, where it is another."""
        texts = read_log_lines(file)
        forms: Counter[str] = Counter()
        examples: dict[str, str] = {}

        def note(text: str, parsed: ParsedLine | None) -> None:
            if parsed is not None and parsed.form:
                forms[parsed.form] += 1
                examples.update(dict.fromkeys(_recognised(parsed), text))

        parts = stretches(texts, _MOST_CHARACTERS)
        progress = read_progress(
            texts, metric, on_line=note, parts=bar(parts, f"reading {file.name}")
        )
        looked_at = sum(len(texts[part]) for part in parts)
        return cls(
            file,
            len(texts),
            forms.total(),
            forms,
            progress,
            examples,
            passed_over=len(texts) - looked_at,
            error=last_error(texts[-_LAST_LINES:]),
            first_lines=tuple(texts[:1]),
            export="" if progress.losses else what_is_missing(texts, metric),
        )

    @property
    def missing(self) -> list[str]:
        """Sentences on what a forecast needs and the log does not have."""
        progress = self.progress
        found = []
        if progress.epoch is None and progress.step is None:
            found.append("progress: no line has an epoch, or a step, with its values")
        if not progress.losses and self.other_goal is None:
            found.append(f"a training loss: no value of a line is one{_instead(progress)}")
        if self.export:
            found.append(self.export)
        if progress.diverged:
            found.append("finite losses: the last are nan or infinite")
        elif progress.losses and progress.diagnostic:
            found.append(progress.diagnostic)
        return found

    @property
    def notes(self) -> list[str]:
        """Sentences on what a job may need and the log does not have."""
        found = []
        if self.passed_over:
            found.append(_TOO_LARGE.format(self.passed_over, self.lines))
        if "progress" not in self.examples or is_csv(self.first_lines):
            return found
        if self.progress.step is None:
            found.append(_NO_STEP)
        if "saved" not in self.examples:
            found.append(_NO_CHECKPOINT)
        return found

    @property
    def other_goal(self) -> str | None:
        """A goal for a log without a training loss: a metric whose direction is known."""
        known = [
            metric for metric in self.progress.metrics if metric.rises is not None and metric.points
        ]
        best = max(known, key=lambda each: (each.evaluated, len(each.points)), default=None)
        if best is None or self.progress.losses:
            return None
        said = not best.evaluated or describe(best.name).evaluated
        validation = "" if said else "validation "
        return f"{validation}{best.name}{'>=' if best.rises else '<='}{best.points[-1].loss:.3g}"

    def findings(self) -> Iterator[LogFinding]:
        """All that was found, the most important first."""
        progress, example = self.progress, self.examples
        for what, number in (
            ("epochs done", progress.epoch),
            ("steps done", progress.step),
            ("steps of an epoch", progress.steps_per_epoch),
        ):
            if number is not None:
                yield LogFinding(what, f"{number:.9g}", example.get("progress", ""))
        if progress.losses:
            yield LogFinding("training loss", _course(progress.losses), example.get("loss", ""))
        for series in progress.metrics:
            name = f"{'evaluated' if series.evaluated else 'metric'} {series.name}"
            line = example.get(f"{series.evaluated}{series.name}", "")
            yield LogFinding(name, f"{_course(series.points)}{_direction(series)}", line)
        for key, what in _BY_EXAMPLE:
            if key in example:
                yield LogFinding(what, "", example[key])
        yield from _declared(progress.declared, example.get("declared", ""))


_BY_EXAMPLE: Final = (
    ("speed", "samples per second"),
    ("rate", "learning rate"),
    ("saved", "checkpoint"),
)


def _declared(declared: Declared, line: str) -> Iterator[LogFinding]:
    for field in fields(declared):
        value = getattr(declared, field.name)
        if value:
            text = ", ".join(f"{each:g}" for each in value) if field.name == "drops" else str(value)
            yield LogFinding(f"declared {field.name.replace('_', ' ')}", text, line)


def _recognised(parsed: ParsedLine) -> Iterator[str]:
    """The things that are found in a line."""
    if parsed.trained:
        yield "progress"
        if parsed.loss is not None:
            yield "loss"
        yield from (f"{False}{name}" for name, _ in parsed.beside)
    yield from (f"{True}{name}" for name in parsed.evaluated)
    for name, value in (
        ("speed", parsed.samples_per_second),
        ("rate", parsed.learning_rate),
        ("declared", parsed.declared),
        ("saved", parsed.saved),
    ):
        if value is not None:
            yield name


def _instead(progress: TrainingProgress) -> str:
    """Return what the log has in place of a training loss."""
    training = [metric for metric in progress.metrics if not metric.evaluated]
    falls = next((each.name for each in training if each.rises is False), None)
    if falls is not None:
        return f"; {falls} falls and can be named: optimus.dl/loss-metric: {falls}"
    unknown = next((each.name for each in progress.metrics if each.rises is None), None)
    if unknown is not None:
        goals = f'optimus.dl/target: "{unknown}>=VALUE" or "{unknown}<=VALUE"'
        return f"; of {unknown} only you know which way it improves, it can be the goal: {goals}"
    return f"; it has {', '.join(each.name for each in training)}" if training else ""


def _course(points: Sequence[LossPoint]) -> str:
    """The change from the first to the last value."""
    return f"{points[0].loss:.4g} to {points[-1].loss:.4g}" if points else "-"


def _direction(series: MetricSeries) -> str:
    way = {True: "rises", False: "falls", None: "direction unknown"}[series.rises]
    return f" ({way}, in percent)" if series.is_percent else f" ({way})"


def diagnose(file: Path, metric: str | None, progress: Progress) -> Answer:
    """The diagnosis of a log, which is read with a progress bar; the exit status is 1 where it
    lacks what a forecast needs."""
    found = Diagnosis.of(file, metric, progress)
    return Answer(_value(found), "\n".join(_lines(found)), status=1 if found.missing else 0)


def _value(found: Diagnosis) -> dict[str, object]:
    progress = found.progress
    return {
        "log": str(found.file),
        "lines": found.lines,
        "read": found.read,
        "forms": dict(found.forms.most_common()),
        "epochs": progress.epoch,
        "steps": progress.step,
        "losses": len(progress.losses),
        "findings": [
            {"what": finding.what, "value": finding.value, "line": finding.line}
            for finding in found.findings()
        ],
        "error": found.error or None,
        "missing": found.missing,
        "notes": found.notes,
        "add": dict(_LINES_TO_ADD) if found.missing else {},
    }


def _lines(found: Diagnosis) -> Iterator[str]:
    forms = ", ".join(f"{name} {count}" for name, count in found.forms.most_common())
    read = f"{found.read} of {found.lines} lines are read" + (f" ({forms})" if forms else "")
    yield f"{found.file.name}: {read}"
    rows = [(finding.what, finding.value, _cut(finding.line)) for finding in found.findings()]
    if rows:
        yield ""
        yield table("<<<", ("what", "value", "for example"), rows)
    if found.error:
        yield ""
        yield f"last error: {_cut(found.error, 400)}"
    if found.other_goal is not None:
        yield ""
        yield "There is no training loss. A metric can be the goal instead, for example:"
        yield f'    optimus.dl/target: "{found.other_goal}"'
    for sentence in found.missing:
        yield ""
        yield f"missing: {sentence}"
    for sentence in found.notes:
        yield ""
        yield f"note: {sentence}"
    if found.missing:
        yield ""
        yield "Add one line to the training, or name the loss with optimus.dl/loss-metric:"
        yield table("<<", ("framework", "line"), _LINES_TO_ADD)


def _cut(line: str, most: int = _EXAMPLE_CHARACTERS) -> str:
    plain = " ".join(line.split())
    return plain if len(plain) <= most else plain[: most - 3] + "..."
