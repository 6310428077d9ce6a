"""Types of command line arguments; each says in its error what is expected."""

import argparse
import math
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import TypeVar

from optimus.jobs import Target
from optimus.progress.targets import InvalidTarget, parse_target

Value = TypeVar("Value")


def whole_number(least: int) -> Callable[[str], int]:
    """A whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"a whole number of at least {least} is expected, not {text!a}"
            )
        return int(text)

    return parse


def number_between(low: float, high: float, what: str = "a number") -> Callable[[str], float]:
    """A number above ``low`` and below ``high``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value < high:
            bound = f"above {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise argparse.ArgumentTypeError(f"{what} {bound} is expected, not {text!a}")
        return value

    return parse


def joined(parse: Callable[[str], Value]) -> Callable[[str], tuple[Value, ...]]:
    """Different values, joined by commas."""
    return lambda text: tuple(dict.fromkeys(map(parse, text.split(","))))


def target_goal(text: str) -> Target:
    """A goal as in the annotation ``optimus.dl/target``."""
    goal = parse_target(text)
    if isinstance(goal, InvalidTarget):
        raise argparse.ArgumentTypeError(f"{goal.expected}, not {text!a}")
    return goal


def unknown_word(word: str, known: Collection[str]) -> str:
    """What is said of a name that is none of those known: which of them may have been meant."""
    meant = get_close_matches(word, known, n=1)
    said = f"did you mean {meant[0]}?" if meant else f"expected: {', '.join(known)}"
    return f"there is no {word!a}; {said}"


_MOST = 1_000_000


def named_amounts(text: str, names: Collection[str]) -> dict[str, float]:
    """``NAME=AMOUNT,...``, each of the names at most once; raises ``ValueError``."""
    found: dict[str, float] = {}
    for part in map(str.strip, text.split(",")):
        name, _, amount = (piece.strip() for piece in part.partition("="))
        if name not in names or name in found:
            raise ValueError(f"{part!r}; each of {', '.join(names)} at most once is expected")
        try:
            found[name] = float(amount)
        except ValueError:
            found[name] = math.nan
        if not 0 <= found[name] <= _MOST:
            expected = "NAME=AMOUNT with an amount from 0 to a million is expected"
            raise ValueError(f"{part!r}; {expected}")
    return found
