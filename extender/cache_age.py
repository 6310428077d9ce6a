"""The age of the caches that plans are made on.

Each watch is reopened within five eighths of the limit, so something comes from the API server
also about kinds that do not change and have no bookmarks (an etcd that reports no progress). A
cache that nothing has come for in longer than the limit may lack pods, nodes or jobs that exist by
now: its watch is broken, or silent, or the server cannot be reached. Then no new plan is made on
it. What is reserved is still answered: kube-scheduler checks the node once more, on its own cache.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from optimus.kube.reflector import Reflector
from optimus.kube.times import format_second
from optimus.placement.queue.order import Instant

_SETTING: Final = "cache-age-limit-seconds"


Cache: TypeAlias = Reflector[Any]


class CacheAge:
    """The age of the oldest cache. Safe to use from several threads."""

    def __init__(
        self, caches: Sequence[Cache], limit_seconds: float, clock: Callable[[], Instant]
    ) -> None:
        """``clock`` gives the time now; its monotonic part is the one of ``last_contact``."""
        self._caches, self._limit_seconds, self._clock = caches, limit_seconds, clock
        self._said: tuple[str, float, str] | None = None

    def seconds(self) -> float:
        """The age of the oldest cache; 0 before the start."""
        return self._oldest()[0]

    def why_too_old(self) -> str | None:
        """Return which cache is too old to plan on; ``None`` where none is.

        The sentence is the same for as long as the silence lasts: users read it in the pod's
        status, and a text that varied would make kube-scheduler try the pod again."""
        seconds, cache = self._oldest()
        if cache is None or seconds <= self._limit_seconds:
            return None
        said, since, plural = self._said, cache.last_contact or 0.0, cache.watched.plural
        if said is None or said[:2] != (plural, since):
            at = format_second(self._clock().epoch - seconds)
            limit = f"the limit of {self._limit_seconds:g} s"
            text = f"the cache of {plural} is as of {at}, older than {limit} ({_SETTING})"
            self._said = said = plural, since, text
        return said[2]

    def why_not_ready(self) -> str | None:
        """The same with the age now, for people who ask again and again."""
        why = self.why_too_old()
        return why and f"{why}: {self.seconds():.0f} s old; no new plans are made"

    def _oldest(self) -> tuple[float, Cache | None]:
        known = [(each.last_contact, each) for each in self._caches]
        contacts = [(at, each) for at, each in known if at is not None]
        if not contacts:
            return 0.0, None
        at, oldest = min(contacts, key=lambda each: each[0])
        return max(self._clock().monotonic - at, 0.0), oldest
