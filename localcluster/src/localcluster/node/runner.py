"""One pod in action: a thread that feeds the pod's state machine and does what it says.

Everything that happens to a pod (its object changes, a process ends, a probe turns, time passes)
becomes an event in one queue; the thread hands it to `PodMachine`, carries out the instructions and
writes the status when it has changed. A status that cannot be written is tried again without
holding up the containers."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from localcluster.node import lifecycle as life
from localcluster.node.admission import NodeBooks, Rejection
from localcluster.node.api import ApiError, pod_path
from localcluster.node.lifecycle import Event, Instruction, Moment
from localcluster.node.logs import LogFile
from localcluster.node.pod import PodMachine
from localcluster.node.processes import PodProcesses
from localcluster.node.recovery import parse_time
from localcluster.node.spec import PodPlan, parse_pod

_LOG = logging.getLogger(__name__)
_LONGEST_RETRY_SECONDS = 10.0


class Calls(Protocol):
    """The calls on the API server that a running pod makes."""

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object."""
        ...

    def delete(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Delete an object."""
        ...


class Recorder(Protocol):
    """Who writes Events."""

    def tell(self, pod: life.StatusJson, kind: str, reason: str, message: str) -> None:
        """Record an Event on a pod."""
        ...


@dataclass(frozen=True)
class RunnerContext:
    """What a runner works with besides its pod."""

    api: Calls
    recorder: Recorder
    books: NodeBooks
    back_off: life.BackOff
    forgotten: Callable[[str], None]


def now() -> Moment:
    """Return the present instant."""
    return Moment(datetime.now(UTC), time.monotonic())


class PodRunner(threading.Thread):
    """Runs one pod until nothing of it is left on the API server."""

    def __init__(
        self, pod: dict[str, Any], context: RunnerContext, processes: PodProcesses
    ) -> None:
        """Take on a bound pod; `start` begins."""
        super().__init__(
            name=f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}", daemon=True
        )
        self.plan: PodPlan = parse_pod(pod)
        self.pod = pod
        self._context = context
        self._processes = processes
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._machine = PodMachine(self.plan, context.back_off, now(), pod.get("status"))
        self._grace_seen: float | None = None
        self._written: dict[str, Any] | None = None
        self._retry_at: float | None = None
        self._retry_seconds = 0.5
        self._discard = False
        self._forgotten = False

    # --- called from other threads

    def post(self, event: Event) -> None:
        """Tell the pod that something has happened."""
        self._queue.put(event)

    def update(self, pod: dict[str, Any]) -> None:
        """Take in a newer state of the pod object."""
        self.pod = pod
        self._processes.pod = pod
        grace = _grace_left(pod, first_look=self._grace_seen is None)
        if grace is not None and (self._grace_seen is None or grace < self._grace_seen):
            self._grace_seen = grace
            self.post(life.DeletionRequested(grace))

    def abandon(self) -> None:
        """Stop caring: the agent is ending, and what its containers do now is not the pod's
        story."""
        self._queue.put(None)

    def log(self, container: str, *, previous: bool) -> tuple[Path, LogFile | None] | str:
        """Return where a container's log is and its live file, or a sentence why there is none."""
        record = next((each for each in self._machine.records if each.plan.name == container), None)
        if record is None:
            return f'container "{container}" in pod "{self.plan.name}" is not available'
        if previous and record.last is None:
            return (
                f'previous terminated container "{container}" in pod "{self.plan.name}" not found'
            )
        attempt = record.attempt
        if previous and not isinstance(record.state, life.Waiting):
            attempt -= 1
        path = self._processes.log_path(container, attempt)
        if not path.exists():
            state = record.state
            reason = state.reason if isinstance(state, life.Waiting) else "no log is left of it"
            return (
                f'container "{container}" in pod "{self.plan.name}" is waiting to start: {reason}'
            )
        return path, self._processes.live_log(container, attempt)

    def refresh(self, source: Any) -> None:
        """Bring the files of the pod's volumes up to date."""
        if not self._machine.finished:
            self._processes.refresh(source)

    # --- on the runner's thread

    def run(self) -> None:
        """Live the pod's life."""
        refused = self._admit()
        if refused is not None:
            self._machine.reject(refused.reason, refused.message)
            self._context.recorder.tell(self.pod, "Warning", refused.reason, refused.message)
        # A deletion that is already under way comes first: nothing of such a pod is started.
        self.update(self.pod)
        self.post(life.Tick())
        event = self._next()
        while event is not None and not self._forgotten:
            try:
                self._work(event)
            except Exception:  # noqa: BLE001 -- a defect met by one pod must not leave its containers unattended
                _LOG.exception("%s: %r was not handled to its end", self.name, event)
            event = self._next()

    def _admit(self) -> Rejection | None:
        status = self.pod.get("status") or {}
        if self._machine.finished:
            return None
        return self._context.books.admit(self.pod, running=bool(status.get("startTime")))

    def _next(self) -> Event | None:
        """Wait for the next event, or for the next instant at which something is due."""
        times = [each for each in (self._machine.next_wake(), self._retry_at) if each is not None]
        try:
            if not times:
                return self._queue.get()
            return self._queue.get(timeout=max(0.0, min(times) - time.monotonic()))
        except queue.Empty:
            return life.Tick()

    def _work(self, event: Event) -> None:
        instructions = self._machine.handle(event, now())
        while instructions:
            answers = [
                answer for each in instructions if (answer := self._carry_out(each)) is not None
            ]
            instructions = [
                more for answer in answers for more in self._machine.handle(answer, now())
            ]
        if not self._forgotten and (self._retry_at is None or self._retry_at <= time.monotonic()):
            self._sync()

    def _carry_out(self, instruction: Instruction) -> Event | None:
        """Do what the machine says; return the event that answers it, if it is known at once."""
        match instruction:
            case life.Prepare():
                return self._processes.prepare()
            case life.Start():
                return self._processes.start(instruction, self.post)
            case life.Signal():
                self._processes.signal(instruction.container, kill=instruction.kill)
            case life.RunHook():
                self._processes.run_hook(instruction, self.post)
            case life.BeginProbes():
                self._processes.begin_probes(instruction.container, instruction.attempt, self.post)
            case life.EndProbes():
                self._processes.end_probes(instruction.container)
            case life.Tell():
                self._context.recorder.tell(
                    self.pod, instruction.kind, instruction.reason, instruction.message
                )
            case life.Discard():
                self._discard = True
            case life.Forget():
                self._forget()
        return None

    def _forget(self) -> None:
        self._forgotten = True
        self._context.books.release(self.plan.uid)
        self._processes.close()
        self._context.forgotten(self.plan.uid)

    def _sync(self) -> None:
        """Write the status if it has changed, then delete the object if its time has come."""
        if self._machine.finished:
            # Room is given back before anybody can read that the pod has ended, or its successor
            # would be refused.
            self._context.books.release(self.plan.uid)
        status = self._machine.status(now())
        try:
            if status != self._written:
                body = {"metadata": {"uid": self.plan.uid}, "status": status}
                self._context.api.patch(
                    pod_path(self.plan.namespace, self.plan.name, "status"), body
                )
                self._written = status
            if self._discard:
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.plan.uid}}
                self._context.api.delete(pod_path(self.plan.namespace, self.plan.name), options)
                self._discard = False
            self._retry_at, self._retry_seconds = None, 0.5
        except ApiError as error:
            self._sync_failed(error)

    def _sync_failed(self, error: ApiError) -> None:
        if error.status in {404, 409}:
            # Gone, or replaced by another pod of the same name: the watch will say so too.
            self._written, self._discard, self._retry_at = self._machine.status(now()), False, None
            return
        _LOG.warning(
            "status of pod %s/%s is not written, trying again: %s",
            self.plan.namespace,
            self.plan.name,
            error,
        )
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)


def _grace_left(pod: dict[str, Any], *, first_look: bool) -> float | None:
    """Return the grace in seconds that a pod being deleted has, or None when it is not being
    deleted."""
    deadline = parse_time(pod["metadata"].get("deletionTimestamp"))
    if deadline is None:
        return None
    # A deadline (in whole seconds) that is over when the pod is first seen: an earlier agent began
    # the grace.
    overdue = (datetime.now(UTC) - deadline).total_seconds()
    return (
        0.0
        if first_look and overdue > 1
        else float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    )
