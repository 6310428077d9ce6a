"""Lines of ``name=value`` pairs: Katib's default form, its JSON form, and a user's own
``metrics-format``.

Katib, pkg/metricscollector/v1beta1/common/const.go, and TensorFlow's LoggingTensorHook, which
prints
``loss = 2.3, step = 100 (0.500 sec)``. Names must be equal to what is wanted, not contain it. Any
user's print may look like this, so a line counts only if it has the loss, or a step together with
something else that is known. A loss with an epoch and no place within it is that of an epoch that
has ended."""

import json
import re
from collections.abc import Mapping
from typing import Final

from optimus.progress.metric_names import choose_loss, learning_rate
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import NUMBER, Reading, Saved, numbers
from optimus.progress.patterns import MAX_LINE_CHARACTERS

_PAIR: Final = re.compile(rf"(?<![\w./|-])([A-Za-z_][\w./|-]*)\s?=\s?({NUMBER})")
_STEPS: Final = ("step", "global_step", "global_steps", "global-step")
_EPOCHS: Final = ("epoch", "epochs")
_WITHIN_EPOCH: Final = frozenset({*_STEPS, "batch", "batch_idx", "iter", "iteration"})
_CHECKPOINTS: Final = ("checkpoint", "checkpoint_step")
_SPEEDS: Final = ("samples_per_sec", "samples_per_second", "examples/sec")
_DUMPS: Final = ("Namespace(", "dict(", "{'")


def read(text: str, rules: LogFormatOptions) -> Reading | None:
    """Read a line of pairs, or of one JSON object."""
    if "=" in text:
        return (
            None
            if any(dump in text for dump in _DUMPS)
            else _reading(numbers(_PAIR.findall(text)), rules)
        )
    return _reading(_json_pairs(text), rules) if text.startswith("{") else None


def read_own_format(text: str, rules: LogFormatOptions) -> dict[str, float]:
    """The pairs that the user's ``metrics-format`` finds: its first two groups are name and
    value."""
    if rules.metrics_format is None:
        return {}
    found = (
        match.group(1, 2) for match in rules.metrics_format.finditer(text[:MAX_LINE_CHARACTERS])
    )
    return {
        name: float(value)
        for name, value in found
        if name and value and re.fullmatch(NUMBER, value)
    }


def reading_of(values: Mapping[str, float], rules: LogFormatOptions) -> Reading:
    """What pairs say; a position that is no whole number is not taken."""
    checkpoint = _whole(values, _CHECKPOINTS)
    epoch, loss = _whole(values, _EPOCHS), choose_loss(values, rules.loss_metric)
    return Reading(
        epoch=epoch,
        epoch_as_printed=True,
        epoch_ended=None not in (epoch, loss) and not _WITHIN_EPOCH.intersection(values),
        step=_whole(values, _STEPS),
        loss=loss,
        samples_per_second=_first(values, _SPEEDS),
        learning_rate=learning_rate(values),
        saved=Saved(step=checkpoint) if checkpoint else None,
        metrics=tuple(values),
    )


def _reading(values: Mapping[str, float], rules: LogFormatOptions) -> Reading | None:
    reading = reading_of(values, rules)
    if reading.loss is not None:
        return reading
    at_step = reading.step is not None and (reading.saved or reading.samples_per_second is not None)
    return reading if at_step else None


def _first(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _whole(values: Mapping[str, float], names: tuple[str, ...]) -> int | None:
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
    return {name: float(value) for name, value in texts if re.fullmatch(NUMBER, value)}
