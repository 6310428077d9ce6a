"""Which gangs make room for one of a higher priority: the fewest, the lowest, the youngest.

1. The shortest prefix of the candidates, lowest priority and youngest first, that makes room.
2. Those that are not needed are taken out, the highest and oldest first. So far it is a search of
   some tries for each victim, and every victim is needed.
3. Exactly, as long as there are not too many: sets of fewer gangs, and better ones of as many, in
   the order of the harm that they do; the first that makes room is the best there is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

from optimus.jobs import JobKey
from optimus.resources import Resources

MOST_SETS: Final = 5000
"""Maximum number of sets of one size that are sorted: 100 candidates by two, 30 by three."""

MOST_TRIES: Final = 256
"""Maximum number of them that are tried: on a large cluster a try takes milliseconds."""


@dataclass(frozen=True, slots=True)
class VictimCandidate:
    """A gang that may be preempted."""

    job_uid: str
    key: JobKey
    priority: int
    """The highest of its pods."""

    started_at: float
    """When its last pod was made (epoch, seconds)."""

    takes: Mapping[str, Resources]
    """What its pods take, by node."""


Victims = tuple[VictimCandidate, ...]

Harm = tuple[int, tuple[int, ...], tuple[float, ...], tuple[str, ...]]

Fits = Callable[[Victims], bool]
"""Whether a gang fits, with all that waits for it, once these have gone."""


def harm(victims: Sequence[VictimCandidate]) -> Harm:
    """How much is lost: first by number, then by the highest priorities, then by the longest runs;
    UIDs make the order total."""
    return (
        len(victims),
        tuple(sorted((each.priority for each in victims), reverse=True)),
        tuple(-at for at in sorted(each.started_at for each in victims)),
        tuple(sorted(each.job_uid for each in victims)),
    )


def choose_victims(candidates: Sequence[VictimCandidate], fits: Fits) -> Victims | None:
    """The gangs that make room, in order of UIDs; ``None`` where all of them together do not."""
    in_order = tuple(sorted(candidates, key=lambda each: harm((each,))))
    if not fits(in_order):
        return None
    found = _without_superfluous(_shortest_prefix(in_order, fits), fits)
    best = _exact(in_order, found, fits) or found
    return tuple(sorted(best, key=lambda each: each.job_uid))


def _shortest_prefix(in_order: Victims, fits: Fits) -> Victims:
    low, high = 0, len(in_order)
    while low < high:
        middle = (low + high) // 2
        if fits(in_order[:middle]):
            high = middle
        else:
            low = middle + 1
    return in_order[:high]


def _without_superfluous(victims: Victims, fits: Fits) -> Victims:
    for each in reversed(victims):
        fewer = tuple(other for other in victims if other is not each)
        if fits(fewer):
            victims = fewer
    return victims


def _exact(in_order: Victims, found: Victims, fits: Fits) -> Victims | None:
    tries = MOST_TRIES
    for size in range(1, len(found) + 1):
        if comb(len(in_order), size) > MOST_SETS:
            return None
        for each in sorted(combinations(in_order, size), key=harm):
            if harm(each) >= harm(found) or tries <= 0:
                return None
            tries -= 1
            if fits(each):
                return each
    return None
