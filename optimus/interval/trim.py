"""What of a job's counts fits where they do not fit as a whole: one task less each time, the least
useful first."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from optimus.jobs import Counts

Seconds = Callable[[Counts], float | None]


def trims(seconds: Seconds, wanted: Counts, goal: Counts) -> Iterator[Counts]:
    """From what was wanted towards the goal, one task at a time, the least useful first; neither
    end is among them."""
    counts = wanted
    while True:
        nearer = list(_one_nearer(counts, goal))
        if not nearer:
            return
        counts = min(nearer, key=lambda each: (seconds(each), each))
        if counts == goal:
            return
        yield counts


def _one_nearer(counts: Counts, goal: Counts) -> Iterator[Counts]:
    if counts.ps != goal.ps:
        yield Counts(counts.ps + (1 if goal.ps > counts.ps else -1), counts.workers)
    if counts.workers != goal.workers:
        yield Counts(counts.ps, counts.workers + (1 if goal.workers > counts.workers else -1))


def most_that_fits(options: Sequence[Counts], fits: Callable[[Counts], bool]) -> Counts | None:
    """The first of the options that fits, where each asks for less than the one before: found by
    halving."""
    first = bisect_left(options, True, key=fits)
    return options[first] if first < len(options) else None
