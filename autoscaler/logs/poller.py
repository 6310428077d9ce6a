"""Reads training logs a little at a time, from a bounded pool of readers.

Polled, not followed: a stream per pod would hold thousands of connections open for a line every few
seconds. Of each job the pod that leads is read (its Chief, else worker 0) and a few workers beside
it, enough to know a speed that adds up over workers. A pod that has ended, or is about to go, is
read once more: what it printed last is the loss and the checkpoint that its job ends with. Those
that have waited longest are read first; whose turn it is on which node,
``log_turns`` says, so that no read that hangs holds up the others, nor the loop.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from autoscaler.logs.throttle import Turns, node_of
from optimus.jobs import Counts, Role
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.models.speed.node_factors import mixed_kind
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun

_LOG = logging.getLogger(__name__)
_SAMPLED_WORKERS: Final = 4
_LAST_READ_SECONDS: Final = 1.0
"""So long, over all jobs, one tick waits for the last lines of jobs that are to be suspended."""
_LAST_LOOKS: Final = 3
"""After so many ticks a suspension goes on without the lines that have not come."""
_LAST_READERS: Final = 16
_LAST_CHANCE_SECONDS: Final = 60.0
"""A pod that has ended is read within this time, or its last lines are given up."""
_MOST_KINDS: Final = 8
"""Workers on more kinds of nodes than these say nothing about any of them."""
_LEADS: Final = (Role.CHIEF, Role.MASTER)


class PodLogs(Protocol):
    """Where logs come from; ``optimus.kube.logs.LogReader`` is one."""

    def read(self, pod: Pod, *, since: float | None = None) -> list[LogLine] | Refused:
        """The whole lines from ``since`` on."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """One incarnation of a job's pods: which of them are read, at which counts they train, on which
    kind of nodes."""

    name: str
    counts: Counts
    pods: tuple[Pod, ...]
    node_kind: str | None = None


_Followed: TypeAlias = tuple[ProgressLog, Run, Pod]
_Lines: TypeAlias = Future[list[LogLine] | Refused]


def run_of(pods: Sequence[Pod], counts: Counts, node_kinds: Mapping[str, str]) -> Run | None:
    """The run that these pods of one job make, ``None`` while none of them that trains runs.

    The counts are those that the pods were made with, which the job's spec may have left behind
    already. ``node_kinds`` are by the names of nodes.
    """
    leads = [pod for pod in pods if _role(pod) in _LEADS]
    workers = sorted((pod for pod in pods if _role(pod) is Role.WORKER), key=_index)
    read = tuple(pod for pod in (*leads, *workers[:_SAMPLED_WORKERS]) if pod.running)
    if not read:
        return None
    gang = read[0].gang
    made_with = counts if gang is None else Counts(gang.get(Role.PS, 0), gang.get(Role.WORKER, 0))
    return Run((leads or workers)[0].uid, made_with, read, _kind_of(workers or leads, node_kinds))


def _kind_of(trainers: Sequence[Pod], node_kinds: Mapping[str, str]) -> str:
    """The kind of the nodes that these pods are on, or several as one; empty where that is unknown,
    or too many."""
    nodes = [pod.node for pod in trainers if pod.node is not None and not pod.leaving]
    found = Counter(node_kinds.get(node, "") for node in nodes)
    return mixed_kind(found) if 0 < len(found) <= _MOST_KINDS else ""


def _role(pod: Pod) -> Role | None:
    return pod.replica.role if pod.replica else None


def _index(pod: Pod) -> int:
    return pod.replica.index if pod.replica else 0


@dataclass(frozen=True, slots=True)
class _Read:
    """A read under way: of whose log, and when it began."""

    of: _Followed
    at: float
    lines: _Lines


@dataclass(slots=True)
class _LastReads:
    """The last reads of a run that is about to end, and how often they were looked at."""

    left: list[_Read]
    looks: int = 0


class LogPoller:
    """Reads the logs of many runs and hands the lines to each job's ``ProgressLog``."""

    def __init__(
        self,
        logs: PodLogs,
        *,
        readers: int,
        poll_seconds: float,
        last_read_seconds: float = _LAST_READ_SECONDS,
    ) -> None:
        self._logs = logs
        self._poll_seconds = poll_seconds
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="logs")
        self._last_pool = ThreadPoolExecutor(_LAST_READERS, thread_name_prefix="last-logs")
        self._turns = Turns(readers, poll_seconds)
        self._read_at: dict[str, float] = {}
        self._alive: dict[str, _Followed] = {}
        self._holders: dict[tuple[str, str], str] = {}
        """By namespace and name, the UID of the pod that has it now."""
        self._ended: dict[str, tuple[_Followed, float]] = {}
        self._under_way: dict[str, _Read] = {}
        self._last: dict[str, _LastReads] = {}
        self._hanging: list[_Read] = []
        self._last_read_seconds = self._last_seconds_left = last_read_seconds
        self._now = float("-inf")

    def poll(
        self, runs: Iterable[tuple[ProgressLog, Run]], now: float, *, patience_seconds: float
    ) -> None:
        """Read what is due at ``now`` (seconds since the epoch, UTC), for at most
        ``patience_seconds``.

        What takes longer is taken in at a later poll, and is not waited for again.
        """
        self._now, self._last_seconds_left = now, self._last_read_seconds
        self._follow({pod.uid: (log, run, pod) for log, run in runs for pod in run.pods})
        self._take_done()
        self._turns.begin()
        due, begun = self._due(), set[str]()
        until = time.monotonic() + patience_seconds
        while True:
            due = self._begin(due, begun)
            left_seconds = until - time.monotonic()
            if left_seconds <= 0 or not self._awaits(begun):
                return
            wait(
                [read.lines for read in self._under_way.values()],
                left_seconds,
                return_when=FIRST_COMPLETED,
            )
            self._take_done()

    def _follow(self, alive: dict[str, _Followed]) -> None:
        """Take note of who runs and who has ended, unless another pod has its name: that stands for
        that one's log."""
        for uid, each in self._alive.items():
            if uid not in alive:
                self._ended[uid] = (each, self._now)
        self._holders = {(pod.namespace, pod.name): uid for uid, (_, _, pod) in alive.items()}
        self._ended = {
            uid: (each, ended_at)
            for uid, (each, ended_at) in self._ended.items()
            if uid not in alive
            and (each[2].namespace, each[2].name) not in self._holders
            and self._now - ended_at <= _LAST_CHANCE_SECONDS
        }
        self._alive = alive
        pods = [each[2] for each in (*alive.values(), *(each for each, _ in self._ended.values()))]
        self._turns.forget_all_but({pod.uid for pod in pods}, {node_of(pod) for pod in pods})
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in alive}
        names = {run.name for _, run, _ in alive.values()}
        for name in [name for name in self._last if name not in names]:
            self._hanging += self._last.pop(name).left
        self._hanging = [read for read in self._hanging if not read.lines.done()]

    def _due(self) -> list[_Followed]:
        """Whose log is to be read: first those that will not be there for long, then who has waited
        longest."""
        first = [each for uid, (each, _) in self._ended.items() if uid not in self._under_way]
        never, due = float("-inf"), self._now - self._poll_seconds
        waiting = [
            each
            for uid, each in self._alive.items()
            if uid not in self._under_way and self._read_at.get(uid, never) <= due
        ]
        return first + sorted(waiting, key=lambda each: self._read_at.get(each[2].uid, never))

    def _begin(self, due: list[_Followed], begun: set[str]) -> list[_Followed]:
        """Begin what may begin, and note the pods' UIDs; returns the rest."""
        rest: list[_Followed] = []
        for index, each in enumerate(due):
            if self._turns.all_taken:
                return rest + due[index:]
            if self._turns.is_paused(each[2], self._now):
                continue
            if self._turns.may_begin(each[2]):
                self._begin_one(each)
                begun.add(each[2].uid)
            else:
                rest.append(each)
        return rest

    def _begin_one(self, of: _Followed) -> None:
        log, _, pod = of
        self._turns.began(pod)
        self._read_at[pod.uid] = self._now
        self._ended.pop(pod.uid, None)
        lines = self._pool.submit(self._logs.read, pod, since=log.next_since(pod.name))
        self._under_way[pod.uid] = _Read(of, self._now, lines)

    def _awaits(self, begun: set[str]) -> bool:
        """Whether a read that this poll began is under way on a node that answers."""
        pods = (read.of[2] for uid, read in self._under_way.items() if uid in begun)
        return any(not self._turns.is_silent(node_of(pod)) for pod in pods)

    def _take_done(self) -> None:
        for uid, read in [
            (uid, read) for uid, read in self._under_way.items() if read.lines.done()
        ]:
            del self._under_way[uid]
            pod = read.of[2]
            self._turns.ended(pod)
            if self._holders.get((pod.namespace, pod.name), uid) == uid:
                self._take(read)

    def read_now(self, log: ProgressLog, run: Run) -> bool:
        """Read a whole run's logs at once, apart from the queue: its pods are about to go, and
        their logs with them.

        To be called at each tick until it is true: all was read, or has been waited for long
        enough. All jobs of one tick together are waited for a second at most; nodes that are known
        not to answer are passed over."""
        last = self._last.get(run.name)
        if last is None:
            last = self._last[run.name] = _LastReads(self._begin_last(log, run))
        began = time.monotonic()
        wait([read.lines for read in last.left], max(self._last_seconds_left, 0.0))
        self._last_seconds_left -= time.monotonic() - began
        for read in [read for read in last.left if read.lines.done()]:
            last.left.remove(read)
            self._take(read)
        last.looks += 1
        if last.left and last.looks < _LAST_LOOKS:
            return False
        self._hanging += last.left
        del self._last[run.name]
        return True

    def _begin_last(self, log: ProgressLog, run: Run) -> list[_Read]:
        hanging = {node_of(read.of[2]) for last in self._last.values() for read in last.left}
        hanging |= {node_of(read.of[2]) for read in self._hanging if not read.lines.done()}
        return [
            _Read(
                (log, run, pod),
                self._now,
                self._last_pool.submit(self._logs.read, pod, since=log.next_since(pod.name)),
            )
            for pod in run.pods
            if node_of(pod) not in hanging and not self._turns.is_silent(node_of(pod))
        ]

    def close(self) -> None:
        """End the readers."""
        for pool in (self._pool, self._last_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, read: _Read) -> None:
        log, run, pod = read.of
        try:
            lines = read.lines.result()
            if isinstance(lines, Refused):
                _LOG.debug("%s", lines)
                self._turns.failed(pod, self._now, silent=lines.kind in _NO_ANSWER)
                return
            self._turns.answered(pod)
            if pod.replica is not None:
                look = PodRun(run.name, run.node_kind, read.at)
                log.observe(pod.name, pod.replica.role, pod.replica.index, run.counts, lines, look)
        except Exception:  # noqa: BLE001 - told with its trace below; the other logs are read all the same
            self._turns.failed(pod, self._now, silent=False)
            _LOG.exception("the log of %s/%s could not be read", pod.namespace, pod.name)


_NO_ANSWER: Final = (ErrorKind.TRANSIENT, ErrorKind.THROTTLED)
