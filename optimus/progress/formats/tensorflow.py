"""Log lines of TensorFlow: run hooks, TF-Slim, dist_mnist. Steps are the job's global ones.

LoggingTensorHook's ``loss = 2.3, step = 100 (0.500 sec)`` is a line of pairs (``name_value``)."""

import re
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    SavedCheckpoint,
)
from optimus.progress.printed_values import NUMBER, printed_values

MARKERS: Final = ("step/sec: ", "global step", "aving checkpoint", "final step:")
_INT: Final = r"(\d{1,15})"
_SAVED: Final = re.compile(rf"Calling checkpoint listeners after saving checkpoint {_INT}")
_SAVING: Final = re.compile(rf"Saving checkpoints for {_INT} into ")
_EVALUATED: Final = re.compile(rf"Saving dict for global step {_INT}:|Loss for final step:")
_SPEED: Final = re.compile(rf"(?:^|[ :])global_?step/sec: ({NUMBER})")
_DIST_MNIST: Final = re.compile(
    rf"^\d+\.\d+: Worker \d+: training step \d+ done \(global step: {_INT}\)"
)
_SLIM: Final = re.compile(rf"global step {_INT}: loss = ({NUMBER}) \(({NUMBER}) sec/step\)")


def _is_metric(name: str) -> bool:
    return describe(name).is_metric


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where TensorFlow does not print it."""
    for pattern, complete in ((_SAVED, True), (_SAVING, False)):
        if match := pattern.search(text):
            return ParsedLine(saved=SavedCheckpoint(step=int(match[1]), complete=complete))
    if match := _EVALUATED.search(text):
        values, evaluated = printed_values(text[match.end() :])
        known = {name: each for name, each in {**values, **evaluated}.items() if _is_metric(name)}
        return ParsedLine(evaluated=known if match[1] else {})
    if match := _SPEED.search(text):
        return ParsedLine(steps_per_second=float(match[1]))
    if match := _DIST_MNIST.search(text):
        return ParsedLine(step=int(match[1]))
    if match := _SLIM.search(text):
        values = {"loss": float(match[2])}
        return ParsedLine(step=int(match[1])).with_values(values, options.loss_metric)
    return None
