"""Log lines of MXNet: Module and Speedometer in all their forms, Gluon, GluonCV, GluonNLP,
checkpoints.

MXNet's callback.py, module/base_module.py and model.py; the forms of the Gluon toolkits are those
of their scripts. Epochs count from 0; a batch's number is its index within one worker's epoch.
"""

import re
from dataclasses import replace
from typing import Final

from optimus.progress.metric_names import choose_loss, learning_rate
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import NUMBER, UNDERSTOOD, Reading, Saved, pairs

_INT: Final = r"(\d{1,15})"
_SPEEDOMETER: Final = re.compile(
    rf"(?:Epoch|Iter)\[{_INT}\] ?Batch "
    rf"?\[(?:{_INT}-)?{_INT}\](?:/\[{_INT}\])?\s+Speed:\s*({NUMBER}) samples/sec(.*)"
)
_GLUON_CV: Final = re.compile(
    rf"\[Epoch {_INT}\]\s?\[Batch {_INT}\],(?: LR: [^\s,]+,?)? Speed: ({NUMBER}) samples/sec(.*)"
)
_EPOCH_SPEED: Final = re.compile(rf"Epoch\[{_INT}\]\s+Speed:\s*({NUMBER}) samples/sec(.*)")
_GLUON_NLP: Final = re.compile(rf"\[Epoch {_INT} Batch {_INT}/{_INT}\](.*)")
_GLUON_NLP_LOSS: Final = re.compile(rf"\b(?:loss=|avg loss |current loss )({NUMBER})")
_GLUON_NLP_SPEED: Final = re.compile(rf"\bthroughput ({NUMBER}) samples/s\b")
_GLUON_NLP_EPOCH: Final = re.compile(rf"\[Epoch {_INT}\] train(?: avg loss |=).*")
_GLUON_STEP: Final = re.compile(rf"\[step {_INT}\]\s(.*)")
_MODULE: Final = re.compile(rf"Epoch\[{_INT}\] (Train-|Validation-|Time )([\w./-]+)=({NUMBER})")
_TRAIN_METRIC: Final = re.compile(rf"Iter\[{_INT}\] Batch ?\[{_INT}\] Train-([\w./-]+)=({NUMBER})")
_RATE: Final = re.compile(
    rf"Update\[\d+\]: (?:Change learning rate to|now learning rate arrived at) ({NUMBER})"
)
_SAVED: Final = re.compile(r'Saved checkpoint to "([^"]*)"|params saved in: ')
_SAVED_EPOCHS: Final = re.compile(r"-(\d{4,9})\.params$")
_SAVING: Final = re.compile(rf"\[(?:Epoch|step) {_INT}\] Saving (?:parameters|checkpoints) to ")


def read(text: str, rules: LogFormatOptions) -> Reading | None:
    """Read one cleaned line, or ``None`` where it is none of MXNet's."""
    if "[" in text:
        for part in (
            _speedometer,
            _gluon_cv,
            _epoch_speed,
            _module,
            _train_metric,
            _gluon_nlp,
            _gluon_epoch,
            _step,
        ):
            reading = part(text, rules)
            if reading is not None:
                return reading
    return _rate(text) or _checkpoint(text)


def _checkpoint(text: str) -> Reading | None:
    saved = _SAVED.search(text)
    if saved is None:
        return None
    epochs = _SAVED_EPOCHS.search(saved[1] or "")
    return Reading(saved=Saved(epochs=int(epochs[1]) if epochs else None))


def _with_values(text: str, rules: LogFormatOptions, reading: Reading) -> Reading:
    """The reading with the loss, the learning rate and the names of the pairs in a text."""
    values = {name.removeprefix("Train-"): value for name, value in pairs(text).items()}
    loss, rate = choose_loss(values, rules.loss_metric), learning_rate(values)
    return replace(reading, loss=loss, learning_rate=rate, metrics=tuple(values))


def _speedometer(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _SPEEDOMETER.search(text)
    if found is None:
        return None
    epoch, first, last, batches, speed, rest = found.groups()
    reading = Reading(
        epoch=int(epoch),
        batch=int(last) + 1,
        batches=int(batches) if batches else None,
        cumulative=first == "0",
        epoch_line_is_mean=first
        is not None,  # since MXNet 1.3: a range of batches, and metrics of the whole epoch
        samples_per_second=float(speed),
    )
    return _with_values(rest, rules, reading)


def _gluon_cv(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _GLUON_CV.search(text)
    if found is None:
        return None
    reading = Reading(
        epoch=int(found[1]), batch=int(found[2]) + 1, samples_per_second=float(found[3])
    )
    return _with_values(found[4], rules, reading)


def _epoch_speed(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _EPOCH_SPEED.search(text)
    if found is None:
        return None
    reading = Reading(epoch=int(found[1]), epoch_ended=True, samples_per_second=float(found[2]))
    return _with_values(found[3], rules, reading)


def _module(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _MODULE.search(text)
    if found is None:
        return None
    epoch, kind, name, value = found.groups()
    if kind == "Validation-":
        return UNDERSTOOD  # not the training loss; by then the validation has taken its time
    if kind == "Time ":
        return Reading(epoch=int(epoch), epoch_ended=True)
    return Reading(
        epoch=int(epoch),
        epoch_ended=True,
        loss=choose_loss({name: float(value)}, rules.loss_metric),
        metrics=(name,),
    )


def _train_metric(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _TRAIN_METRIC.search(text)
    if found is None:
        return None
    loss = choose_loss({found[3]: float(found[4])}, rules.loss_metric)
    return Reading(epoch=int(found[1]), batch=int(found[2]) + 1, loss=loss, metrics=(found[3],))


def _gluon_nlp(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _GLUON_NLP.search(text)
    if found is None:
        return None
    rest = found[4]
    values = pairs(rest)
    spoken, speed = _GLUON_NLP_LOSS.search(rest), _GLUON_NLP_SPEED.search(rest)
    if spoken:
        values.setdefault("loss", float(spoken[1]))
    return Reading(
        epoch=int(found[1]),
        epoch_as_printed=True,
        batch=int(found[2]),
        batches=int(found[3]),
        loss=choose_loss(values, rules.loss_metric),
        samples_per_second=float(speed[1]) if speed else None,
        learning_rate=learning_rate(values),
        metrics=tuple(values),
    )


def _gluon_epoch(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _GLUON_NLP_EPOCH.search(text)
    if found is None:
        return None
    values, spoken = pairs(text), re.search(rf"train avg loss ({NUMBER})", text)
    if spoken:
        values["loss"] = float(spoken[1])
    loss = choose_loss(values, rules.loss_metric)
    return Reading(
        epoch=int(found[1]),
        epoch_as_printed=True,
        epoch_ended=True,
        loss=loss,
        metrics=tuple(values),
    )


def _step(text: str, rules: LogFormatOptions) -> Reading | None:
    if _SAVING.search(text):
        return Reading(saved=Saved(complete=False))
    found = _GLUON_STEP.search(text)
    if found is None:
        return None
    return _with_values(found[2], rules, Reading(step=int(found[1])))


def _rate(text: str) -> Reading | None:
    found = _RATE.search(text)
    return Reading(learning_rate=learning_rate({"lr": float(found[1])})) if found else None
