"""Requeues of pods by an annotation: how often, and what became of each.

Each makes kube-scheduler try the pod again: without a limit, a pod that it keeps refusing would be
tried for ever. So a pod is written to at most once a second, and each time that the same is written
again, or that a write fails, it waits twice as long. While the API server throttles (429 and
Retry-After), nothing is written to any pod.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, NamedTuple

from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written

_LOG = logging.getLogger(__name__)

FIRST_SECONDS: Final = 1.0
"""Least time between two writes to one pod."""

LONGEST_SECONDS: Final = 60.0
"""Longest time between two writes of the same to one pod."""

_FORGOTTEN_AFTER_SECONDS: Final = 2 * LONGEST_SECONDS
"""A pod that nothing was written to for this long counts as new."""


class Requeue(NamedTuple):
    """A pod that is to be tried again."""

    pod: Pod
    reason: str


@dataclass(frozen=True, slots=True)
class _Last:
    """The last write to one pod: why, when, and how long to wait before the next."""

    reason: str
    at: float
    wait_seconds: float


class Requeues:
    """Writes to pods within the limits. One thread calls it; time is an argument (monotonic)."""

    def __init__(
        self,
        requeue: Callable[[Pod, str], Written | Refused],
        *,
        count_write: Callable[[str], None] = lambda _: None,
        executor: Executor | None = None,
    ) -> None:
        """``requeue`` is ``PodWriter.requeue``, ``count_write`` gets each write's outcome; without
        ``executor`` writes are sequential."""
        self._requeue, self._count_write, self._executor = requeue, count_write, executor
        self._last: dict[str, _Last] = {}
        self._forgot_at = float("-inf")
        self._paused_until = float("-inf")

    def is_due(self, write: Requeue, now: float) -> bool:
        """Return whether the limits allow this write now."""
        if now < self._paused_until:
            return False
        last = self._last.get(write.pod.uid)
        if last is None:
            return True
        same = last.reason == write.reason
        return now - last.at >= (last.wait_seconds if same else FIRST_SECONDS)

    def last_at(self, write: Requeue) -> float:
        """When its pod was last written to (monotonic); minus infinity where that is long ago."""
        last = self._last.get(write.pod.uid)
        return float("-inf") if last is None else last.at

    def write_all(
        self,
        writes: Sequence[Requeue],
        now: float,
        still_wanted: Callable[[Requeue], bool] = lambda _: True,
    ) -> list[Written | Refused | None]:
        """Carry out writes that are due, of different pods; each one's outcome.

        ``None``: left out, since the API server throttles or since ``still_wanted``, which is asked
        right before each write, no longer holds. It runs on the executor's threads."""
        self._forget_old(now)
        began = time.monotonic()

        def write(each: Requeue) -> Written | Refused | None:
            at = now + time.monotonic() - began
            if at < self._paused_until or not still_wanted(each):
                return None
            # The annotation's text has to change, or nothing would be written.
            outcome = self._requeue(each.pod, f"{each.reason} at {at:.1f}")
            self._record(each.pod, outcome, now + time.monotonic() - began)
            return outcome

        run = self._executor.map if self._executor is not None else map
        outcomes = list(run(write, writes))
        for each, outcome in zip(writes, outcomes, strict=True):
            if outcome is not None:
                self._remember(each, outcome, now)
        return outcomes

    def _remember(self, write: Requeue, outcome: Written | Refused, now: float) -> None:
        last = self._last.get(write.pod.uid)
        wait = FIRST_SECONDS
        if last is not None and (last.reason == write.reason or isinstance(outcome, Refused)):
            wait = min(2 * last.wait_seconds, LONGEST_SECONDS)
        self._last[write.pod.uid] = _Last(write.reason, now, wait)

    def _forget_old(self, now: float) -> None:
        if now - self._forgot_at >= LONGEST_SECONDS:
            self._forgot_at = now
            oldest = now - _FORGOTTEN_AFTER_SECONDS
            self._last = {uid: last for uid, last in self._last.items() if last.at > oldest}

    def _record(self, pod: Pod, outcome: Written | Refused, at: float) -> None:
        if isinstance(outcome, Written):
            self._count_write("written")
            return
        self._count_write(str(outcome.kind))
        # That it was bound, deleted or recreated since it was read is no fault: the watch shows it.
        expected = outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID, ErrorKind.CONFLICT)
        if outcome.kind is ErrorKind.THROTTLED:
            expected = not self._pause(outcome, at)  # said once per pause
        level = logging.DEBUG if expected else logging.WARNING
        _LOG.log(level, "pod %s/%s: status not written: %s", pod.namespace, pod.name, outcome)

    def _pause(self, outcome: Refused, at: float) -> bool:
        """Stop all writes for Retry-After, a second at least; false while paused already."""
        begins = at >= self._paused_until
        wait = max(outcome.retry_after_seconds or 0.0, FIRST_SECONDS)
        self._paused_until = max(self._paused_until, at + wait)
        return begins
