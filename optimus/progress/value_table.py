"""Tables of values: a header, then a row for each evaluation.

Hugging Face's notebook table (``Epoch | Training Loss | Validation Loss``), fastai's columns and
CSV on standard output. Only the header says what a row is, so the reader of a log remembers it. The
columns are separated by ``|``, tabs, semicolons, commas, or two blanks and more. ``Epoch`` and
``Step`` are the position; cells that are no number (``No log``) are left out."""

import math
import re
from typing import Final

from optimus.progress.metric_names import core_words, describe, is_of_training, may_count
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, without_prefix
from optimus.progress.printed_numbers import number_of

_SEPARATORS: Final = ("|", "\t", ";", ",")
_BLANKS: Final = re.compile(r"\s{2,}")
_WORDS: Final = re.compile(r"[A-Za-z][\w ./@-]{0,63}")
_EPOCHS: Final = ("epoch", "epochs")
_STEPS: Final = ("step", "global_step", "steps", "iteration", "iter")
_MOST_COLUMNS: Final = 32


def header(text: str) -> tuple[str, ...]:
    """The columns that a clean line names; none where it is no header."""
    lowered = text.lower()
    if "epoch" not in lowered and "step" not in lowered and "iter" not in lowered:
        return ()
    names = tuple(_cells(text))
    if not 2 <= len(names) <= _MOST_COLUMNS or not all(map(_WORDS.fullmatch, names)):
        return ()
    places = [name for name in names if name.lower() in (*_EPOCHS, *_STEPS)]
    has_value = any(describe(name).is_metric for name in names)
    return names if places and has_value and len(set(names)) == len(names) else ()


def row(text: str, columns: tuple[str, ...], options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line below a header; ``None`` where it is no row."""
    cells = _cells(text)
    if not columns or len(cells) != len(columns):
        return None
    pairs = zip(columns, cells, strict=True)
    numbers = ((name, number_of(cell)) for name, cell in pairs)
    given = {name: number for name, number in numbers if number is not None}
    parsed = _at({name.lower(): value for name, value in given.items()})
    if parsed is None:
        return None
    sides = _evaluated(columns)
    values = {name: value for name, value in given.items() if name.lower() not in _PLACES}
    trained = {name: value for name, value in values.items() if name not in sides}
    parsed.evaluated = {name: value for name, value in values.items() if name in sides}
    if parsed.epoch_ended and parsed.batch is None:
        parsed.end_is_doubtful = any(may_count(name, value) for name, value in trained.items())
    is_own = options.loss_metric in parsed.evaluated  # a user may name one of an evaluation
    return parsed.with_values(values if is_own else trained, options.loss_metric)


def _evaluated(columns: tuple[str, ...]) -> set[str]:
    """The columns of an evaluation: those that say so, and beside them metrics that say nothing.

    Hugging Face and fastai print ``Accuracy`` beside ``Validation Loss``; Keras prints it beside
    ``val_accuracy``, and means the training's."""
    said = {name for name in columns if describe(name).evaluated}
    named = {core_words(name) for name in said}
    return said | {
        name
        for name in columns
        if said
        and describe(name).is_beside
        and not is_of_training(name)
        and core_words(name) not in named
    }


_PLACES: Final = frozenset((*_EPOCHS, *_STEPS))


def _cells(text: str) -> list[str]:
    plain = without_prefix(text).strip()
    separator = next((each for each in _SEPARATORS if each in plain), None)
    if separator is None:
        return _BLANKS.split(plain)
    return [cell.strip() for cell in plain.strip("|").split(separator)]


def _at(given: dict[str, float]) -> ParsedLine | None:
    """The position of a row: its step, its epoch, or the parts of an epoch that both give.

    With a step the epoch is what is done (0.5: half of the first), as Hugging Face counts."""
    epoch = next((given[name] for name in _EPOCHS if name in given), None)
    step = next((_whole(given[name]) for name in _STEPS if name in given), None)
    if step is not None and step > 0 and epoch is not None and 0 < epoch < 1e9:
        batches, running = max(round(step / epoch), 1), math.ceil(epoch) - 1
        done = min(max(step - running * batches, 1), batches)
        return ParsedLine(
            epoch=running, batch=done, batches=batches, epoch_ended=epoch.is_integer()
        )
    if step is not None:
        return ParsedLine(step=step)
    number = None if epoch is None else _whole(epoch)
    if number is None:
        return None
    return ParsedLine(epoch=number, epoch_as_printed=True, epoch_ended=True, evaluated_epoch=number)


def _whole(value: float) -> int | None:
    return int(value) if 0 <= value < 1e15 and value.is_integer() else None
