"""Numbers, named values and positions as programs print them: ``train avg loss 0.01``, ``3/100``.

All forms read the same text (``plain``) with the same pattern (``NUMBER``), so that what is a
number is decided here alone:

1. Full-width punctuation and digits become ASCII; ``tensor(0.68, ...)`` and ``np.float64(0.68)``
   become ``0.68``.
2. Digits with commas become a number where their notation is certain: ``0,4123`` and ``1.369,8``
   have a decimal comma, ``1,369.8`` and ``1,234,567`` have thousands, ``step 4,000`` is a count.
   ``1,369`` alone may be either: it follows the other numbers of its line, else it stays as it is.
3. A number is read only as a whole token. ``1,369``, ``2026-01-02``, ``1:05`` and ``9850/10000``
   are none, and neither is their beginning.
4. A number with a unit of time behind it is a time, whatever name stands before it (``VALUE``).
5. A name is a word and up to two words before it, then ``=``, ``:`` or a blank, then a number. What
   follows a word such as ``validation`` that stands by itself is of an evaluation, until a word
   such as ``train``.

A line's place in the training is an epoch, a batch of it, or a step of the run: ``Epoch 3 iteration
250/3981``, ``Epoch: [0][10/5005]``, ``Step 100``, ``Epoch 3:  50%|##  | 235/469 [``, ``[10]``. A
count without a name, or of examples, is of no steps: ``[640/60000 (1%)]``. A step beside an epoch
may be of the epoch or of the run: the place is ``loose``, and the log as a whole decides. A count
that is not understood makes the place ``unclear``."""

import re
import unicodedata
from dataclasses import dataclass
from itertools import islice
from typing import Final

from optimus.progress.metric_names import EVALUATION_WORDS, describe
from optimus.progress.types import Declared

NUMBER: Final = (
    r"(?>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?i:nan|inf(?:inity)?))"
    r"(?!\w|[.,:/+'-]++\d|[\u2070-\u207b]|\s?[*x\u00d7\u00b7]\s?\d)"
)
"""A whole number token, nan and inf included. Atomic: 1.9K does not parse as 1, nor does the 9 of
9 x 10^2."""
_UNIT: Final = (
    r"(?!\s?[$€£¥]|\s?(?i:[kmgt]i?b|usd|eur|gbp)\b(?!\s?[=:]))"
    r"(?!\s?(?>(?:(?:milli|micro|nano)?seconds?|[mnuµ]?secs?|[mnuµ]?s|minutes?|mins?|"
    r"hrs?|hours?|days?)(?:/\w{1,16})?)"
    r"\b(?!\s?[=:]|\s{1,4}[\d.+-]))"
)
"""No unit of time, memory or money follows; ``0.5 min 0.3`` and ``0.5 s=3`` have none."""
_SPACED: Final = r"(?![+-]?[1-9]\d{0,2} \d{3}(?![\w/:%-]))"
"""``1 369.8`` may be one number or two."""
VALUE: Final = rf"{_SPACED}{NUMBER}{_UNIT}(?!\s?%\|)"
"""A number that may be the value of a name: no time, and not the percent of a progress bar."""

