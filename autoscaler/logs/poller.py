"""Reads training logs through the API server, with a bounded pool of readers.

Polled, not followed: a stream per pod would hold thousands of connections open for a line every few
seconds. Of each job the leading pod is read (its Chief, else worker 0) and a few workers beside it,
enough for a speed that adds up over workers. ``poll``, called once a tick, says what is to be read
and takes in what was read since; in between the readers go on by themselves, so that a tick never
waits for thousands of logs.

Order: first pods that have ended, or are about to: their last lines hold the loss and the
checkpoint that the job ends with, and are soon gone. Then jobs that wait for a checkpoint. Then
whatever has waited longest, where the wait of a leading pod counts four times. ``NodeThrottle``
keeps a read that hangs from delaying all others.

What was read is taken in within budgets (``LineIntake``), and a job is not read on before that is
done. Of a log that prints more than is taken in, only the end is read from then on.
"""

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from heapq import nsmallest
from statistics import fmean
from threading import Condition
from typing import Final, NamedTuple, Protocol

from optimus.jobs import Counts, Role
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.models.speed.curve import mixed_kind
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, LogRead, PodRun

_LOG = logging.getLogger(__name__)
_SAMPLED_WORKERS: Final = 4
_MOST_NODE_KINDS: Final = 8
"""Workers on more kinds of nodes than these are evidence of none of them."""

_LEADERS: Final = (Role.CHIEF, Role.MASTER)
_MOST_READS_PER_NODE: Final = 2
_LONGEST_BACKOFF: Final = 4
"""Times the usual pause: a node that answers again is soon read again."""

_LEAD_WEIGHT: Final = 4
"""Where not everything can be read in time, the leading pods are read so much more often than the
others: losses and checkpoints are theirs."""

_QUEUED_PER_READER: Final = 100
"""More than one reader reads between two ticks."""

_LAST_READ_SECONDS: Final = 1.0
"""How long one tick waits for the last lines of all jobs that are to be suspended."""

_LAST_READ_TICKS: Final = 3
"""After this many ticks a suspension goes ahead without the lines that have not come."""

_LAST_READERS: Final = 16
_ENDED_SECONDS: Final = 60.0
"""A pod that has ended is read within this time, or its last lines are given up."""

_BEHIND_SECONDS: Final = 30.0
"""A log that has been read behind for so long, and gets further behind, is too large."""

_MOST_MEMORY: Final = 64 * 2**20
"""Of the reads that wait to be taken in."""

_SMALL_READ: Final = 16 * 1024
"""A read of less waits in any case."""

_LINE_BYTES: Final = 100
"""What a line takes in memory beside its text."""

_END_LINES: Final = 500
"""The last lines of a log that is too large, of each read."""

_END_BYTES: Final = 128 * 1024
"""Half of what one read may return: lines have different lengths."""

_STAMP_BYTES: Final = 32
"""A line's timestamp."""

_END_SECONDS: Final = 600.0
"""For so long; then it is seen whether it has become smaller."""

_JOB_SECONDS: Final = 0.1
"""CPU time for the lines of one job in one tick: some 2,000 lines."""
_ALL_SECONDS: Final = 0.3
"""Of all jobs, by the clock: on a busy machine CPU time takes longer."""
_SLICE_SECONDS: Final = 0.01
_LAST_SECONDS: Final = 0.5
"""Of all jobs that are to be suspended: their pods' logs go with them."""

_NO_MORE: Final = object()

_FORBIDDEN: Final = (
    "the autoscaler may not read logs in the namespace {}: "
    "`kubectl optimus doctor` says which right is missing"
)
"""Said of each job there."""

_NO_ANSWER: Final = (ErrorKind.TRANSIENT, ErrorKind.THROTTLED)
_NEVER: Final = float("-inf")


class PodLogs(Protocol):
    """Reads logs; ``optimus.kube.logs.LogReader`` is one."""

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        """The whole lines from ``since`` on, the oldest first, up to a limit; or of these the last
        ones."""


@dataclass(frozen=True, slots=True)
class Run:
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


def run_of(pods: Sequence[Pod], counts: Counts, node_kinds: Mapping[str, str]) -> Run | None:
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
    return Run((leaders or workers)[0].uid, made_with, read, node_kind, evaluator, servers)


