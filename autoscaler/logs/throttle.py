"""Whose log may be read now: a node that does not answer costs the other nodes' logs nothing.

1. At most two reads are under way on one node. 2. A node on which a read has not come back since
  the last turn gets no
more. 3. A pod whose read failed, and a node that did not answer, are left in peace, twice as long
after each failure.
4. Of all readers at most half are given to nodes that did not answer last.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from optimus.kube.pods import Pod

_PER_NODE: Final = 2
_LONGEST: Final = 4
"""So many times the usual pause is the longest after failures: what answers again is read again
soon."""


@dataclass(frozen=True, slots=True)
class _Setback:
    pause_seconds: float
    until: float


def node_of(pod: Pod) -> str:
    """The node that a pod's log comes from; a pod without one stands for itself."""
    return pod.node or pod.uid


class Turns:
    """Keeps who failed, and who is being read; ``pause_seconds`` is the usual time between two
    reads of a log."""

    def __init__(self, readers: int, pause_seconds: float) -> None:
        self._readers = readers
        self._pause_seconds = pause_seconds
        self._setbacks: dict[str, _Setback] = {}
        self._under_way: Counter[str] = Counter()
        self._slow: frozenset[str] = frozenset()

    def begin(self) -> None:
        """A new turn: what is under way now, is slow."""
        self._slow = frozenset(self._under_way)

    @property
    def all_taken(self) -> bool:
        """Whether no reader is free."""
        return self._under_way.total() >= self._readers

    def is_silent(self, node: str) -> bool:
        """Whether a node did not answer when it was asked last, or has not answered yet."""
        return node in self._setbacks or node in self._slow

    def is_paused(self, pod: Pod, now: float) -> bool:
        """Whether a pod, or its node, is left in peace after failures."""
        setbacks = (self._setbacks.get(pod.uid), self._setbacks.get(node_of(pod)))
        return any(setback is not None and now < setback.until for setback in setbacks)

    def may_begin(self, pod: Pod) -> bool:
        """Whether a read of this pod's log may begin now."""
        node = node_of(pod)
        if self.all_taken or node in self._slow or self._under_way[node] >= _PER_NODE:
            return False
        if node not in self._setbacks:
            return True
        silent = sum(count for each, count in self._under_way.items() if self.is_silent(each))
        return silent < max(self._readers // 2, 1) and not self._under_way[node]

    def began(self, pod: Pod) -> None:
        """A read began."""
        self._under_way[node_of(pod)] += 1

    def ended(self, pod: Pod) -> None:
        """A read came back, with or without an answer."""
        node = node_of(pod)
        self._under_way[node] -= 1
        if self._under_way[node] <= 0:
            del self._under_way[node]
            self._slow -= {node}

    def answered(self, pod: Pod) -> None:
        """The pod's log was read."""
        self._setbacks.pop(pod.uid, None)
        self._setbacks.pop(node_of(pod), None)

    def failed(self, pod: Pod, now: float, *, silent: bool) -> None:
        """The pod's log could not be read; ``silent``: since its node did not answer."""
        for key in (pod.uid, node_of(pod)) if silent else (pod.uid,):
            before = self._setbacks.get(key)
            if before is not None and now < before.until and key != pod.uid:
                continue  # two reads of one failure
            usual = self._pause_seconds
            pause_seconds = (
                usual if before is None else min(2 * before.pause_seconds, _LONGEST * usual)
            )
            self._setbacks[key] = _Setback(pause_seconds, now + pause_seconds)

    def forget_all_but(self, pods: set[str], nodes: set[str]) -> None:
        """Keep the setbacks of these pods' UIDs and nodes alone."""
        kept = pods | nodes
        self._setbacks = {key: setback for key, setback in self._setbacks.items() if key in kept}