_FULL_WIDTH: Final = re.compile("[！-～]")
_DRAWN: Final = re.compile("[━╸╺]{2,}")
"""The bar of rich."""
_FOREIGN: Final = re.compile(r"(?![0-9])\d")
_ASCII: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_WRAPPED: Final = re.compile(
    rf"\b(?:(?:tf\.)?[Tt]ensor|(?:np|numpy)\.\w{{1,16}}|(?:Device)?[Aa]rray)\(\s?\[?({NUMBER})\]?(?:,(?:[^()]|\(\d*,?\)){{0,200}})?\)"
)
_GROUPED: Final = re.compile(
    r"(?<![\w.,'\u2019])[1-9]\d{0,2}(?:['\u2019\xa0\u2009\u202f]\d{3})+(?!['\u2019\w])"
)
_GROUPS: Final = re.compile(r"[^\d]")
_RANGE: Final = re.compile(r"([@_]0?\.\d{1,4}):(0?\.\d{1,4})(?!\d)")
_COMMA: Final = re.compile(r",\d")
_WITH_COMMA: Final = re.compile(
    r"(?<![\w.,\[({'\"])(?<!\d:)(?=[\d.]{1,40},\d)(?>\d+(?:[.,]\d+)*)"
    r"(?:[eE][+-]?\d+)?(?!\w|[:+-]\.?\d)"
)
_DECIMAL: Final = re.compile(r"0\d*,\d+|\d+,(?:\d{1,2}|\d{4,})|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d+")
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,})")
_EITHER: Final = re.compile(r"[1-9]\d{0,2},\d{3}")
_COUNTED: Final = re.compile(
    r"(?:\b(?:(?:global|mini)?[_ -]?(?:steps?|batch(?:es)?)|it(?:er(?:ation)?s?)?|updates?"
    r"|checkpoints?|samples?|examples?)[\s:#=]{1,16}|\d/)$",
    re.IGNORECASE,
)
_MOST_WITH_COMMAS: Final = 100
"""A line with more numbers with commas keeps them as they are: what each means costs time."""
_NAME: Final = re.compile(r"([A-Za-z][\w.@/-]{0,63})['\"]?[\s:=(\[]{1,4}$")


def plain(text: str) -> str:
    """A clean line with its numbers in the notation that the forms read."""
    is_ascii = text.isascii()
    if not is_ascii:
        text = _in_ascii(text)
    if "'" in text or not is_ascii:
        # "1'369.8", and thousands with spaces that are no blanks.
        text = _GROUPED.sub(lambda found: _GROUPS.sub("", found[0]), text)
    if "ensor(" in text or "np." in text or "numpy." in text or "rray(" in text:
        text = _WRAPPED.sub(r"\1", text)
    if "@" in text or "_0." in text:
        # "mAP@.5:.95" is a name, not a value of "mAP@.5".
        text = _RANGE.sub(r"\1-\2", text)
    return _without_commas(text) if "," in text and _COMMA.search(text) is not None else text


def _in_ascii(text: str) -> str:
    """Full-width punctuation, and the digits and separators of other scripts, in ASCII."""
    text = _DRAWN.sub(" ", text)
    if _FULL_WIDTH.search(text) is not None:
        text = text.translate(_ASCII)
    if _FOREIGN.search(text) is None:
        return text
    text = text.replace("\u066b", ".").replace("\u066c", "")
    return _FOREIGN.sub(lambda found: str(unicodedata.decimal(found[0])), text)


def number_of(text: str) -> float | None:
    """The number that a whole cell is, in any notation; ``None`` for any other text."""
    text = plain(text)
    return float(text) if re.fullmatch(NUMBER, text) else None


def whole_number(text: str) -> int | None:
    """The whole number from 0 to 1e15 that a cell is; ``None`` for any other text."""
    number = number_of(text) if text else None
    is_count = number is not None and 0 <= number < 1e15 and number.is_integer()
    return int(number) if number is not None and is_count else None


def is_whole(text: str, start: int, end: int) -> bool:
    """Return whether no part of a number is right before or behind the text from start to end."""
    behind = text[end : end + 2]
    if behind[:1].isalnum() or (behind[:1] in tuple(".,:/+-") and behind[1:].isdigit()):
        return False
    before = text[max(start - 2, 0) : start]
    return not (before[-1:].isalnum() or (before[-1:] in tuple(".,/") and before[:1].isdigit()))


def unclear_number(text: str) -> str | None:
    """Digits with a comma behind the name of a loss or metric that are not read as a number; what
    they mean is not clear."""
    if "," not in text or _COMMA.search(text) is None:
        return None
    for match in islice(_WITH_COMMA.finditer(plain(text)), _MOST_WITH_COMMAS):
        if "," in match[0]:
            name = _NAME.search(match.string, max(match.start() - 72, 0), match.start())
            if name is not None and describe(name[1]).is_metric:
                return match[0]
    return None


