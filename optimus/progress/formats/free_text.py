"""Lines of training loops in free text: a position, then names and numbers.

``Epoch 3 iteration 250/3981: training loss 0.110``, ``Epoch: [0][10/5005] Loss 6.9 (7.0)``,
``| epoch 1 | 200/2983 batches | lr 20.0 | loss 7.6``, ``Step 100: loss = 0.5``,
``Train Epoch: 1 [640/60000 (1%)] Loss: 2.3``, ``eta: 0:10  iter: 19  total_loss: 9.6``. Of COCO's
table of average precisions those over all areas are read.

1. The epoch and what follows it in brackets, else a number after ``iter``, ``step`` or ``batch``.
   With a total (``250/3981``) beside an epoch it is the position within it.
2. Names and numbers, of the training and of an evaluation.
3. The line counts if it has a loss or a known metric. With an epoch and no position within it, its
   values are those of an epoch that has ended."""

import re
from collections.abc import Mapping
from typing import Final

from optimus.progress.metric_names import describe, is_of_training, may_count
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    positive,
    without_prefix,
)
from optimus.progress.printed_numbers import NUMBER
from optimus.progress.printed_values import printed_speed, printed_values
from optimus.progress.types import Declared

MARKERS: Final = (
    "poch",
    "EPOCH",
    "loss",
    "Loss",
    "LOSS",
    "ppl",
    "acc",
    "Acc",
    "mAP",
    "(AP)",
    "valid",
    "rate",
)

