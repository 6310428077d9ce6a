"""Whether a gang that waits could ever fit, and on which nodes: on the cluster as it would be
without training pods.

Only such a gang may keep nodes closed to those behind it, and only those. What others' pods leave
changes all the time, so what was found out holds for a minute or until a node changes; the room
without training pods is worked out once for all gangs.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from extender.state.cluster import Cluster
from optimus.placement.free_matrix import FreeMatrix, Rows
from optimus.placement.gang import Gang, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import NONE

_LOOKS: Final = 8
"""New gangs looked at in one call of kube-scheduler, which waits: the others keep their last
answer, at first no."""


class Feasibility:
    """Answers for one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster, rule: Theorem1) -> None:
        self._cluster, self._rule = cluster, rule
        self._known: dict[str, tuple[tuple[int, int], bool]] = {}
        self._emptied: tuple[tuple[int, int], FreeMatrix] | None = None
        self._looks_left = _LOOKS

    def begin(self) -> None:
        """Another call begins."""
        self._looks_left = _LOOKS

    def forget(self, job_uid: str) -> None:
        """A job has changed or is gone."""
        self._known.pop(job_uid, None)

    def ever(self, gang: Gang, now: float) -> bool:
        """Whether the gang fits once all other training is gone; ``now`` is monotonic, in
        seconds."""
        version = self._version(now)
        known = self._known.get(gang.job_uid)
        if (known is None or known[0] != version) and self._looks_left > 0:
            self._looks_left -= 1
            alone = replace(
                gang, members=tuple(replace(member, node=None) for member in gang.members)
            )
            answer = self._rule.place_in(alone, self._room(version))
            known = self._known[gang.job_uid] = version, isinstance(answer, Placement)
        return known is not None and known[1]

    def nodes_for(self, gang: Gang, now: float) -> Rows:
        """The nodes, in order of names, that any of the gang's replicas could go to once all
        training is gone."""
        room = self._room(self._version(now))
        rows = np.zeros(len(room.names), dtype=np.bool_)
        for spec in {member.spec for member in gang.unbound}:
            rows |= room.admits(spec.constraints) & room.holds(spec.resources)
        return rows

    def _version(self, now: float) -> tuple[int, int]:
        return self._cluster.node_generation, int(now // 60)

    def _room(self, version: tuple[int, int]) -> FreeMatrix:
        if self._emptied is None or self._emptied[0] != version:
            taken = self._cluster.training_room()
            free = {
                name: self._cluster.free(name) + taken.get(name, NONE)
                for name in self._cluster.nodes
            }
            self._emptied = version, FreeMatrix(tuple(self._cluster.nodes.values()), free)
        return self._emptied[1]
