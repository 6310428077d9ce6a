"""Reads how the logs of failed containers end, each once: there stands why a program ended."""

from collections.abc import Iterable
from concurrent.futures import Executor, Future
from typing import Final

from cachetools import LRUCache

from autoscaler.jobs.state import TrackedJob
from autoscaler.logs.poller import PodLogs
from optimus.kube.pod_failures import LAST_LINES, worst_first
from optimus.kube.pods import Pod
from optimus.kube.results import Refused

_MOST_PODS: Final = 3
"""The worst pods of a job, whose logs are read."""

_MOST_AT_ONCE: Final = 2
_MOST_KEPT: Final = 10_000
_End = tuple[str, int]
"""A container's end: its pod's UID, and how often it was started again before."""


class LastWords:
    """Reads how the logs of failed containers ended. All methods are for one thread."""

    def __init__(self, logs: PodLogs, executor: Executor) -> None:
        self._logs, self._executor = logs, executor
        self._known: LRUCache[_End, str] = LRUCache(_MOST_KEPT)
        self._reading: dict[_End, Future[str]] = {}

    def read(self, states: Iterable[TrackedJob], at: float) -> None:
        """Give jobs with failing pods what was read since the last call, and begin new reads."""
        for end in [end for end, read in self._reading.items() if read.done()]:
            read = self._reading.pop(end)
            self._known[end] = "" if read.exception() else read.result()
        for state in states:
            words, state.last_words_awaited = dict[str, str](), False
            for pod in worst_first(state.gang.failing)[:_MOST_PODS]:
                end = pod.uid, pod.container.restarts
                if end in self._known:
                    words[pod.uid] = self._known[end]
                    continue
                words |= {uid: text for uid, text in state.last_words.items() if uid == pod.uid}
                if not _has_ended(pod):
                    continue
                state.last_words_awaited = True
                if end not in self._reading and len(self._reading) < _MOST_AT_ONCE:
                    self._reading[end] = self._executor.submit(self._read, pod)
            if words and words != state.last_words:
                state.last_words = words
                state.update_failure(at)

    def _read(self, pod: Pod) -> str:
        found = self._logs.read(pod, last_lines=LAST_LINES)
        return "" if isinstance(found, Refused) else "\n".join(each.text for each in found.lines)


def _has_ended(pod: Pod) -> bool:
    """Return whether what is read now is the log of the container that failed."""
    return bool(pod.container.error) and pod.container.started_at is None
