"""Scores for kube-scheduler, 0 to 10: how well a node suits one replica.

The planned node gets 10. Without a plan, nodes that already hold replicas of the job come first,
then those with most of the dominant resource free: what Theorem 1 would do one pod at a time.
"""

from collections.abc import Mapping, Sequence

MOST = 10


def planned_scores(names: Sequence[str], planned: str) -> dict[str, int]:
    """10 for the planned node, 0 for every other."""
    return {name: MOST if name == planned else 0 for name in names}


def room_scores(
    names: Sequence[str], free: Mapping[str, int], together: frozenset[str] = frozenset()
) -> dict[str, int]:
    """By what is free of one resource, usually the dominant one; ``together`` names nodes that hold
    the same job."""
    most = max((free.get(name, 0) for name in names), default=0)
    top = MOST - 1 if together else MOST
    return {
        name: MOST
        if name in together
        else (max(free.get(name, 0), 0) * top // most if most > 0 else 0)
        for name in names
    }
