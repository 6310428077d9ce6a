"""Schedules of the learning rate as users write them: ``step:100,150 end=200``, ``cosine:200``."""

import re
from dataclasses import dataclass
from typing import Final

from optimus.progress.types import Declared

_NUMBER: Final = r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?)"
_SCHEDULE: Final = re.compile(
    rf"(step|cosine|linear|poly|constant):({_NUMBER}(?:,{_NUMBER}){{0,49}})"
    rf"((?:\s+(?:end|factor|warmup)={_NUMBER})*)",
    re.ASCII,
)
_EXPECTED: Final = (
    "a shape and its epochs are expected: step:100,150 (drops), cosine:200, linear:200, poly:200 "
    "or constant:200 (the end); then, if need be, end=200, factor=0.1, warmup=5"
)


@dataclass(frozen=True, slots=True)
class InvalidSchedule:
    """A text that is no schedule; ``expected`` is a sentence for users."""

    expected: str


def parse_schedule(text: str) -> Declared | InvalidSchedule:
    """Return the end in epochs, the drops, their factor and the warm-up that a schedule names."""
    match = _SCHEDULE.fullmatch(text.strip().lower()[:500])
    if match is None:
        return InvalidSchedule(_EXPECTED)
    shape, places = match[1], tuple(float(each) for each in match[2].split(","))
    more = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", match[3])}
    if shape == "step":
        end, drops = more.get("end"), places
        if list(drops) != sorted(set(drops)):
            return InvalidSchedule("epochs of drops that rise are expected, such as step:100,150")
    elif len(places) > 1:
        return InvalidSchedule(f"one number is expected, the epoch of the end: {shape}:200")
    else:
        end, drops = more.get("end", places[0]), ()
    factor, warmup = more.get("factor"), more.get("warmup")
    if factor is not None and not 0 < factor < 1:
        return InvalidSchedule("a factor between 0 and 1 is expected, such as factor=0.1")
    if end is not None and (end < 1 or end != int(end) or drops[-1:] >= (end,)):
        return InvalidSchedule("a whole number of epochs after the last drop is expected as end")
    return Declared(
        epochs=None if end is None else int(end),
        schedule=shape,
        drops=drops,
        drop_factor=factor,
        warmup_epochs=warmup or None,
    )
