"""Tables of values: a header, then a row for each evaluation; on standard output or in a file.

Hugging Face's notebook table, fastai's columns, CSV of many tools, YOLO's columns before a bar,
H2O's history. The reader of a log remembers the header, which says what a row is. Columns are
separated by ``|``, tabs, semicolons, commas, or blanks. Cells without a number are left out."""

import csv
import re
from typing import Final

from optimus.progress.metric_names import core_words, describe, is_of_training
from optimus.progress.named import LABELS, VALUE_OF, by_label, kind_of, read_named
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from optimus.progress.printed_values import BAR, number_of

_SEPARATORS: Final = ("|", "\t", ";", ",")
_BLANKS: Final = re.compile(r"\s{2,}")
_WORDS: Final = re.compile(r"[A-Za-z_][\w ./@()%:+#&-]{0,95}")
_PLACED: Final = re.compile(r"epoch|step|iter|round|wall time|\bclass\s|^E +# ", re.IGNORECASE)
_OF_EPOCHS: Final = re.compile(r"(\d{1,9})/(\d{1,9})")
_CELL: Final = re.compile(r"\S+(?: \S+)*")
_RULE: Final = re.compile(r"[\s|:+=-]{1,400}")
_LABEL: Final = re.compile(r"^[\w .-]{1,40}:\s")
_YOLO: Final = ("gpu_mem", "GPU_mem")
_SPACY: Final = {"E": "epoch", "#": "step"}
_NO_VALUES: Final = frozenset({"all", "labels", "img_size", "instances", "size", *_YOLO})
_BORDERS: Final = str.maketrans("│┃║" + "─━═┼╇╪├┡╞└┗┏┤┩┓┘┛┬┳┴┻", "|" * 3 + "-" * 21)
_SCORED: Final = re.compile(
    r"\s*(?:timestamp\s+)?duration\s+(?:training speed\s+)?(.+)", re.IGNORECASE
)
_SCORES: Final = re.compile(r"\s{2,}|\s(?=(?:Number|Training|Validation|Epochs|Iter|Samples)\w*\b)")
_DURATION: Final = "duration"
_UNIT: Final = re.compile(r"\b(?:sec|min|hours?)\s")
"""H2O's history: ``Timestamp Duration Number of Trees Training RMSE``, in the rows ``0.1 sec``."""
_SUMMARIES: Final = ("__MIN", "__MAX")
"""W&B's columns beside that of a metric."""
_MOST_COLUMNS: Final = 64


def in_ascii(text: str) -> str:
    """A line with the borders that are drawn around cells as ``|`` and ``-``."""
    return text if text.isascii() else text.translate(_BORDERS)


def header(text: str) -> tuple[str, ...]:
    """The columns that a line without its prefix names; none where it is no header."""
    if scored := _SCORED.match(text):
        return (_DURATION, *_SCORES.split(scored[1].strip()))
    if _PLACED.search(text) is None:
        return ()
    bar = BAR.search(text) if "%|" in text else None
    plain = text if bar is None else re.sub(r":\s{0,9}$", "", text[: bar.start()])
    names = tuple(_SPACY.get(name, name) for name in _cells(plain, of_words=True))
    if not 2 <= len(names) <= _MOST_COLUMNS or not all(
        map(_WORDS.fullmatch, names[not names[0] :])
    ):
        return ()
    if len(set(names)) < len(names):
        return ()
    if names[0] == "Class":
        return names
    has_place = any(kind_of(name) in ("epoch", "step", "iteration") for name in names)
    if any(name in names for name in _YOLO):
        names = tuple(_loss_of(name) for name in names)
    has_value = any(describe(_plain(name)).is_metric for name in names)
    is_export = tuple(name.lower() for name in names) == ("wall time", "step", "value")
    has_label = any(map(VALUE_OF.search, names)) and not LABELS.isdisjoint(names)
    return names if has_place and (has_value or is_export or has_label) else ()


def _loss_of(name: str) -> str:
    """YOLO's ``box``, ``obj`` and ``cls`` are losses."""
    return name if kind_of(name) or name.lower() in _NO_VALUES else f"{name}_loss"


def starts(text: str, columns: tuple[str, ...]) -> tuple[int, ...]:
    """Return where the names of a header begin that has only blanks between them; else nothing."""
    if any(each in text for each in _SEPARATORS):
        return ()
    found, at = [], 0
    for name in columns:
        at = text.find(name, at)
        if at < 0:
            return ()
        found.append(at)
        at += len(name)
    return tuple(found)


