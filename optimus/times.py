"""Instants and durations as people read them, UTC."""

from datetime import UTC, datetime
from typing import Final

_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def clock(at: float, now: float) -> str:
    """An instant to the minute, UTC; with the day where that is not today."""
    if at >= _LAST:
        return "after 9999"  # a job may have any number of epochs before it
    found, today = (datetime.fromtimestamp(each, UTC) for each in (at, now))
    form = "%H:%M" if found.date() == today.date() else "%m-%d %H:%M"
    return found.strftime(form if found.year == today.year else "%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """As ``2 h 5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes or hours)
    parts += [f"{rest} s"] * (not hours and bool(rest or not parts))
    return " ".join(parts)
