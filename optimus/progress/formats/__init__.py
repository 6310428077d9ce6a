"""All log formats: one clean line in, one parsed line out.

A line is read without what stands in front of it (``prefixes``). The first format that matches it
parses it; each is tried only on lines with its markers. A user's own formats come on top:
``metrics-format`` decides the loss, ``checkpoint-format`` which line reports a complete save."""

import re
from dataclasses import replace
from typing import Final

from optimus.progress.formats import checkpoints, frameworks, objects, settings, text
from optimus.progress.lines import split_prefix
from optimus.progress.metric_names import EVALUATION_WORDS, metrics_of
from optimus.progress.named import read_named
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint
from optimus.progress.patterns import Pattern
from optimus.progress.printed_values import (
    is_whole,
    number_of,
    plain,
    printed_values,
    whole_number,
)

_FORMATS = (
    (frameworks.MARKERS, frameworks.parse),
    (checkpoints.MARKERS, checkpoints.parse),
    (objects.MARKERS, objects.parse),
    (settings.MARKERS, settings.parse),
    (text.MARKERS, text.parse),
)
"""The first that parses a line; the last reads free text."""

_EVALUATION: Final = f"(?:{EVALUATION_WORDS})"
_MARKED: Final = re.compile(
    rf"^[\W_]*(?:(?:running|start(?:ing)?|begin(?:ning)?|doing)\s)?{_EVALUATION}\b(?!\s*=|/[A-Z])"
    rf"|\[\s*{_EVALUATION}\s*\]"
    rf'|\b(?:mode|phase|split|stage|subset|dataset)["\']?\s*[=:]\s*["\']?{_EVALUATION}\b',
    re.IGNORECASE,
)
"""``Validation: loss=0.3``, ``[eval] step=5``, ``"mode": "eval"``, ``phase=val``."""


def parse_line(line: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is not about the training.

    A line of an evaluation is known, and says nothing of the training."""
    return parse_body(split_prefix(line).text, line, options)


def parse_body(body: str, line: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse a line that is given without its prefix, too."""
    body, printed = plain(body), body
    if is_evaluation(body):
        parsed: ParsedLine | None = _evaluation(body)
    else:
        parsed = _first_form(body, printed, options)
        if options.metrics_format is not None:
            parsed = _with_user_metrics(line, parsed, options.metrics_format, options)
    if options.checkpoint_format is not None:
        groups = options.checkpoint_format.search(line)
        if groups is not None:
            step = whole_number(groups[0]) if groups and groups[0] else None
            parsed = replace(
                parsed or ParsedLine(form="your own"), saved=SavedCheckpoint(step=step)
            )
    return parsed


def _evaluation(body: str) -> ParsedLine:
    given = objects.content(body, body.index("{"))[0] if "{" in body else {}
    values, evaluated = printed_values(body.partition("{")[0] if given else body)
    numbers = {name: number_of(number) for name, number in given.items()}
    values |= {name: number for name, number in numbers.items() if number is not None}
    return ParsedLine(evaluated=metrics_of({**values, **evaluated}), form="evaluation")


def _first_form(body: str, printed: str, options: LogFormatOptions) -> ParsedLine | None:
    for markers, parse in _FORMATS:
        for marker in markers:
            if marker in body:
                break
        else:
            continue
        # Lists of settings have commas, and are no numbers.
        parsed = parse(printed if parse is settings.parse else body, options)
        if parsed is not None:
            parsed.form = parsed.form or parse.__module__.rpartition(".")[2]
            return parsed
    return None


def is_evaluation(body: str) -> bool:
    """Return whether a line says that its values are of an evaluation."""
    lowered = body.lower()
    # One of these is in every word of an evaluation; looking for them is quick.
    if "val" not in lowered and "test" not in lowered and "dev" not in lowered:
        return False
    # "[train] loss=0.5, [valid] loss=0.6" is of both.
    return _MARKED.search(body) is not None and "[train" not in lowered


def _with_user_metrics(
    line: str, parsed: ParsedLine | None, pattern: Pattern, options: LogFormatOptions
) -> ParsedLine | None:
    """The line with the values that the pattern finds, whose loss replaces any other."""
    values = {
        pair.name: pair.value
        for pair in pattern.pairs(line)
        if is_whole(line, pair.start, pair.end) and number_of(pair.value) is not None
    }
    own = read_named(values, options)
    if own is None:
        return parsed and replace(parsed, loss=None)
    if parsed is None:
        own.form = "your own"
        return own
    step = parsed.step if own.step is None else own.step
    return replace(parsed, loss=own.loss, step=step, values=own.values)
