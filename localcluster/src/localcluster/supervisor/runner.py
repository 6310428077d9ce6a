"""Keeps the components of one cluster alive, and ends them in order.

Components start stage by stage: a stage begins when every component of the one before is ready.
From then on each stands alone: one that dies is reported and started again after a back-off. One
thread waits for all of it: the deaths of children (pidfd), signals, the end of the owner, and the
clock."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from localcluster.backoff import BackOff
from localcluster.components import Component
from localcluster.errors import ClusterError
from localcluster.paths import ClusterPaths
from localcluster.processes import Launch, ProcessId, base_environ, identify
from localcluster.supervisor.interrupts import Interrupts
from localcluster.supervisor.policy import BACK_OFF, Lifecycle, Phase, describe_exit
from localcluster.supervisor.status import StatusWriter

_LOOK_EVERY_SECONDS = 0.05
_PORT_TAKEN = b"address already in use"
_TAIL_LINES = 8


class PortTakenError(ClusterError):
    """A component could not have its port: another program was quicker."""


@dataclass(frozen=True)
class Stage:
    """Components that start together, and what is to be done once all of them are ready."""

    components: Sequence[Component]
    then: Callable[[], None] | None = None


@dataclass(frozen=True)
class StartLimits:
    """How long a start may take and how often a component may die during it."""

    ready_seconds: float = 90.0
    deaths: int = 6


_START_LIMITS: Final = StartLimits()


@dataclass
class _Child:
    """A component with the process that it has now, if it has one."""

    component: Component
    life: Lifecycle = field(default_factory=Lifecycle)
    process: "subprocess.Popen[bytes] | None" = None
    process_id: ProcessId | None = None
    pidfd: int = -1
    log_offset: int = 0


class Supervisor:
    """Runs the stages until there is a reason to stop."""

    def __init__(
        self,
        paths: ClusterPaths,
        records: StatusWriter,
        interrupts: Interrupts,
        back_off: BackOff = BACK_OFF,
        limits: StartLimits = _START_LIMITS,
    ) -> None:
        self._paths = paths
        self._records = records
        self._interrupts = interrupts
        self._back_off = back_off
        self._limits = limits
        self._children: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()

    def run(self, stages: Sequence[Stage]) -> str:
        """Start the stages, keep them alive, and return why it stopped, all children gone.

        Raises ClusterError when the start fails (PortTakenError when trying again with other ports
        may help)."""
        self._interrupts.register(self._selector)
        try:
            for stage in stages:
                self._bring_up(stage)
            if self._interrupts.reason is None:
                self._records.cluster("running")
            while self._interrupts.reason is None:
                self._run_once()
            self._records.cluster("stopping", self._interrupts.reason)
            return self._interrupts.reason
        finally:
            for stage in reversed(stages):
                self._stop(stage)
            self._interrupts.unregister(self._selector)
            self._selector.close()

    def _bring_up(self, stage: Stage) -> None:
        children = [_Child(component) for component in stage.components]
        self._children.update({child.component.name: child for child in children})
        deadline = time.monotonic() + self._limits.ready_seconds
        for child in children:
            self._start(child)
        while self._interrupts.reason is None and not all(
            child.life.phase is Phase.READY for child in children
        ):
            self._run_once()
            for child in children:
                self._check_start(child, deadline)
        if stage.then is not None and self._interrupts.reason is None:
            stage.then()

    def _check_start(self, child: _Child, deadline: float) -> None:
        name = child.component.name
        late = time.monotonic() > deadline and child.life.phase is not Phase.READY
        if child.life.deaths_in_a_row >= self._limits.deaths:
            raise ClusterError(
                f"{name} {child.life.last_exit}, again and again:\n{self._tail(child)}"
            )
        if late:
            seconds = f"{self._limits.ready_seconds:.0f} s"
            raise ClusterError(f"{name} was not ready within {seconds}:\n{self._tail(child)}")
        if child.life.phase is Phase.BACKING_OFF and _PORT_TAKEN in self._written(child):
            raise PortTakenError(f"{name} lost its port to another program")

    def _run_once(self) -> None:
        for key, _ in self._selector.select(self._wait_seconds()):
            key.data()
        now = time.monotonic()
        for child in self._children.values():
            if child.life.due(now):
                self._start(child)
            elif child.life.phase is Phase.STARTING and child.component.probe.ready(
                child.log_offset
            ):
                child.life = child.life.became_ready()
                self._note(
                    child, "ready", f"after {time.monotonic() - child.life.started_at:.1f} s"
                )

    def _wait_seconds(self) -> float | None:
        lives = [child.life for child in self._children.values()]
        if any(life.phase is Phase.STARTING for life in lives):
            return _LOOK_EVERY_SECONDS
        retries = [life.retry_at for life in lives if life.retry_at is not None]
        return max(0.0, min(retries) - time.monotonic()) if retries else None

    def _start(self, child: _Child) -> None:
        component, now = child.component, time.monotonic()
        log = self._paths.log(component.name)
        child.log_offset = log.stat().st_size if log.exists() else 0
        child.life = child.life.started(now)
        launch = Launch(
            component.command,
            {**base_environ(), **component.environ},
            component.cwd or self._paths.root,
            log,
            component.death_signal,
        )
        try:
            child.process = launch.start()
        except OSError as error:
            child.life = child.life.died(f"could not be started: {error}", now, self._back_off)
            self._note(child, "not started", str(error))
            return
        child.pidfd = os.pidfd_open(child.process.pid)
        child.process_id = identify(child.process.pid)
        self._selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._on_death(child))
        self._note(child, "started", f"pid {child.process.pid}")

    def _on_death(self, child: _Child) -> None:
        how = self._reap(child)
        child.life = child.life.died(how, time.monotonic(), self._back_off)
        assert child.life.retry_at is not None
        delay = max(0.0, child.life.retry_at - time.monotonic())
        self._note(
            child,
            "died",
            f"{how}; starting it again in {delay:.1f} s; its log: {child.component.name}.log",
        )

    def _reap(self, child: _Child) -> str:
        """Collect what is left of a child that ended; say how it ended."""
        assert child.process is not None
        how = describe_exit(child.process.wait())
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        child.process, child.process_id, child.pidfd = None, None, -1
        return how

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
            self._reap(child)
        child.life = child.life.stopped()
        self._note(child, "stopped", "")

    def _note(self, child: _Child, what: str, detail: str) -> None:
        name = child.component.name
        self._records.event(name, what, detail)
        self._records.component(name, child.life, child.process_id)

    def _written(self, child: _Child) -> bytes:
        log: Path = self._paths.log(child.component.name)
        try:
            return log.read_bytes()[child.log_offset :]
        except OSError:
            return b""

    def _tail(self, child: _Child) -> str:
        lines = self._written(child).decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:]) or "(it wrote nothing)"
