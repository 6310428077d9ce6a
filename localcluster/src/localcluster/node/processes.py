"""What a runner does on this machine for its pod: volumes and ports, processes, hooks, probes and
their logs."""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from localcluster.images import ImageCatalog, Unavailable
from localcluster.node import lifecycle as life
from localcluster.node.api import ApiError, pod_path
from localcluster.node.archive import archive_logs
from localcluster.node.containers import ProcessTable
from localcluster.node.content import ContentSource
from localcluster.node.environment import ObjectSource, Unresolved
from localcluster.node.launch import (
    CannotStart,
    LaunchContext,
    Prepared,
    exec_launch,
    prepare_launch,
)
from localcluster.node.leftovers import end_marked
from localcluster.node.lifecycle import Event
from localcluster.node.logs import LogFile
from localcluster.node.objects import ClusterObjects, Tokens
from localcluster.node.ports import NoPortLeft, PortAllocator
from localcluster.node.probes import Prober, ProbeTarget, run_command
from localcluster.node.services import RunTable
from localcluster.node.spec import PodPlan, declared_ports, is_training_replica
from localcluster.node.support import unsupported
from localcluster.node.volumes import PodVolumes, VolumeContext

# Users, tests and the demo find a pod's local ports here: a JSON object from declared to local
# port.
PORTS_ANNOTATION = "localcluster/ports"

# The operator's own port of a replica is part of its cluster and is turned by `services`.
_CLUSTER_PORTS = {"tfjob-port", "mxjob-port"}

Post = Callable[[Event], None]


