"""When a job would be done at other counts, as the page asks it."""

import threading
from collections.abc import Mapping
from typing import Final

import msgspec

from optimus.interval import what_if
from optimus.interval.what_if import Question
from optimus.models.forecast import TimeLeft

MOST_REPLICAS: Final = 10_000
_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""


class Outlook(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``optimus.interval.what_if.Outlook`` as the page reads it."""

    ps: int
    workers: int
    remaining: TimeLeft
    ends_at: float


class WhatIf(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``optimus.interval.what_if.WhatIf`` as the page reads it."""

    at: float
    problem: str
    now: Outlook | None
    then: Outlook | None
    price_seconds: float
    saves_seconds: float
    allowed: bool
    fits: bool | None
    more: Mapping[str, int]


def answer(question: Question) -> WhatIf:
    """When the job would be done."""
    with _ONE_AT_A_TIME:
        found = what_if.answer(question)
    return msgspec.convert(found, WhatIf, from_attributes=True)
