"""All log formats: one clean line in, one parsed line out.

The first format that matches a line parses it; each is tried only on lines with its markers.
A user's own formats come on top: ``metrics-format`` decides the loss, ``checkpoint-format`` which
line reports a complete save."""

import re
from dataclasses import replace
from typing import Final

from optimus.progress.formats import keras, mxnet, name_value, tensorflow
from optimus.progress.parsed_line import (
    NO_PROGRESS,
    LogFormatOptions,
    ParsedLine,
    Saved,
    parse_integer,
    without_prefix,
)
from optimus.progress.patterns import MAX_LINE_CHARACTERS

_FORMATS = (
    (mxnet.MARKERS, mxnet.parse),
    (tensorflow.MARKERS, tensorflow.parse),
    (keras.MARKERS, keras.parse),
    (name_value.MARKERS, name_value.parse),
)

_EVALUATION: Final = "(?:eval(?:uat(?:e|ion|ing))?|valid(?:at(?:e|ion|ing))?|val|test(?:ing)?|dev)"
_MARKS: Final = re.compile("eval|val|test|dev", re.IGNORECASE)
"""Found in every evaluation line, and quickly."""
_MARKED: Final = re.compile(
    rf"^[\W_]*{_EVALUATION}\b(?!\s*=)|\[\s*{_EVALUATION}\s*\]"
    rf'|\b(?:mode|phase|split|stage|subset|dataset)"?\s*[=:]\s*"?{_EVALUATION}\b',
    re.IGNORECASE,
)
"""``Validation: loss=0.3``, ``[eval] step=5``, ``"mode": "eval"``, ``phase=val``."""


def parse_line(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is not about the training.

    A line of an evaluation is known, and says nothing of the training."""
    parsed = None
    if is_evaluation(text):
        parsed = NO_PROGRESS
    else:
        for markers, parse in _FORMATS:
            if parsed is None and any(marker in text for marker in markers):
                parsed = parse(text, options)
        if options.metrics_format is not None:
            parsed = _with_user_metrics(text, parsed, options)
    if options.checkpoint_format is not None:
        found = options.checkpoint_format.search(text[:MAX_LINE_CHARACTERS])
        if found is not None:
            step = parse_integer(found[1]) if found.re.groups and found[1] else None
            parsed = replace(parsed or ParsedLine(), saved=Saved(step=step))
    return parsed


def is_evaluation(text: str) -> bool:
    """Whether a line says that its values are of an evaluation."""
    if _MARKS.search(text) is None:
        return False
    return _MARKED.search(without_prefix(text)) is not None


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
    return replace(parsed, loss=own.loss, step=step, metrics=own.metrics)
