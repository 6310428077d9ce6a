"""For how long the jobs of each namespace have been stopped: a leaky bucket for each.

A namespace whose jobs do not start again, as their pods do not end, their users delete them and
make them anew, or suspend them whenever they run, would hold the cluster's disruption budget for
ever. One that has used more than its part of it for long holds back only itself."""

from collections.abc import Mapping
from typing import Final

BURST_SECONDS: Final = 600.0
"""Of stopped jobs beyond the namespace's part. Default: as long as one job may be stopped before it
counts as stuck."""


class StoppedTime:
    """By namespace; time is an argument, in seconds."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        """Seconds of stopped jobs beyond the part."""
        self._noted_at: float | None = None

    def note(self, stopped: Mapping[str, int], part: float, at: float) -> frozenset[str]:
        """So many jobs of each namespace are stopped now; returns the namespaces that have used too
        much. ``part`` is what a namespace may have stopped all the time: the cluster's limit,
        divided by the namespaces."""
        passed = 0.0 if self._noted_at is None else max(at - self._noted_at, 0.0)
        self._noted_at = at
        found = {
            name: self._spent.get(name, 0.0) + (stopped.get(name, 0) - part) * passed
            for name in {*self._spent, *stopped}
        }
        self._spent = {name: seconds for name, seconds in found.items() if seconds > 0}
        most_seconds = BURST_SECONDS * max(part, 1.0)
        return frozenset(name for name, seconds in self._spent.items() if seconds > most_seconds)