def _node_kind(trainers: Sequence[Pod], node_kinds: Mapping[str, str]) -> str:
    """The kind of nodes that these pods are on, several as one; empty where unknown or too many."""
    nodes = [pod.node for pod in trainers if pod.node is not None and not pod.leaving]
    found = Counter(node_kinds.get(node, "") for node in nodes)
    return mixed_kind(found) if 0 < len(found) <= _MOST_NODE_KINDS else ""


def _index(pod: Pod) -> int:
    return pod.replica.index if pod.replica else 0


def _node_of(pod: Pod) -> str:
    """The node that a pod's log comes from; a pod without one counts as a node of its own."""
    return pod.node or pod.uid


def _are_same(
    runs: Sequence[tuple[ProgressLog, Run]], before: Sequence[tuple[ProgressLog, Run]]
) -> bool:
    """Whether these are the very same runs: mostly no job's pods change between two polls."""
    return len(runs) == len(before) and all(
        run is run_before and log is log_before
        for (log, run), (log_before, run_before) in zip(runs, before, strict=True)
    )


class _Backoff(NamedTuple):
    pause_seconds: float
    until: float


class NodeThrottle:
    """Decides which logs may be read now; a node that does not answer costs the others nothing.

    1. At most two reads are under way on one node. 2. A node on which a read has not come back
    since the last poll gets no more. 3. A node that did not answer backs off, twice as long after
    each failure. 4. At most half of all readers are given to nodes that did not answer last.
    """

    def __init__(self, readers: int, pause_seconds: float) -> None:
        self._readers = readers
        self._pause_seconds = pause_seconds
        self._backoffs: dict[str, _Backoff] = {}
        """By the name of a node."""
        self._under_way: Counter[str] = Counter()
        self._slow: frozenset[str] = frozenset()

    def begin_poll(self) -> None:
        """A new poll: the nodes of reads that are still under way are slow."""
        self._slow = frozenset(self._under_way)

    @property
    def all_taken(self) -> bool:
        """Whether no reader is free."""
        return self._under_way.total() >= self._readers

    def is_silent(self, node: str) -> bool:
        """Return whether a node did not answer the last read, or has not answered it yet."""
        return node in self._backoffs or node in self._slow

    def is_backing_off(self, pod: Pod, now: float) -> bool:
        """Return whether a pod's node is not asked yet after failures."""
        backoff = self._backoffs.get(_node_of(pod))
        return backoff is not None and now < backoff.until

    def may_begin(self, pod: Pod) -> bool:
        """Return whether a read of this pod's log may begin now."""
        node = _node_of(pod)
        if self.all_taken or node in self._slow or self._under_way[node] >= _MOST_READS_PER_NODE:
            return False
        if node not in self._backoffs:
            return True
        silent = sum(count for each, count in self._under_way.items() if self.is_silent(each))
        return silent < max(self._readers // 2, 1) and not self._under_way[node]

    def began(self, pod: Pod) -> None:
        """A read began."""
        self._under_way[_node_of(pod)] += 1

    def ended(self, pod: Pod) -> None:
        """A read came back, with or without an answer."""
        node = _node_of(pod)
        self._under_way[node] -= 1
        if self._under_way[node] <= 0:
            del self._under_way[node]
            self._slow -= {node}

    def answered(self, pod: Pod) -> None:
        """The pod's node has answered."""
        self._backoffs.pop(_node_of(pod), None)

    def failed(self, pod: Pod, now: float) -> None:
        """The pod's node did not answer."""
        before, pause_seconds = self._backoffs.get(_node_of(pod)), self._pause_seconds
        if before is not None:
            if now < before.until:
                return  # two reads of one failure
            longest = _LONGEST_BACKOFF * self._pause_seconds
            pause_seconds = min(2 * before.pause_seconds, longest)
        self._backoffs[_node_of(pod)] = _Backoff(pause_seconds, now + pause_seconds)

    def forget_all_but(self, pods: Iterable[Pod]) -> None:
        """Keep the back-offs of these pods' nodes only."""
        kept = set(map(_node_of, pods))
        self._backoffs = {key: each for key, each in self._backoffs.items() if key in kept}


class _Lines(NamedTuple):
    """The lines of a read that are left, and what it takes in memory."""

    left: Iterator[None]
    memory: int


class LineIntake:
    """Takes in what was read, within a budget of CPU time for each job and tick.

    A job may print more than can be parsed. Its lines are taken in slices: job after job, each for
    a short time, until its budget or that of all jobs is spent. The rest waits for the next tick.
    In each the jobs come first of which no line is taken in yet, those with the fewest lines before
    the others, so that an ordinary job does not wait for those that print much; then those that
    have waited longest. The jobs of several namespaces alternate: a single line may take as long as
    a hundred others. An iterator takes in one line at each step.
    """

    def __init__(
        self,
        timer: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timer, self._clock = timer, clock
        self._waiting: dict[str, deque[_Lines]] = {}
        """By job, those that have waited longest first."""
        self._sizes: Counter[str] = Counter()
        """The number of lines that wait, those included that were taken in since they came."""
        self._namespaces: dict[str, str] = {}
        """Of the jobs that wait."""
        self._memory: Counter[str] = Counter()
        """By namespace, what the reads that wait take."""
        self._begun: set[str] = set()
        """Those of which a slice was taken in."""
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._left_seconds = _ALL_SECONDS
        self._last_seconds = _LAST_SECONDS

    def has_room(self, namespace: str, memory: int) -> bool:
        """Whether a read that takes so much may wait: those of one namespace take no more than they
        leave to the others."""
        left = _MOST_MEMORY - self._memory.total()
        return memory <= _SMALL_READ or self._memory[namespace] + memory <= left

    def begin_tick(self) -> None:
        """Every job has its budget again."""
        self._spent.clear()
        self._left_seconds = _ALL_SECONDS
        self._last_seconds = _LAST_SECONDS

    def add(
        self, job: str, lines: Iterator[None], count: int, namespace: str = "", memory: int = 0
    ) -> None:
        """So many lines are to be taken in after those of the same job that wait already."""
        self._sizes[job] += count
        self._namespaces[job] = namespace
        self._memory[namespace] += memory
        self._waiting.setdefault(job, deque()).append(_Lines(lines, memory))

    def waits(self, job: str) -> bool:
        """Return whether lines of this job are not taken in yet."""
        return job in self._waiting

    def take(self) -> None:
        """Take in what the budgets allow."""
        of_namespace = defaultdict[str, deque[str]](deque)
        for job in sorted(self._waiting, key=self._rank):
            of_namespace[self._namespaces[job]].append(job)
        turns = deque(of_namespace.values())
        while turns and self._left_seconds > 0:
            jobs = turns.popleft()
            job = jobs.popleft()
            began = self._clock()
            seconds = min(_SLICE_SECONDS, _JOB_SECONDS - self._spent[job])
            self._spent[job] += self._take_for(job, seconds)
            self._left_seconds -= self._clock() - began
            if job in self._waiting and self._spent[job] < _JOB_SECONDS:
                jobs.append(job)
            if jobs:
                turns.append(jobs)

    def finish(self, job: str) -> None:
        """Take in all lines of a job now; what takes too long is dropped."""
        self._last_seconds -= self._take_for(job, max(self._last_seconds, _SLICE_SECONDS))
        self._forget(job)

    def _rank(self, job: str) -> tuple[bool, int]:
        has_begun = job in self._begun
        return has_begun, 0 if has_begun else self._sizes[job]

    def _forget(self, job: str) -> None:
        for read in self._waiting.pop(job, ()):
            self._memory[self._namespaces[job]] -= read.memory
        self._namespaces.pop(job, None)
        self._sizes.pop(job, None)
        self._begun.discard(job)

    def _take_for(self, job: str, seconds: float) -> float:
        """Take in lines of one job for so long; returns how long it took."""
        began = self._timer()
        waiting = self._waiting.pop(job, deque())  # those that are not done come last again
        while waiting and self._timer() - began < seconds:
            if next(waiting[0].left, _NO_MORE) is _NO_MORE:
                self._memory[self._namespaces[job]] -= waiting.popleft().memory
        if waiting:
            self._waiting[job] = waiting
            self._begun.add(job)
        else:
            self._forget(job)
        return self._timer() - began


class _Source(NamedTuple):
    """One pod's log, and where its lines go."""

    log: ProgressLog
    run: Run
    pod: Pod

    @property
    def weight(self) -> int:
        return _LEAD_WEIGHT if self.pod is self.run.pods[0] else 1


class _Range(NamedTuple):
    """The part of a log that is to be read."""

    since: float | None
    last_lines: int | None


class _Behind(NamedTuple):
    """Where the reading of a log was when it ended at its limit for the first time in a row."""

    read_at: float
    line_at: float


class _End(NamedTuple):
    """How many lines are read of a log that is too large, and until when."""

    lines: int
    until: float


class _Read(NamedTuple):
    """A read under way, and when it began."""

    source: _Source
    at: float
    lines: Future[LogRead | Refused]


@dataclass(slots=True)
class _LastReads:
    """The last reads of a run that is about to end."""

    pending: list[_Read]
    ticks: int = 0


def _lines(read: _Read) -> Sequence[LogLine]:
    """Return what a read has brought."""
    answer = None if read.lines.exception() is not None else read.lines.result()
    return answer.lines if isinstance(answer, LogRead) else ()


def _memory(read: _Read) -> int:
    """Bytes that its lines take, about."""
    return sum(len(line.text) + _LINE_BYTES for line in _lines(read))


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
    ) -> None:
        self._logs = logs
        self._poll_seconds = poll_seconds
        self._most_queued = _QUEUED_PER_READER * readers
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="logs")
        self._last_pool = ThreadPoolExecutor(_LAST_READERS, thread_name_prefix="last-logs")
        self._changed = Condition()
        """Guards what the readers change: the five that follow."""
        self._throttle = NodeThrottle(readers, poll_seconds)
        self._queue: deque[tuple[_Source, _Range]] = deque()
        """What is to be read next."""
        self._read_at: dict[str, float] = {}
        """By a pod's UID, when its last read began."""
        self._under_way: dict[str, _Read] = {}
        self._done: list[_Read] = []
        self._begun: set[str] = set()
        """The UIDs of pods of which a read began since the last poll."""
        self._is_closed = False
        self._intake = LineIntake()
        self._behind: dict[str, _Behind] = {}
        """By a pod's UID; likewise ``_ends``."""
        self._ends: dict[str, _End] = {}
        self._polled: tuple[tuple[ProgressLog, Run], ...] = ()
        self._running: dict[str, _Source] = {}
        self._leading: list[str] = []
        """The UIDs of the running pods that lead."""
        self._known_since: dict[str, float] = {}
        self._uids: dict[tuple[str, str], str] = {}
        """By namespace and name, the UID of the pod that has it now."""
        self._ended: dict[str, tuple[_Source, float]] = {}
        self._last: dict[str, _LastReads] = {}
        self._hanging: list[_Read] = []
        self._last_read_seconds = self._last_seconds_left = last_read_seconds
        self._now = _NEVER

    def poll(
        self,
        runs: Iterable[tuple[ProgressLog, Run]],
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
        polled = tuple(runs)
        with self._changed:
            self._now = now
            if self._ended or self._last or self._hanging or not _are_same(polled, self._polled):
                self._polled = polled
                self._update_sources(
                    {pod.uid: _Source(log, run, pod) for log, run in polled for pod in run.read}
                )
        self._intake.begin_tick()
        self._take_done()
        with self._changed:
            self._throttle.begin_poll()
            self._begun.clear()
            self._queue = deque((source, self._range_of(source)) for source in self._due(awaited))
            self._begin()
        until = time.monotonic() + timeout_seconds
        while self._wait_for_answer(until):
            self._take_done()

    def lag_seconds(self, now: float) -> float:
        """How long ago the leading pod was read that has waited longest; 0 while there is none."""
        with self._changed:
            seen = [
                self._read_at.get(uid, self._known_since.get(uid, now)) for uid in self._leading
            ]
        return max((now - at for at in seen), default=0.0)

    def close(self) -> None:
        """End the readers."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
        for pool in (self._pool, self._last_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    # --- what is to be read

    def _update_sources(self, running: dict[str, _Source]) -> None:
        """Note which pods run and which have ended.

        A pod whose name another one has by now is dropped: the API server reads that one's log.
        """
        for uid, source in self._running.items():
            if uid not in running:
                self._ended[uid] = (source, self._now)
        self._uids = {(pod.namespace, pod.name): uid for uid, (_, _, pod) in running.items()}
        self._ended = {
            uid: (source, ended_at)
            for uid, (source, ended_at) in self._ended.items()
            if uid not in running
            and (source.pod.namespace, source.pod.name) not in self._uids
            and self._now - ended_at <= _ENDED_SECONDS
        }
        self._running = running
        self._leading = [uid for uid, source in running.items() if source.weight > 1]
        self._known_since = {uid: self._known_since.get(uid, self._now) for uid in running}
        ended = (source for source, _ in self._ended.values())
        self._throttle.forget_all_but([source.pod for source in (*running.values(), *ended)])
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in running}
        self._behind = {uid: each for uid, each in self._behind.items() if uid in running}
        self._ends = {uid: end for uid, end in self._ends.items() if uid in running}
        names = {source.run.name for source in running.values()}
        for name in [name for name in self._last if name not in names]:
            self._hanging += self._last.pop(name).pending
        self._hanging = [read for read in self._hanging if not read.lines.done()]

    def _due(self, awaited: Collection[str]) -> list[_Source]:
        """Return what is to be read, in order; not more than the readers may get to."""
        ended = [
            source
            for uid, (source, _) in self._ended.items()
            if uid not in self._under_way and not self._intake.waits(source.run.name)
        ]
        due_at = self._now - self._poll_seconds
        waiting = [
            (source.run.name not in awaited, source.weight * (read_at - self._now), number)
            for number, (uid, source) in enumerate(self._running.items())
            if uid not in self._under_way
            and (read_at := self._read_at.get(uid, _NEVER)) <= due_at
            and not self._intake.waits(source.run.name)
        ]
        sources = list(self._running.values())
        first = nsmallest(self._most_queued, waiting)
        return ended + [sources[number] for *_, number in first]

    def _range_of(self, source: _Source) -> _Range:
        uid, since = source.pod.uid, source.log.next_since(source.pod.name)
        end = self._ends.get(uid)
        if end is None:
            return _Range(since, None)
        if self._now >= end.until:
            del self._ends[uid]
            return _Range(since, None)
        return _Range(since, end.lines)

    # --- reading

    def _begin(self) -> None:
        """Begin the reads of the queue that may begin; with the lock held."""
        held_back: list[tuple[_Source, _Range]] = []
        while self._queue and not self._throttle.all_taken and not self._is_closed:
            source, part = self._queue.popleft()
            pod = source.pod
            if self._throttle.is_backing_off(pod, self._now):
                continue
            if not self._throttle.may_begin(pod):
                held_back.append((source, part))
                continue
            self._throttle.began(pod)
            self._ended.pop(pod.uid, None)
            self._read_at[pod.uid] = self._now
            self._begun.add(pod.uid)
            self._under_way[pod.uid] = read = _Read(source, self._now, Future())
            self._pool.submit(self._read_one, read, part)
        self._queue.extendleft(reversed(held_back))

    def _read_one(self, read: _Read, part: _Range) -> None:
        """In a reader's thread: read one log, then begin what is next."""
        pod = read.source.pod
        answer: LogRead | Refused | None = None
        try:
            answer = self._logs.read(pod, since=part.since, last_lines=part.last_lines)
            read.lines.set_result(answer)
        except Exception as problem:  # noqa: BLE001 - logged where the read is taken in
            read.lines.set_exception(problem)
        with self._changed:
            self._throttle.ended(pod)
            if isinstance(answer, Refused) and answer.kind in _NO_ANSWER:
                self._throttle.failed(pod, self._now)
            else:
                self._throttle.answered(pod)
            self._done.append(read)
            self._begin()
            self._changed.notify_all()

    def _wait_for_answer(self, until: float) -> bool:
        """Wait for a read of this poll on a node that answers; false when there is none to wait
        for, or time is up."""
        with self._changed:
            left_seconds = until - time.monotonic()
            if not self._done and left_seconds > 0:
                reads = (self._under_way[uid] for uid in self._begun if uid in self._under_way)
                if all(self._throttle.is_silent(_node_of(read.source.pod)) for read in reads):
                    return False
                self._changed.wait(left_seconds)
            return left_seconds > 0

    def _take_done(self) -> None:
        """Hand what was read to the logs' jobs."""
        with self._changed:
            done, self._done = self._done, []
            for read in done:
                self._under_way.pop(read.source.pod.uid, None)
        for read in done:
            pod = read.source.pod
            is_current = self._uids.get((pod.namespace, pod.name), pod.uid) == pod.uid
            # A large one for which there is no room in memory is dropped, and its log is read again
            # at a later poll.
            if is_current and self._intake.has_room(pod.namespace, _memory(read)):
                self._add(read)
        self._intake.take()

    def _add(self, read: _Read) -> None:
        name, namespace = read.source.run.name, read.source.pod.namespace
        self._intake.add(name, self._lines_of(read), len(_lines(read)), namespace, _memory(read))

    def read_now(self, log: ProgressLog, run: Run) -> bool:
        """Read a run's logs at once, apart from the queue: its pods are about to be deleted, and
        their logs with them.

        To be called at each tick until it returns true: all was read, or waited for long enough.
        All jobs of one tick together are waited for a second at most; nodes that are known not to
        answer are passed over.
        """
        last = self._last.get(run.name)
        if last is None:
            self._intake.finish(run.name)
            last = self._last[run.name] = _LastReads(self._begin_last(log, run))
        began = time.monotonic()
        wait([read.lines for read in last.pending], max(self._last_seconds_left, 0.0))
        self._last_seconds_left -= time.monotonic() - began
        for read in [read for read in last.pending if read.lines.done()]:
            last.pending.remove(read)
            self._add(read)
        self._intake.finish(run.name)
        last.ticks += 1
        if last.pending and last.ticks < _LAST_READ_TICKS:
            return False
        self._hanging += last.pending
        del self._last[run.name]
        return True

    def _begin_last(self, log: ProgressLog, run: Run) -> list[_Read]:
        pending = [read for last in self._last.values() for read in last.pending]
        pending += [read for read in self._hanging if not read.lines.done()]
        hanging = {_node_of(read.source.pod) for read in pending}
        with self._changed:
            asked = [
                pod
                for pod in run.read
                if _node_of(pod) not in hanging and not self._throttle.is_silent(_node_of(pod))
            ]
        return [self._submit_last(_Source(log, run, pod)) for pod in asked]

    def _submit_last(self, source: _Source) -> _Read:
        since, last_lines = self._range_of(source)
        lines = self._last_pool.submit(
            self._logs.read, source.pod, since=since, last_lines=last_lines
        )
        return _Read(source, self._now, lines)

    def _lines_of(self, read: _Read) -> Iterator[None]:
        """Takes in what was read, one line at each step."""
        log, run, pod = read.source
        try:
            answer = read.lines.result()
            if isinstance(answer, Refused):
                _LOG.debug("%s", answer)
                if answer.kind is ErrorKind.FORBIDDEN:
                    log.refused(_FORBIDDEN.format(pod.namespace))
                return
            if self._is_followed(read, answer) and pod.replica is not None:
                cut = answer.truncated, answer.skipped
                look = PodRun(run.name, run.node_kind, read.at, *cut, run.servers)
                replica = pod.replica
                yield from log.observing(
                    pod.name, replica.role, replica.index, run.counts, answer.lines, look
                )
        except Exception:  # noqa: BLE001 - logged with its trace; the other logs are read all the same
            _LOG.exception("the log of %s/%s could not be read", pod.namespace, pod.name)

    def _is_followed(self, read: _Read, answer: LogRead) -> bool:
        """Note whether there is more to be read; false where the log prints more than can be: its
        end is read next, instead of these lines."""
        uid = read.source.pod.uid
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
        began = self._behind.setdefault(uid, _Behind(read.at, line_at))
        elapsed_seconds = read.at - began.read_at
        if elapsed_seconds < _BEHIND_SECONDS or line_at - began.line_at >= elapsed_seconds:
            return True
        del self._behind[uid]
        size = fmean(len(line.text) for line in answer.lines) + _STAMP_BYTES
        lines = max(min(_END_LINES, int(_END_BYTES / size)), 1)
        self._ends[uid] = _End(lines, self._now + _END_SECONDS)
        return False
