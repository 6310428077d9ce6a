"""Reads training logs through the API server, with a bounded pool of readers.

Polled, not followed: a stream per pod would hold thousands of connections open for a line every few
seconds. Of each job the leading pod is read (its Chief, else worker 0) and a few workers beside it,
enough for a speed that adds up over workers. ``poll``, called once a tick, says what is to be read
and takes in what was read since; in between the readers go on by themselves, so that a tick never
waits for thousands of logs.

1. Order: first pods that have ended: their last lines hold the loss and the checkpoint that the job
   ends with, and are soon gone. Then jobs that wait for a checkpoint. Then whatever has waited
   longest, where the wait of a leading pod counts four times.
2. A node that does not answer is not asked again for a while, nor one on which a read of an earlier
   poll is under way; two reads at most are under way on one node.
3. What was read is taken in within a budget of time: small reads before large ones, and in turns
   for the namespaces. A job is not read on before that is done, so that at most one read of each
   pod waits, and each has a limit of bytes. Of a log that prints more, only the end is read.
"""

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import nsmallest
from operator import attrgetter
from statistics import fmean
from threading import Condition
from typing import Final, NamedTuple, Protocol

from optimus.jobs import Counts, Role, alternating
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.models.speed.curve import mixed_kind
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogRead, PodRun

_LOG = logging.getLogger(__name__)
_SAMPLED_WORKERS: Final = 4
_MOST_NODE_KINDS: Final = 8
"""Workers on more kinds of nodes than these are evidence of none of them."""

_LEADERS: Final = (Role.CHIEF, Role.MASTER)
_MOST_READS_PER_NODE: Final = 2
_SILENT_POLLS: Final = 2
"""How long a node that did not answer is not asked, in times of the pause between two reads."""

_LEAD_WEIGHT: Final = 4
"""If not everything can be read in time, the leading pods are read so much more often than the
others: losses and checkpoints are theirs."""

_QUEUED_PER_READER: Final = 100
"""More than one reader reads between two ticks."""

_LAST_READ_SECONDS: Final = 1.0
"""How long one tick waits for the last lines of all jobs that are to be suspended."""

_LAST_READ_TICKS: Final = 3
"""After this many ticks a suspension goes ahead without the lines that have not come."""

_ENDED_SECONDS: Final = 60.0
"""A pod that has ended is read within this time, or its last lines are given up."""

_BEHIND_SECONDS: Final = 30.0
"""A log that has been read behind for so long, and gets further behind, is too large."""

_MOST_BYTES: Final = 64 * 2**20
"""The limit of the reads that wait to be taken in. Those of one namespace take no more than they
leave to the others: its pods are read on once there is room."""

_LINE_BYTES: Final = 100
"""What a line takes in memory beside its text."""

_BYTES_PER_SECOND: Final = 10_000.0
"""A read is taken in as if it had come later by a second for so many bytes."""

_TAKE_SECONDS: Final = 0.3
"""CPU time that one tick takes for what was read; the rest waits for the next one."""

_END_LINES: Final = 500
"""The last lines of a log that is too large, of each read."""

_END_BYTES: Final = 128 * 1024
"""Half of what one read may return: lines have different lengths."""

_END_SECONDS: Final = 600.0
"""For so long; then it is seen whether it has become smaller."""

_FORBIDDEN: Final = (
    "the autoscaler may not read logs in the namespace {}: "
    "`kubectl optimus doctor` says which right is missing"
)
"""Said of each job there."""

_NO_ANSWER: Final = (ErrorKind.TRANSIENT, ErrorKind.THROTTLED)


class PodLogs(Protocol):
    """Reads logs; ``optimus.kube.logs.LogReader`` is one."""

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        """The whole lines from ``since`` on, the oldest first, up to a limit; or of these the last
        ones."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One incarnation of a job's pods: those that are read, and the counts that they train at."""

    name: str
    counts: Counts
    pods: tuple[Pod, ...]
    node_kind: str | None = None
    evaluator: Pod | None = None
    """Its log is read, too; it trains nothing."""
    servers: int = 0
    """On how many nodes it trains; 0: not known."""

    @property
    def read(self) -> tuple[Pod, ...]:
        """All whose logs are read, those that train first."""
        return self.pods if self.evaluator is None else (*self.pods, self.evaluator)


