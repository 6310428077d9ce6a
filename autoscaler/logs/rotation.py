"""Reads the logs of all workers of larger jobs in rotation, to compare their speeds.

The poller reads a job's chief and its first workers, for its progress. Here every worker is read,
seldom: one job after the other, each worker at most once in a window. A tick begins a few bounded
reads at most, so that the cost does not grow with the cluster; the windows do.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from autoscaler.logs.poller import PodLogs
from optimus.jobs import Role
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.stragglers import ComparedWorker, StragglerConfig, WorkerSpeeds
from optimus.progress.types import LogLine, LogRead

_LOG = logging.getLogger(__name__)

READ_BYTES: Final = 64 * 1024
"""The limit of one read: some 600 lines."""

_MOST_READS: Final = 4
"""Maximum number of reads under way, and so of those that begin in one tick."""

_TAKE_SECONDS: Final = 0.1
"""CPU time after which no further read is taken in in one tick."""

_BEHIND_WINDOWS: Final = 10
"""What was printed longer ago is not read any more."""

PodsOf = Callable[[str], Sequence[Pod]]
"""The pods of a job, by its UID."""


class _Process(NamedTuple):
    """One run of a worker's container."""

    pod_uid: str
    restarts: int


@dataclass(slots=True)
class _Round:
    """The state of the reading of one job."""

    began_at: float = float("-inf")
    pending: deque[Pod] = field(default_factory=deque)
    speeds: dict[_Process, WorkerSpeeds] = field(default_factory=dict)


class _WorkerRead(NamedTuple):
    job_uid: str
    speeds: WorkerSpeeds
    at: float
    answer: Future[LogRead | Refused]


class WorkerRotation:
    """Keeps the last windows of every worker; all methods are for one thread."""

    def __init__(
        self,
        logs: PodLogs,
        config: StragglerConfig,
        readers: Executor,
        timer: Callable[[], float] = time.thread_time,
    ) -> None:
        self._logs, self.config, self._readers, self._timer = logs, config, readers, timer
        self._rounds: dict[str, _Round] = {}
        self._order: deque[str] = deque()
        self._under_way: list[_WorkerRead] = []

    def step(
        self, jobs: Mapping[str, LogFormatOptions], pods_of: PodsOf, now: float
    ) -> Collection[str]:
        """Take in what was read and begin the next reads; returns the UIDs of the jobs of which a
        window is complete. ``jobs`` are those to be read, with the form of their logs."""
        self._follow(jobs)
        complete = self._take_done(jobs)
        while len(self._under_way) < _MOST_READS and self._order:
            job_uid = self._order[0]
            known = self._rounds[job_uid]
            if not known.pending and now - known.began_at < self.config.window_seconds:
                break  # the others began their rounds later
            if not known.pending:
                known.began_at, known.pending = now, deque(workers(pods_of(job_uid)))
                self._forget_all_but(known)
            if known.pending:
                self._begin(job_uid, known, known.pending.popleft(), now)
            if not known.pending:
                self._order.rotate(-1)
        return complete

    def compared(
        self, job_uid: str, pods: Sequence[Pod], node_kinds: Mapping[str, str]
    ) -> list[ComparedWorker]:
        """The workers of a job that run now, with what was read of each."""
        speeds = self._rounds[job_uid].speeds if job_uid in self._rounds else {}
        return [
            ComparedWorker(pod.replica.index, pod.node, node_kinds.get(pod.node, ""), log)
            for pod in workers(pods)
            if pod.replica is not None
            and pod.node is not None
            and (log := speeds.get(_process(pod))) is not None
        ]

    def _follow(self, jobs: Collection[str]) -> None:
        for job_uid in self._rounds.keys() - set(jobs):
            del self._rounds[job_uid]
            self._order.remove(job_uid)
        for job_uid in jobs:
            if job_uid not in self._rounds:
                self._rounds[job_uid] = _Round()
                self._order.appendleft(job_uid)

    def _begin(self, job_uid: str, known: _Round, pod: Pod, now: float) -> None:
        process, window_seconds = _process(pod), self.config.window_seconds
        speeds = known.speeds.get(process)
        if speeds is None:
            # The first window is warm-up. When a container was restarted is not known any better.
            started_at = pod.container.started_at if not process.restarts else now
            begin = max((started_at or now) + window_seconds, now - window_seconds)
            speeds = known.speeds[process] = WorkerSpeeds(begin)
        speeds.read_until = max(speeds.read_until, now - _BEHIND_WINDOWS * window_seconds)
        if speeds.read_until >= now:
            return  # it is still warming up
        answer = self._readers.submit(self._logs.read, pod, since=speeds.read_until)
        self._under_way.append(_WorkerRead(job_uid, speeds, now, answer))

    @staticmethod
    def _forget_all_but(known: _Round) -> None:
        there = {_process(pod) for pod in known.pending}
        known.speeds = {each: log for each, log in known.speeds.items() if each in there}

    def _take_done(self, jobs: Mapping[str, LogFormatOptions]) -> set[str]:
        complete, began = set[str](), self._timer()
        for read in [read for read in self._under_way if read.answer.done()]:
            self._under_way.remove(read)
            if read.job_uid in jobs and self._take(read, jobs):
                complete.add(read.job_uid)
            if self._timer() - began > _TAKE_SECONDS:
                break  # the next tick goes on
        return complete

    def _take(self, read: _WorkerRead, jobs: Mapping[str, LogFormatOptions]) -> bool:
        """Take in one read; returns whether a window is complete."""
        lines, truncated = list[LogLine](), False
        try:
            answer = read.answer.result()
            if isinstance(answer, Refused):
                _LOG.debug("%s", answer)
            else:
                lines, truncated = answer.lines, answer.truncated
            is_complete = read.speeds.take(lines, jobs[read.job_uid], self.config)
        except Exception:  # noqa: BLE001 - logged with its trace; the other logs are read all the same
            _LOG.exception("the log of a worker of job %s could not be read", read.job_uid)
            return False
        if truncated:
            # The rest is passed over: a log that prints more than is read would be read ever later.
            read.speeds.read_until = max(read.speeds.read_until, read.at)
        return is_complete


def workers(pods: Sequence[Pod]) -> list[Pod]:
    """The workers among a job's pods that run, by index."""
    found = [
        (pod.replica.index, pod)
        for pod in pods
        if pod.running and pod.replica is not None and pod.replica.role is Role.WORKER
    ]
    return [pod for _, pod in sorted(found, key=lambda each: each[0])]


def _process(pod: Pod) -> _Process:
    return _Process(pod.uid, pod.container.restarts)
