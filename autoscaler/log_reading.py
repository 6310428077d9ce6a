"""Reads training logs a little at a time, from a bounded pool of readers.

Polled, not followed: a stream per pod would hold thousands of connections open for a line every few seconds. Of each
job the pod that leads is read (its Chief, else worker 0) and a few workers beside it, enough to know a speed that
adds up over workers. A pod that has ended, or is about to go, is read once more: what it printed last is the loss and
the checkpoint that its job ends with.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from kube.outcomes import Refused
from kube.pods import Pod
from scheduling.jobs import Counts, Role
from scheduling.models.speed_kinds import mixed_kind
from scheduling.progress.log import ProgressLog
from scheduling.progress.record import LogLine, RunLook

_LOG = logging.getLogger(__name__)
_SAMPLED_WORKERS: Final = 4
_LAST_READ_SECONDS: Final = 5.0
"""A suspension waits no longer for the last lines of the job's logs."""
_LAST_READERS: Final = 4
_MOST_KINDS: Final = 8
"""Workers on more kinds of nodes than these say nothing about any of them."""
_LEADS: Final = (Role.CHIEF, Role.MASTER)


class PodLogs(Protocol):
    """Where logs come from; ``kube.logs.LogReader`` is one."""

    def read(self, pod: Pod, *, since: float | None = None) -> list[LogLine] | Refused:
        """The whole lines from ``since`` on."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """One incarnation of a job's pods: which of them are read, at which counts they train, on which kind of nodes."""

    name: str
    counts: Counts
    pods: tuple[Pod, ...]
    node_kind: str | None = None


_Followed: TypeAlias = tuple[ProgressLog, Run, Pod]


def run_of(pods: Sequence[Pod], counts: Counts, node_kinds: Mapping[str, str]) -> Run | None:
    """The run that these pods of one job make, ``None`` while none of them that trains runs.

    The counts are those that the pods were made with, which the job's spec may have left behind already. ``node_kinds``
    are by the names of nodes.
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
    """The kind of the nodes that these pods are on, or several as one; empty where that is unknown, or too many."""
    nodes = [pod.node for pod in trainers if pod.node is not None and not pod.leaving]
    found = Counter(node_kinds.get(node, "") for node in nodes)
    return mixed_kind(found) if 0 < len(found) <= _MOST_KINDS else ""


def _role(pod: Pod) -> Role | None:
    return pod.replica.role if pod.replica else None


def _index(pod: Pod) -> int:
    return pod.replica.index if pod.replica else 0


class LogReading:
    """Reads the logs of many runs and hands the lines to each job's ``ProgressLog``."""

    def __init__(self, logs: PodLogs, *, readers: int, poll_seconds: float) -> None:
        self._logs = logs
        self._poll_seconds = poll_seconds
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="logs")
        self._last_pool = ThreadPoolExecutor(_LAST_READERS, thread_name_prefix="last-logs")
        self._read_at: dict[str, float] = {}
        self._followed: dict[str, _Followed] = {}
        self._under_way: dict[str, Future[list[LogLine] | Refused]] = {}

    def poll(self, runs: Iterable[tuple[ProgressLog, Run]], now: float, *, patience_seconds: float) -> None:
        """Read what is due, for at most ``patience_seconds``; what takes longer is taken in at a later poll."""
        alive = {pod.uid: (log, run, pod) for log, run in runs for pod in run.pods}
        ended = self._ended(alive)
        known = alive | ended
        self._forget_all_but(known)
        for uid, (log, _, pod) in known.items():
            is_due = uid in ended or now - self._read_at.get(uid, float("-inf")) >= self._poll_seconds
            if is_due and uid not in self._under_way:
                self._read_at[uid] = now
                self._under_way[uid] = self._pool.submit(self._logs.read, pod, since=log.next_since(pod.name))
        done, _ = wait(self._under_way.values(), timeout=patience_seconds)
        for uid in [uid for uid, future in self._under_way.items() if future in done]:
            self._take(*known[uid], self._under_way.pop(uid))
        # The last read of a pod that has ended is waited for at the next poll, too.
        self._followed = alive | {uid: known[uid] for uid in self._under_way if uid in ended}

    def _forget_all_but(self, known: Mapping[str, _Followed]) -> None:
        for uid in [uid for uid in (*self._read_at, *self._under_way) if uid not in known]:
            self._read_at.pop(uid, None)
            future = self._under_way.pop(uid, None)
            if future is not None:
                future.cancel()

    def _ended(self, alive: Mapping[str, _Followed]) -> dict[str, _Followed]:
        """What was followed until now, unless another pod has its name by now: the name stands for that one's log."""
        taken = {(pod.namespace, pod.name) for _, _, pod in alive.values()}
        gone = {uid: each for uid, each in self._followed.items() if uid not in alive}
        return {uid: each for uid, each in gone.items() if (each[2].namespace, each[2].name) not in taken}

    def read_now(self, log: ProgressLog, run: Run) -> None:
        """Read a whole run's logs at once, apart from the queue: its pods are about to go, and their logs with them."""
        futures = {
            self._last_pool.submit(self._logs.read, pod, since=log.next_since(pod.name)): pod for pod in run.pods
        }
        done, _ = wait(futures, timeout=_LAST_READ_SECONDS)
        for future, pod in futures.items():
            if future in done:
                self._under_way.pop(pod.uid, None)
                self._take(log, run, pod, future)

    def close(self) -> None:
        """End the readers."""
        for pool in (self._pool, self._last_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, log: ProgressLog, run: Run, pod: Pod, future: Future[list[LogLine] | Refused]) -> None:
        try:
            lines = future.result()
            if isinstance(lines, Refused):
                _LOG.debug("%s", lines)
            elif pod.replica is not None:
                log.observe(
                    pod.name, pod.replica.role, pod.replica.index, run.counts, lines, RunLook(run.name, run.node_kind)
                )
        except Exception:  # noqa: BLE001 - told with its trace below; the other logs are read all the same
            _LOG.exception("the log of %s/%s could not be read", pod.namespace, pod.name)
