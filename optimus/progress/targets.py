"""Targets as users write them: ``accuracy>=0.76``, ``mAP >= 80%``."""

import re
from dataclasses import dataclass
from typing import Final

from optimus.jobs import Target, TargetLoss, TargetMetric
from optimus.progress.metric_names import Meaning, describe, is_of_training

_TARGET: Final = re.compile(
    r"([A-Za-z][ -;?-~]{0,62}?)\s*(>=|<=|=>|=<|>|<)\s*"
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*(%?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class InvalidTarget:
    """A text that is no target; ``expected`` is a sentence for users."""

    expected: str


def parse_target(text: str) -> Target | InvalidTarget:
    """A metric, a direction and a value. A training loss is the goal ``target-loss``."""
    match = _TARGET.fullmatch(text.strip()[:100])
    if match is None:
        right = "a metric, >= or <=, and a number are expected"
        return InvalidTarget(f"{right}, such as accuracy>=0.76 or loss<=0.3")
    name, sign, number, percent = match.groups()
    at_least, value = ">" in sign, float(number) / (100 if percent else 1)
    described = describe(name)
    if described.rises is not None and described.rises != at_least:
        way, right = ("rises", ">=") if described.rises else ("falls", "<=")
        return InvalidTarget(
            f"{name} {way} as training goes on: {name}{right}{number}{percent} would be a goal"
        )
    of_training = False if is_of_training(name) else None
    evaluated = True if described.evaluated else of_training
    if described.meaning is Meaning.LOSS and not evaluated:
        return TargetLoss(value)
    return TargetMetric(name, value, at_least, evaluated)
