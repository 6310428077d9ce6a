"""All log formats: one clean line in, one parsed line out.

The first format that matches a line parses it; each is tried only on lines with its markers.
A user's own formats come on top: ``metrics-format`` decides the loss, ``checkpoint-format`` which
line reports a complete save."""

import re
from dataclasses import replace
from typing import Final

from optimus.progress.formats import (
    boosting,
    dictionary,
    free_text,
    keras,
    mxnet,
    name_value,
    progress_bar,
    settings,
    tensorflow,
)
from optimus.progress.metric_names import EVALUATION_WORDS, describe
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    Saved,
    parse_integer,
    without_prefix,
)
from optimus.progress.printed_numbers import plain
from optimus.progress.printed_values import printed_values

_FORMATS = (
    (mxnet.MARKERS, mxnet.parse),
    (tensorflow.MARKERS, tensorflow.parse),
    (keras.MARKERS, keras.parse),
    (progress_bar.MARKERS, progress_bar.parse),
    (boosting.MARKERS, boosting.parse),
    (dictionary.MARKERS, dictionary.parse),
    (settings.MARKERS, settings.parse),
    (name_value.MARKERS, name_value.parse),
    (free_text.MARKERS, free_text.parse),
)
"""The first that parses a line; the last two read free text."""

_EVALUATION: Final = f"(?:{EVALUATION_WORDS})"
_MARKED: Final = re.compile(
    rf"^[\W_]*{_EVALUATION}\b(?!\s*=)|\[\s*{_EVALUATION}\s*\]"
    rf'|\b(?:mode|phase|split|stage|subset|dataset)"?\s*[=:]\s*"?{_EVALUATION}\b',
    re.IGNORECASE,
)
"""``Validation: loss=0.3``, ``[eval] step=5``, ``"mode": "eval"``, ``phase=val``."""


def parse_line(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is not about the training.

    A line of an evaluation is known, and says nothing of the training."""
    line = plain(text)
    if is_evaluation(line):
        values, evaluated = printed_values(line)
        parsed: ParsedLine | None = ParsedLine(evaluated=_metrics({**values, **evaluated}))
    else:
        parsed = _first_form(line, text, options)
        if options.metrics_format is not None:
            parsed = _with_user_metrics(text, parsed, options)
    if options.checkpoint_format is not None:
        groups = options.checkpoint_format.search(text)
        if groups is not None:
            step = parse_integer(groups[0]) if groups and groups[0] else None
            parsed = replace(parsed or ParsedLine(), saved=Saved(step=step))
    return parsed


def _first_form(text: str, raw: str, options: LogFormatOptions) -> ParsedLine | None:
    parsed = None
    for markers, parse in _FORMATS:
        for marker in markers:
            if marker in text:
                break
        else:
            continue
        # Lists of settings have commas, and are no numbers.
        parsed = parse(raw if parse is settings.parse else text, options) or parsed
        # A loss in pairs may have its position in other words, which a later form reads.
        if parsed is not None and (
            parsed.loss is None
            or (parsed.trained and not parsed.end_is_doubtful)
            or (parsed.epoch is not None and not parsed.end_is_doubtful)
        ):
            return parsed
    return parsed


def form_of(text: str, options: LogFormatOptions) -> str:
    """The name of the form that parses a line which ``parse_line`` knows, for people."""
    line = plain(text)
    if is_evaluation(line):
        return "evaluation"
    for markers, parse in _FORMATS:
        own = text if parse is settings.parse else line
        if any(marker in own for marker in markers) and parse(own, options) is not None:
            return parse.__module__.rpartition(".")[2].replace("_", " ")
    return "your own"


def is_evaluation(text: str) -> bool:
    """Whether a line says that its values are of an evaluation."""
    lowered = text.lower()
    # One of these is in every word of an evaluation; looking for them is quick.
    if "val" not in lowered and "test" not in lowered and "dev" not in lowered:
        return False
    return _MARKED.search(without_prefix(text)) is not None


def _metrics(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if describe(name).is_metric}


def _with_user_metrics(
    text: str, parsed: ParsedLine | None, options: LogFormatOptions
) -> ParsedLine | None:
    values = name_value.user_metrics(text, options)
    if not values:
        return parsed and replace(parsed, loss=None)
    own = name_value.from_values(values, options)
    if parsed is None:
        return own
    step = parsed.step if own.step is None else own.step
    return replace(parsed, loss=own.loss, step=step, values=own.values)
