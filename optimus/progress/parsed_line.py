"""What one log line says, whoever printed it: the common form of all log formats."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NUMBER: Final = r"(?>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?i:nan|inf(?:inity)?))(?!\w)"
"""A number as programs print it, nan and inf among them. Atomic, so that 1.9K does not read as
1."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that a line speaks of: at a global step, or after so many epochs, or where
    training stands.

    Not ``complete``: the line says that the save begins.
    """

    step: int | None = None
    epochs: int | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line says; ``None`` or false where it says nothing.

    ``epoch`` is the running epoch counted from 0; with ``epoch_as_printed`` it is the printed
    number, which may count from 0 or from 1. ``batch`` of ``batches`` in that epoch are done by the
    process that prints; ``step`` is the whole job's. A ``cumulative`` loss is the mean since the
    epoch began. ``samples_per_second`` is that of the process, ``steps_per_second`` the whole
    job's. ``metrics`` are the names of all values on the line. With ``epoch_line_is_mean`` the log
    is one whose line at an epoch's end gives the mean of the whole epoch."""

    epoch: int | None = None
    epoch_as_printed: bool = False
    epoch_ended: bool = False
    batch: int | None = None
    batches: int | None = None
    step: int | None = None
    loss: float | None = None
    cumulative: bool = False
    epoch_line_is_mean: bool = False
    samples_per_second: float | None = None
    steps_per_second: float | None = None
    learning_rate: float | None = None
    saved: Saved | None = None
    metrics: tuple[str, ...] = ()

    @property
    def trained(self) -> bool:
        """Whether the line tells how far training is."""
        return self.step is not None or self.batch is not None or self.epoch_ended


UNDERSTOOD: Final = Reading()
"""A known line that says nothing about the training itself, such as the result of an evaluation."""

_WHOLE: Final = re.compile(r"\+?\d{1,15}(?:\.0*)?")
_PAIR: Final = re.compile(rf"(?:^|[\s,])([A-Za-z][\w./|-]*)=({NUMBER})")


def whole(text: str) -> int | None:
    """The whole number that a text is, at most 15 digits, or ``None``."""
    return int(float(text)) if _WHOLE.fullmatch(text) else None


def pairs(text: str) -> dict[str, float]:
    """All ``name=value`` pairs without blanks around the sign, the last of each name."""
    return numbers(_PAIR.findall(text))


def numbers(found: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Names and texts of numbers as numbers."""
    return {name: float(value) for name, value in found}
