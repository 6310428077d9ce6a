"""Shortest remaining time first, preemptive; a baseline of later papers (DL2, section 6.1).

Jobs in ascending order of their remaining time at their minimum, whether they run or not: each is
admitted in this order while it fits, and then, in the same order, grows by one PS and one worker as
long as its forecast says that they help. A running job that does not fit after shorter ones is
paused, and goes on when its turn comes (Schrage, Operations Research 16(3), 1968: on one machine
this minimises the average completion time). A higher priority comes before a shorter time. Restarts
are not weighed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, Candidate, PolicyTraits
from optimus.allocation.greedy import SequentialGrowth, start_at_minimum


@dataclass(frozen=True, slots=True)
class SrtfPolicy:
    """The shortest job first, PSs and workers one to one."""

    name: ClassVar[str] = "srtf"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="pack", preempts=True)
    """The paper names no placement: packed."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits after the shorter ones."""
        shortest = {each.job.uid: each.forecast.at(each.least) for each in problem.candidates}
        baseline = start_at_minimum(
            replace(problem, candidates=tuple(map(_anew, problem.candidates))),
            lambda given, _: np.array([shortest[each.job.uid] for each in given.candidates]),
        )
        order = baseline.order(np.array([shortest[each.job.uid] for each in baseline.admitted]))
        rank = np.empty(len(order))
        rank[np.array(order, dtype=np.int64)] = np.arange(len(order))
        rule = SequentialGrowth(baseline.seconds(), -rank)
        growth = baseline.grow(rule, order)
        counts = baseline.counts_at(growth)
        reasons = {
            uid: f"{each}: it is number {int(place) + 1} of {len(counts)} by remaining time"
            for (uid, each), place in zip(counts.items(), rank.tolist(), strict=True)
        }
        left_out = _left_out(problem, baseline.reasons, shortest)
        return Allocation(counts, {**left_out, **reasons})


def _anew(candidate: Candidate) -> Candidate:
    """The candidate as if it did not run; one that keeps what it holds keeps it first."""
    running = candidate.holds is not None
    return candidate if candidate.running == running else replace(candidate, running=running)


def _left_out(
    problem: AllocationProblem, reasons: Mapping[str, str], shortest: Mapping[str, float]
) -> dict[str, str]:
    """Return why each is left out; of a running job, that it makes room for shorter ones."""
    runs = {each.job.uid for each in problem.candidates if each.running}
    said = "paused for jobs of a higher priority or a remaining time shorter than its"
    return {
        uid: f"{said} {shortest[uid]:.0f} s: {reason}" if uid in runs else reason
        for uid, reason in reasons.items()
    }