def _without_commas(text: str) -> str:
    found = list(islice(_WITH_COMMA.finditer(text), _MOST_WITH_COMMAS + 1))
    if not found or len(found) > _MOST_WITH_COMMAS:
        return text
    decimal = any(_fits(each[0], _DECIMAL) for each in found)
    thousands = any(_fits(each[0], _THOUSANDS) for each in found)
    parts, end = [], 0
    for each in found:
        parts += [text[end : each.start()], _as_number(each, decimal=decimal, thousands=thousands)]
        end = each.end()
    return "".join([*parts, text[end:]])


def _fits(token: str, notation: re.Pattern[str]) -> bool:
    mantissa = re.split("[eE]", token, maxsplit=1)[0]
    return notation.fullmatch(mantissa) is not None


def _as_number(match: re.Match[str], *, decimal: bool, thousands: bool) -> str:
    """A token with commas as a number; as it is where it is none or may be two."""
    token, start = match[0], match.start()
    if _fits(token, _DECIMAL):
        return token.replace(".", "").replace(",", ".")
    if _fits(token, _THOUSANDS):
        return token.replace(",", "")
    if _EITHER.fullmatch(token) is None:
        return token
    before = match.string[max(start - 32, 0) : start]
    if match.string.startswith("/", match.end()) or _COUNTED.search(before) is not None:
        return token.replace(",", "")
    if decimal == thousands:
        return token
    return token.replace(",", "." if decimal else "")


_VALUE: Final = re.compile(
    r"(?<![\w@/.'-])((?>[A-Za-z_][\w@/.'-]*(?:\([A-Z]\))?))[\"']?"
    r"(?>(?:\s?\((?:%|[a-z]{1,8})\))?\s?(?:[=:]|[-=]>)\s*[\"']?|\s+(?:is\s+)?(?!is\s))"
    rf"(?:\[\s?(?=[^\s\[\],]{{1,30}}\s?\]))?({VALUE})"
)
"""``Accuracy: 9850/10000`` does not match. Words are atomic and begin where a word begins: the time
is linear in the line's length."""
_BEFORE: Final = re.compile(r"(?:(?<![\w@/.'-])[A-Za-z][\w']* ){1,2}$")
_POSITIONS: Final = ("epoch", "step", "iter", "iteration", "batch", "update", "time", "lr")
"""Words that are names by themselves: in ``accuracy at step 100`` the number is the step."""
_MARKS: Final = ("val", "test", "dev")
"""One of them is in every word of an evaluation."""
_FORMER: Final = frozenset({"from", "to", "than", "was", "below", "above", "by", "since", "until"})
"""``val_loss improved from 0.41 to 0.38``: a number behind one of these is compared with."""
_SIDE: Final = re.compile(
    rf"(?<![\w=-])(?:({EVALUATION_WORDS})|train(?:ing)?)\b(?!\s?=)(?![-_])", re.IGNORECASE
)
_SPEED: Final = re.compile(
    rf"(?<![\d.,])({NUMBER}) ?(?:samples?|examples?|ex|images?|imgs?|clips?|sentences?|sents?|seqs?"
    r"|sequences?|items?|records?) ?/ ?s(?:ec(?:ond)?)?\b"
)
_SECONDS_EACH: Final = re.compile(
    rf"(?<![\d.,])({NUMBER}) ?s(?:ecs?)? ?/ ?(?:sample|example|image|clip)\b"
)


def printed_values(text: str) -> tuple[dict[str, float], dict[str, float]]:
    """The values of the training and those of an evaluation, by name."""
    lowered = text.lower()
    if any(mark in lowered for mark in _MARKS):
        return _by_side(text)
    match = _VALUE.finditer(text)
    return {_name(text, each): float(each[2]) for each in match if each[1] not in _FORMER}, {}


