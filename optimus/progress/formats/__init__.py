"""All log formats together: one line in, one reading out.

The first family that knows a line reads it. A user's own formats come on top: a ``metrics-format``
decides the loss, a ``checkpoint-format`` what says that a save is complete.
"""

from dataclasses import replace

from optimus.progress.formats import keras, mxnet, name_value, tensorflow
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import Reading, Saved, whole
from optimus.progress.patterns import MAX_LINE_CHARACTERS

_FAMILIES = (mxnet.read, tensorflow.read, keras.read, name_value.read)


def read_line(text: str, rules: LogFormatOptions) -> Reading | None:
    """Read one cleaned line, or ``None`` where it says nothing of the training."""
    reading = next(
        (found for family in _FAMILIES if (found := family(text, rules)) is not None), None
    )
    if rules.metrics_format is not None:
        reading = _with_own_metrics(text, reading, rules)
    if rules.checkpoint_format is not None:
        reading = _with_own_checkpoint(text, reading, rules)
    return reading


def _with_own_metrics(
    text: str, reading: Reading | None, rules: LogFormatOptions
) -> Reading | None:
    values = name_value.read_own_format(text, rules)
    if not values:
        return reading and replace(reading, loss=None)
    own = name_value.reading_of(values, rules)
    if reading is None:
        return own
    return replace(
        reading,
        loss=own.loss,
        step=reading.step if own.step is None else own.step,
        metrics=own.metrics,
    )


def _with_own_checkpoint(
    text: str, reading: Reading | None, rules: LogFormatOptions
) -> Reading | None:
    found = (
        rules.checkpoint_format.search(text[:MAX_LINE_CHARACTERS])
        if rules.checkpoint_format
        else None
    )
    if found is None:
        return reading
    step = whole(found[1]) if found.re.groups and found[1] else None
    return replace(reading or Reading(), saved=Saved(step=step))