_EPOCH: Final = re.compile(
    r"\b(?:epochs?|ep)(?:\s?\((?:train|val|test)\))?[\s:#.=\[(|_]{0,8}(\d{1,9})(?![\d.,]*\d|\s?%|\s?s\b)"
    r"(?:\s?(?:/|of)\s?(\d{1,9}))?[\])]?",
    re.IGNORECASE,
)
_WITHIN: Final = re.compile(r"[\s:,|\[(]{0,8}(\d{1,15})\s?/\s{0,4}(\d{1,15})\b(?![.,]\d)")
_COUNT: Final = re.compile(
    r"\b(?:mini-?)?(batch(?:es)?|it(?:er(?:ation)?s?)?|(?:global[_ ])?steps?|updates?)\b"
    r"(?:[_ ](?:idx|index|id|no|num|number))?"
    r"[\s:#.=\[(]{0,8}(\d{1,15})(?![\d.,]*\d|\s?%)(?:\]?\s?(?:/|of)\s?\[?\s?(\d{1,15}))?",
    re.IGNORECASE,
)
_FRACTION: Final = re.compile(r"(?<![\w./,:-])(\d{1,15})\s?/\s?(\d{1,15})(?!\w|[.,:-]\d|\s?/)")
_PART: Final = re.compile(r"[\s:,|\[(-]{0,8}\d{1,3}(?:\.\d{1,6})?\s?%|:\d")
"""Behind an epoch, what says how far it is; ``epoch 1:4000`` too."""
_BRACKETED: Final = re.compile(r"[\[(]\s?\d{1,15}(?:-\d{1,15})?\s?[\])]")
_SCALED: Final = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,3})?\s?[kM]\b")
_NAMED: Final = re.compile(r"([A-Za-z][\w.@/-]{0,63})[\s:=(\[]{1,4}$")
_TRAIN: Final = re.compile(r"^Train:\s{1,4}(\d{1,9})\s{1,4}\[\s{0,8}(\d{1,15})/(\d{1,15})\b")
_BRACKETS: Final = re.compile(
    r"\[\s?(\d{1,9})/(\d{1,9})\]\s?\[\s{0,8}(\d{1,15})/(\d{1,15})\]"
    r"|^\[(\d{1,9}),\s{1,8}(\d{1,15})\]"
)
_LOSS_AT: Final = re.compile(
    rf"\bloss\b[^:=]{{0,60}}\bat (step|iteration|epoch) (\d{{1,15}})\s?[:=]\s?({NUMBER})",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(
    r"^[\W_]{0,20}(?:(?:starting|start(?: of)?|begin(?:ning)?|training|running)[\s:]{1,4})?"
    r"epoch[\s:#\[]{0,4}(\d{1,9})(?:\s?(?:/|of)\s?(\d{1,9}))?[\s\]:.=*_~-]{0,40}$",
    re.IGNORECASE,
)
_RATE: Final = re.compile(
    r"\b(?:set|chang\w{1,3}|reduc\w{1,3}|decay\w{0,3}|updat\w{1,3})\b.{0,20}\blearning[ _-]rate\b"
    rf".{{0,40}}?(?:to|:|=)\s?({NUMBER})|^learning rate\b.{{0,40}}? ({NUMBER})$",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(
    r"^\W{0,8}(?:best|better|total|average|k-fold|target|goal|expected|previous|"
    r"early stop\w*|resum\w+|restor\w+|load\w+)\b",
    re.IGNORECASE,
)
"""A result over the whole run, or one that is no result of this run's training."""
_EVALUATED_ONLY: Final = re.compile(r"m?(?:AP|IoU)\w*|BLEU|bleu")
"""Metrics that are not computed in training: alone on a line they are of an evaluation."""
_COCO: Final = re.compile(
    r"\(AP\) @\[ IoU=(0\.50:0\.95|0\.50|0\.75)\s{0,8}\| area=\s{0,4}all \|.{0,24}\] = "
    r"(\d\.\d{1,9})\b"
)
"""The table of the COCO evaluation, which has a line for each metric."""
_COCO_NAMES: Final = {"0.50:0.95": "AP", "0.50": "AP50", "0.75": "AP75"}
_HIGHER: Final = re.compile(rf"\b([A-Za-z]*mAP) ({NUMBER}) higher than")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it says nothing that is known."""
    plain = without_prefix(text)
    if "earning" in plain and (found := _RATE.search(plain)):
        return ParsedLine(learning_rate=positive(float(found[1] or found[2])))
    header = _HEADER.search(plain)
    if header is not None:
        declared = Declared(epochs=int(header[2])) if header[2] else None
        return ParsedLine(epoch=int(header[1]), epoch_as_printed=True, declared=declared)
    if found := _HIGHER.search(plain):
        return ParsedLine(evaluated={found[1]: float(found[2])})
    if found := _LOSS_AT.search(plain):
        return _loss_at(found, options)
    if "(AP) @[" in plain:
        found = _COCO.search(plain)
        return found and ParsedLine(evaluated={_COCO_NAMES[found[1]]: float(found[2])})
    if _SUMMARY.search(plain):
        return None
    values, evaluated = printed_values(plain)
    if not any(describe(name).is_metric for name in (*values, *evaluated)):
        return None
    return _with_position(plain, options, values, evaluated)


def _with_position(
    text: str, options: LogFormatOptions, values: dict[str, float], evaluated: dict[str, float]
) -> ParsedLine | None:
    place = _position(text)
    evaluated = {name: value for name, value in evaluated.items() if describe(name).is_metric}
    ends_epoch = place.ends_epoch(text)
    # "Epoch 3: train=0.10 val=0.12": the metric is unknown, but the epoch has ended.
    is_whole = ends_epoch and any(map(is_of_training, values))
    if not is_whole and not any(describe(name).is_metric for name in values):
        # An evaluation; its batches are not the training's.
        return _evaluation(evaluated, place)
    if place.epoch is None and place.batch is None and place.step is None and not ends_epoch:
        alone = {name: values[name] for name in values if _EVALUATED_ONLY.fullmatch(name)}
        return _evaluation(alone, place)
    parsed = ParsedLine(
        epoch=place.epoch,
        epoch_as_printed=True,
        batch=place.batch,
        batches=place.batches,
        step=place.step,
        epoch_ended=ends_epoch,
        end_is_doubtful=ends_epoch and _may_be_within(text, place, values),
        samples_per_second=printed_speed(text),
        evaluated=evaluated,
        evaluated_epoch=place.epoch,
        declared=place.declared,
    )
    return parsed.with_values(values, options.loss_metric)


def _evaluation(values: dict[str, float], place: "_Position") -> ParsedLine | None:
    if not values:
        return None
    return ParsedLine(evaluated=values, evaluated_epoch=place.epoch, epoch_as_printed=True)


def _loss_at(found: re.Match[str], options: LogFormatOptions) -> ParsedLine:
    unit, number, loss = found[1].lower(), int(found[2]), float(found[3])
    values = {"loss": loss}
    if unit == "epoch":
        parsed = ParsedLine(epoch=number, epoch_as_printed=True, epoch_ended=True)
    else:
        parsed = ParsedLine(step=number)
    return parsed.with_values(values, options.loss_metric)


class _Position:
    """Where in the training a line is."""

    __slots__ = ("batch", "batches", "declared", "end", "epoch", "start", "step")

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.batch: int | None = None
        self.batches: int | None = None
        self.step: int | None = None
        self.declared: Declared | None = None
        self.start = self.end = 0
        """Where the text of the epoch begins and ends."""

    def ends_epoch(self, text: str) -> bool:
        """Whether the line's values are those of a whole epoch."""
        if self.step is not None or self.batch is not None:
            return False
        # "train Loss: 0.56 Acc: 0.72" below the header of its epoch.
        return self.epoch is not None or _WHOLE.search(text) is not None


def _may_be_within(text: str, place: _Position, values: Mapping[str, float]) -> bool:
    """Whether something on a line with an epoch may say how far the epoch is."""
    if place.epoch is not None and _PART.match(text, place.end) is not None:
        return True
    for found in _FRACTION.finditer(text):
        if place.start <= found.start() < place.end:
            continue
        named = _NAMED.search(text, max(found.start() - 68, 0), found.start())
        # "Accuracy: 9850/10000" is no position, and "60000/60000" is the whole epoch.
        if found[1] != found[2] and (named is None or not describe(named[1]).is_metric):
            return True
    counted = any(may_count(name, values[name]) for name in values)
    within = _BRACKETED.search(text, place.end) or _SCALED.search(text, place.end)
    return counted or within is not None


_WHOLE: Final = re.compile(r"^train(?:ing)?\b(?! step)", re.IGNORECASE)


def _position(text: str) -> _Position:
    place = _Position()
    if found := _TRAIN.search(text):
        place.epoch, place.batch, place.batches = (int(each) for each in found.groups())
    elif "[" in text and (found := _BRACKETS.search(text)):
        epoch, epochs, batch, batches, first, second = found.groups()
        place.epoch, place.batch = int(epoch or first), int(batch or second)
        place.batches = int(batches) if batches else None
        place.declared = Declared(epochs=int(epochs)) if epochs else None
    else:
        _by_words(text, place)
    if place.batches is not None and place.batch is not None and place.batch > place.batches:
        place.batches = None
    return place


def _by_words(text: str, place: _Position) -> None:
    epoch = _EPOCH.search(text)
    if epoch is not None:
        place.epoch, place.start, place.end = int(epoch[1]), epoch.start(), epoch.end()
        place.declared = Declared(epochs=int(epoch[2])) if epoch[2] else None
        within = _WITHIN.match(text, epoch.end())
        if within is not None:
            place.batch, place.batches = int(within[1]), int(within[2])
            return
    count = _COUNT.search(text)
    if count is None:
        return
    unit, number = count[1].lower(), int(count[2])
    total = int(count[3]) if count[3] else None
    if unit.startswith("batch") or (epoch is not None and (total or not unit.endswith(_STEPS))):
        place.batch, place.batches = number, total
    else:
        place.step = number
        place.declared = Declared(steps=total) if total else place.declared


_STEPS: Final = ("step", "steps", "update", "updates")