def _by_side(text: str) -> tuple[dict[str, float], dict[str, float]]:
    training: dict[str, float] = {}
    evaluated: dict[str, float] = {}
    sides = [(match.start(), match[1] is not None) for match in _SIDE.finditer(text)]
    sides.reverse()
    is_evaluated = False
    for match in _VALUE.finditer(text):
        if match[1] in _FORMER:
            continue
        while sides and sides[-1][0] < match.end():
            is_evaluated = sides.pop()[1]
        name = _name(text, match)
        side = evaluated if is_evaluated or describe(name).evaluated else training
        side[name] = float(match[2])
    return training, evaluated


def _name(text: str, match: re.Match[str]) -> str:
    """The word before the number, with the words before it; of ``name=value`` only the name, but
    where those say that it is something else: ``Time cost=7.9``, ``best loss=0.3``."""
    start = match.start()
    if not start or text[start - 1] != " " or match[1].lower() in _POSITIONS:
        return match[1]
    before = _BEFORE.search(text, max(0, start - 32), start)
    if before is None:
        return match[1]
    whole = before[0] + match[1]
    if text[match.end(1) : match.end(1) + 1] == "=" and text[match.start(2) - 1] == "=":
        return match[1] if describe(whole).is_metric else whole
    return whole


def printed_speed(text: str) -> float | None:
    """Samples per second of the process that prints, or ``None``."""
    if "/" not in text:
        return None
    match = _SPEED.search(text)
    if match is not None:
        return float(match[1])
    each = _SECONDS_EACH.search(text)
    return 1.0 / float(each[1]) if each is not None and float(each[1]) > 0 else None


@dataclass(slots=True)
class Place:
    """A position as it is printed; ``None`` where the line does not say."""

    epoch: int | None = None
    epochs: int | None = None
    batch: int | None = None
    batches: int | None = None
    step: int | None = None
    steps: int | None = None
    done: float | None = None
    """Epochs done since the start of training; else ``epoch`` is the number of the running one."""
    ended: bool = False
    """The line says that the epoch has ended."""
    loose: bool = False
    in_steps: bool = True
    """``batch`` counts steps, and not examples, bytes or what the line does not say."""
    percent: float | None = None
    """The part of the epoch as printed beside the batch."""
    unclear: bool = False
    of_bar: bool = False
    """It is that of a progress bar, of which the values are means since the epoch began."""

    @property
    def is_placed(self) -> bool:
        """True where the line has a position, be it only an epoch."""
        return (self.epoch, self.batch, self.step, self.done) != (None, None, None, None)

    @property
    def is_epoch(self) -> bool:
        """True where the line says no more than an epoch."""
        return self.epoch is not None and self.batch is None and self.step is None

    @property
    def declared(self) -> Declared | None:
        """The end of the run, where the position has it."""
        return Declared(epochs=self.epochs, steps=self.steps) if self.epochs or self.steps else None


