"""Which pods kube-scheduler has asked about, and which reservations it left unused.

A gang is planned at the first question about one of its pods, or before. Until kube-scheduler has
asked about every pod that needs a node, the reservation is one in advance. It ends after
``ADVANCE_SECONDS``, or later while kube-scheduler works through its queue and has not come to these
pods yet. Where it ends although kube-scheduler had come that far, the namespace loses the advance
for ``DISTRUST_SECONDS``: its gangs are planned once each pod has been asked about. A gang that is
never bound pauses twice as long after each of its plans.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from optimus.kube.pods import Pod

ADVANCE_SECONDS: Final = 15.0
"""kube-scheduler tries a requeued pod within its longest back-off, which is 10 s."""

DISTRUST_SECONDS: Final = 600.0

IDLE_SECONDS: Final = 1.0
"""kube-scheduler that has asked about no pod for this long has an empty queue."""

ONE_PLAN_SECONDS: Final = 30.0
"""The pods of one plan fail one by one: within this time they count once."""

FIRST_PAUSE_SECONDS: Final = 120.0
"""After the second plan of which nothing was bound."""

LONGEST_PAUSE_SECONDS: Final = 3600.0
_MOST_DOUBLINGS: Final = 20

_CLOCK_SECONDS: Final = 1.0
"""Pods are created in whole seconds; kube-scheduler sees those of one second in any order."""

_MOST_OTHERS: Final = 16384
"""Pods of no job that are remembered."""


@dataclass(slots=True)
class _Advance:
    """A reservation that is made before kube-scheduler has asked about all pods."""

    pods: dict[str, Pod]
    """By UID, those that it has not asked about."""

    until: float
    at_most_until: float


class Questions:
    """By pod, job and namespace. Not thread-safe; time is an argument (monotonic, in seconds)."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        """By UID of a pod that waits, when kube-scheduler asked about it last."""
        self._others: LRUCache[str, float] = LRUCache(_MOST_OTHERS)
        """The same of pods of no job."""
        self._last_at = float("-inf")
        """When kube-scheduler asked about any pod."""
        self._newest: dict[int, float] = {}
        """By priority, when the newest pod was created that kube-scheduler has asked about."""
        self._retried: dict[int, float] = {}
        """By priority, of the pods that it has tried again, when it had tried one before at the
        latest. They are sorted by that time: it has come to all pods that waited then."""
        self._advances: dict[str, _Advance] = {}
        self.next_end = float("inf")
        """No advance ends before this time."""
        self._distrusted: dict[str, float] = {}
        """By namespace, until when it gets no advance."""
        self._advanced_at: dict[str, float] = {}
        """By job UID, when its last advance began."""
        self._unused: dict[str, tuple[int, float]] = {}
        """By job UID, how often in a row a reservation ended without a binding, and the last."""

    def record(self, pod: Pod, now: float) -> bool:
        """kube-scheduler asks about a pod; returns whether its gang's reservation was in advance
        and now every pod of the gang has been asked about."""
        asked = self._others if pod.replica is None else self.asked
        before = asked.get(pod.uid)
        latest, at = (self._newest, pod.created_at) if before is None else (self._retried, before)
        latest[pod.priority] = max(latest.get(pod.priority, at), at)
        self._last_at = asked[pod.uid] = now
        if pod.replica is None:
            return False
        advance = self._advances.get(pod.replica.job_uid)
        return advance is not None and self._has_ended(advance, pod)

    def _has_ended(self, advance: _Advance, pod: Pod) -> bool:
        assert pod.replica is not None
        advance.pods.pop(pod.uid, None)
        if not advance.pods:
            del self._advances[pod.replica.job_uid]
        return not advance.pods

    def not_asked(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Those of the pods that kube-scheduler has never asked about."""
        return tuple(pod for pod in pods if pod.uid not in self.asked)

    def begin_advance(self, job_uid: str, pods: Iterable[Pod], now: float, longest: float) -> float:
        """A gang is planned whose ``pods`` need a node; returns when its reservation ends.

        ``longest`` is how long one lasts that is not in advance, in seconds."""
        missing = {pod.uid: pod for pod in self.not_asked(pods)}
        if not missing:
            self.end_advance(job_uid)
            return now + longest
        until = now + min(ADVANCE_SECONDS, longest)
        self._advances[job_uid] = _Advance(missing, until, now + longest)
        self._advanced_at[job_uid] = now
        self.next_end = min(self.next_end, until)
        return until

    def end_advance(self, job_uid: str) -> None:
        """A reservation is released, or is in advance no longer."""
        self._advances.pop(job_uid, None)

    def extend_advances(self, now: float) -> dict[str, float]:
        """By job UID, until when those reservations in advance last that would end now, while
        kube-scheduler has yet to come to the pods."""
        extended: dict[str, float] = {}
        for job_uid, advance in list(self._advances.items()):
            if advance.until > now:
                continue
            is_past = self._is_past(job_uid, advance.pods.values(), now)
            if is_past or advance.at_most_until <= now:
                del self._advances[job_uid]
                continue
            advance.until = min(now + IDLE_SECONDS, advance.at_most_until)
            extended[job_uid] = advance.until
        self.next_end = min((each.until for each in self._advances.values()), default=float("inf"))
        return extended

    def _is_past(self, job_uid: str, pods: Iterable[Pod], now: float) -> bool:
        """Whether kube-scheduler, which takes pods by priority and by when they were created or
        tried, would have come to one of these: it has asked about a later one, or its queue is
        empty.

        One that it has refused itself is tried again when it is requeued, whatever is newer."""
        if now - self._last_at > IDLE_SECONDS:
            return True
        since = self._advanced_at.get(job_uid, now)
        return any(
            not pod.refused
            and (
                any(
                    priority <= pod.priority and newest > pod.created_at + _CLOCK_SECONDS
                    for priority, newest in self._newest.items()
                )
                or any(
                    priority <= pod.priority and tried > since
                    for priority, tried in self._retried.items()
                )
            )
            for pod in pods
        )

    # --- what was not used

    def unused(self, job_uid: str, waiting: Iterable[Pod], now: float) -> float:
        """A gang's reservation has ended without a binding; returns how long the gang pauses, in
        seconds.

        The namespace loses the advance where kube-scheduler works and has not asked about a pod."""
        missing = self.not_asked(waiting)
        works = now - self._last_at <= ADVANCE_SECONDS
        if missing and works and self._is_past(job_uid, missing, now):
            kept = {each: until for each, until in self._distrusted.items() if until > now}
            self._distrusted = kept | {missing[0].namespace: now + DISTRUST_SECONDS}
        times, last = self._unused.get(job_uid, (0, float("-inf")))
        if now - last > ONE_PLAN_SECONDS:
            times = min(times + 1, _MOST_DOUBLINGS)
            self._unused[job_uid] = times, now
        if times == 1:
            return 0.0
        return min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 2), LONGEST_PAUSE_SECONDS)

    def used(self, job_uid: str) -> None:
        """A pod of the job is bound, or the job has changed."""
        self._unused.pop(job_uid, None)

    def has_advance(self, namespace: str, now: float) -> bool:
        """Whether gangs of a namespace are planned before each of their pods was asked about."""
        return self._distrusted.get(namespace, now) <= now

    def forget_pod(self, job_uid: str, pod_uid: str) -> None:
        """A pod is bound or gone."""
        self.asked.pop(pod_uid, None)
        advance = self._advances.get(job_uid)
        if advance is not None:
            advance.pods.pop(pod_uid, None)

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self.end_advance(job_uid)
        self._advanced_at.pop(job_uid, None)
        self.used(job_uid)
