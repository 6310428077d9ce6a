"""Dictionaries as Python prints them, one a line: the logs of Hugging Face's Trainer.

``{'loss': 0.69, 'grad_norm': 1.2, 'learning_rate': 4.5e-05, 'epoch': 0.32}``. The epoch is what is
done, in parts; without a step it is the position, in ten thousandths of an epoch where no
``steps-per-epoch`` is known. ``eval_`` in front of names is an evaluation's, and so are metrics
without a position. A dictionary without a loss or metric is none of the training's (settings)."""

import math
import re
from collections.abc import Mapping
from typing import Final

from optimus.progress.metric_names import Meaning, describe
from optimus.progress.parsed_line import (
    NO_PROGRESS,
    LogFormatOptions,
    ParsedLine,
    numbers,
    without_prefix,
)
from optimus.progress.printed_numbers import NUMBER

MARKERS: Final = ("{'",)
_PAIR: Final = re.compile(rf"'([\w./@-]{{1,64}})':\s?'?({NUMBER})'?")
_PARTS: Final = 10_000
_POSITIONS: Final = ("epoch", "step", "global_step", "iter", "iteration")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is no such dictionary."""
    plain = without_prefix(text).lstrip()
    if not plain.startswith("{'"):
        return None
    found = numbers(_PAIR.findall(plain))
    if "train_runtime" in found:
        return NO_PROGRESS  # the summary at the end, with the mean loss of the whole run
    metrics = {name: value for name, value in found.items() if name not in _POSITIONS}
    evaluated = {name: value for name, value in metrics.items() if describe(name).evaluated}
    values = {name: value for name, value in metrics.items() if name not in evaluated}
    known = any(describe(name).is_metric for name in values)
    if not known:
        return ParsedLine(evaluated=evaluated) if evaluated else None
    parsed = _at(found, options)
    if parsed is not None:
        return parsed.with_values(values, options.loss_metric)
    # Without a position and a loss it is a result: {'exact_match': 81.3, 'f1': 88.6}.
    is_result = all(describe(name).meaning is Meaning.METRIC for name in values)
    return ParsedLine(evaluated=values) if is_result else None


def _at(found: Mapping[str, float], options: LogFormatOptions) -> ParsedLine | None:
    step = next((found[name] for name in _POSITIONS[1:] if name in found), None)
    if step is not None and 0 <= step < 1e15 and step.is_integer():
        return ParsedLine(step=int(step))
    epoch = found.get("epoch")
    if epoch is None or not 0 <= epoch < 1e9:
        return None
    parts = round(options.steps_per_epoch or _PARTS) or 1
    running = max(math.ceil(epoch) - 1, 0)
    done = round((epoch - running) * parts)
    return ParsedLine(epoch=running, batch=done, batches=parts, epoch_ended=done == parts)
