"""How fast one process trains, from the positions that its log tells and the kubelet's timestamps.

Marks (instant, position) are kept at least a moment apart: lines come in lumps where output is
buffered, and within a lump time says nothing. The first stretch is warm-up and is left out (its
speed is about half the usual). Then stretches far from the median are left out, which are
validation, a checkpoint, a stall; the rest is averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

MAX_MARKS: Final = 64
_GAP_SECONDS: Final = 0.25
_BACK_SECONDS: Final = 1.0
_USUAL: Final = (0.5, 2.0)
"""A stretch counts while its speed is within these factors of the median."""


class Mark(NamedTuple):
    """Where training stood at an instant (seconds since the epoch, UTC)."""

    at: float
    position: float


class Rate(NamedTuple):
    """A speed in steps per second, and how many seconds of training stand behind it."""

    steps_per_second: float
    seconds: float


@dataclass(slots=True)
class RateMeter:
    """Measures the speed of one process; bounded, and plain data that can be stored."""

    marks: list[Mark] = field(default_factory=list)
    gap_seconds: float = _GAP_SECONDS

    def add(self, at: float, position: float) -> None:
        """Take in a position; one that lies behind the last mark, or long before it, begins
        anew."""
        if self.marks and (
            position < self.marks[-1].position or at < self.marks[-1].at - _BACK_SECONDS
        ):
            self.restart()
        if not self.marks or at - self.marks[-1].at >= self.gap_seconds:
            self.marks.append(Mark(at, position))
        if len(self.marks) > MAX_MARKS:
            # The first two bound the warm-up and stay as they are; so does the newest.
            self.marks = self.marks[:2] + self.marks[:1:-2][::-1]
            self.gap_seconds *= 2

    def restart(self) -> None:
        """Forget everything: the process has started again."""
        self.marks = []
        self.gap_seconds = _GAP_SECONDS

    @property
    def steady_seconds(self) -> float:
        """Seconds of training since the warm-up."""
        return self.marks[-1].at - self.marks[1].at if len(self.marks) > 1 else 0.0

    def rate(self) -> Rate | None:
        """The steady speed, or ``None`` while there is only warm-up."""
        stretches = [
            Rate((b.position - a.position) / (b.at - a.at), b.at - a.at)
            for a, b in pairwise(self.marks[1:])
        ]
        usual = _usual(stretches)
        if usual is None or usual <= 0:
            return None
        low, high = (factor * usual for factor in _USUAL)
        kept = [stretch for stretch in stretches if low <= stretch.steps_per_second <= high]
        seconds = sum(stretch.seconds for stretch in kept)
        return Rate(
            sum(stretch.steps_per_second * stretch.seconds for stretch in kept) / seconds, seconds
        )


def _usual(rates: Sequence[Rate]) -> float | None:
    """The median speed, by steps: half of all steps were made at most at this speed. A stall makes
    few steps."""
    steps = [rate.steps_per_second * rate.seconds for rate in rates]
    half, passed = sum(steps) / 2, 0.0
    for rate, made in sorted(zip(rates, steps, strict=True)):
        passed += made
        if passed >= half:
            return rate.steps_per_second
    return None
