"""The pods that wait: which is tried next, and which change wakes a refused one.

A pod that only the scheduler's own rules refused is woken by what may make room; one that an
extender refused, whose reasons the scheduler cannot know, by any change of a pod or node. A change
that comes while a pod is being tried counts for it too. The times of kube-scheduler's back-off are
not imitated."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

RETRY_SECONDS: Final = 1.0
"""After an attempt that failed by an error: the first step of kube-scheduler's back-off."""

SETTLING_SECONDS: Final = 0.01
"""A new pod is tried so much later: the embedded API server gathers what it sends for some
milliseconds, and the nodes that were made before a pod have to be known when it is tried.
kube-scheduler does not wait."""

FLUSH_SECONDS: Final = 300.0
"""A refused pod is tried again after five minutes, changes or not."""


class Change(Enum):
    """What has changed, as far as it matters to waiting pods."""

    ROOM = "a pod has left its node, or a node has come or offers more or other"
    OTHER = "something else of a pod or node"


@dataclass
class _Waiting:
    priority: int
    since: float
    active: bool = False
    tried: bool = False
    by_extender: bool = False
    failed: bool = False
    at: float = field(default=float("inf"))


class Queue:
    """Pods by uid; not safe to share between threads."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._trying: str | None = None
        self._missed: set[Change] = set()

    def add(self, uid: str, priority: int, now: float) -> None:
        """A pod waits from now on."""
        if uid not in self._pods:
            self._pods[uid] = _Waiting(priority, now, at=now + SETTLING_SECONDS)

    def remove(self, uid: str) -> None:
        """A pod is bound or gone."""
        self._pods.pop(uid, None)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def next(self, now: float) -> str | None:
        """The pod to try now: of the highest priority, that waits longest; ``done`` must follow."""
        for pod in self._pods.values():
            pod.active = pod.active or pod.at <= now
        ready = [(-pod.priority, pod.since, uid) for uid, pod in self._pods.items() if pod.active]
        if not ready:
            return None
        self._trying = min(ready)[2]
        self._missed.clear()
        self._pods[self._trying].active = False
        return self._trying

    def done(
        self, uid: str, now: float, *, by_extender: bool = False, failed: bool = False
    ) -> None:
        """The attempt has ended and the pod waits on."""
        missed, self._trying = set(self._missed), None
        pod = self._pods.get(uid)
        if pod is None:
            return
        pod.since, pod.tried, pod.by_extender, pod.failed = now, True, by_extender, failed
        pod.at = now + (RETRY_SECONDS if failed else FLUSH_SECONDS)
        pod.active = any(_wakes(pod, change) for change in missed)

    def changed(self, change: Change) -> None:
        """Something that concerns every waiting pod has changed."""
        if self._trying is not None:
            self._missed.add(change)
        for pod in self._pods.values():
            if pod.tried and _wakes(pod, change):
                pod.active = True

    def touched(self, uid: str, *, may_fit_now: bool) -> None:
        """A waiting pod has changed; ``may_fit_now``: in what the built-in rules read."""
        change = Change.ROOM if may_fit_now else Change.OTHER
        pod = self._pods.get(uid)
        if uid == self._trying:
            self._missed.add(change)
        elif pod is not None and pod.tried and _wakes(pod, change):
            pod.active = True

    def wait_seconds(self, now: float, most: float) -> float:
        """How long nothing has to be done."""
        return max(0.0, min([most, *(pod.at - now for pod in self._pods.values())]))


def _wakes(pod: _Waiting, change: Change) -> bool:
    # An attempt that failed is repeated in its time and no earlier: kube-scheduler has a queue of
    # its own for those.
    return not pod.failed and (pod.by_extender or change is Change.ROOM)
