"""The scheduler's thread: takes changes, tries the next pod, writes the outcome."""

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from random import Random
from typing import Final, TypeAlias

from localcluster.embedded.raw_objects import Json, RawObject, raw_objects
from localcluster.embedded.scheduler.attempt import (
    Failed,
    Outcome,
    Placed,
    Tools,
    Unschedulable,
    attempt,
)
from localcluster.embedded.scheduler.configuration import Configuration
from localcluster.embedded.scheduler.extenders import HttpExtender
from localcluster.embedded.scheduler.fit import Requests
from localcluster.embedded.scheduler.pod_writer import PodWriter, is_gone
from localcluster.embedded.scheduler.state import ClusterState
from optimus.kube.client import Client
from optimus.kube.errors import KubeError
from optimus.kube.reflector import Reflector, ReflectorConfig

_LOG = logging.getLogger(__name__)

_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_IDLE_SECONDS: Final = 1.0

_Change: TypeAlias = tuple[str, RawObject | None, RawObject | None]


class Scheduler:
    """Schedules while ``may_work`` says so; ``run`` returns after ``stop``."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        may_work: Callable[[], bool] = lambda: True,
        rules: ReflectorConfig | None = None,
        random: Random | None = None,
    ) -> None:
        self._may_work = may_work
        self._writer = PodWriter(client)
        extenders = [HttpExtender(each) for each in configuration.extenders]
        self._tools = Tools(extenders, Requests(), random or Random())
        self._state = ClusterState(configuration.scheduler_names)
        self._inbox: SimpleQueue[_Change | None] = SimpleQueue()
        self._stopping = threading.Event()
        kinds = (
            raw_objects("", "v1", "pods", "Pod", field_selector=_NOT_ENDED),
            raw_objects("", "v1", "nodes", "Node"),
        )
        self._copies = [
            Reflector(client, kind, config=rules, observer=self._observer(kind.plural))
            for kind in kinds
        ]

    @property
    def ready(self) -> bool:
        """Whether every copy has been filled once."""
        return all(copy.synced for copy in self._copies)

    def stop(self) -> None:
        """Make ``run`` return."""
        self._stopping.set()
        self._inbox.put(None)

    def run(self) -> None:
        """Schedule until stopped."""
        for copy in self._copies:
            copy.start()
        while not self._stopping.is_set():
            worked = self.ready and self._may_work() and self._try_next()
            self._apply_changes(
                0.0 if worked else self._state.queue.wait_seconds(time.monotonic(), _IDLE_SECONDS)
            )
        for copy in self._copies:
            copy.stop()

    # --- taking in

    def _observer(self, plural: str) -> Callable[[RawObject | None, RawObject | None], None]:
        return lambda before, after: self._inbox.put((plural, before, after))

    def _apply_changes(self, wait_seconds: float) -> None:
        """Apply all changes that have come; wait for the first of them."""
        try:
            change = (
                self._inbox.get(timeout=wait_seconds) if wait_seconds else self._inbox.get_nowait()
            )
            while True:
                if change is not None:
                    self._apply(*change)
                change = self._inbox.get_nowait()
        except Empty:
            return

    def _apply(self, plural: str, before: RawObject | None, after: RawObject | None) -> None:
        bodies = (before.body if before else None, after.body if after else None)
        if plural == "nodes":
            self._state.node_changed(*bodies)
        else:
            self._state.pod_changed(*bodies, time.monotonic())

    # --- trying

    def _try_next(self) -> bool:
        uid = self._state.queue.next(time.monotonic())
        if uid is None:
            return False
        pod = self._state.pods[uid]
        if pod["metadata"].get("deletionTimestamp"):
            self._state.queue.remove(uid)
            return True
        outcome: Outcome
        try:
            outcome = attempt(pod, self._state.snapshot(pod), self._tools)
        except Exception as error:  # noqa: BLE001 -- one bad pod must not stop the others
            _LOG.exception("%s cannot be tried", pod["metadata"]["name"])
            outcome = Failed(f"{type(error).__name__}: {error}")
        self._follow(uid, pod, outcome)
        return True

    def _follow(self, uid: str, pod: Json, outcome: Outcome) -> None:
        # What happened during the attempt counts for it: it may have come in time for nothing but
        # another one.
        self._apply_changes(0.0)
        match outcome:
            case Placed(node):
                self._place(uid, pod, node)
            case Unschedulable(message, by_extender):
                self._state.queue.done(uid, time.monotonic(), by_extender=by_extender)
                self._refuse(uid, "Unschedulable", message)
            case Failed(message):
                self._state.queue.done(uid, time.monotonic(), failed=True)
                self._refuse(uid, "SchedulerError", message)

    def _place(self, uid: str, pod: Json, node: str) -> None:
        if uid not in self._state.pods:
            self._state.queue.remove(uid)
            return
        self._state.assume(uid, node)
        try:
            self._writer.bind(pod, node)
        except KubeError as error:
            self._state.forget(uid, pod)
            self._state.queue.done(uid, time.monotonic(), failed=True)
            if not is_gone(error):
                self._refuse(uid, "SchedulerError", f"binding rejected: {error}")
            return
        self._state.queue.done(uid, time.monotonic())
        self._state.queue.remove(uid)
        self._writer.emit_scheduled(pod, node)

    def _refuse(self, uid: str, reason: str, message: str) -> None:
        pod = self._state.pods.get(uid)
        if pod is None or pod["spec"].get("nodeName"):
            return
        _LOG.info("%s/%s: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], message)
        try:
            self._writer.write_refusal(pod, reason, message)
        except KubeError as error:
            if not is_gone(error):
                _LOG.warning("%s", error.sentence)
