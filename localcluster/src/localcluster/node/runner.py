"""One pod in action: a thread that feeds the pod's state machine and carries out what it says.

Everything that happens to a pod (its object changes, a process ends, a probe turns, time passes) is
an event in one queue. After each event the status is written when it has changed; one that cannot
be written is tried again without holding up the containers."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls, object_path
from localcluster.backoff import BackOff
from localcluster.node import lifecycle as life
from localcluster.node.admission import NodeAdmission, Rejection
from localcluster.node.lifecycle import Event, Instruction, Moment
from localcluster.node.logs import LogFile
from localcluster.node.pod_processes import PodProcesses
from localcluster.node.pod_spec import PodSpec, parse_pod
from localcluster.node.state_machine import PodMachine
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.times import parse_instant

_LOG = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 10.0


@dataclass(frozen=True)
class RunnerContext:
    """What a runner works with besides its pod.

    `emit` emits an Event on a pod; `forgotten` is called with the UID at its end."""

    api: ApiCalls
    emit: Callable[[life.StatusJson, life.EmitEvent], None]
    admission: NodeAdmission
    back_off: BackOff
    forgotten: Callable[[str], None]


def now() -> Moment:
    """Return the present instant."""
    return Moment(time.time(), time.monotonic())


class PodRunner(threading.Thread):
    """Runs one pod until its object is gone from the API server."""

    def __init__(
        self, pod: dict[str, Any], context: RunnerContext, processes: PodProcesses
    ) -> None:
        metadata = pod["metadata"]
        super().__init__(name=f"pod {metadata['namespace']}/{metadata['name']}", daemon=True)
        self.spec: PodSpec = parse_pod(pod)
        self.pod = pod
        self._context = context
        self._processes = processes
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._machine = PodMachine(self.spec, context.back_off, now(), pod.get("status"))
        self._grace_seconds: float | None = None
        self._written: dict[str, Any] | None = None
        self._retry_at: float | None = None
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._discard = False
        self._forgotten = False

    # --- called from other threads

    def post(self, event: Event) -> None:
        """Pass an event to the pod's machine."""
        self._queue.put(event)

    def update(self, pod: dict[str, Any]) -> None:
        """Take a newer state of the pod object."""
        self.pod = pod
        self._processes.pod = pod
        grace = _grace_left(pod, first=self._grace_seconds is None)
        if grace is not None and (self._grace_seconds is None or grace < self._grace_seconds):
            self._grace_seconds = grace
            self.post(life.DeletionRequested(grace))

    def abandon(self) -> None:
        """End the thread: the agent is ending, and the pod is left to the next one."""
        self._queue.put(None)

    def log(self, container: str, *, previous: bool) -> tuple[Path, LogFile | None] | str:
        """Return a container's log and its live file, or a sentence why there is none."""
        where = f'container "{container}" in pod "{self.spec.name}"'
        record = next((each for each in self._machine.records if each.spec.name == container), None)
        if record is None:
            return f"{where} is not available"
        if previous and record.last is None:
            return f"previous terminated {where} not found"
        waiting = record.state if isinstance(record.state, life.Waiting) else None
        attempt = record.attempt - (previous and waiting is None)
        path = self._processes.log_path(container, attempt)
        if not path.exists():
            reason = waiting.reason if waiting else "no log is left of it"
            return f"{where} is waiting to start: {reason}"
        return path, self._processes.live_log(container, attempt)

    def refresh(self) -> None:
        """Bring the files of the pod's volumes up to date. Raises Unresolved or OSError."""
        if not self._machine.finished:
            self._processes.refresh()

    # --- on the runner's thread

    def run(self) -> None:
        """Handle events until the pod is forgotten or abandoned."""
        refused = self._admit()
        if refused is not None:
            self._machine.reject(refused)
            event = life.EmitEvent("Warning", refused.reason, refused.message)
            self._context.emit(self.pod, event)
        # A deletion that is already under way comes first: nothing of such a pod is started.
        self.update(self.pod)
        self.post(life.Tick())
        while not self._forgotten and (next_event := self._next()) is not None:
            try:
                self._handle(next_event)
            except Exception:  # noqa: BLE001 -- a defect met by one pod must not leave its containers unattended
                _LOG.exception("%s: %r was not handled to its end", self.name, next_event)

    def _admit(self) -> Rejection | None:
        if self._machine.finished:
            return None
        return self._context.admission.admit(self.pod)

    def _next(self) -> Event | None:
        """Wait for the next event, or for the next instant at which something is due."""
        times = [each for each in (self._machine.next_wake(), self._retry_at) if each is not None]
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return life.Tick()

    def _handle(self, event: Event) -> None:
        events = [event]
        while events:
            instructions = self._machine.handle(events.pop(0), now())
            events += [
                answer for each in instructions if (answer := self._execute(each)) is not None
            ]
        if not self._forgotten and (self._retry_at is None or self._retry_at <= time.monotonic()):
            self._sync()

    def _execute(self, instruction: Instruction) -> Event | None:
        """Do what the machine says; return the event that answers it, if it is known at once."""
        match instruction:
            case life.Prepare():
                return self._processes.prepare()
            case life.Start():
                return self._processes.start(instruction, self.post)
            case life.Signal():
                self._processes.signal(instruction.container, kill=instruction.kill)
            case life.BeginProbes():
                self._processes.begin_probes(instruction.container, instruction.attempt, self.post)
            case life.EndProbes():
                self._processes.end_probes(instruction.container)
            case life.EmitEvent():
                self._context.emit(self.pod, instruction)
            case life.Discard():
                self._discard = True
            case life.Forget():
                self._forgotten = True
                self._context.admission.release(self.spec.uid)
                self._processes.close()
                self._context.forgotten(self.spec.uid)
        return None

    def _sync(self) -> None:
        """Write the status if it has changed, then delete the object if that is due."""
        if self._machine.finished:
            # Before anybody can read that the pod has ended, or its successor would be refused.
            self._context.admission.release(self.spec.uid)
        api, uid, status = self._context.api, self.spec.uid, self._machine.status(now())
        path = object_path("pods", self.spec.namespace, self.spec.name)
        try:
            if status != self._written:
                body = {"metadata": {"uid": uid}, "status": status}
                api.patch(f"{path}/status", body, STRATEGIC_PATCH)
                self._written = status
            if self._discard:
                api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
                self._discard = False
        except KubeError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT):
                _LOG.warning("%s: the status is written later: %s", self.name, error)
                self._retry_at = time.monotonic() + self._retry_seconds
                self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)
                return
            # Gone, or replaced by another pod of the same name: the watch will say so too.
            self._written, self._discard = status, False
        self._retry_at, self._retry_seconds = None, _FIRST_RETRY_SECONDS


def _grace_left(pod: dict[str, Any], *, first: bool) -> float | None:
    """Return the grace in seconds of a pod being deleted; None when it is not being deleted."""
    deadline = pod["metadata"].get("deletionTimestamp")
    if deadline is None:
        return None
    # A deadline (in whole seconds) that is over when the pod is first seen: an earlier agent began
    # the grace.
    overdue = time.time() - parse_instant(deadline)
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return 0.0 if first and overdue > 1 else float(grace)
