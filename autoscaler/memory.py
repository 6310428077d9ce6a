"""Says early which jobs' memory is near its limit, and when it will be full.

Each minute the use of all pods is read from the API ``metrics.k8s.io``; where there is none,
nothing is said. Nothing is done for it: limits are the user's.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from autoscaler.jobs.state import TrackedJob
from optimus.kube.errors import KubeError, Malformed
from optimus.kube.pod_usage import NEAR_LIMIT, PodUsage, limit_text
from optimus.resources import MEMORY
from optimus.times import duration

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS: Final = 60.0
_MOST_SAMPLES: Final = 32
_PARTS: Final = 4
"""Memory grows where each quarter of the samples is above the one before: a program that starts
grows once."""

_LEAST_OF_PART: Final = 4
_LEAST_GROWTH: Final = 0.01
"""Of the limit, from one quarter to the next; less is noise."""


_Samples: TypeAlias = tuple[tuple[float, int], ...]
"""Instants and bytes."""


class _Near(NamedTuple):
    """A pod whose memory is near its limit, or grows towards it."""

    full_seconds: float
    """Infinite: it does not grow."""
    free: float
    """The part of its limit that is free."""
    text: str


class MemoryWatch:
    """Compares what pods use with their limits. All methods are for one thread."""

    def __init__(self, read_usage: Callable[[], PodUsage], executor: Executor) -> None:
        self._read_usage, self._executor = read_usage, executor
        self._reading: Future[PodUsage] | None = None
        self._read_at = float("-inf")
        #: By a pod's UID and how often its container was started again.
        self._samples: dict[tuple[str, int], _Samples] = {}

    def step(self, states: Iterable[TrackedJob], now: float) -> None:
        """Take in what was read since the last call, and begin the next read where it is due."""
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            try:
                self._take(states, reading.result(), now)
            except (KubeError, Malformed) as error:
                _LOG.debug("the use of pods is not known: %s", error)
        if self._reading is None and now - self._read_at >= _EVERY_SECONDS:
            self._read_at, self._reading = now, self._executor.submit(self._read_usage)

    def _take(self, states: Iterable[TrackedJob], usage: PodUsage, now: float) -> None:
        before, self._samples = self._samples, {}
        for state in states:
            near = sorted(self._near(state, usage, before, now))
            more = f"; {len(near) - 1} more of its pods are near theirs" if len(near) > 1 else ""
            state.memory = f"{near[0].text}{more}" if near else ""

    def _near(
        self,
        state: TrackedJob,
        usage: PodUsage,
        before: dict[tuple[str, int], _Samples],
        now: float,
    ) -> Iterator[_Near]:
        forecast = state.shown_forecast
        left = float("inf") if forecast is None else forecast.at(state.job.counts)
        for pod in state.gang.here:
            used = usage.get((pod.namespace, pod.name), {}).get(pod.log_container)
            if used is None or pod.replica is None or not pod.running:
                continue
            state.note_memory(pod.replica.role, used[MEMORY])
            if not pod.memory_limit:
                continue
            key = pod.uid, pod.container.restarts
            samples = (*before.get(key, ()), (now, used[MEMORY]))[-_MOST_SAMPLES:]
            self._samples[key] = samples
            text = limit_text(pod.name, used[MEMORY], pod.memory_limit)
            full = seconds_until_full(samples, pod.memory_limit)
            if full < left:
                text += f"; growing as it does, it is full in {duration(full)}"
            if full < left or used[MEMORY] > NEAR_LIMIT * pod.memory_limit:
                yield _Near(full, 1 - used[MEMORY] / pod.memory_limit, text)


def seconds_until_full(samples: _Samples, limit: int) -> float:
    """The seconds until memory that grows as slowly as it did lately is full, of so many bytes;
    infinite where it does not grow."""
    size, least = len(samples) // _PARTS, _LEAST_GROWTH * limit
    if size < _LEAST_OF_PART or samples[-1][1] - samples[0][1] < least:
        return float("inf")
    last = samples[-size * _PARTS :]
    parts = [last[start : start + size] for start in range(0, len(last), size)]
    means = [(fmean(at for at, _ in part), fmean(used for _, used in part)) for part in parts]
    steps = [(then - at, after - used) for (at, used), (then, after) in pairwise(means)]
    if any(growth < least for _, growth in steps):
        return float("inf")
    rate = min(growth / seconds for seconds, growth in steps)
    return max(limit - samples[-1][1], 0) / rate
