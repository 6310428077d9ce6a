"""Log lines of Keras 2 and 3: epoch headers, progress bars of both verbosities, ModelCheckpoint.

The loss on a progress bar is the mean since the epoch began; epochs count from 1. ``evaluate``
prints bars too, without a header before them; the caller distinguishes them by length."""

import re
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    SavedCheckpoint,
    numbers,
)
from optimus.progress.printed_values import VALUE

MARKERS: Final = ("/", "saving model to ")
_HEADER: Final = re.compile(r"^Epoch (\d{1,9})/(\d{1,9})\s*$")
_BAR: Final = re.compile(r"^\s*(\d{1,15})/(\d{1,15}|Unknown)\b")
_PAIR: Final = re.compile(rf" - (\w+): ({VALUE})")
_SAVING: Final = re.compile(r"Epoch (\d{1,9}): (finished saving|.{0,200}saving) model to ")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where Keras does not print it."""
    plain = text
    header = _HEADER.search(plain)
    if header:
        return ParsedLine(
            epoch=int(header[1]), epoch_as_printed=True, last_epoch=int(header[2]) or None
        )
    if "saving model" in plain:
        match = _SAVING.search(plain)
        if match is None:
            return None
        complete = match[2] == "finished saving"
        return ParsedLine(saved=SavedCheckpoint(epochs=int(match[1]), complete=complete))
    return _bar(plain, options)


def _bar(text: str, options: LogFormatOptions) -> ParsedLine | None:
    match = _BAR.search(text)
    if match is None:
        return None
    values = numbers(_PAIR.findall(text))
    values.pop("ETA", None)
    if not values:
        return None
    batch, batches = int(match[1]), None if match[2] == "Unknown" else int(match[2])
    ended = batch == batches
    evaluated = {name: values.pop(name) for name in list(values) if describe(name).evaluated}
    parsed = ParsedLine(
        batch=batch,
        batches=batches,
        counts_steps="/sample" not in text,
        epoch_ended=ended,
        cumulative=True,
        evaluated=evaluated if ended else {},
    )
    return parsed.with_values(values, options.loss_metric)
