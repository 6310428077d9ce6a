"""Keeps the components of one cluster alive, and ends them in order.

Components start stage by stage: a stage begins when every component of the one before is ready.
From then on each stands alone: one that dies is reported and started again after a delay, which
doubles from death to death and is forgotten after a steady time. One thread looks at all of it."""

import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

from localcluster.backoff import BackOff
from localcluster.components import Component
from localcluster.errors import ClusterError
from localcluster.paths import ClusterPaths
from localcluster.processes import Launch, base_environ, identify
from localcluster.supervisor.status import ComponentStatus, StatusWriter

BACK_OFF: Final = BackOff(base_seconds=0.2, cap_seconds=10.0, reset_seconds=20.0)
"""Between a component's death and its next start."""
_LOOK_EVERY_SECONDS: Final = 0.05
_START_SECONDS: Final = 90.0
_MOST_DEATHS: Final = 6
"""So many in a row end a start."""
_PORT_TAKEN: Final = "address already in use"
_TAIL_LINES: Final = 8


class PortTakenError(ClusterError):
    """A component could not have its port: another program was quicker."""


@dataclass(frozen=True)
class Stage:
    """Components that start together, and what is to be done once all of them are ready."""

    components: Sequence[Component]
    then: Callable[[], None] | None = None


@dataclass
class _Child:
    """A component with the process that it has now, and what became of earlier ones."""

    component: Component
    phase: str = "waiting"
    process: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    deaths: int = 0
    delay_seconds: float = 0.0
    started_at: float = 0.0
    retry_at: float = 0.0
    last_exit: str | None = None
    log_offset: int = 0


class Supervisor:
    """Runs the stages until there is a reason to stop: a signal, or the end of the owner.

    The owner holds the write end of a pipe and never writes; when it dies, the kernel closes it."""

    def __init__(
        self,
        paths: ClusterPaths,
        records: StatusWriter,
        owner_fd: int | None = None,
        start_seconds: float = _START_SECONDS,
    ) -> None:
        self._paths, self._records, self._start_seconds = paths, records, start_seconds
        self._owner_fd = owner_fd
        self._children: dict[str, _Child] = {}
        self._reason = ""
        self.owner_ended = False

    def install_handlers(self) -> None:
        """Stop on SIGTERM, SIGINT and SIGHUP from now on."""

        def stop(number: int, _frame: FrameType | None) -> None:
            self._reason = self._reason or f"signal {signal.Signals(number).name}"

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)

    def run(self, stages: Sequence[Stage]) -> str:
        """Start the stages, keep them alive, and return why it stopped, all children gone.

        Raises ClusterError when the start fails (PortTakenError when trying again with other ports
        may help)."""
        self._children = {}
        try:
            for stage in stages:
                self._bring_up(stage)
            if not self._reason:
                self._records.cluster("running")
            while not self._reason:
                self._look()
            self._records.cluster("stopping", self._reason)
            return self._reason
        finally:
            for stage in reversed(stages):
                self._stop(stage)

    def _bring_up(self, stage: Stage) -> None:
        children = [_Child(component) for component in stage.components]
        self._children.update({child.component.name: child for child in children})
        deadline = time.monotonic() + self._start_seconds
        while not self._reason and any(child.phase != "ready" for child in children):
            self._look()
            for child in children:
                self._check_start(child, late=time.monotonic() > deadline)
        if stage.then is not None and not self._reason:
            stage.then()

    def _check_start(self, child: _Child, *, late: bool) -> None:
        name = child.component.name
        if child.phase == "backing off" and _PORT_TAKEN in self._written(child):
            raise PortTakenError(f"{name} lost its port to another program")
        if child.deaths >= _MOST_DEATHS:
            raise ClusterError(f"{name} {child.last_exit}, again and again:\n{self._tail(child)}")
        if late and child.phase != "ready":
            seconds = f"{self._start_seconds:.0f} s"
            raise ClusterError(f"{name} was not ready within {seconds}:\n{self._tail(child)}")

    def _look(self) -> None:
        """Wait a moment, then do for each component what is due."""
        watched = [] if self._owner_fd is None else [self._owner_fd]
        if select.select(watched, [], [], _LOOK_EVERY_SECONDS)[0]:
            self.owner_ended = True
            self._reason = self._reason or "the process that owns the cluster ended"
            return
        for child in self._children.values():
            now = time.monotonic()
            if child.process is not None and child.process.poll() is not None:
                self._died(child, _how_it_ended(child.process.returncode), now)
            elif child.process is None and now >= child.retry_at:
                self._start(child, now)
            elif child.phase == "starting" and child.component.probe.ready(child.log_offset):
                child.phase = "ready"
                self._note(child, "ready", f"after {now - child.started_at:.1f} s")

    def _start(self, child: _Child, now: float) -> None:
        component, log = child.component, self._paths.log(child.component.name)
        child.log_offset = log.stat().st_size if log.exists() else 0
        child.phase, child.starts, child.started_at = "starting", child.starts + 1, now
        environ = {**base_environ(), **component.environ}
        cwd = component.cwd or self._paths.root
        launch = Launch(component.command, environ, cwd, log, component.death_signal)
        try:
            child.process = launch.start()
        except OSError as error:
            self._died(child, f"could not be started: {error}", now)
            return
        self._note(child, "started", f"pid {child.process.pid}")

    def _died(self, child: _Child, how: str, now: float) -> None:
        if now - child.started_at >= BACK_OFF.reset_seconds:
            child.deaths, child.delay_seconds = 0, 0.0
        child.deaths += 1
        child.delay_seconds = BACK_OFF.after(child.delay_seconds)
        child.phase, child.process, child.last_exit = "backing off", None, how
        child.retry_at = now + child.delay_seconds
        again = f"starting it again in {child.delay_seconds:.1f} s"
        self._note(child, "died", f"{how}; {again}; its log: {child.component.name}.log")

    def _stop(self, stage: Stage) -> None:
        names = [component.name for component in stage.components]
        children = [self._children[name] for name in names if name in self._children]
        for child in children:
            if child.process is not None:
                child.process.terminate()
        for child in children:
            self._end(child)

    def _end(self, child: _Child) -> None:
        if child.process is not None:
            try:
                child.process.wait(child.component.grace_seconds)
            except subprocess.TimeoutExpired:
                self._records.event(child.component.name, "killed", "it did not end in time")
                child.process.kill()
                child.process.wait()
        child.phase, child.process = "stopped", None
        self._note(child, "stopped", "")

    def _note(self, child: _Child, what: str, detail: str) -> None:
        name, process = child.component.name, child.process
        process_id = identify(process.pid) if process else None
        restarts = max(0, child.starts - 1)
        self._records.event(name, what, detail)
        status = ComponentStatus(child.phase, process_id, restarts, child.last_exit)
        self._records.component(name, status)

    def _written(self, child: _Child) -> str:
        written = b""
        with suppress(OSError):
            written = self._paths.log(child.component.name).read_bytes()[child.log_offset :]
        return written.decode(errors="replace")

    def _tail(self, child: _Child) -> str:
        lines = self._written(child).splitlines()
        return "\n".join(lines[-_TAIL_LINES:]) or "(it wrote nothing)"


def _how_it_ended(return_code: int) -> str:
    if return_code >= 0:
        return f"ended with status {return_code}"
    return f"was killed by signal {-return_code}"
