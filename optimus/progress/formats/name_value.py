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

from optimus.progress.metric_names import describe, line_names, may_count
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    Saved,
    numbers,
)
from optimus.progress.printed_numbers import NUMBER, VALUE, is_whole, number_of

MARKERS: Final = ("=", "{")
_PAIR: Final = re.compile(rf"(?<![\w./|-])([A-Za-z_][\w./|-]*)\s?=\s?({VALUE})")
_STEPS: Final = ("step", "global_step", "global_steps", "global-step")
_EPOCHS: Final = ("epoch", "epochs")
_BATCHES: Final = ("batch", "batch_idx", "iter", "iteration")
_WITHIN_EPOCH: Final = frozenset({*_STEPS, *_BATCHES})
_CHECKPOINTS: Final = ("checkpoint", "checkpoint_step")
_SPEEDS: Final = ("samples_per_sec", "samples_per_second", "examples/sec")
_NO_POSITIONS: Final = frozenset({*_EPOCHS, *_CHECKPOINTS, *_SPEEDS})
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
    if parsed.loss is None:
        known = parsed.saved is not None or parsed.samples_per_second is not None
        known = known or any(describe(name).is_metric for name in parsed.values)
        return parsed if known and parsed.step is not None else None
    return parsed


def user_metrics(text: str, options: LogFormatOptions) -> dict[str, float]:
    """The pairs that a user's ``metrics-format`` finds: its first two groups, name and value."""
    if options.metrics_format is None:
        return {}
    pairs = options.metrics_format.pairs(text)
    values = {
        each.name: number_of(each.value) for each in pairs if is_whole(text, each.start, each.end)
    }
    return {name: value for name, value in values.items() if value is not None}


def from_values(values: Mapping[str, float], options: LogFormatOptions) -> ParsedLine:
    """A parsed line from values by name; a position that is no integer is left out."""
    checkpoint = _integer(values, _CHECKPOINTS)
    epoch, step = _integer(values, _EPOCHS), _integer(values, _STEPS)
    evaluated = {name: value for name, value in values.items() if describe(name).evaluated}
    trained = {name: value for name, value in values.items() if name not in evaluated}
    has_loss = line_names(tuple(trained)).loss is not None
    loss = has_loss if options.loss_metric is None else options.loss_metric in values
    ended = epoch is not None and loss and not _WITHIN_EPOCH.intersection(values)
    parsed = ParsedLine(
        epoch=epoch,
        epoch_as_printed=True,
        epoch_ended=ended,
        end_is_doubtful=ended and _may_be_within(trained),
        batch=_integer(values, _BATCHES) if epoch is not None and step is None else None,
        step=step,
        samples_per_second=_first(values, _SPEEDS),
        saved=Saved(step=checkpoint) if checkpoint else None,
        evaluated=evaluated,
    )
    # A user may name a value of an evaluation as the loss.
    return parsed.with_values(
        values if options.loss_metric in evaluated else trained, options.loss_metric
    )


def _may_be_within(values: Mapping[str, float]) -> bool:
    """Whether a value may say how far the epoch is, by a name that is not known."""
    return any(may_count(name, values[name]) for name in values if name not in _NO_POSITIONS)


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