def run_of(pods: Sequence[Pod], counts: Counts, node_kinds: Mapping[str, str]) -> JobRun | None:
    """The run that these pods of one job make, ``None`` while none of them that trains runs.

    The counts are those that the pods were made with, which the job's spec may have left behind
    already. ``node_kinds`` are by the names of nodes.
    """
    roles = {pod.uid: pod.replica.role if pod.replica else None for pod in pods}
    leaders = [pod for pod in pods if roles[pod.uid] in _LEADERS]
    workers = sorted((pod for pod in pods if roles[pod.uid] is Role.WORKER), key=_index)
    read = tuple(pod for pod in (*leaders, *workers[:_SAMPLED_WORKERS]) if pod.running)
    if not read:
        return None
    evaluators = [pod for pod in pods if roles[pod.uid] is Role.EVALUATOR and pod.running]
    gang = read[0].gang
    made_with = counts if gang is None else Counts(gang.get(Role.PS, 0), gang.get(Role.WORKER, 0))
    node_kind = _node_kind(workers or leaders, node_kinds)
    evaluator = next(iter(evaluators), None)
    nodes = {pod.node for pod in (*leaders, *workers) if not pod.leaving}
    servers = 0 if None in nodes else len(nodes)
    return JobRun((leaders or workers)[0].uid, made_with, read, node_kind, evaluator, servers)


def _node_kind(trainers: Sequence[Pod], node_kinds: Mapping[str, str]) -> str:
    """The kind of nodes that these pods are on, several as one; empty where unknown or too many."""
    nodes = [pod.node for pod in trainers if pod.node is not None and not pod.leaving]
    found = Counter(node_kinds.get(node, "") for node in nodes)
    return mixed_kind(found) if 0 < len(found) <= _MOST_NODE_KINDS else ""


def _index(pod: Pod) -> int:
    return pod.replica.index if pod.replica else 0


class _PodLog(NamedTuple):
    """One pod's log, and where its lines go."""

    log: ProgressLog
    run: JobRun
    pod: Pod

    @property
    def leads(self) -> bool:
        """Return whether it is its job's leading pod."""
        return self.pod is self.run.pods[0]

    @property
    def node(self) -> str:
        """The node that the log comes from; a pod without one counts as a node of its own."""
        return self.pod.node or self.pod.uid

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return self.pod.namespace


@dataclass(slots=True, eq=False)
class _LogReading:
    """A read that is under way, or waits to be taken in."""

    source: _PodLog
    at: float
    answer: LogRead | Refused | Exception | None = None
    """``None`` while it is under way."""

    size: int = 0
    """Bytes that its lines take, about."""

    @property
    def rank(self) -> float:
        """Return what is taken in first has the lowest."""
        return self.at + self.size / _BYTES_PER_SECOND

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return self.source.pod.namespace


class _Behind(NamedTuple):
    """The position of a log's reading when it ended at its limit for the first time in a row."""

    read_at: float
    line_at: float


class _LogEnd(NamedTuple):
    """The number of lines that are read of a log that is too large, and until when."""

    lines: int
    until: float


@dataclass(slots=True)
class _LastReads:
    """The last reads of a run that is about to end."""

    reads: list[_LogReading]
    ticks: int = 0


