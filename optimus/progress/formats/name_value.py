"""Lines of ``name=value`` pairs: Katib's default form, its JSON form, a user's ``metrics-format``.

Katib, pkg/metricscollector/v1beta1/common/const.go, and TensorFlow's LoggingTensorHook, which
prints ``loss = 2.3, step = 100 (0.500 sec)``. Names have to equal what is wanted, not contain it.
Any print of a user may look like this, so a line counts only if it has the loss, or a step together
with something else that is known. A loss with an epoch and no position within it is that of an
epoch that has ended."""

import json
import re
from collections.abc import Mapping
from typing import Final

from optimus.progress.parsed_line import (
    NUMBER,
    LogFormatOptions,
    ParsedLine,
    Saved,
    choose_loss,
    learning_rate,
    numbers,
)
from optimus.progress.patterns import MAX_LINE_CHARACTERS

MARKERS: Final = ("=", "{")
_PAIR: Final = re.compile(rf"(?<![\w./|-])([A-Za-z_][\w./|-]*)\s?=\s?({NUMBER})")
_STEPS: Final = ("step", "global_step", "global_steps", "global-step")
_EPOCHS: Final = ("epoch", "epochs")
_WITHIN_EPOCH: Final = frozenset({*_STEPS, "batch", "batch_idx", "iter", "iteration"})
_CHECKPOINTS: Final = ("checkpoint", "checkpoint_step")
_SPEEDS: Final = ("samples_per_sec", "samples_per_second", "examples/sec")
_DUMPS: Final = ("Namespace(", "dict(", "{'")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse a line of pairs, or of one JSON object."""
    if "=" in text:
        if any(dump in text for dump in _DUMPS):
            return None
        parsed = from_values(numbers(_PAIR.findall(text)), options)
    elif text.startswith("{"):
        parsed = from_values(_json_pairs(text), options)
    else:
        return None
    known = parsed.saved is not None or parsed.samples_per_second is not None
    return parsed if parsed.loss is not None or (parsed.step is not None and known) else None


def user_metrics(text: str, options: LogFormatOptions) -> dict[str, float]:
    """The pairs that a user's ``metrics-format`` finds: its first two groups, name and value."""
    if options.metrics_format is None:
        return {}
    matches = options.metrics_format.finditer(text[:MAX_LINE_CHARACTERS])
    found = (match.group(1, 2) for match in matches)
    return numbers(
        (name, value) for name, value in found if name and value and re.fullmatch(NUMBER, value)
    )


def from_values(values: Mapping[str, float], options: LogFormatOptions) -> ParsedLine:
    """A parsed line from values by name; a position that is no integer is left out."""
    checkpoint = _integer(values, _CHECKPOINTS)
    epoch, loss = _integer(values, _EPOCHS), choose_loss(values, options.loss_metric)
    return ParsedLine(
        epoch=epoch,
        epoch_as_printed=True,
        epoch_ended=None not in (epoch, loss) and not _WITHIN_EPOCH.intersection(values),
        step=_integer(values, _STEPS),
        loss=loss,
        samples_per_second=_first(values, _SPEEDS),
        learning_rate=learning_rate(values),
        saved=Saved(step=checkpoint) if checkpoint else None,
        metrics=tuple(values),
    )


def _first(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _integer(values: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    value = _first(values, names)
    return int(value) if value is not None and 0 <= value < 1e15 and value.is_integer() else None


def _json_pairs(text: str) -> dict[str, float]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    texts = ((name, str(value)) for name, value in document.items() if not isinstance(value, bool))
    return numbers((name, value) for name, value in texts if re.fullmatch(NUMBER, value))
