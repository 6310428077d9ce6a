"""The background thread: plans gangs as the cluster changes, and nominates nodes for their pods.

A nomination (``status.nominatedNodeName``) requeues a refused pod, makes kube-scheduler try that
one node first, and reserves the room in kube-scheduler's own cache. kube-scheduler clears it when
an attempt fails, so live plans are nominated again, at most once a second per pod; nominations
without a plan are cleared. Without nominations everything holds, only later: pods are then requeued
by an annotation.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from extender.planner import PendingNomination
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.store import Changes

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS = 0.02
"""Between two runs: many events are handled together, and filter does not wait for the lock."""

RETRY_SECONDS = 1.0
"""A pod is nominated again at most this often."""


class _PodWriter(Protocol):
    """The part of ``optimus.kube.writer.PodWriter`` that is needed; see there."""

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused: ...
    def requeue(self, pod: Pod, reason: str) -> Written | Refused: ...


class _Plans(Protocol):
    """The part of ``extender.planner.Planner`` that is needed; see there."""

    changes: Changes

    def advance(self) -> tuple[Pod, ...]: ...
    def pending_nominations(self) -> tuple[PendingNomination, ...]: ...
    def find_waiting(self, pod: Pod) -> Pod | None: ...
    def adopt_nominations(self) -> tuple[Pod, ...]: ...
    def release_all(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Nominated:
    pod: Pod
    node: str
    at: float


class Nominator:
    """One thread, which calls ``run_once`` whenever something changed and at least every second."""

    def __init__(
        self,
        plans: _Plans,
        writer: _PodWriter,
        leads: Callable[[], bool],
        *,
        nominate: bool,
        count_write: Callable[[str], None] = lambda _: None,
        executor: Executor | None = None,
    ) -> None:
        """``count_write`` gets each write's outcome; without ``executor`` writes are sequential."""
        self._plans, self._writer, self._leads = plans, writer, leads
        self._nominate, self._count_write, self._executor = nominate, count_write, executor
        self._nominated: dict[str, _Nominated] = {}
        self._led = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nominator", daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        self._plans.changes.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        count = -1
        while not self._stopping.is_set():
            count = self._plans.changes.wait(count, 1.0)
            try:
                self.run_once(time.monotonic())
            except Exception:  # noqa: BLE001 - the thread goes on: the next run starts from what is there then
                _LOG.exception("planning or nominating failed")
            self._stopping.wait(PAUSE_SECONDS)

    def run_once(self, now: float) -> None:
        """Plan what waits, nominate what is planned, clear what is not."""
        if not self._leads():
            if self._led:
                self._plans.release_all()
                self._nominated.clear()
            self._led = False
            return
        if not self._led:
            for pod in self._plans.adopt_nominations():
                self._clear(pod)
            self._led = True
        for pod in self._plans.advance():
            # Its status says that pods are missing: the next refusal says that room is.
            self._record(pod, self._writer.requeue(pod, f"its gang was planned again at {now:.1f}"))
        pending = {each.pod.uid: each for each in self._plans.pending_nominations()}
        self._write_all([each for each in pending.values() if self._is_due(each, now)], now)
        for uid, last in list(self._nominated.items()):
            if uid not in pending:
                waiting = self._plans.find_waiting(last.pod)
                left = waiting if waiting and waiting.nominated_node == last.node else None
                if left is None or self._clear(left):
                    del self._nominated[uid]

    def _is_due(self, pending: PendingNomination, now: float) -> bool:
        last = self._nominated.get(pending.pod.uid)
        if now - pending.answered_at < RETRY_SECONDS or (last and now - last.at < RETRY_SECONDS):
            # kube-scheduler may be binding it, or the nomination is new: only a new plan is urgent.
            return last is not None and last.node != pending.node
        return not self._nominate or pending.pod.nominated_node != pending.node

    def _write_all(self, pending: list[PendingNomination], now: float) -> None:
        write = self._executor.map if self._executor is not None else map
        outcomes = list(write(lambda each: self._write(each, now), pending))
        for each, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, Written) or outcome.kind is ErrorKind.TRANSIENT:
                self._nominated[each.pod.uid] = _Nominated(each.pod, each.node, now)

    def _write(self, pending: PendingNomination, now: float) -> Written | Refused:
        pod, node = pending.pod, pending.node
        if self._nominate:
            return self._record(pod, self._writer.nominate(pod, node))
        return self._record(pod, self._writer.requeue(pod, f"planned on {node} at {now:.1f}"))

    def _clear(self, pod: Pod) -> bool:
        """Clear a nomination; false where it has to be tried again."""
        outcome = self._record(pod, self._writer.nominate(pod, None))
        return isinstance(outcome, Written) or outcome.kind is not ErrorKind.TRANSIENT

    def _record(self, pod: Pod, outcome: Written | Refused) -> Written | Refused:
        if isinstance(outcome, Written):
            self._count_write("written")
            return outcome
        self._count_write(str(outcome.kind))
        # Bound, gone or created anew since it was read is nothing wrong: the watch will show it.
        expected = outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID, ErrorKind.CONFLICT)
        level = logging.DEBUG if expected else logging.WARNING
        _LOG.log(level, "pod %s/%s: status not written: %s", pod.namespace, pod.name, outcome)
        return outcome
