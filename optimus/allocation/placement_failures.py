"""Counts at which a job's pods found no place although the nodes had room, and what follows.

A quota, a volume or an admission rule can stop pods that every node has room for, and nobody tells
which. So 1. what asks for at least as much is excluded, and 2. so is what goes more than half the
way there, in tasks: each failure halves what is left to try. 3. The back-off after each is twice
that after the one before. 4. Nodes that change lift the exclusions; a day ends all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from optimus.jobs import Counts

_MOST: Final = 8
_KEPT_SECONDS: Final = 86_400.0
_LEAST_SECONDS: Final = 60.0
"""What a restart in vain costs a job even where it is refused at once."""


@dataclass(frozen=True, slots=True)
class PlacementFailure:
    """A job that left ``before`` found no place for ``counts``; ``at`` in seconds since the epoch.

    It had waited ``waited_seconds`` for one. ``lifted``: the nodes have changed since, the counts
    may be tried again."""

    counts: Counts
    before: Counts
    at: float
    waited_seconds: float
    lifted: bool = False

    def excludes(self, counts: Counts) -> bool:
        """Whether these counts are not to be tried."""
        if self.lifted:
            return False
        if counts.ps >= self.counts.ps and counts.workers >= self.counts.workers:
            return True
        asked, held = sum(self.counts), sum(self.before)
        return asked > held and sum(counts) > (asked + held) / 2


PlacementFailures = tuple[PlacementFailure, ...]


def recent_failures(
    failures: Sequence[PlacementFailure], at: float, *, lifted: bool = False
) -> PlacementFailures:
    """The newest few of the last day; ``lifted``: the nodes have changed since."""
    young = [each for each in failures if at - each.at < _KEPT_SECONDS][-_MOST:]
    return tuple(replace(each, lifted=lifted or each.lifted) for each in young)


def why_excluded(failures: Sequence[PlacementFailure], counts: Counts) -> str | None:
    """A sentence on why these counts are not to be tried; ``None`` if they may be."""
    found = next((each for each in reversed(failures) if each.excludes(counts)), None)
    if found is None:
        return None
    return f"{counts} are not tried, since pods found no place at {found.counts}"


def why_backing_off(failures: Sequence[PlacementFailure], at: float) -> str | None:
    """A sentence on why the job does not grow at an instant; ``None`` if it may."""
    if not failures:
        return None
    last = failures[-1]
    back_off_seconds = max(last.waited_seconds, _LEAST_SECONDS) * 2 ** len(failures)
    passed_seconds = max(at - last.at, 0.0)
    if passed_seconds >= back_off_seconds:
        return None
    ago = f"{passed_seconds:.0f} s ago its pods found no place at {last.counts}"
    return f"{ago}: it does not grow for {back_off_seconds:.0f} s"
