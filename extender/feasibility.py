"""Whether a waiting gang could ever fit, and on which nodes, were all training pods gone.

Only such a gang may block nodes for those behind it, and only nodes that it could use. What other
pods leave changes all the time, so an answer holds for a minute or until a node changes; the free
room without training pods is computed once for all gangs.
"""

from dataclasses import replace
from typing import Final

from extender.state.cluster import Cluster, used_by_node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import NONE

_MAX_CHECKS: Final = 8
"""New gangs checked in one call of kube-scheduler, which waits; the others keep their answer."""

_Version = tuple[int, int]


class Feasibility:
    """Answers for one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster, rule: Theorem1) -> None:
        self._cluster, self._rule = cluster, rule
        self._known: dict[str, tuple[_Version, bool]] = {}
        self._emptied: tuple[_Version, Capacity] | None = None
        self._checks_left = _MAX_CHECKS

    def begin_call(self) -> None:
        """Allow the checks of another call."""
        self._checks_left = _MAX_CHECKS

    def forget(self, job_uid: str) -> None:
        """A job has changed or is gone."""
        self._known.pop(job_uid, None)

    def could_fit(self, gang: Gang, now: float) -> bool:
        """Whether the gang fits without all other training; ``now`` is monotonic, in seconds."""
        version = self._version(now)
        known = self._known.get(gang.job_uid)
        if (known is None or known[0] != version) and self._checks_left > 0:
            self._checks_left -= 1
            unplaced = tuple(replace(member, node=None) for member in gang.members)
            answer = self._rule.place(replace(gang, members=unplaced), self._free(version))
            known = self._known[gang.job_uid] = version, isinstance(answer, Placement)
        return known is not None and known[1]

    def usable_nodes(self, gang: Gang, now: float) -> frozenset[str]:
        """The nodes that any of the gang's replicas could use."""
        free = self._free(self._version(now))
        return free.nodes_for({member.spec for member in gang.unbound})

    def _version(self, now: float) -> _Version:
        return self._cluster.node_generation, int(now // 60)

    def _free(self, version: _Version) -> Capacity:
        if self._emptied is None or self._emptied[0] != version:
            cluster, used = self._cluster, used_by_node(self._cluster.pods.values())
            free = {name: cluster.free(name) + used.get(name, NONE) for name in cluster.nodes}
            self._emptied = version, Capacity(tuple(cluster.nodes.values()), free)
        return self._emptied[1]
