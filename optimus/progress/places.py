"""Where in the training a line is: the epoch, a batch of it, or a step of the run.

``Epoch 3 iteration 250/3981``, ``Epoch: [0][10/5005]``, ``epoch 1 | 200/2983 batches``,
``Step 100``, ``Epoch 3:  50%|##  | 235/469 [``, ``it 1024/306968 of epoch 0``, ``[10]``. A step or
an iteration beside an epoch may count within the epoch or over the run: the place is ``loose``, and
the log as a whole decides (``counts``). A count that is not understood makes the place
``unclear``."""

import re
from dataclasses import dataclass
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.types import Declared


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
    unclear: bool = False
    of_bar: bool = False
    """It is that of a progress bar, of which the values are means since the epoch began."""

    @property
    def is_placed(self) -> bool:
        """Whether the line has a position, be it only an epoch."""
        return (self.epoch, self.batch, self.step, self.done) != (None, None, None, None)

    @property
    def is_epoch(self) -> bool:
        """Whether an epoch is all that the line says."""
        return self.epoch is not None and self.batch is None and self.step is None

    @property
    def declared(self) -> Declared | None:
        """The end of the run, where the position has it."""
        return Declared(epochs=self.epochs, steps=self.steps) if self.epochs or self.steps else None


_NUMBERED: Final = r"(?:[_ ](?:idx|index|id|no\.?|num|number))?"
_EPOCH: Final = re.compile(
    rf"\b(?:epochs?|ep|pass){_NUMBERED}(?:\s?\((?:train|val|test)\))?(?:[\s:#.=\[(|_]{{0,8}}|\s?->\s?)"
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
_EPOCH_BEHIND: Final = re.compile(
    r"\W{0,8}(\d{1,9})(?:\s?/\s?(\d{1,9}))?(?:st|nd|rd|th)?[\s*]{0,4}epoch\b"
    r"(?::\w{1,16}:(?:\d{1,15}-)?(\d{1,15})batch)?",
    re.IGNORECASE,
)
"""``1/10 * Epoch (train)``, ``1epoch:train:1-100batch``."""
_WITHIN: Final = re.compile(r"[\s:,|\[(]{0,8}(\d{1,15})\s?/\s{0,4}(\d{1,15})\b(?![.,]\d)")
_UNITS: Final = r"(batch(?:es)?|it(?:er(?:ation)?s?)?|steps?|updates?|up(?=\.)|rounds?|episodes?)"
_COUNT: Final = re.compile(
    r"\b(?:mini-?|(?:current|cur|train(?:ing)?|num(?=_updates))[_ ])?"
    rf"{_UNITS}{_NUMBERED}(?:[\s:#.=\[(]{{0,8}}|\s?->\s?)(?:is\s)?"
    r"(\d{1,15})(?![\d.,]*\d|\s?%)(?:\]?\s?(?:/|of)\s?\[?\s?(\d{1,15}))?",
    re.IGNORECASE,
)
_GLOBAL: Final = re.compile(
    r"\bglobal[_ -]?steps?(?:[\s:#=\[(]{0,8})(\d{1,15})(?![\d.,]*\d)(?:\s?(?:/|of)\s?(\d{1,15}))?",
    re.IGNORECASE,
)
_AT_END: Final = re.compile(
    r"[)\]|]\s{1,4}(\d{1,15})/(\d{1,15})\s{0,8}$|(?<!%)\s\[\s{0,12}(\d{1,15})/(\d{1,15})\]\s{0,8}$"
)
_COUNTED: Final = re.compile(rf"\b{_UNITS}[\s:=]{{1,3}}[\d.]", re.IGNORECASE)
_TRAIN: Final = re.compile(r"^Train:\s{1,4}(\d{1,9})\s{1,4}\[\s{0,8}(\d{1,15})/(\d{1,15})\b")
_BRACKETS: Final = re.compile(
    r"\[\s?(\d{1,9})/(\d{1,9})\][\s,:]{0,3}(?:(?:step|iter|iteration|batch)[\s:]{0,2}\[?|\[)\s{0,8}"
    r"(\d{1,15})/(\d{1,15})\b|^\[(\d{1,9}),\s{1,8}(\d{1,15})\]",
    re.IGNORECASE,
)
_LEADING: Final = re.compile(
    r"\[\s{0,8}(\d{1,15})\s?/\s?(\d{1,15})\][\s:,|-]|\s{0,8}(\d{1,15})/(\d{1,15})[\s:,|]"
    r"|\[(\d{1,15})\]:?\s|(\d{1,15}):\t"
    r"|[\[(]?([A-Za-z]{1,16})[\])]?\s?[\[(]?\s{0,8}(\d{1,15})/(\d{1,15})[\])]?(?=[\s:,])"
)
BAR: Final = re.compile(
    r"\b\d{1,3}%\|[^|]{0,400}\|\s{0,20}(\d{1,15})/(\d{1,15}) \[([^\]]{0,400})\]?"
)
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
    return place


def _by_words(text: str, place: Place) -> None:
    lowered = text.lower()  # looking for a word is quicker than a pattern
    has_epoch = "epoch" in lowered
    if has_epoch and (done := _EPOCHS_DONE.search(text)):
        place.done = float(done[1] or done[2])
        return
    epoch = _EPOCH.search(text) if has_epoch or "ep" in lowered or "pass" in lowered else None
    if has_epoch and epoch is None and (behind := _EPOCH_BEHIND.match(text)):
        place.epoch, place.epochs = int(behind[1]), int(behind[2]) if behind[2] else None
        place.batch = int(behind[3]) if behind[3] else None
        return
    if epoch is not None:
        place.epoch, place.epochs = int(epoch[1]), int(epoch[2]) if epoch[2] else None
        place.ended = _ENDED.match(text, epoch.end()) is not None
    match = _GLOBAL.search(text) if "global" in lowered else None
    if match is not None:
        place.step, place.steps = int(match[1]), int(match[2]) if match[2] else None
        return
    if epoch is not None:
        within = _WITHIN.match(text, epoch.end())
        if within is not None:
            place.batch, place.batches = int(within[1]), int(within[2])
            return
    count = _COUNT.search(text)
    if count is None:
        place.unclear = _COUNTED.search(text) is not None
        return
    unit, number = count[1].lower(), int(count[2])
    total = int(count[3]) if count[3] else None
    of_batches = unit.startswith("batch")
    place.loose = not of_batches
    if of_batches or (epoch is not None and (total or not unit.startswith(("step", "up")))):
        place.batch, place.batches = number, total
    else:
        place.step, place.steps = number, total


def _by_beginning(text: str, place: Place) -> None:
    """A number alone at the beginning: a fraction is of an epoch, ``[10]`` a round of boosting.

    A fraction at the end, behind a bracket, is of an epoch, too."""
    match = _LEADING.match(text)
    if match is None:
        if at_end := _AT_END.search(text):
            place.batch, place.batches = int(at_end[1] or at_end[3]), int(at_end[2] or at_end[4])
        return
    batch, batches = match[1] or match[3] or match[8], match[2] or match[4] or match[9]
    if match[7] and describe(match[7]).is_metric:
        return
    if batch:
        place.batch, place.batches = int(batch), int(batches)
    else:
        place.step = int(match[5] or match[6])
