"""Lines in free text and of pairs: a position, then names and numbers.

``Epoch 3 iteration 250/3981: training loss 0.110``, ``Epoch: [0][10/5005] Loss 6.9 (7.0)``,
``Epoch 3:  50%|###   | 235/469 [00:05<00:05, 45.3it/s, loss=0.25]``,
``[10]\\ttrain-rmse:0.20\\teval-rmse:0.30``. A line counts with a loss or a known metric. Beside
an epoch alone, its values may be those of the whole epoch: the log decides."""

import re
from typing import Final

from optimus.progress.metric_names import describe, line_names, metrics_of
from optimus.progress.named import line_at
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint, evaluation
from optimus.progress.printed_values import (
    BAR,
    Place,
    place_in,
    printed_speed,
    printed_values,
)

MARKERS: Final = ("",)
_BEGINNING: Final = (
    r"^[\W_]{0,20}(?:(?:starting|start(?: of)?|begin(?:ning)?|training|running|train|now)"
    r"[\s:|\]]{1,4})?"
)
_HEADER: Final = re.compile(
    rf"{_BEGINNING}epoch[\s:#\[]{{0,16}}(\d{{1,9}})(?:\s?(?:/|of)\s?(\d{{1,9}}))?"
    r"[\s\]:.=*_~-]{0,40}$",
    re.IGNORECASE,
)
_STEP_HEADER: Final = re.compile(
    rf"{_BEGINNING}(?:(?:global|training|comm(?:unication)?)[_ ]?){{0,2}}"
    r"(?:(?:step|iter(?:ation)?|round)[\s:#=\[]{0,16}(\d{1,15})(?![\d.,]*\d|/\d{1,15}/)"
    r"|batch[\s:#=\[]{0,16}\d{1,15}\s?/\s?\d)",
    re.IGNORECASE,
)
_GLOBAL_STEP: Final = re.compile(r"--\sGLOBAL_STEP: (\d{1,15})$")
"""``--> TIME: ... -- STEP: 24/405 -- GLOBAL_STEP: 2600``."""
_EPOCH_HEADER: Final = re.compile(
    rf"{_BEGINNING}(?:epoch[\s:#=\[]{{0,16}}\d|\d{{1,9}}(?:\s?/\s?\d{{1,9}})?\s?epoch\b)",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(
    r"^\W{0,8}(?:best|better|total|average(?!\s(?:train\w*\s)?loss)|k-fold|target|goal|expected|previous|"
    r"early stop\w*|resum\w+|restor\w+|load\w+)\b",
    re.IGNORECASE,
)
"""A result over the whole run, or one that is no result of this run's training."""
_DUMPS: Final = ("Namespace(", "dict(", "Config(", "Args(", "Arguments(")
_EVALUATED_ONLY: Final = re.compile(r"m?(?:AP|IoU)\w*|BLEU|bleu")
"""Metrics that are not computed in training: alone on a line they are of an evaluation."""
_COCO: Final = re.compile(
    r"\(AP\) @\[ IoU=(0\.50:0\.95|0\.50|0\.75)\s{0,8}\| area=\s{0,4}all \|.{0,24}\] = "
    r"(\d\.\d{1,9})\b"
)
"""The table of the COCO evaluation, which has a line for each metric."""
_COCO_NAMES: Final = {"0.50:0.95": "AP", "0.50": "AP50", "0.75": "AP75"}
_WHOLE: Final = re.compile(r"^train(?:ing)?\b(?! step)", re.IGNORECASE)
_CHECKPOINT: Final = re.compile(r"\bcheckpoint(?:_step)?=(\d{1,15})\b")
_SPEEDS: Final = ("samples_per_sec", "samples_per_second", "examples/sec")
_NAMED: Final = re.compile(r"\b(?:name|key|tag|metric)[=:] ?\"?([A-Za-z][\w./-]{0,63})")
_VALUE: Final = re.compile(r"\b(?:metric_?)?val(?:ue)?[=:]", re.IGNORECASE)
"""``metric=loss step=10 value=0.5``: the name is a value of its own."""
_LEARN: Final = re.compile(r"\blearn: ")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one line without its prefix; ``None`` where it says nothing that is known."""
    if text[:1] == "{":
        return None
    fixed = _fixed(text)
    if fixed is not None or _SUMMARY.match(text) or any(dump in text for dump in _DUMPS):
        return fixed
    return _free(text, options)


def _fixed(text: str) -> ParsedLine | None:
    """Lines of a few fixed forms."""
    if match := _HEADER.search(text):
        # Where epochs count from 0, the last one is the total.
        last = int(match[2]) if match[2] else None
        return ParsedLine(epoch=int(match[1]), epoch_as_printed=True, last_epoch=last or None)
    if "(AP) @[" in text and (match := _COCO.search(text)):
        return ParsedLine(evaluated={_COCO_NAMES[match[1]]: float(match[2])})
    return None


def _free(text: str, options: LogFormatOptions) -> ParsedLine | None:
    bar, words = BAR.search(text) if "%|" in text else None, text
    if bar is not None:
        words = f"{text[: bar.start()]} {bar[3]} {text[bar.end() :]}"
    elif "\tlearn: " in text:
        # CatBoost names the sides and not the metric, which is the loss function.
        words = _LEARN.sub("loss: ", text.partition("\tbest:")[0])
        words = words.replace("\ttest: ", "\ttest_loss: ")
    if "val" in text and (named := _NAMED.search(text)) and describe(named[1]).is_metric:
        words = _VALUE.sub(f"{named[1]}=", words)
    values, evaluated = printed_values(words.replace("'s ", "_"))
    evaluated = metrics_of(evaluated)
    names = line_names(tuple(values))
    is_metric = names.has_metric
    if not (is_metric or evaluated or names.of_training or options.loss_metric in values):
        return _place_alone(text, values, options)
    place = place_in(text, bar)
    is_of_epoch = place.is_epoch and names.of_training
    if not (is_metric or is_of_epoch or options.loss_metric in values):
        # An evaluation; its batches are not the training's.
        return evaluation(evaluated, place.epoch) or _place_alone(text, values, options)
    if not place.is_placed and _WHOLE.search(text) is None:
        alone = {name: values[name] for name in values if _EVALUATED_ONLY.fullmatch(name)}
        if alone:
            return evaluation(alone, place.epoch)
    return _of(place, values, evaluated, text, options)


def _of(
    place: Place,
    values: dict[str, float],
    evaluated: dict[str, float],
    text: str,
    options: LogFormatOptions,
) -> ParsedLine:
    parsed, speed = line_at(place, options), _speed(values)
    if not place.is_placed and _WHOLE.search(text) is not None:
        parsed.epoch_ended = True  # "train Loss: 0.56 Acc: 0.72" below the header of its epoch
    parsed.samples_per_second = printed_speed(text) if speed is None else speed
    parsed.evaluated = evaluated
    if "checkpoint" in text and (match := _CHECKPOINT.search(text)) and int(match[1]):
        parsed.saved = SavedCheckpoint(step=int(match[1]))
    # A user may name a value of an evaluation as the loss.
    is_own = options.loss_metric in evaluated
    return parsed.with_values({**values, **evaluated} if is_own else values, options.loss_metric)


def _speed(values: dict[str, float]) -> float | None:
    return next((values[name] for name in _SPEEDS if name in values), None)


def _place_alone(
    text: str, values: dict[str, float], options: LogFormatOptions
) -> ParsedLine | None:
    """A step of a line without a loss or metric: of a save, or of the values on the lines below."""
    saved, speed = _CHECKPOINT.search(text), _speed(values)
    heading = _STEP_HEADER.match(text) or _GLOBAL_STEP.search(text)
    if not (saved or speed is not None or heading or _EPOCH_HEADER.match(text)):
        return None
    place = place_in(text)
    if (saved or speed is not None) and place.step is not None:
        parsed = line_at(place, options)
        parsed.samples_per_second = speed
        parsed.saved = SavedCheckpoint(step=int(saved[1])) if saved else None
        return parsed
    if place.batch is not None and place.in_steps and not place.loose:
        return ParsedLine(
            epoch=place.epoch,
            epoch_as_printed=True,
            heading=place.batch,
            batches=place.batches or 0,
            declared=place.declared,
        )
    if heading:
        return ParsedLine(heading=int(heading[1]), declared=place.declared)
    if place.epoch is None or not _EPOCH_HEADER.match(text):
        return None
    if place.step is not None and not place.loose:
        # "epoch=0/micro_step=7/global_step=7"
        return ParsedLine(epoch=place.epoch, epoch_as_printed=True, step=place.step)
    ends, declared = place.ended and place.is_epoch, place.declared
    return ParsedLine(epoch=place.epoch, epoch_as_printed=True, epoch_ended=ends, declared=declared)
