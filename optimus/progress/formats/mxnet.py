"""Log lines of MXNet: Module and Speedometer, Gluon, GluonCV, GluonNLP, checkpoints.

MXNet's callback.py, module/base_module.py and model.py; the forms of the Gluon toolkits are those
of their scripts. Epochs count from 0; a batch's number is its index within one worker's epoch."""

import re
from collections.abc import Callable
from typing import Final

from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    SavedCheckpoint,
    pairs,
    positive,
)
from optimus.progress.printed_values import NUMBER, printed_speed, printed_values

MARKERS: Final = ("[", "Saved checkpoint to ", "params saved in: ")
_INT: Final = r"(\d{1,15})"
_SPEEDOMETER: Final = (
    rf"(?:Epoch|Iter)\[{_INT}\] ?Batch "
    rf"?\[(?:{_INT}-)?{_INT}\](?:/\[{_INT}\])?\s+Speed:\s*({NUMBER}) samples/sec(.*)"
)
_GLUON_CV: Final = (
    rf"\[Epoch {_INT}\]\s?\[Batch {_INT}\],(?: LR: ([^\s,]+),?)? Speed: ({NUMBER}) samples/sec(.*)"
)
_RATE: Final = (
    rf"Update\[\d+\]: (?:Change learning rate to|now learning rate arrived at) ({NUMBER})"
)
_SAVED_EPOCHS: Final = re.compile(r"-(\d{4,9})\.params$")

_Match = re.Match[str]
_Parser = Callable[[_Match, LogFormatOptions], ParsedLine]


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where MXNet does not print it."""
    for marker, pattern, parser in _FORMS:
        if marker in text:
            match = pattern.search(text)
            if match is not None:
                return parser(match, options)
    return None


def _with_values(text: str, options: LogFormatOptions, parsed: ParsedLine) -> ParsedLine:
    """The parsed line with the values of the pairs in a text."""
    values = {name.removeprefix("Train-"): value for name, value in pairs(text).items()}
    return parsed.with_values(values, options.loss_metric)


def _speedometer(match: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, first, last, batches, speed, rest = match.groups()
    parsed = ParsedLine(
        epoch=int(epoch),
        batch=int(last) + 1,
        batches=int(batches) if batches else None,
        cumulative=first == "0",
        # Since MXNet 1.3: a range of batches, and metrics of the whole epoch.
        epoch_line_is_mean=first is not None,
        samples_per_second=float(speed),
    )
    return _with_values(rest, options, parsed)


def _gluon_cv(match: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, rate, speed, rest = match.groups()
    # Their metrics are means since the epoch began.
    parsed = ParsedLine(
        epoch=int(epoch), batch=int(batch) + 1, cumulative=True, samples_per_second=float(speed)
    )
    values = pairs(rest)
    if rate is not None and re.fullmatch(NUMBER, rate):
        values.setdefault("lr", float(rate))
    return parsed.with_values(values, options.loss_metric)


def _epoch_mean(match: _Match, options: LogFormatOptions) -> ParsedLine:
    """``[Epoch 3] training: accuracy=0.7`` or ``[Epoch 3] Training cost: 784.3, SmoothL1=4.8``."""
    parsed = ParsedLine(epoch=int(match[1]), epoch_ended=True, epoch_line_is_mean=True)
    return _with_values(match[2], options, parsed)


def _epoch_time(match: _Match, _: LogFormatOptions) -> ParsedLine:
    return ParsedLine(epoch=int(match[1]), epoch_ended=True)


def _validation(match: _Match, _: LogFormatOptions) -> ParsedLine:
    return ParsedLine(evaluated=pairs(match[2]), evaluated_epoch=int(match[1]))


def _validation_batch(_: _Match, __: LogFormatOptions) -> ParsedLine:
    return ParsedLine()


def _epoch_speed(match: _Match, options: LogFormatOptions) -> ParsedLine:
    speed = float(match[2])
    parsed = ParsedLine(
        epoch=int(match[1]), epoch_ended=True, epoch_line_is_mean=True, samples_per_second=speed
    )
    return _with_values(match[3], options, parsed)


def _module(match: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, subject, name, value = match.groups()
    if subject == "Validation-":
        # Not the training loss; by now the validation has taken its time.
        return ParsedLine(evaluated={name: float(value)}, evaluated_epoch=int(epoch))
    parsed = ParsedLine(epoch=int(epoch), epoch_ended=True)
    if subject == "Time ":
        return parsed
    return parsed.with_values({name: float(value)}, options.loss_metric)


def _epoch_of_r(match: _Match, options: LogFormatOptions) -> ParsedLine:
    """``[1] Train-accuracy=0.35``, as MXNet's R front end ends an epoch; it counts from 1."""
    parsed = ParsedLine(epoch=int(match[1]) - 1, epoch_ended=True, epoch_line_is_mean=True)
    return parsed.with_values({f"Train-{match[2]}": float(match[3])}, options.loss_metric)


