"""The brake: whether moved jobs have ended later than untouched, beyond what noise explains.

Each job that was moved and has ended is an observation x, its ``Books.saved_fraction``, which is
between -1 and 1. If moves break even on average, M <- max(M, 1) (1 - b x) is an e-detector for
every stake b (Shin, Ramdas and Rinaldo, 2024): it passes 1 / ERROR not more often than once in
1 / ERROR jobs on average, whatever the distribution of x and whenever it is looked at. M begins
again at 1, so that earlier gains hide no later loss. Stakes are averaged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ERROR: Final = 0.01
"""If moves break even, one moved job in 100 at most ends with a false alarm."""

MOST_JOBS: Final = 200
"""The last so many jobs of a namespace, and of a workload, count."""

LEAST_NAMESPACES: Final = 3
"""So many are braked where the jobs of all are."""

_STAKES: Final = (0.25, 0.5, 0.9)


class EndedJob(NamedTuple):
    """A job that was moved and has ended."""

    ended_at: str
    """An instant that sorts."""

    uid: str
    namespace: str
    workload: str | None
    saved_fraction: float


@dataclass(frozen=True, slots=True)
class Brake:
    """Why jobs are not moved any more: all, those of a namespace, or of one of its workloads."""

    every: str = ""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str | None], str] = field(default_factory=dict)

    def why(self, namespace: str, workload: str | None) -> str:
        """Why a job of this workload is not moved; empty where it is."""
        of_namespace = self.namespaces.get(namespace, "")
        return self.every or of_namespace or self.workloads.get((namespace, workload), "")


def brake_of(ended: Iterable[EndedJob]) -> Brake:
    """What the books of ended jobs say.

    Jobs print what they like, so that a namespace's books end its own moves alone. Those of all end
    where three namespaces and more are braked, and most of those that have books."""
    namespaces = defaultdict[str, list[float]](list)
    workloads = defaultdict[tuple[str, str | None], list[float]](list)
    for each in sorted(ended):
        namespaces[each.namespace].append(each.saved_fraction)
        if each.workload:
            workloads[each.namespace, each.workload].append(each.saved_fraction)
    braked = {name: _why(found, "jobs of its namespace") for name, found in namespaces.items()}
    braked = {name: why for name, why in braked.items() if why}
    is_common = len(braked) >= LEAST_NAMESPACES and len(braked) > len(namespaces) / 2
    every = (
        f"moved jobs of {len(braked)} of {len(namespaces)} namespaces ended later than untouched"
    )
    whys = {key: _why(found, "jobs of its workload") for key, found in workloads.items()}
    return Brake(every if is_common else "", braked, {key: why for key, why in whys.items() if why})


def evidence(fractions: Iterable[float]) -> float:
    """The e-detector after these jobs, in the order in which they ended."""
    found = [1.0] * len(_STAKES)
    for each in fractions:
        x = min(max(each, -1.0), 1.0)
        found = [max(m, 1.0) * (1 - b * x) for m, b in zip(found, _STAKES, strict=True)]
    return sum(found) / len(found)


def _why(fractions: list[float], of: str) -> str:
    fractions = fractions[-MOST_JOBS:]
    if evidence(fractions) < 1 / ERROR:
        return ""
    mean = -sum(fractions) / len(fractions)
    return f"the last {len(fractions)} moved {of} ended {mean:.0%} later than untouched on average"
