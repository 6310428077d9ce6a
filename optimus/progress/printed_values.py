"""Names and numbers in a line of free text: ``train avg loss 0.01, dev acc: 0.61 (93 samples/s)``.

A name is a word and up to two words before it, then ``=``, ``:`` or a blank, then a number. What
follows a word such as ``validation`` that stands by itself is of an evaluation, until a word such
as ``train``."""

import re
from typing import Final

from optimus.progress.metric_names import EVALUATION_WORDS, describe
from optimus.progress.printed_numbers import NUMBER, VALUE

_VALUE: Final = re.compile(
    r"(?<![\w@/.'-])((?>[A-Za-z_][\w@/.'-]*(?:\([A-Z]\))?))[\"']?"
    r"(?>(?:\s?\((?:%|[a-z]{1,8})\))?\s?(?:[=:]|[-=]>)\s*[\"']?|\s+(?:is\s+)?(?!is\s))"
    rf"(?:\[\s?(?=[^\s\[\],]{{1,30}}\s?\]))?({VALUE})"
)
"""``Accuracy: 9850/10000`` does not match. Words are atomic and begin where a word begins: the time
is linear in the line's length."""
_BEFORE: Final = re.compile(r"(?:(?<![\w@/.'-])[A-Za-z][\w']* ){1,2}$")
_LOOK_BACK: Final = 32
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
    values = (found for found in _VALUE.finditer(text) if found[1] not in _FORMER)
    return {_name(text, found): float(found[2]) for found in values}, {}


def _by_side(text: str) -> tuple[dict[str, float], dict[str, float]]:
    training: dict[str, float] = {}
    evaluated: dict[str, float] = {}
    sides = [(found.start(), found[1] is not None) for found in _SIDE.finditer(text)]
    sides.reverse()
    is_evaluated = False
    for found in _VALUE.finditer(text):
        if found[1] in _FORMER:
            continue
        while sides and sides[-1][0] < found.end():
            is_evaluated = sides.pop()[1]
        name = _name(text, found)
        side = evaluated if is_evaluated or describe(name).evaluated else training
        side[name] = float(found[2])
    return training, evaluated


def _name(text: str, found: re.Match[str]) -> str:
    """The word before the number, with the words before it; of ``name=value`` only the name."""
    start = found.start()
    if text[found.end(1) : found.end(1) + 1] == "=" and text[found.start(2) - 1] == "=":
        return found[1]
    if not start or text[start - 1] != " " or found[1].lower() in _POSITIONS:
        return found[1]
    before = _BEFORE.search(text, max(0, start - _LOOK_BACK), start)
    return found[1] if before is None else before[0] + found[1]


def printed_speed(text: str) -> float | None:
    """Samples per second of the process that prints, or ``None``."""
    if "/" not in text:
        return None
    found = _SPEED.search(text)
    if found is not None:
        return float(found[1])
    each = _SECONDS_EACH.search(text)
    return 1.0 / float(each[1]) if each is not None and float(each[1]) > 0 else None
