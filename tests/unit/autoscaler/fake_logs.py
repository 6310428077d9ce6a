"""Fake logs: pods that have printed something, and nodes that do not answer."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

from autoscaler.logs.poller import JobRun, LogPoller
from optimus.jobs import Counts, NodeConstraints, Role
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine, LogRead
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.unit.interval.cluster import job

AT = 1_000.0
TIMEOUT_SECONDS = 60.0
"""Longer than any read takes on a busy machine."""


class Logs:
    """What each pod has printed, by name; counts how often it is read."""

    def __init__(self) -> None:
        self.printed: dict[str, list[str]] = {}
        self.reads: list[str] = []
        self.most_lines = 1000
        self.forbidden = False

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        self.reads.append(pod.uid)
        if self.forbidden:
            return Refused(ErrorKind.FORBIDDEN, "no right to get pods/log")
        if pod.name not in self.printed:
            return Refused(ErrorKind.NOT_FOUND, f"pod {pod.name} is gone")
        lines = [LogLine(AT + second, text) for second, text in enumerate(self.printed[pod.name])]
        lines = [line for line in lines if since is None or line.at >= since]
        if last_lines is not None:
            return LogRead(lines[-last_lines:], skipped=len(lines) > last_lines)
        return LogRead(lines[: self.most_lines], len(lines) > self.most_lines)


class Nodes:
    """Pods on nodes: some answer, some refuse, on some a read hangs until the test ends."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.refusing: set[str] = set()
        self.reads: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()
        self.hung = threading.Event()
        self.over = threading.Event()

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        del since, last_lines
        self.reads[pod.name] += 1
        if pod.node in self.hanging:
            self.hangs[pod.node or ""] += 1
            self.hung.set()
            self.over.wait(TIMEOUT_SECONDS)
        if pod.node in self.refusing:
            return Refused(ErrorKind.TRANSIENT, f"node {pod.node} does not answer")
        return LogRead([LogLine(AT, "step=1 loss=2.0")])


class Turns:
    """Reads that end one at a time, each when it is granted its turn."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._granted = 0
        self.over = threading.Event()

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        turn = self._nodes.reads.total() + 1
        wait_until(lambda: self._granted >= turn or self.over.is_set())
        return self._nodes.read(pod, since=since, last_lines=last_lines)

    def grant(self, turn: int) -> None:
        """Let the read of this number end, and wait until it has."""
        self._granted = turn
        wait_until(lambda: self._nodes.reads.total() >= turn)


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        assert time.monotonic() < until
        time.sleep(0.0005)


def wait_ended(poller: LogPoller) -> None:
    """Wait until every read that has begun has ended, also on nodes that polls do not wait for."""
    wait_until(lambda: not poller._under_way)


def pod(
    name: str, *, role: Role = Role.WORKER, index: int = 0, node: str | None = None, uid: str = ""
) -> Pod:
    """A pod of job a; it runs if it has a node."""
    return Pod(
        uid=uid or name,
        namespace="team",
        name=name,
        created_at=AT,
        node=node,
        phase="Running" if node else "Pending",
        replica=ReplicaId("uid-a", role, index),
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
    )


def run_of(worker: Pod) -> JobRun:
    return JobRun(worker.uid, Counts(1, 1), (worker,))


def runs_on(*where: str) -> list[tuple[ProgressLog, JobRun]]:
    """One job of one worker for each node named."""
    runs = []
    for number, node in enumerate(where):
        runs.append((progress_log(), run_of(pod(f"job{number}-worker-0", node=node))))
    return runs


def poll_until(
    poller: LogPoller, runs: list[tuple[ProgressLog, JobRun]], done: Callable[[], bool]
) -> None:
    """Poll every ten seconds of fake time until ``done``."""
    for number in itertools.count():
        if done():
            return
        poller.poll(runs, AT + 10 * number, timeout_seconds=0.02)


def progress_log() -> ProgressLog:
    return ProgressLog(LogFormatOptions.of(job("a")))