_NUMBERED: Final = r"(?:[_ ](?:idx|index|id|i|no\.?|num|number)\b)?"
_EPOCH: Final = re.compile(
    rf"\b(?<!time/)(?:epochs?|ep|pass){_NUMBERED}(?:\s?\((?:train|val|test)\))?(?:[\s:#.=\[(|_]{{0,16}}|\s?->\s?)"
    r"(?:is\s)?(\d{1,9})(?![\d.,]*\d|\s?%|\s?s\b)(?:\s?(?:/|of)\s?(\d{1,9}))?[\])]?",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(
    r"[\s:,.-]{0,4}(?:is\s|has\s)?(?:done|end(?:ed)?|finished|completed?|summary|results?)\b",
    re.IGNORECASE,
)
_EPOCHS_DONE: Final = re.compile(
    r"\bepochs?\s(?:completed|done|finished)\s?[:=]?\s?(\d{1,9}(?:\.\d{1,9})?)\b|"
    r"\b(?:completed|finished)\sepochs?\s?[:=#]?\s?(\d{1,9})\b",
    re.IGNORECASE,
)
_FRACTION: Final = re.compile(
    r"(?<![\w/])(?<!per )epochs?[\s:=|\[(]{1,4}(\d{1,9}\.\d{1,9})(?![\w.%])(?!\s?(?:s|%))"
    r"(?:\s?/\s?(\d{1,9})(?!\.?\d))?|"
    r"(?:^\W{0,4}|\b(?:after|at) |[|,;] ?)(\d{1,9}\.\d{1,9}) ?epochs?\b",
    re.IGNORECASE,
)
"""``epoch=1.25``, ``Epoch: 1.25/3``, ``1.25 epochs``."""
_EPOCH_BEHIND: Final = re.compile(
    r"\W{0,8}(\d{1,9})(?:\s?/\s?(\d{1,9}))?(?:st|nd|rd|th)?[\s*]{0,4}epochs?\b"
    r"(?::\w{1,16}:(?:\d{1,15}-)?(\d{1,15})batch)?",
    re.IGNORECASE,
)
"""``1/10 * Epoch (train)``, ``1epoch:train:1-100batch``."""
_WITHIN: Final = re.compile(
    r"([\s:,|\[(]{0,8})(\d{1,15})\s?/\s{0,4}(\d{1,15})\b(?![.,]\d)"
    r"(?:\s?\(\s{0,4}(\d{1,3})(?:\.\d{1,6})?\s?%\)|[\s\])]{0,4}([A-Za-z]{1,12})\b(?!\s?[:=]))?"
)
_UNITS_OF_STEPS: Final = re.compile(
    r"(?:mini)?(?:batch(?:es)?|ba?|its?|iter(?:ation)?s?|steps?|updates?|rounds?)", re.IGNORECASE
)
_EXAMPLES: Final = re.compile(
    r"\b(?:samples?|examples?|images?|imgs?|records?|rows|tokens?|words|sentences|seq(?:uence)?s"
    r"|frames|bytes|[kmg]i?b|items|points)\b[\s:=#\[(]{0,4}(\d{1,15})\s?(?:/|of)\s?(\d{1,15})\b",
    re.IGNORECASE,
)
_BAR_UNIT: Final = re.compile(r"[\d.?]\s?([A-Za-z]{1,16})/s\b|\ds/([A-Za-z]{1,16})")
_BAR_LABEL: Final = re.compile(_EXAMPLES.pattern.partition(r"\b[")[0] + r"\b", re.IGNORECASE)
_UNITS: Final = r"(batch(?:es)?|it(?:er(?:ation)?s?)?|steps?|updates?|up(?=\.)|rounds?|episodes?)"
_COUNT: Final = re.compile(
    r"\b(?:mini-?|(?:current|cur|train(?:ing)?|num(?=_updates))[_ ])?"
    rf"{_UNITS}{_NUMBERED}(?:[\s:#.=\[(]{{0,16}}|\s?->\s?)(?:is\s)?"
    r"(\d{1,15})(?![\d.,]*\d|\s?%)(?:\]?\s?(?:/|of)\s{0,9}\[?\s{0,9}(\d{1,15}))?",
    re.IGNORECASE,
)
_GLOBAL: Final = re.compile(
    r"\bglobal[_ -]?steps?(?:[\s:#=\[(]{0,8})(\d{1,15})(?![\d.,]*\d)(?:\s?(?:/|of)\s?(\d{1,15}))?",
    re.IGNORECASE,
)
_STEP: Final = re.compile(
    r"\b(?:steps?|updates?)[\s:#=]{0,4}(\d{1,15})(?![\d.,]*\d|\s?[/%])", re.IGNORECASE
)
"""A step beside a fraction of an epoch."""
_OF_RUN: Final = re.compile(r"\s{0,8}(\d{1,15})/(\d{1,15}) \(epoch\b")
"""``100/1000 (epoch 1)``, as char-rnn counts the steps of the run."""
_OF_LINES: Final = re.compile(r"[<\[(]epoch:\s{0,8}\d{1,9}, iter:\s{0,16}(\d{1,15})(), lr:")
"""``[epoch: 1, iter: 4000, lr:(...)]``, as BasicSR counts the steps of the run."""
_AT_END: Final = re.compile(
    r"[)\]|]\s{1,4}(\d{1,15})/(\d{1,15})\s{0,8}$|(?<!%)\s\[\s{0,12}(\d{1,15})/(\d{1,15})\]\s{0,8}$"
)
_COUNTED_UNIT: Final = re.compile(rf"(?<!/)\b{_UNITS}[\s:=]{{1,3}}[\d.]", re.IGNORECASE)
_TRAIN: Final = re.compile(r"^Train:\s{1,4}(\d{1,9})\s{1,4}\[\s{0,8}(\d{1,15})/(\d{1,15})\b")
_BRACKETS: Final = re.compile(
    r"\[\s?(\d{1,9})/(\d{1,9})\][\s,:]{0,3}(?:(?:step|iter|iteration|batch)[\s:]{0,2}\[?|\[)\s{0,8}"
    r"(\d{1,15})/(\d{1,15})\b|^\[(\d{1,9}),\s{1,8}(\d{1,15})\]",
    re.IGNORECASE,
)
_LEADING: Final = re.compile(
    r"[\[(]\s{0,8}(\d{1,15})\s?/\s?(\d{1,15})[\])][\s:,|-]|\s{0,8}(\d{1,15})/(\d{1,15})[\s:,|]"
    r"|\[(\d{1,15})(?: \| [\d.]{1,12})?\]:?\s|(\d{1,15})(?::\t|it \[)"
    r"|[\[(]?([A-Za-z]{1,16})[\])]?\s?[\[(]?\s{0,8}(\d{1,15})/(\d{1,15})[\])]?(?=[\s:,])"
)
BAR: Final = re.compile(
    r"\b\d{1,3}%\|[^|]{0,400}\|\s{0,20}(\d{1,15})/(\d{1,15}) \[([^\]]{0,400})\]?"
)
_GLOBAL_IN_BAR: Final = re.compile(r"\bglobal_step=(\d{1,15})(?:\.0+)?(?![\d.])")
_OF_EPOCHS: Final = re.compile(r"\bepochs?\s?:?\s{0,4}$", re.IGNORECASE)
_OF_STEPS: Final = re.compile(r"\b(?:global |total |training )?steps?\s?:?\s{0,4}$", re.IGNORECASE)


def place_in(text: str, bar: re.Match[str] | None = None) -> Place:
    """The position on a line without its prefix; ``bar``: the progress bar that it has."""
    if bar is not None:
        return _of_bar(text, bar)
    place = Place()
    if text.startswith("Train:") and (match := _TRAIN.search(text)):
        place.epoch, place.batch, place.batches = map(int, match.groups())
    elif "[" in text and (match := _BRACKETS.search(text)):
        epoch, epochs, batch, batches, first, second = match.groups()
        place.epoch, place.batch = int(epoch or first), int(batch or second)
        place.batches = int(batches) if batches else None
        place.epochs = int(epochs) if epochs else None
    else:
        _by_words(text, place)
        if not place.is_placed:
            _by_beginning(text, place)
    if place.batches is not None and place.batch is not None and place.batch > place.batches:
        place.batches = None
    return place


def _of_bar(text: str, bar: re.Match[str]) -> Place:
    count, total, label = int(bar[1]), int(bar[2]), text[: bar.start()]
    if step := _GLOBAL_IN_BAR.search(bar[3]):
        return Place(step=int(step[1]))
    match = _EPOCH.search(text)
    place = Place(of_bar=True)
    if match is not None:
        place.epoch, place.epochs = int(match[1]), int(match[2]) if match[2] else None
    if "/epoch" in bar[3] or "epoch/s" in bar[3] or _OF_EPOCHS.search(label):
        return Place(done=float(count), epochs=total or None, of_bar=True)
    if match is not None and place.epochs == total and place.epoch in (count, count - 1, count + 1):
        return Place(done=float(count), epochs=total, of_bar=True)
    if match is None and _OF_STEPS.search(label):
        return Place(step=count, steps=total or None, of_bar=True)
    place.batch, place.batches = count, total
    unit = _BAR_UNIT.search(bar[3])
    is_unit = unit is None or _UNITS_OF_STEPS.fullmatch(unit[1] or unit[2]) is not None
    place.in_steps = is_unit and _BAR_LABEL.search(label) is None
    return place


def _by_words(text: str, place: Place) -> None:
    lowered = text.lower()  # looking for a word is quicker than a pattern
    has_epoch = "epoch" in lowered
    epoch = _EPOCH.search(text) if has_epoch or "ep" in lowered or "pass" in lowered else None
    if has_epoch and _by_epochs_done(text, place, is_named=epoch is not None):
        beside = _STEP.search(text) if place.done is not None else None
        place.step = int(beside[1]) if beside is not None else None
        return
    if epoch is not None:
        place.epoch, place.epochs = int(epoch[1]), int(epoch[2]) if epoch[2] else None
        place.ended = _ENDED.match(text, epoch.end()) is not None
    match = _GLOBAL.search(text) if "global" in lowered else None
    if match is None and has_epoch:
        match = _OF_RUN.match(text) or _OF_LINES.search(text)
    if match is not None:
        place.step, place.steps = int(match[1]), int(match[2]) if match[2] else None
        return
    if epoch is not None:
        within = _WITHIN.match(text, epoch.end())
        if within is not None:
            place.batch, place.batches = int(within[2]), int(within[3])
            # "Epoch: [0][10/5005]" and "epoch 1 | 200/2983 batches" are batches.
            is_own = text[epoch.end() - 1] == "]" and within[1].strip() == "[" and not within[4]
            place.in_steps = is_own or _UNITS_OF_STEPS.fullmatch(within[5] or "") is not None
            place.percent = float(within[4]) if within[4] else None
            return
    count = _COUNT.search(text)
    if count is None:
        place.unclear = _COUNTED_UNIT.search(text) is not None
        if "/" in text and (examples := _EXAMPLES.search(text)):
            place.batch, place.batches, place.in_steps = int(examples[1]), int(examples[2]), False
        return
    unit, number = count[1].lower(), int(count[2])
    total = int(count[3]) if count[3] else None
    of_batches = unit.startswith("batch")
    place.loose = not of_batches
    if of_batches or (epoch is not None and (total or not unit.startswith(("step", "up")))):
        place.batch, place.batches = number, total
    else:
        place.step, place.steps = number, total


def _by_epochs_done(text: str, place: Place, *, is_named: bool) -> bool:
    """Return whether the text tells its epochs otherwise than by a number behind the word."""
    if done := _EPOCHS_DONE.search(text):
        place.done = float(done[1] or done[2])
        return True
    if is_named:
        return False
    if behind := _EPOCH_BEHIND.match(text):
        place.epoch, place.epochs = int(behind[1]), int(behind[2]) if behind[2] else None
        place.batch = int(behind[3]) if behind[3] else None
        return True
    if part := _FRACTION.search(text):
        place.done, place.epochs = float(part[1] or part[3]), int(part[2]) if part[2] else None
        return True
    return False


def _by_beginning(text: str, place: Place) -> None:
    """A number alone at the beginning: a fraction is of an epoch, ``[10]`` a round of boosting.

    A fraction at the end, behind a bracket, is of an epoch, too."""
    match = _LEADING.match(text)
    if match is None:
        if at_end := _AT_END.search(text):
            place.batch, place.batches = int(at_end[1] or at_end[3]), int(at_end[2] or at_end[4])
            place.in_steps = False
        return
    batch, batches = match[1] or match[3] or match[8], match[2] or match[4] or match[9]
    if match[7] and describe(match[7]).is_metric:
        return
    if batch:
        place.batch, place.batches, place.in_steps = int(batch), int(batches), False
    else:
        place.step = int(match[5] or match[6])
