"""The gangs that got their nodes a short while ago, for one Event on the job of each.

kube-scheduler writes an Event on each pod that it binds, and none on the job, where users look."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from extender.job_events import JobNotice
from optimus.kube.events import EventType
from optimus.kube.jobsets import set_uid
from optimus.kube.pods import Pod

KEPT_SECONDS: Final = 600.0
"""How long an Event is tried; some are written at a time."""

_MOST_KEPT: Final = 1000
_MOST_NAMED: Final = 8
"""Maximum number of nodes named in an Event; the others are counted."""


class PlacedGangs:
    """``note`` is called under the state's lock, ``notices`` by the thread of Events."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer, self._lock, self._numbers = timer, threading.Lock(), count()
        self._noted: dict[str, tuple[float, JobNotice]] = {}
        """By UID of the gang, the oldest first."""

    def note(self, pods: Sequence[Pod]) -> None:
        """All pods of a gang have a node."""
        notice = _notice(pods, next(self._numbers))
        with self._lock:
            self._noted.pop(notice.gang, None)
            self._noted[notice.gang] = self._timer(), notice
            if len(self._noted) > _MOST_KEPT:
                del self._noted[next(iter(self._noted))]

    def notices(self) -> list[JobNotice]:
        """A notice for each gang."""
        oldest = self._timer() - KEPT_SECONDS
        with self._lock:
            self._noted = {uid: each for uid, each in self._noted.items() if each[0] > oldest}
            return [notice for _, notice in self._noted.values()]


def _notice(pods: Sequence[Pod], number: int) -> JobNotice:
    owner, replica = pods[0].owner, pods[0].replica
    assert owner is not None
    assert replica is not None
    return JobNotice(
        owner.kind,
        pods[0].namespace,
        owner.name,
        set_uid(owner.uid),
        EventType.NORMAL,
        "GangBound",
        _sentence([pod.node or "" for pod in pods]),
        cause=number,
        after_seconds=0.0,
        gang=replica.job_uid,
    )


def _sentence(nodes: Sequence[str]) -> str:
    """``all 4 pods have a node: 3 on n1, 1 on n2``."""
    if len(nodes) == 1:
        return f"its pod has a node: {nodes[0]}"
    counted = sorted(Counter(nodes).items(), key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{number} on {node}" for node, number in counted[:_MOST_NAMED])
    more = len(counted) - _MOST_NAMED
    others = f", and the others on {more} more node{'s' if more > 1 else ''}" if more > 0 else ""
    return f"all {len(nodes)} pods have a node: {named}{others}"