class Merger(Protocol):
    """The one call with which a pod is annotated."""

    def merge(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch."""
        ...


@dataclass(frozen=True)
class Machine:
    """What all pods of an agent share on this machine. `marker` is unique to the agent's state
    folder."""

    table: ProcessTable
    images: ImageCatalog
    objects: ClusterObjects
    tokens: Tokens
    services: RunTable
    ports: PortAllocator
    api: Merger
    api_host: str
    api_port: int
    server: str
    ca_pem: str
    pods_dir: Path
    marker: str


@dataclass
class _Run:
    attempt: int
    prepared: Prepared
    log: LogFile


class PodProcesses:
    """One pod's folder, processes and probes. Used by its runner's thread; `refresh` by another."""

    def __init__(
        self, plan: PodPlan, pod: dict[str, Any], machine: Machine, capacity: Mapping[str, str]
    ) -> None:
        """Work for this pod on a node of this capacity."""
        self.pod = pod
        self.folder = machine.pods_dir / plan.uid
        self._plan = plan
        self._machine = machine
        self._capacity = capacity
        self._ports: dict[int, int] = {}
        self._runs: dict[str, _Run] = {}
        self._probers: dict[str, Prober] = {}
        content = ContentSource(
            machine.objects, machine.tokens, capacity, machine.server, machine.ca_pem
        )
        self._volumes = PodVolumes(
            self.folder, VolumeContext(machine.objects, content, self._ports)
        )

    # --- preparation

    def prepare(self) -> Event:
        """Make volumes and ports."""
        sentence = unsupported(self.pod)
        if sentence is not None:
            return life.PrepareFailed("Unsupported", sentence)
        try:
            self._scratch().mkdir(parents=True, exist_ok=True)
            self._open_ports()
            self._volumes.prepare(self.pod)
        except (Unresolved, ApiError, NoPortLeft, OSError) as error:
            return life.PrepareFailed("ContainerCreating", str(error))
        return life.Prepared()

    def refresh(self, source: ObjectSource) -> None:
        """Bring files of volumes up to date. Raises Unresolved when something is not there any
        more."""
        self._volumes.refresh(self.pod, source)

    def close(self) -> None:
        """Give everything back, and end whatever left its container's process group; the pod's
        folder goes."""
        self._volumes.close()
        for name in list(self._probers):
            self.end_probes(name)
        end_marked(self._marker())
        for port in self._ports.values():
            self._machine.ports.release(port)
        self._machine.tokens.forget(self._plan.uid)
        name = f"{self._plan.namespace}_{self._plan.name}_{self._plan.uid}"
        archive_logs(self.folder, name, self._machine.pods_dir.with_name("ended"))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open_ports(self) -> None:
        replica = is_training_replica(self.pod)
        for number, name in declared_ports(self.pod):
            if number not in self._ports and not (replica and name in _CLUSTER_PORTS):
                self._ports[number] = self._machine.ports.allocate()
        if self._ports:
            value = json.dumps({str(number): port for number, port in self._ports.items()})
            body = {"metadata": {"uid": self._plan.uid, "annotations": {PORTS_ANNOTATION: value}}}
            self._machine.api.merge(pod_path(self._plan.namespace, self._plan.name), body)

    # --- processes

    def start(self, instruction: life.Start, post: Post) -> Event:
        """Start one run of a container."""
        name, attempt = instruction.container, instruction.attempt
        plan = self._plan.container(name)
        assert plan is not None
        image = self._machine.images.lookup(plan.image)
        if isinstance(image, Unavailable):
            return life.StartFailed(name, "ErrImagePull", image.sentence)
        try:
            prepared = prepare_launch(self.pod, plan, image, self._launch_context())
            log = LogFile(self.log_path(name, attempt))
            self._runs[name] = _Run(attempt, prepared, log)
            exited = _report_exit(name, attempt, post)
            self._machine.table.start(self._key(name, attempt), prepared.launch, log, exited)
        except Unresolved as error:
            return life.StartFailed(name, "CreateContainerConfigError", str(error))
        except CannotStart as error:
            return life.StartFailed(name, "StartError", str(error), exit_code=128)
        except (OSError, ValueError) as error:
            return life.StartFailed(name, "RunContainerError", str(error))
        self._drop_log(name, attempt - 2)
        return life.Started(name, attempt)

    def signal(self, container: str, *, kill: bool) -> None:
        """Send SIGTERM to a container's first process or SIGKILL to its group."""
        run = self._runs.get(container)
        if run is not None:
            send = self._machine.table.kill if kill else self._machine.table.terminate
            send(self._key(container, run.attempt))

    def run_hook(self, instruction: life.RunHook, post: Post) -> None:
        """Run a preStop hook on a thread of its own."""
        plan = self._plan.container(instruction.container)
        hook = plan.pre_stop if plan else None

        def work() -> None:
            if hook and "sleep" in hook:
                threading.Event().wait(
                    min(float(hook["sleep"]["seconds"]), instruction.limit_seconds)
                )
            elif hook:
                self.execute(
                    instruction.container, list(hook["exec"]["command"]), instruction.limit_seconds
                )
            post(life.HookFinished(instruction.container, instruction.attempt))

        threading.Thread(target=work, name="preStop", daemon=True).start()

    def execute(self, container: str, command: list[str], timeout_seconds: float) -> str | None:
        """Run a command as in a running container; return None on success, else a sentence."""
        run, plan = self._runs.get(container), self._plan.container(container)
        image = self._machine.images.lookup(plan.image) if plan else None
        if run is None or image is None or isinstance(image, Unavailable):
            return f'container "{container}" does not run'
        try:
            launch = exec_launch(run.prepared, command, image)
        except CannotStart as error:
            return str(error)
        return run_command(launch, timeout_seconds)

    # --- probes and logs

    def begin_probes(self, container: str, attempt: int, post: Post) -> None:
        """Probe a run until it ends."""
        plan, run = self._plan.container(container), self._runs.get(container)
        if plan is None or run is None:
            return

        def report(probe: str, healthy: bool, message: str) -> None:
            post(life.ProbeReport(container, attempt, probe, healthy, message))

        def execute(command: list[str], timeout_seconds: float) -> str | None:
            return self.execute(container, command, timeout_seconds)

        prober = Prober(plan, ProbeTarget(plan.raw, run.prepared.rewriting.port, execute), report)
        self._probers[container] = prober
        prober.start()

    def end_probes(self, container: str) -> None:
        """Stop probing a container."""
        prober = self._probers.pop(container, None)
        if prober is not None:
            prober.stop()

    def log_path(self, container: str, attempt: int) -> Path:
        """Return the file of one run's log."""
        return self.folder / "logs" / container / f"{attempt}.log"

    def live_log(self, container: str, attempt: int) -> LogFile | None:
        """Return the log of a run while it may still grow."""
        run = self._runs.get(container)
        return run.log if run is not None and run.attempt == attempt else None

    def _drop_log(self, container: str, attempt: int) -> None:
        """Remove the log of a run that nobody can ask for any more: only the last two can be
        read."""
        path = self.log_path(container, attempt)
        for each in (path, path.with_name(f"{path.name}.1")):
            each.unlink(missing_ok=True)

    def _key(self, container: str, attempt: int) -> str:
        return f"{self._plan.uid}/{container}/{attempt}"

    def _scratch(self) -> Path:
        return self.folder / "scratch"

    def _marker(self) -> str:
        return f"{self._machine.marker}/{self._plan.uid}"

    def _launch_context(self) -> LaunchContext:
        machine = self._machine
        return LaunchContext(
            objects=machine.objects,
            services=machine.services,
            volumes=self._volumes,
            scratch=self._scratch(),
            marker=self._marker(),
            api_host=machine.api_host,
            api_port=machine.api_port,
            node_capacity=self._capacity,
            ports=self._ports,
        )


def _report_exit(container: str, attempt: int, post: Post) -> Callable[[int], None]:
    def report(exit_code: int) -> None:
        post(life.Exited(container, attempt, exit_code))

    return report
