"""The brake: whether moved jobs have ended later than untouched, beyond what noise explains.

Each job that was moved and has ended is an observation x, its ``Books.saved_fraction``, which is
between -1 and 1. If moves break even on average, M <- max(M, 1) (1 - b x) is an e-detector for
every stake b (Shin, Ramdas and Rinaldo, 2024): it passes 1 / ERROR not more often than once in
1 / ERROR jobs on average, whatever the distribution of x and whenever it is looked at. M begins
again at 1, so that earlier gains hide no later loss. Stakes are averaged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

ERROR: Final = 0.01
"""If moves break even, one moved job in 100 at most ends with a false alarm."""

MOST_JOBS: Final = 200
"""The last so many jobs count."""

_STAKES: Final = (0.25, 0.5, 0.9)


class EndedJob(NamedTuple):
    """A job that was moved and has ended."""

    ended_at: str
    """An instant that sorts."""

    uid: str
    workload: str
    """Its namespace and workload; empty without one."""

    saved_fraction: float


@dataclass(frozen=True, slots=True)
class Brake:
    """Why nothing is moved any more: of all jobs, and by workload."""

    all_jobs: str = ""
    workloads: Mapping[str, str] | None = None

    def why(self, workload: str) -> str:
        """Why a job of this workload is not moved; empty where it is."""
        of_workload = (self.workloads or {}).get(workload, "") if workload else ""
        return self.all_jobs or of_workload


def brake_of(ended: Iterable[EndedJob]) -> Brake:
    """What the books of ended jobs say."""
    in_order = sorted(ended)[-MOST_JOBS:]
    by_workload = defaultdict[str, list[float]](list)
    for each in in_order:
        if each.workload:
            by_workload[each.workload].append(each.saved_fraction)
    every = [each.saved_fraction for each in in_order]
    whys = {name: _why(found, "jobs of its workload") for name, found in by_workload.items()}
    return Brake(_why(every, "jobs"), {name: why for name, why in whys.items() if why})


def evidence(fractions: Iterable[float]) -> float:
    """The e-detector after these jobs, in the order in which they ended."""
    found = [1.0] * len(_STAKES)
    for each in fractions:
        x = min(max(each, -1.0), 1.0)
        found = [max(m, 1.0) * (1 - b * x) for m, b in zip(found, _STAKES, strict=True)]
    return sum(found) / len(found)


def _why(fractions: list[float], of: str) -> str:
    if evidence(fractions) < 1 / ERROR:
        return ""
    mean = -sum(fractions) / len(fractions)
    return f"the last {len(fractions)} moved {of} ended {mean:.0%} later than untouched on average"
