"""Rounds: which jobs run next where each is meant to get a part of the time (Gavel, section 5).

In a round every job has the nodes of one kind or none. Its priority on a kind is its ideal share of
time there, divided by the time that it has received there since the shares were last set:

    priority_mj = share_mj / seconds_mj

seconds begin at half a round, so that a job that has received nothing has a finite one. Kind by
kind, the jobs of the highest priority get what they ask for; what does not fit is skipped, and jobs
without a share there take what is left. When shares are set anew, what a job has received less or
more than its share is kept as its deficit, which decides between equal priorities; equals of all
that stay where they are. A job that goes on on the same kind keeps its nodes (its lease): only
changes restart anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from optimus.resources import Resources

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Contender:
    """One job before a round; mappings are by kind of nodes.

    ``shares`` are its ideal parts of the time. It runs only on kinds among ``possible``. ``held``
    is the kind that it runs on now."""

    uid: str
    demand: Resources
    possible: frozenset[str]
    shares: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    seconds: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """Received since the shares were set."""
    deficit: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    held: str | None = None


def priority(contender: Contender, kind: str, round_seconds: float) -> float:
    """Ideal share by what was received, on one kind, in 1 / s."""
    received = contender.seconds.get(kind, 0.0) + round_seconds / 2
    return contender.shares.get(kind, 0.0) / received


def next_round(
    contenders: Sequence[Contender], capacity: Mapping[str, Resources], round_seconds: float
) -> dict[str, str]:
    """The kind on which each job that runs in this round runs, by UID; kinds in their order."""
    chosen = dict[str, str]()
    for kind, free in capacity.items():
        left = free
        waiting = [each for each in contenders if each.uid not in chosen and kind in each.possible]
        for each in sorted(waiting, key=lambda each: _order(each, kind, round_seconds)):
            if each.demand.fits_in(left):
                chosen[each.uid], left = kind, left - each.demand
    return chosen


def _order(
    each: Contender, kind: str, round_seconds: float
) -> tuple[float, float, float, bool, str]:
    return (
        -priority(each, kind, round_seconds),
        -each.deficit.get(kind, 0.0),
        -each.shares.get(kind, 0.0),
        each.held != kind,
        each.uid,
    )
