"""RFC 3339 instants and seconds since the epoch (UTC)."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from optimus.kube.errors import Malformed

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)

LAST_SECONDS: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last instant that RFC 3339 can say."""

_FIRST_SECONDS: Final = datetime(1000, 1, 1, tzinfo=UTC).timestamp()
"""The first one of four digits: ``strftime`` does not pad the years before it."""


def parse_instant(text: str) -> float:
    """Seconds since the epoch, to about 0.2 µs.

    Raises:
        Malformed: the text is not an RFC 3339 time.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise Malformed(f"{text[:64]!r} is not an RFC 3339 time")
    whole, fraction, zone = match.groups()
    try:
        seconds = datetime.fromisoformat(whole + ("+00:00" if zone in "Zz" else zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Malformed(f"{text[:64]!r} is not an RFC 3339 time") from error
    return seconds + (float(f"0.{fraction}") if fraction else 0.0)


def instant_of(text: str | None) -> float | None:
    """Seconds since the epoch; ``None`` where there is no text, or none that can be read."""
    try:
        return parse_instant(text) if text else None
    except Malformed:
        return None


def format_instant(seconds: float) -> str:
    """RFC 3339 in UTC, to the microsecond, as ``metav1.MicroTime`` and ``sinceTime`` read it."""
    return _utc(seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_second(seconds: float) -> str:
    """RFC 3339 in UTC, to the second, as ``metav1.Time`` stores it. Instants beyond its years, as
    the end of a job with very many epochs, are written as its last one."""
    return _utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, _FIRST_SECONDS), LAST_SECONDS), UTC)


@lru_cache(maxsize=4096)
def created_at(timestamp: str | None) -> float:
    """An object's creation, in seconds since the epoch; 0 where it is not stored yet.

    Raises:
        Malformed: the text is no RFC 3339 instant.
    """
    return parse_instant(timestamp) if timestamp else 0.0