def names(text: str) -> tuple[str, ...]:
    """The metrics that a line names, and nothing else: ``copypaste: AP,AP50``."""
    if "=" in text or not any(each in text for each in _SEPARATORS):
        return ()
    found = tuple(_cells(_LABEL.sub("", text), of_words=False))
    if not (2 <= len(found) <= _MOST_COLUMNS and all(map(_WORDS.fullmatch, found))):
        return ()
    known = [name for name in found if describe(name).is_metric]
    return found if 2 * len(known) >= max(len(found), 4) else ()


def is_rule(text: str) -> bool:
    """Return whether a line only separates a header from its rows."""
    return _RULE.fullmatch(text) is not None


def below(text: str, columns: tuple[str, ...], options: LogFormatOptions) -> ParsedLine | None:
    """The values of names on the line above; ``None`` where these are none."""
    cells = _cells(_LABEL.sub("", text), of_words=False)
    if len(cells) != len(columns) or any(number_of(cell) is None for cell in cells):
        return None
    parsed = read_named(dict(zip(columns, cells, strict=True)), options)
    if parsed is not None:
        parsed.form = "table"
    return parsed


def _by_starts(text: str, starts: tuple[int, ...]) -> list[str]:
    """The cells of a row in which some are blank: each is of the name that it is nearest to."""
    cells, before = [""] * len(starts), -1
    for match in _CELL.finditer(text):
        at = match.start()
        column = min(range(len(starts)), key=lambda each: abs(starts[each] - at))
        if column <= before:
            return []
        cells[column], before = match[0], column
    return cells


def _cells_of(
    text: str, columns: tuple[str, ...], starts: tuple[int, ...], *, of_words: bool
) -> list[str]:
    if columns[0] == _DURATION:
        return ["", *_UNIT.split(text)[-1].split()]
    cells = _cells(text, of_words=of_words or columns[0] == "Class")
    return _by_starts(text, starts) if starts and 2 < len(cells) < len(columns) else cells


def row(
    text: str,
    columns: tuple[str, ...],
    options: LogFormatOptions,
    starts: tuple[int, ...] = (),
) -> ParsedLine | None:
    """Parse one line below a header; ``None`` where it is no row."""
    bar = BAR.search(text) if "%|" in text else None
    if bar is not None:
        text = re.sub(r":\s{0,9}$", "", text[: bar.start()])
    cells = _cells_of(text, columns, starts, of_words=bar is not None)
    if len(cells) != len(columns):
        return None
    plain = [_plain(name) for name in columns]
    pairs = zip(plain, cells, strict=True)
    # Of two runs in one file, it is not clear which is meant.
    given = {name: cell for name, cell in pairs if plain.count(name) == 1}
    given = by_label(given, given)
    if columns[0] == "Class" and "Class" in given:
        return _of_classes(given)
    total = None
    for name, cell in given.items():
        if kind_of(name) == "epoch" and (match := _OF_EPOCHS.fullmatch(cell)):
            given[name], total = match[1], int(match[2])
    if not any(kind_of(name) and (number_of(given[name]) or 0) >= 0 for name in given):
        return None
    parsed = read_named(given, options, frozenset(_evaluated(tuple(given))))
    if parsed is None or not (
        parsed.trained or parsed.evaluated_epoch is not None or not parsed.values
    ):
        return None
    parsed.form = "table"
    if bar is not None:
        _within(parsed, bar, total)
    return parsed


def _within(parsed: ParsedLine, bar: re.Match[str], total: int | None) -> None:
    """The row of a progress bar, whose values are means since the epoch began."""
    parsed.batch, parsed.batches, parsed.cumulative = int(bar[1]), int(bar[2]), True
    parsed.epoch_ended, parsed.end_is_doubtful = parsed.batch == parsed.batches, False
    parsed.last_epoch = total


def _of_classes(given: dict[str, str]) -> ParsedLine | None:
    """The row of all classes in YOLO's table of an evaluation."""
    if given["Class"] != "all":
        return None
    numbers = {name: number_of(cell) for name, cell in given.items()}
    evaluated = {
        name: number
        for name, number in numbers.items()
        if number is not None and describe(name).is_metric
    }
    return ParsedLine(evaluated=evaluated, form="table") if evaluated else None


def _plain(name: str) -> str:
    """A column's name without the run's, which W&B puts in front."""
    return "" if name.endswith(_SUMMARIES) else name.rpartition(" - ")[2]


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


def _cells(text: str, *, of_words: bool) -> list[str]:
    plain = text.strip()
    if '"' in plain:
        try:
            return [cell.strip() for cell in next(csv.reader([plain]), [])]
        except csv.Error:
            return []
    separator = next((each for each in _SEPARATORS if each in plain), None)
    if separator is not None:
        return [cell.strip() for cell in plain.strip("|").split(separator)]
    cells = _BLANKS.split(plain)
    return plain.split() if of_words and (len(cells) < 3 or "@" in plain or "/" in plain) else cells
