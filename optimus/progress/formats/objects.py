"""Objects as Python and JSON print them: ``{'loss': 0.69, 'epoch': 0.32}``, nested ones, records.

``{"step": 5, "loss": "0.25"}`` (Katib's form), ``train | {"epoch": 1, "train_loss": "5.9"}``
(fairseq), ``{"name": "loss", "data": {"step": 1, "value": 1.9}}``, ``{"key": "eval_accuracy",
"value": 0.7, "metadata": {"epoch_num": 4}}`` (MLLOG). Of a list only records that name their value
are read: ``"metrics": [{"name": "loss", "value": 0.5}]``. An object without a loss or metric is
none of the training's (settings)."""

import re
from functools import partial
from typing import Final

from optimus.progress.metric_names import EVALUATION_WORDS, describe, metrics_of
from optimus.progress.named import by_label, kind_of, read_named
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, evaluation
from optimus.progress.printed_values import BAR, NUMBER, Place, number_of, place_in

MARKERS: Final = ("{'", '{"', "{ ")
_BEGINNING: Final = re.compile(r"\{\s{0,8}['\"]")
_EVALUATED: Final = re.compile(rf"(?<![A-Za-z])(?:{EVALUATION_WORDS})(?![A-Za-z])", re.IGNORECASE)
_TOKEN: Final = re.compile(
    rf"""(["'])([^"'\\]{{1,64}})\1\s{{0,8}}:\s{{0,8}}(?:(["']?)({NUMBER})\3(?=\s{{0,8}}[,}}\]]|\s*$)"""
    r"""|(["'])([^"'\\]{0,64})\5|([{\[]))|([{}\[\]])"""
)
_BEFORE: Final = re.compile(r"([A-Za-z_]\w{0,63}):\s{0,4}$")
_NUMBER_ALONE: Final = re.compile(r"\s{0,8}\[?(\d{1,15})\]?\s{0,4}:?\s{0,4}")
_LISTED: Final = re.compile(r"\[\{[^\[\]]{1,2000}\}\s{0,8}\]")
_RECORD: Final = re.compile(r"\{[^{}]{1,500}\}")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one line without its prefix; ``None`` where it is no such object."""
    begin = _BEGINNING.search(text, 0, 120)
    if begin is None or "Namespace(" in text:
        return None
    if "[{" in text:
        text = _LISTED.sub(_as_object, text)
    given, texts = content(text, begin.start())
    is_result = "global_step" in given and text.startswith("{'")  # as Estimator returns it
    if is_result or _EVALUATED.search(text, 0, begin.start()):
        return evaluation(_metrics(given), place_in(text).epoch) or ParsedLine()
    if "train_runtime" in given:
        return ParsedLine()  # the summary at the end, with the mean loss of the whole run
    before = _BEFORE.search(text, 0, begin.start())
    given = by_label(given, texts, before[1] if before else "")
    place = partial(_place_before, text, begin.start())
    return _placed(read_named(_plainly(given), options, before=place), options)


def _as_object(listed: re.Match[str]) -> str:
    given: dict[str, str] = {}
    for record in _RECORD.findall(listed[0]):
        given |= by_label(*content(record, 0))
    pairs = [f'"{name}": {number}' for name, number in given.items() if describe(name).is_metric]
    return f"{{{', '.join(pairs)}}}" if pairs else listed[0]


def metrics_in(text: str) -> dict[str, float]:
    """The metrics in an object that is the whole text."""
    return _metrics(content(text, 0)[0])


def _metrics(given: dict[str, str]) -> dict[str, float]:
    numbers = {name: number_of(text) for name, text in given.items() if describe(name).is_metric}
    return {name: number for name, number in numbers.items() if number is not None}


def _place_before(text: str, begin: int) -> Place:
    """The position in front of an object: ``step 100: {'loss': 0.5}``."""
    number = _NUMBER_ALONE.fullmatch(text, 0, begin)
    if number is not None:
        return Place(step=int(number[1]))
    bar = BAR.search(text) if "%|" in text else None
    return place_in(text[:begin] if bar is None else text, bar)


def _placed(parsed: ParsedLine | None, options: LogFormatOptions) -> ParsedLine | None:
    if parsed is None or parsed.trained or parsed.loss is not None or options.loss_metric:
        return parsed
    # Without a position and a loss it is a result: {'exact_match': 81.3, 'f1': 88.6}.
    described = [describe(name) for name in parsed.values]
    known = all(each.rises for each in described if each.is_metric)
    return evaluation({**parsed.evaluated, **metrics_of(parsed.values)}) if known else None


def content(text: str, begin: int) -> tuple[dict[str, str], dict[str, str]]:
    """The numbers and the texts of an object by name, that of a nested one behind the outer's."""
    given: dict[str, str] = {}
    texts: dict[str, str] = {}
    outer: list[str | None] = []
    for match in _TOKEN.finditer(text, begin):
        name, number, word, opens, bracket = match[2], match[4], match[6], match[7], match[8]
        is_read = len(outer) <= 8 and None not in outer
        if name is None or opens:
            bracket = opens or bracket
            if bracket == "[":
                outer.append(None)
            elif bracket == "{":
                outer.append(name or "")
            elif outer:
                outer.pop()
            if not outer and bracket in "}]":
                break
        elif is_read and number is not None:
            given["/".join([*filter(None, outer), name])] = number
        elif is_read:
            texts.setdefault(name, word)
    return given, texts


def _plainly(given: dict[str, str]) -> dict[str, str]:
    """The values, with positions by their own names: ``data/step`` is ``step``."""
    return {
        name.rpartition("/")[2] if kind_of(name.rpartition("/")[2]) else name: number
        for name, number in given.items()
    }