class LogPoller:
    """Reads the logs of many runs and hands the lines to each job's ``ProgressLog``.

    All methods are for one thread; lines reach a ``ProgressLog`` in that thread alone.
    """

    def __init__(
        self,
        logs: PodLogs,
        *,
        readers: int,
        poll_seconds: float,
        last_read_seconds: float = _LAST_READ_SECONDS,
        timer: Callable[[], float] = time.thread_time,
    ) -> None:
        """``timer`` measures the CPU time that taking lines in costs."""
        self._logs, self._poll_seconds, self._timer = logs, poll_seconds, timer
        self._readers = readers
        self.pool = ThreadPoolExecutor(readers, thread_name_prefix="logs")
        """The readers, which others may use for single reads."""
        self._changed = Condition()
        """Guards what the readers change: the six that follow."""
        self._queue: deque[_PodLog] = deque()
        """What is to be read next."""
        self._read_at: dict[str, float] = {}
        """When the last read of each pod began, by its UID."""
        self._under_way: list[_LogReading] = []
        self._done: list[_LogReading] = []
        self._silent_until: dict[str, float] = {}
        """Until when a node is not asked that did not answer last, by its name."""
        self._sizes = Counter[str]()
        """What the reads that wait take, by namespace."""
        self._waiting: list[_LogReading] = []
        """What was read and is not taken in yet."""
        self._behind: dict[str, _Behind] = {}
        """The logs that are read behind, by their pods' UIDs; likewise ``_ends``."""
        self._ends: dict[str, _LogEnd] = {}
        self._polled: tuple[tuple[ProgressLog, JobRun], ...] = ()
        self._running: dict[str, _PodLog] = {}
        self._leading_since: dict[str, float] = {}
        """Since when the leading pods have been known to run."""
        self._uids: dict[tuple[str, str], str] = {}
        """The UID of the pod that has a namespace and name now."""
        self._ended: dict[str, tuple[_PodLog, float]] = {}
        self._last: dict[str, _LastReads] = {}
        self._last_read_seconds = self._last_seconds_left = last_read_seconds
        self._take_seconds_left = _TAKE_SECONDS
        self._now = -math.inf

    def poll(
        self,
        runs: Iterable[tuple[ProgressLog, JobRun]],
        now: float,
        *,
        timeout_seconds: float,
        awaited: Collection[str] = (),
    ) -> None:
        """Read what is due at ``now`` (seconds since the epoch, UTC), and take in what was read.

        Waits at most ``timeout_seconds`` for nodes that answer. What takes longer goes on, and is
        taken in at a later poll. ``awaited`` are the names of runs that wait for a checkpoint.
        """
        self._last_seconds_left = self._last_read_seconds
        self._take_seconds_left = _TAKE_SECONDS
        polled = tuple(runs)
        with self._changed:
            self._now = now
            if self._ended or not _are_same(polled, self._polled):
                self._polled = polled
                self._update_sources(
                    {pod.uid: _PodLog(log, run, pod) for log, run in polled for pod in run.read}
                )
        self._take_in()
        with self._changed:
            self._queue = deque(self._due(awaited))
            self._begin()
        until = time.monotonic() + timeout_seconds
        while self._wait_for_answer(until):
            self._take_in()

    def lag_seconds(self, now: float) -> float:
        """Seconds since the leading pod was read that has waited longest; 0 without one."""
        with self._changed:
            seen = [self._read_at.get(uid, since) for uid, since in self._leading_since.items()]
        return max((now - at for at in seen), default=0.0)

    def close(self) -> None:
        """End the readers."""
        with self._changed:
            self._queue.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)

    # --- what is to be read

    def _update_sources(self, running: dict[str, _PodLog]) -> None:
        """Note which pods run and which have ended.

        A pod whose name another one has by now is dropped: the API server reads that one's log.
        """
        for uid, source in self._running.items():
            if uid not in running:
                self._ended[uid] = (source, self._now)
        self._uids = {(each.namespace, each.pod.name): uid for uid, each in running.items()}
        self._ended = {
            uid: (source, ended_at)
            for uid, (source, ended_at) in self._ended.items()
            if uid not in running
            and (source.namespace, source.pod.name) not in self._uids
            and self._now - ended_at <= _ENDED_SECONDS
        }
        self._running = running
        leading = [uid for uid, source in running.items() if source.leads]
        self._leading_since = {uid: self._leading_since.get(uid, self._now) for uid in leading}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in running}
        self._behind = {uid: each for uid, each in self._behind.items() if uid in running}
        self._ends = {uid: end for uid, end in self._ends.items() if uid in running}
        runs = {source.run.name for source in running.values()}
        self._last = {name: last for name, last in self._last.items() if name in runs}
        self._silent_until = {
            node: until for node, until in self._silent_until.items() if until > self._now
        }

    def _due(self, awaited: Collection[str]) -> list[_PodLog]:
        """Return what is to be read, in order; not more than the readers may get to."""
        known = (*self._under_way, *self._done, *self._waiting)
        busy = {read.source.run.name for read in (*self._done, *self._waiting)}
        busy |= {read.source.pod.uid for read in known}

        def is_busy(source: _PodLog) -> bool:
            return source.pod.uid in busy or source.run.name in busy

        due_at = self._now - self._poll_seconds
        waiting = [
            (
                source.run.name not in awaited,
                (_LEAD_WEIGHT if source.leads else 1) * (read_at - self._now),
                number,
            )
            for number, (uid, source) in enumerate(self._running.items())
            if (read_at := self._read_at.get(uid, -math.inf)) <= due_at and not is_busy(source)
        ]
        sources = list(self._running.values())
        first = nsmallest(_QUEUED_PER_READER * self._readers, waiting)
        ended = [source for source, _ in self._ended.values() if not is_busy(source)]
        return ended + [sources[number] for *_, number in first]

    def _range_of(self, source: _PodLog) -> tuple[float | None, int | None]:
        """Since when a log is to be read, and how many of the last lines; ``None``: all."""
        end = self._ends.get(source.pod.uid)
        if end is not None and self._now >= end.until:
            del self._ends[source.pod.uid]
            end = None
        return source.log.next_since(source.pod.name), None if end is None else end.lines

    # --- reading; with the lock held

    def _may_ask(self, node: str) -> bool:
        """Return whether a read on a node may begin now."""
        there = [read.at for read in self._under_way if read.source.node == node]
        is_slow = bool(there) and min(there) < self._now
        most = 1 if node in self._silent_until else _MOST_READS_PER_NODE
        return not is_slow and len(there) < most and not self._is_silent(node)

    def _has_room(self, namespace: str) -> bool:
        return self._sizes[namespace] <= _MOST_BYTES - self._sizes.total()

    def _is_silent(self, node: str) -> bool:
        return self._now < self._silent_until.get(node, -math.inf)

    def _begin(self) -> None:
        """Begin the reads of the queue that may begin."""
        held_back = deque[_PodLog]()
        while self._queue and len(self._under_way) < self._readers:
            source = self._queue.popleft()
            if self._may_ask(source.node) and self._has_room(source.namespace):
                self._submit(source)
            elif not self._is_silent(source.node) and self._has_room(source.namespace):
                held_back.append(source)
        self._queue.extendleft(reversed(held_back))

    def _submit(self, source: _PodLog) -> _LogReading:
        since, last_lines = self._range_of(source)
        self._ended.pop(source.pod.uid, None)
        self._read_at[source.pod.uid] = self._now
        reading = _LogReading(source, self._now)
        self._under_way.append(reading)
        self.pool.submit(self._read, reading, since, last_lines)
        return reading

    def _read(self, reading: _LogReading, since: float | None, last_lines: int | None) -> None:
        """Read one log in a reader's thread, then begin what is next."""
        source = reading.source
        answer: LogRead | Refused | Exception
        try:
            answer = self._logs.read(source.pod, since=since, last_lines=last_lines)
        except Exception as problem:  # noqa: BLE001 - logged where the read is taken in
            answer = problem
        with self._changed:
            self._under_way.remove(reading)
            if isinstance(answer, Refused) and answer.kind in _NO_ANSWER:
                silent_seconds = _SILENT_POLLS * self._poll_seconds
                self._silent_until[source.node] = self._now + silent_seconds
            if isinstance(answer, LogRead):
                self._silent_until.pop(source.node, None)
                reading.size = sum(len(line.text) + _LINE_BYTES for line in answer.lines)
            reading.answer = answer
            self._sizes[source.namespace] += reading.size
            self._done.append(reading)
            self._begin()
            self._changed.notify_all()

    def _wait_for_answer(self, until: float) -> bool:
        """Wait for a read of this poll on a node that answers; false where none is awaited."""
        with self._changed:
            left_seconds = until - time.monotonic()
            if not self._done and left_seconds > 0:
                reads = (read for read in self._under_way if read.at == self._now)
                if all(self._is_silent(read.source.node) for read in reads):
                    return False
                self._changed.wait(left_seconds)
            return left_seconds > 0

    # --- what was read

    def _take_in(self) -> None:
        """Hand what was read to the jobs' logs, while time is left."""
        with self._changed:
            self._waiting += self._done
            self._done = []
        waiting, self._waiting = sorted(self._waiting, key=attrgetter("rank")), []
        for reading in alternating(waiting, attrgetter("namespace")):
            if self._take_seconds_left > 0:
                self._take(reading)
            else:
                self._waiting.append(reading)

    def _take_in_of(self, run: JobRun) -> None:
        """Hand what was read of one run to its job's log, however long it takes."""
        with self._changed:
            found, self._done = [*self._waiting, *self._done], []
        self._waiting = [each for each in found if each.source.run.name != run.name]
        for reading in found:
            if reading.source.run.name == run.name:
                self._take(reading)

    def read_now(self, log: ProgressLog, run: JobRun) -> bool:
        """Read a run's logs at once, before all others: its pods are about to be deleted, and
        their logs with them.

        To be called at each tick until it returns true: all was read, or waited for long enough.
        All jobs of one tick together are waited for a second at most; nodes that are known not to
        answer are passed over.
        """
        last = self._last.get(run.name)
        if last is None:
            self._take_in_of(run)
            with self._changed:
                others = (each for last in self._last.values() for each in last.reads)
                hanging = {each.source.node for each in others if each.answer is None}
                sources = [_PodLog(log, run, pod) for pod in run.read]
                asked = [
                    each
                    for each in sources
                    if each.node not in hanging and self._may_ask(each.node)
                ]
                last = self._last[run.name] = _LastReads([self._submit(each) for each in asked])
        began = time.monotonic()
        with self._changed:
            reads = last.reads
            is_done = self._changed.wait_for(
                lambda: all(read.answer is not None for read in reads),
                max(self._last_seconds_left, 0.0),
            )
        self._last_seconds_left -= time.monotonic() - began
        self._take_in_of(run)
        last.ticks += 1
        if not is_done and last.ticks < _LAST_READ_TICKS:
            return False
        del self._last[run.name]
        return True

    def _take(self, reading: _LogReading) -> None:
        """Take in one read, unless its pod's name is another one's by now."""
        began, answer, (log, run, pod) = self._timer(), reading.answer, reading.source
        try:
            if isinstance(answer, Exception):
                raise answer
            if self._uids.get((pod.namespace, pod.name), pod.uid) != pod.uid:
                return
            if isinstance(answer, Refused):
                _LOG.debug("%s", answer)
                if answer.kind is ErrorKind.FORBIDDEN:
                    log.refused(_FORBIDDEN.format(pod.namespace))
            elif answer is not None and self._is_followed(reading, answer) and pod.replica:
                cut = answer.truncated, answer.skipped
                look = PodRun(run.name, run.node_kind, reading.at, *cut, run.servers)
                role, index = pod.replica.role, pod.replica.index
                log.observe(pod.name, role, index, run.counts, answer.lines, look)
        except Exception:  # noqa: BLE001 - logged with its trace; the other logs are read all the same
            _LOG.exception("the log of %s/%s could not be read", pod.namespace, pod.name)
        finally:
            self._take_seconds_left -= self._timer() - began
            with self._changed:
                self._sizes[pod.namespace] -= reading.size

    def _is_followed(self, reading: _LogReading, answer: LogRead) -> bool:
        """Note whether there is more to be read; false where the log prints more than can be: its
        end is read next, instead of these lines."""
        uid = reading.source.pod.uid
        if not answer.truncated:
            self._behind.pop(uid, None)
            return True
        if uid in self._ends:
            return True
        with self._changed:
            if uid in self._read_at:
                # There is more: due again at the next poll, behind those that have waited longer.
                self._read_at[uid] = self._now - self._poll_seconds
        if not answer.lines:
            return True
        line_at = answer.lines[-1].at
        began = self._behind.setdefault(uid, _Behind(reading.at, line_at))
        elapsed_seconds = reading.at - began.read_at
        if elapsed_seconds < _BEHIND_SECONDS or line_at - began.line_at >= elapsed_seconds:
            return True
        del self._behind[uid]
        size = fmean(len(line.text) + _LINE_BYTES for line in answer.lines)
        lines = max(min(_END_LINES, int(_END_BYTES / size)), 1)
        self._ends[uid] = _LogEnd(lines, self._now + _END_SECONDS)
        return False


def _are_same(
    runs: Sequence[tuple[ProgressLog, JobRun]], before: Sequence[tuple[ProgressLog, JobRun]]
) -> bool:
    """Return whether these are the very same runs, as between most polls."""
    return len(runs) == len(before) and all(
        run is run_before and log is log_before
        for (log, run), (log_before, run_before) in zip(runs, before, strict=True)
    )