def _validation_of_r(match: _Match, _: LogFormatOptions) -> ParsedLine:
    return ParsedLine(evaluated={match[2]: float(match[3])}, evaluated_epoch=int(match[1]) - 1)


def _train_metric(match: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, name, value = match.groups()
    parsed = ParsedLine(epoch=int(epoch), batch=int(batch) + 1)
    return parsed.with_values({name: float(value)}, options.loss_metric)


def _gluon_nlp(match: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, batches, rest = match.groups()
    parsed = ParsedLine(
        epoch=int(epoch),
        epoch_as_printed=True,
        batch=int(batch),
        batches=int(batches),
        samples_per_second=printed_speed(rest),
    )
    return parsed.with_values(printed_values(rest)[0], options.loss_metric)


def _gluon_nlp_epoch(match: _Match, options: LogFormatOptions) -> ParsedLine:
    values, evaluated = printed_values(match[2])
    parsed = ParsedLine(
        epoch=int(match[1]),
        epoch_as_printed=True,
        epoch_ended=True,
        evaluated=evaluated,
        evaluated_epoch=int(match[1]),
    )
    return parsed.with_values(values, options.loss_metric)


def _saving(_: _Match, __: LogFormatOptions) -> ParsedLine:
    return ParsedLine(saved=SavedCheckpoint(complete=False))


def _step(match: _Match, options: LogFormatOptions) -> ParsedLine:
    return _with_values(match[2], options, ParsedLine(step=int(match[1])))


def _rate(match: _Match, _: LogFormatOptions) -> ParsedLine:
    return ParsedLine(learning_rate=positive(float(match[1])))


def _saved(match: _Match, _: LogFormatOptions) -> ParsedLine:
    epochs = _SAVED_EPOCHS.search(match[1] or "")
    return ParsedLine(saved=SavedCheckpoint(epochs=int(epochs[1]) if epochs else None))


_FORMS: Final[tuple[tuple[str, re.Pattern[str], _Parser], ...]] = tuple(
    (marker, re.compile(pattern), parser)
    for marker, pattern, parser in (
        ("[Batch ", _GLUON_CV, _gluon_cv),
        ("Speed: ", _SPEEDOMETER, _speedometer),
        (" Batch ", rf"\[Epoch {_INT} Batch {_INT}/{_INT}\](.*)", _gluon_nlp),
        ("Speed: ", rf"Epoch\[{_INT}\]\s+Speed:\s*({NUMBER}) samples/sec(.*)", _epoch_speed),
        ("Epoch[", rf"Epoch\[{_INT}\] (Train-|Validation-|Time )([\w./-]+)=({NUMBER})", _module),
        (
            " Train-",
            rf"Iter\[{_INT}\] Batch ?\[{_INT}\] Train-([\w./-]+)=({NUMBER})",
            _train_metric,
        ),
        ("] train", rf"\[Epoch {_INT}\] (train(?: avg loss |=).*)", _gluon_nlp_epoch),
        ("raining", rf"\[Epoch {_INT}\] [Tt]raining(?: cost)?: (.*)", _epoch_mean),
        ("alidation", rf"\[Epoch {_INT}\] [Vv]alidation: (.+)", _validation),
        ("] speed: ", rf"\[Epoch {_INT}\] speed: ", _epoch_time),
        ("] Train-", rf"^\[{_INT}\] Train-([\w./-]+)=({NUMBER})", _epoch_of_r),
        ("] Validation-", rf"^\[{_INT}\] Validation-([\w./-]+)=({NUMBER})", _validation_of_r),
        ("Batch [", rf"^(?:INFO:\w+:)?Batch \[{_INT}\]/\[{_INT}\]: ", _validation_batch),
        ("Saving ", rf"\[(?:Epoch|step) {_INT}\] Saving (?:parameters|checkpoints) to ", _saving),
        ("[step ", rf"\[step {_INT}\]\s(.*)", _step),
        ("Update[", _RATE, _rate),
        ("Saved checkpoint", r'Saved checkpoint to "([^"]*)"', _saved),
        ("params saved in: ", r"params saved in: (.*)", _saved),
    )
)
"""The first form that is found in a line parses it. Each is tried where its marker is, which is
found much faster."""
