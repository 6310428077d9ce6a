"""The lines of MXNet, TensorFlow and Keras, a row for each form.

MXNet's callback.py, module/base_module.py and model.py, its R front end, and the scripts of Gluon,
GluonCV and GluonNLP: epochs count from 0, a batch's number is its index within one worker's epoch.
TensorFlow's run hooks and dist_mnist: steps are the job's. Keras 2 and 3: the loss on a bar is the
mean since the epoch began; ``evaluate`` prints bars, too, which the caller tells by their length.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from optimus.progress.formats import objects
from optimus.progress.metric_names import metrics_of
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    SavedCheckpoint,
    pairs,
    positive,
)
from optimus.progress.printed_values import NUMBER, printed_speed, printed_values
from optimus.progress.types import Declared


class _Form(NamedTuple):
    """The lines of a program that have one form."""

    program: str
    marker: str
    """A text that each of its lines has: finding it is much faster than the pattern."""
    pattern: re.Pattern[str]
    """Groups are counts, the ``end`` of the run in steps, ``index`` of a batch from 0, ``first`` of
    a range of them, ``speed`` in samples per second, ``rate`` of learning,
    ``loss``, ``values``, ``object`` or only ``pairs``, ``saved_step``, ``saved_epochs``."""
    says: Mapping[str, Any]
    """The fields of each of its lines beside those of the groups."""
    kind: str
    """``result``: its values are of an evaluation; ``bar``: of a bar, without which it is none."""


_Given = tuple[tuple[Any, ...], ...]
"""A row holds a marker, a pattern, what its lines say beside the groups, and perhaps a kind."""
MARKERS: Final = ("",)
_ENDS: Final = {"epoch_ended": True}
_MEAN: Final = {"epoch_ended": True, "epoch_line_is_mean": True}
_PRINTED: Final = {"epoch_as_printed": True}
_BEGINS: Final = {"saved": SavedCheckpoint(complete=False)}
_SAVED: Final = {"saved": SavedCheckpoint()}
_EPOCH: Final = r"(?P<epoch>\d{1,15})"
_INDEX: Final = r"(?P<index>\d{1,15})"
_BATCHES: Final = r"(?P<batches>\d{1,15})"
_HEADING: Final = r"(?P<heading>\d{1,15})/(?P<end>\d{1,15})"
_RATE: Final = rf"(?P<rate>{NUMBER})"
_LOSS_AT: Final = r"[Ll](?<!\w[Ll])(?i:oss\b[^:=]{0,60}\b(?:at|after|for|of|in) (?:the )?)"
_SPEED: Final = rf"Speed:\s*(?P<speed>{NUMBER}) samples/sec(?P<pairs>.*)"
_PARAMS: Final = r"-(?P<saved_epochs>\d{4,9})\.params"
_MXNET: Final[_Given] = (
    (
        "[Batch ",
        rf"\[Epoch {_EPOCH}\]\s?\[Batch {_INDEX}\],(?: LR: (?:{_RATE}|[^\s,]+),?)? {_SPEED}",
        {"cumulative": True},
    ),
    (
        "Speed: ",
        (
            rf"(?:Epoch|Iter)\[{_EPOCH}\] ?Batch ?\[(?:(?P<first>\d{{1,15}})-)?{_INDEX}\]"
            rf"(?:/\[{_BATCHES}\])?\s+{_SPEED}"
        ),
        {},
    ),
    (" Batch ", rf"\[Epoch {_EPOCH} Batch (?P<batch>\d+)/{_BATCHES}\](?P<values>.*)", _PRINTED),
    ("Speed: ", rf"Epoch\[{_EPOCH}\]\s+{_SPEED}", _MEAN),
    ("Epoch[", rf"Epoch\[{_EPOCH}\] (?:Time |Train-(?P<pairs>.*))", _ENDS),
    ("Epoch[", rf"Epoch\[{_EPOCH}\] Validation-(?P<pairs>.*)", {}, "result"),
    (" Train-", rf"Iter\[{_EPOCH}\] Batch ?\[{_INDEX}\] Train-(?P<pairs>.*)", {}),
    ("] train", rf"\[Epoch {_EPOCH}\] (?P<values>train(?: avg loss |=).*)", _PRINTED | _ENDS),
    ("raining", rf"\[Epoch {_EPOCH}\] [Tt]raining(?: cost)?: (?P<pairs>.*)", _MEAN),
    ("alidation", rf"\[Epoch {_EPOCH}\] [Vv]alidation: (?P<pairs>.+)", {}, "result"),
    ("] Train-", rf"^\[{_EPOCH}\] (?P<pairs>Train-.*)", _PRINTED | _MEAN),
    ("] Validation-", rf"^\[{_EPOCH}\] Validation-(?P<pairs>.*)", _PRINTED, "result"),
    ("Batch [", r"^(?:INFO:\w+:)?Batch \[\d+\]/\[\d+\]: ", {}),
    ("Saving ", r"\[(?:Epoch|step) \d+\] Saving (?:parameters|checkpoints) to ", _BEGINS),
    ("[step ", r"\[step (?P<step>\d{1,15})\]\s(?P<pairs>.*)", {}),
    ("Saved checkpoint", rf'Saved checkpoint to "(?:[^"]*{_PARAMS}"|[^"]*")', _SAVED),
)
_TENSORFLOW: Final[_Given] = (
    ("listeners after", r"listeners after saving checkpoint (?P<saved_step>\d{1,15})", _SAVED),
    ("Saving check", r"Saving checkpoints for (?P<saved_step>\d{1,15}) into ", _BEGINS),
    ("Saving dict", r"Saving dict for global step \d+:(?P<values>.*)", {}, "result"),
    ("final step:", r"Loss for final step:", {}),
    ("step/sec: ", r"(?:^|[ :])global_?step/sec: ", {}),
    (
        "(global step",
        r"^\d+\.\d+: Worker \d+: training step \d+ done \(global step: (?P<step>\d{1,15})\)",
        {},
    ),
)
_KERAS: Final[_Given] = (
    ("saving model", r"Epoch (?P<saved_epochs>\d{1,9}): finished saving model to ", _SAVED),
    ("saving model", r"Epoch (?P<saved_epochs>\d{1,9}): .{0,200}saving model to ", _BEGINS),
    (
        "/",
        rf"^\s*(?P<batch>\d{{1,15}})/(?:{_BATCHES}|Unknown)\b(?P<values>.* - \w+: .*)",
        {"cumulative": True},
        "bar",
    ),
)
_ANY: Final[_Given] = (
    (
        " rate, ",
        rf"^\s{{0,8}}(?P<step>\d{{1,15}}): (?P<loss>{NUMBER}), {NUMBER} avg(?: loss)?, ",
        {},
    ),
    ("oss", rf"{_LOSS_AT}(?i:step|iteration) (?P<step>\d{{1,15}})\s?[:=]\s?(?P<loss>{NUMBER})", {}),
    (
        "oss",
        rf"{_LOSS_AT}[Ee]poch {_EPOCH}\s?[:=]\s?(?P<loss>{NUMBER})",
        _PRINTED | _ENDS | {"end_is_doubtful": True},
    ),
    (
        "earning",
        (
            r"(?i:\b(?:set|chang\w{1,3}|reduc\w{1,3}|decay\w{0,3}|updat\w{1,3}|arrived)\b.{0,20}\blearning"
            rf"[ _-]rate\b.{{0,40}}?(?:to|:|=)\s?){_RATE}"
        ),
        {},
    ),
    ("earning", rf"^(?i:learning rate)\b.{{0,40}}? {_RATE}$", {}),
    ("[batch=", rf"^\[batch={_HEADING}\]:?$", {}),
    ("earning iteration", rf"^\s{{0,80}}Learning iteration {_HEADING}\s{{0,80}}$", {}),
    ("num_rounds=", r"config: .{0,80}?\bnum_rounds=(?P<end>\d{1,9})\b", {}),
    (
        "fit progress",
        rf"fit progress: \((?P<step>\d{{1,9}}), (?P<loss>{NUMBER}), (?P<object>\{{[^{{}}]*\}})",
        {},
        "result",
    ),
)
"""Lines of darknet, Composer, rsl_rl, Flower and many: ``Training loss at step 100: 0.5``."""
_ROWS: Final = tuple(
    _Form(program, marker, re.compile(pattern), says, "".join(kind))
    for program, rows in (
        ("mxnet", _MXNET),
        ("tensorflow", _TENSORFLOW),
        ("keras", _KERAS),
        ("text", _ANY),
    )
    for marker, pattern, says, *kind in rows
)
"""The first form that is found in a line parses it."""
_COUNTS: Final = ("epoch", "batch", "batches", "step", "heading")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one line without its prefix; ``None`` where none of these prints it."""
    for row in _ROWS:
        if row.marker in text and (match := row.pattern.search(text)):
            parsed = _read(row, text, match.groupdict(), options)
            if parsed is not None:
                return parsed
    return None


