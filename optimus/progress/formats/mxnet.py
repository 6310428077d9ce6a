"""Log lines of MXNet: Module and Speedometer, Gluon, GluonCV, GluonNLP, checkpoints.

MXNet's callback.py, module/base_module.py and model.py; the forms of the Gluon toolkits are those
of their scripts. Epochs count from 0; a batch's number is its index within one worker's epoch."""

import re
from collections.abc import Callable
from typing import Final

from optimus.progress.parsed_line import (
    NO_PROGRESS,
    NUMBER,
    LogFormatOptions,
    ParsedLine,
    Saved,
    choose_loss,
    learning_rate,
    pairs,
)

MARKERS: Final = ("[", "Saved checkpoint to ", "params saved in: ")
_INT: Final = r"(\d{1,15})"
_SPEEDOMETER: Final = (
    rf"(?:Epoch|Iter)\[{_INT}\] ?Batch "
    rf"?\[(?:{_INT}-)?{_INT}\](?:/\[{_INT}\])?\s+Speed:\s*({NUMBER}) samples/sec(.*)"
)
_GLUON_CV: Final = (
    rf"\[Epoch {_INT}\]\s?\[Batch {_INT}\],(?: LR: [^\s,]+,?)? Speed: ({NUMBER}) samples/sec(.*)"
)
_RATE: Final = (
    rf"Update\[\d+\]: (?:Change learning rate to|now learning rate arrived at) ({NUMBER})"
)
_GLUON_NLP_LOSS: Final = re.compile(rf"\b(?:loss=|avg loss |current loss )({NUMBER})")
_GLUON_NLP_SPEED: Final = re.compile(rf"\bthroughput ({NUMBER}) samples/s\b")
_GLUON_NLP_EPOCH_LOSS: Final = re.compile(rf"train avg loss ({NUMBER})")
_SAVED_EPOCHS: Final = re.compile(r"-(\d{4,9})\.params$")

_Match = re.Match[str]
_Parser = Callable[[_Match, LogFormatOptions], ParsedLine]


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is none of MXNet's."""
    for pattern, parser in _FORMS:
        found = pattern.search(text)
        if found is not None:
            return parser(found, options)
    return None


def _with_values(text: str, options: LogFormatOptions, parsed: ParsedLine) -> ParsedLine:
    """The parsed line with the values of the pairs in a text."""
    values = {name.removeprefix("Train-"): value for name, value in pairs(text).items()}
    return parsed.with_values(values, options.loss_metric)


def _speedometer(found: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, first, last, batches, speed, rest = found.groups()
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


def _gluon_cv(found: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, speed, rest = found.groups()
    parsed = ParsedLine(epoch=int(epoch), batch=int(batch) + 1, samples_per_second=float(speed))
    return _with_values(rest, options, parsed)


def _epoch_speed(found: _Match, options: LogFormatOptions) -> ParsedLine:
    speed = float(found[2])
    parsed = ParsedLine(epoch=int(found[1]), epoch_ended=True, samples_per_second=speed)
    return _with_values(found[3], options, parsed)


def _module(found: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, subject, name, value = found.groups()
    if subject == "Validation-":
        return NO_PROGRESS  # not the training loss; by now the validation has taken its time
    if subject == "Time ":
        return ParsedLine(epoch=int(epoch), epoch_ended=True)
    loss = choose_loss({name: float(value)}, options.loss_metric)
    return ParsedLine(epoch=int(epoch), epoch_ended=True, loss=loss, metrics=(name,))


def _train_metric(found: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, name, value = found.groups()
    loss = choose_loss({name: float(value)}, options.loss_metric)
    return ParsedLine(epoch=int(epoch), batch=int(batch) + 1, loss=loss, metrics=(name,))


def _gluon_nlp(found: _Match, options: LogFormatOptions) -> ParsedLine:
    epoch, batch, batches, rest = found.groups()
    values = pairs(rest)
    loss, speed = _GLUON_NLP_LOSS.search(rest), _GLUON_NLP_SPEED.search(rest)
    if loss:
        values.setdefault("loss", float(loss[1]))
    return ParsedLine(
        epoch=int(epoch),
        epoch_as_printed=True,
        batch=int(batch),
        batches=int(batches),
        loss=choose_loss(values, options.loss_metric),
        samples_per_second=float(speed[1]) if speed else None,
        learning_rate=learning_rate(values),
        metrics=tuple(values),
    )


def _gluon_nlp_epoch(found: _Match, options: LogFormatOptions) -> ParsedLine:
    values, mean = pairs(found.string), _GLUON_NLP_EPOCH_LOSS.search(found.string)
    if mean:
        values["loss"] = float(mean[1])
    return ParsedLine(
        epoch=int(found[1]),
        epoch_as_printed=True,
        epoch_ended=True,
        loss=choose_loss(values, options.loss_metric),
        metrics=tuple(values),
    )


def _saving(_: _Match, __: LogFormatOptions) -> ParsedLine:
    return ParsedLine(saved=Saved(complete=False))


def _step(found: _Match, options: LogFormatOptions) -> ParsedLine:
    return _with_values(found[2], options, ParsedLine(step=int(found[1])))


def _rate(found: _Match, _: LogFormatOptions) -> ParsedLine:
    return ParsedLine(learning_rate=learning_rate({"lr": float(found[1])}))


def _saved(found: _Match, _: LogFormatOptions) -> ParsedLine:
    epochs = _SAVED_EPOCHS.search(found[1] or "")
    return ParsedLine(saved=Saved(epochs=int(epochs[1]) if epochs else None))


_FORMS: Final[tuple[tuple[re.Pattern[str], _Parser], ...]] = tuple(
    (re.compile(pattern), parser)
    for pattern, parser in (
        (_SPEEDOMETER, _speedometer),
        (_GLUON_CV, _gluon_cv),
        (rf"Epoch\[{_INT}\]\s+Speed:\s*({NUMBER}) samples/sec(.*)", _epoch_speed),
        (rf"Epoch\[{_INT}\] (Train-|Validation-|Time )([\w./-]+)=({NUMBER})", _module),
        (rf"Iter\[{_INT}\] Batch ?\[{_INT}\] Train-([\w./-]+)=({NUMBER})", _train_metric),
        (rf"\[Epoch {_INT} Batch {_INT}/{_INT}\](.*)", _gluon_nlp),
        (rf"\[Epoch {_INT}\] train(?: avg loss |=).*", _gluon_nlp_epoch),
        (rf"\[(?:Epoch|step) {_INT}\] Saving (?:parameters|checkpoints) to ", _saving),
        (rf"\[step {_INT}\]\s(.*)", _step),
        (_RATE, _rate),
        (r'Saved checkpoint to "([^"]*)"|params saved in: ', _saved),
    )
)
"""The first form that is found in a line parses it."""
