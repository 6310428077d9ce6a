"""Log lines of Keras 2 and 3: epoch headers, progress bars of both verbosities, ModelCheckpoint.

The loss on a progress bar is the mean since the epoch began; epochs count from 1. ``evaluate``
prints bars too, which the caller tells from training by their length: no header stands before them.
"""

import re
from typing import Final

from optimus.progress.line_cleanup import without_prefix
from optimus.progress.metric_names import choose_loss, learning_rate
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import NUMBER, Reading, Saved, numbers

_HEADER: Final = re.compile(r"^Epoch (\d{1,9})/(\d+)\s*$")
_BAR: Final = re.compile(r"^\s*(\d{1,15})/(\d{1,15}|Unknown)\b")
_PAIR: Final = re.compile(rf" - (\w+): ({NUMBER})")
_SAVED: Final = re.compile(r"Epoch (\d{1,9}): finished saving model to ")
_SAVING: Final = re.compile(r"Epoch (\d{1,9}): .*saving model to ")


def read(text: str, rules: LogFormatOptions) -> Reading | None:
    """Read one cleaned line, or ``None`` where it is none of Keras'."""
    if "/" not in text:
        return None
    plain = without_prefix(text)
    header = _HEADER.search(plain)
    if header:
        return Reading(epoch=max(int(header[1]) - 1, 0))
    if "saving model" in plain:
        return _checkpoint(plain)
    return _bar(plain, rules)


def _checkpoint(text: str) -> Reading | None:
    for pattern, complete in ((_SAVED, True), (_SAVING, False)):
        found = pattern.search(text)
        if found:
            return Reading(saved=Saved(epochs=int(found[1]), complete=complete))
    return None


def _bar(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _BAR.search(text)
    if found is None:
        return None
    values = numbers(_PAIR.findall(text))
    values.pop("ETA", None)
    if not values:
        return None
    batch = int(found[1])
    batches = None if found[2] == "Unknown" else int(found[2])
    return Reading(
        batch=batch,
        batches=batches,
        epoch_ended=batch == batches,
        loss=choose_loss(values, rules.loss_metric),
        cumulative=True,
        learning_rate=learning_rate(values),
        metrics=tuple(values),
    )