def _read(
    row: _Form, text: str, said: Mapping[str, str | None], options: LogFormatOptions
) -> ParsedLine | None:
    counts = {name: int(number) for name in _COUNTS if (number := said.get(name))}
    parsed = ParsedLine(**{"form": row.program, **row.says, **counts})
    values, evaluated = printed_values(said.get("values") or "")
    values |= pairs((said.get("pairs") or "").replace("\tTrain-", "\t"))
    values |= {"loss": float(said["loss"] or 0)} if said.get("loss") else {}
    values |= objects.metrics_in(said.get("object") or "")
    if row.kind == "result":
        return ParsedLine(
            form=row.program,
            evaluated=metrics_of(values | evaluated),
            evaluated_epoch=parsed.epoch,
            epoch_as_printed=parsed.epoch_as_printed,
            step=parsed.step,
        )
    if end := said.get("end"):
        parsed.declared = Declared(steps=int(end))
    if row.kind == "bar":
        if not values:
            return None
        parsed.epoch_ended = parsed.batch == parsed.batches
        parsed.counts_steps = "/sample" not in text
        evaluated = evaluated if parsed.epoch_ended else {}
    if index := said.get("index"):
        parsed.batch = int(index) + 1
    if first := said.get("first"):
        # Since MXNet 1.3: a range of batches, and metrics of the whole epoch.
        parsed.cumulative, parsed.epoch_line_is_mean = first == "0", True
    if number := said.get("saved_step"):
        parsed.saved = replace(row.says["saved"], step=int(number))
    elif number := said.get("saved_epochs"):
        parsed.saved = replace(row.says["saved"], epochs=int(number))
    speed = _number(said.get("speed"))
    parsed.samples_per_second = printed_speed(said.get("values") or "") if speed is None else speed
    parsed.learning_rate = positive(_number(said.get("rate")) or 0.0)
    parsed.evaluated, parsed.evaluated_epoch = evaluated, parsed.epoch
    return parsed.with_values(values, options.loss_metric)


def _number(text: str | None) -> float | None:
    return float(text) if text else None
