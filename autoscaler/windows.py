"""Maintenance windows: when rescales and profiling runs may begin.

A window is ``deny`` or ``allow``, days of the week and times, all UTC: ``deny Mon-Fri
08:00-10:30``. Several are separated by ``;``. Nothing begins within one that denies, nor outside of
those that allow, if there are any. What has begun is finished.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = "|".join(_DAYS)
_FORM: Final = re.compile(
    rf"(allow|deny)(?: ({_DAY})(?:-({_DAY}))?)? (\d\d):(\d\d)-(\d\d):(\d\d)", re.IGNORECASE
)
_DAY_MINUTES: Final = 24 * 60
EXPECTED: Final = "windows such as 'deny Mon-Fri 08:00-10:30; allow Sat 00:00-24:00', in UTC"


@dataclass(frozen=True, slots=True)
class Window:
    """A time of the week; one that ends before it begins ends on the next day."""

    allows: bool
    days: tuple[int, ...]
    """On which it begins; Monday is 0."""

    begin_minute: int
    end_minute: int
    text: str

    def holds(self, at: float) -> bool:
        """Whether an instant, in seconds since the epoch, lies within it."""
        now = datetime.fromtimestamp(at, UTC)
        minute = 60 * now.hour + now.minute
        if self.begin_minute < self.end_minute:
            return now.weekday() in self.days and self.begin_minute <= minute < self.end_minute
        yesterday = (now - timedelta(days=1)).weekday()
        is_late = now.weekday() in self.days and minute >= self.begin_minute
        return is_late or (yesterday in self.days and minute < self.end_minute)


def parse_windows(text: str) -> tuple[Window, ...] | None:
    """The windows of a setting; ``None`` where one cannot be read."""
    windows = [_window(part.strip()) for part in text.split(";") if part.strip()]
    read = tuple(each for each in windows if each is not None)
    return read if len(read) == len(windows) else None


def _window(text: str) -> Window | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    kind, first, last, *figures = found.groups()
    hours = [int(each) for each in figures]
    begin, end = 60 * hours[0] + hours[1], 60 * hours[2] + hours[3]
    if max(hours[1], hours[3]) > 59 or max(begin, end) > _DAY_MINUTES or begin == end:
        return None
    days = _days(first, last or first) if first else tuple(range(7))
    return Window(kind.lower() == "allow", days, begin, end, text)


def _days(first: str, last: str) -> tuple[int, ...]:
    begin, end = _DAYS.index(first.lower()), _DAYS.index(last.lower())
    return tuple((begin + n) % 7 for n in range((end - begin) % 7 + 1))


def why_closed(windows: Sequence[Window], at: float) -> str:
    """Why nothing may begin at an instant; empty where it may."""
    denied = next((each for each in windows if not each.allows and each.holds(at)), None)
    if denied is not None:
        return f"nothing begins now: maintenance window '{denied.text}' (UTC)"
    allowing = [each for each in windows if each.allows]
    if allowing and not any(each.holds(at) for each in allowing):
        return "nothing begins now: outside of the maintenance windows that allow it"
    return ""
