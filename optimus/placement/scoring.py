"""Scores for kube-scheduler, 0 to 10: how well a node suits one replica.

The planned node gets 10. Without a plan, nodes that already hold replicas of the job come first,
then those with most of the dominant resource free: what Theorem 1 would do one pod at a time.
"""

from collections.abc import Mapping, Sequence

MAX_SCORE = 10


def planned_scores(names: Sequence[str], planned: str) -> dict[str, int]:
    """The highest score for the planned node, 0 for every other."""
    return {name: MAX_SCORE if name == planned else 0 for name in names}


def free_room_scores(
    names: Sequence[str], free: Mapping[str, int], own: frozenset[str] = frozenset()
) -> dict[str, int]:
    """Scores by what is free of one resource; ``own`` nodes hold replicas of the same job."""
    most = max((free.get(name, 0) for name in names), default=0)
    top = MAX_SCORE - 1 if own else MAX_SCORE
    scores = {name: max(free.get(name, 0), 0) * top // most if most > 0 else 0 for name in names}
    return scores | {name: MAX_SCORE for name in names if name in own}
