"""One pod on this machine: its folder, volumes, ports, processes, probes and logs."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from localcluster.api_calls import ApiCalls, object_path
from localcluster.images import ImageCatalog, Unavailable
from localcluster.node import lifecycle as life
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.launch import CannotStart, LaunchContext, prepare_launch
from localcluster.node.lifecycle import Event
from localcluster.node.logs import LogFile
from localcluster.node.peer_addresses import PeerAddresses, is_training_replica
from localcluster.node.pod_spec import PodSpec, Unresolved, declared_ports, unsupported
from localcluster.node.probes import Prober
from localcluster.node.process_table import ProcessTable, end_marked
from localcluster.node.volumes import PodVolumes
from localcluster.ports import NoPortLeft, PortAllocator
from optimus.kube.errors import KubeError

PORTS_ANNOTATION: Final = "localcluster/ports"
"""Where users find a pod's local ports: a JSON object from declared to local port."""

# The operator's own port of a replica is rewritten by `peer_addresses`.
_CLUSTER_PORTS: Final = {"tfjob-port", "mxjob-port"}

Post = Callable[[Event], None]


@dataclass(frozen=True)
class Machine:
    """What all pods of an agent share; `marker` is unique to its state folder."""

    table: ProcessTable
    images: ImageCatalog
    objects: ClusterObjects
    peers: PeerAddresses
    ports: PortAllocator
    api: ApiCalls
    api_host: str
    api_port: int
    server: tuple[str, str]
    pods_dir: Path
    marker: str


class PodProcesses:
    """One pod's folder, processes and probes. Used by its runner's thread; `refresh` by another."""

    def __init__(self, spec: PodSpec, pod: dict[str, Any], machine: Machine) -> None:
        self.pod = pod
        self.folder = machine.pods_dir / spec.uid
        self._spec = spec
        self._machine = machine
        self._ports: dict[int, int] = {}
        self._logs: dict[str, tuple[int, LogFile]] = {}
        self._probers: dict[str, Prober] = {}
        self._marker = f"{machine.marker}/{spec.uid}"
        self._volumes = PodVolumes(self.folder, machine.objects, machine.server, self._ports)

    def prepare(self) -> Event:
        """Make volumes and ports."""
        sentence = unsupported(self.pod)
        if sentence is not None:
            return life.PrepareFailed("Unsupported", sentence)
        try:
            (self.folder / "scratch").mkdir(parents=True, exist_ok=True)
            self._open_ports()
            self._volumes.prepare(self.pod)
        except (Unresolved, KubeError, NoPortLeft, OSError) as error:
            return life.PrepareFailed("ContainerCreating", str(error))
        return life.Prepared()

    def refresh(self) -> None:
        """Bring files of volumes up to date. Raises Unresolved when something is gone."""
        self._volumes.refresh(self.pod)

    def close(self) -> None:
        """Release everything, end what left its container's process group, remove the folder."""
        self._volumes.close()
        for name in list(self._probers):
            self.end_probes(name)
        end_marked(self._marker)
        for port in self._ports.values():
            self._machine.ports.release(port)
        self._machine.objects.forget(self._spec.uid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open_ports(self) -> None:
        replica = is_training_replica(self.pod)
        for number, name in declared_ports(self.pod):
            if number not in self._ports and not (replica and name in _CLUSTER_PORTS):
                self._ports[number] = self._machine.ports.allocate()
        if self._ports:
            value = json.dumps({str(number): port for number, port in self._ports.items()})
            body = {"metadata": {"uid": self._spec.uid, "annotations": {PORTS_ANNOTATION: value}}}
            path = object_path("pods", self._spec.namespace, self._spec.name)
            self._machine.api.patch(path, body)

    # --- processes

    def start(self, instruction: life.Start, post: Post) -> Event:
        """Start one run of a container."""
        name, attempt = instruction.container, instruction.attempt
        spec = self._spec.container(name)
        image = self._machine.images.lookup(spec.image)
        if isinstance(image, Unavailable):
            return life.StartFailed(name, "ErrImagePull", image.sentence)
        try:
            launch = prepare_launch(self.pod, spec, image, self._launch_context())
            log = LogFile(self.log_path(name, attempt))
            self._logs[name] = (attempt, log)
            self._machine.table.start(
                self._key(name, attempt),
                launch,
                log,
                lambda exit_code: post(life.Exited(name, attempt, exit_code)),
            )
        except Unresolved as error:
            return life.StartFailed(name, "CreateContainerConfigError", str(error))
        except CannotStart as error:
            return life.StartFailed(name, "StartError", str(error), exit_code=128)
        except (OSError, ValueError) as error:
            return life.StartFailed(name, "RunContainerError", str(error))
        # Only the last two logs can be read.
        self.log_path(name, attempt - 2).unlink(missing_ok=True)
        return life.Started(name, attempt)

    def signal(self, container: str, *, kill: bool) -> None:
        """Send SIGTERM to a container's first process or SIGKILL to its group."""
        if container in self._logs:
            self._machine.table.signal(self._key(container, self._logs[container][0]), kill=kill)

    def begin_probes(self, container: str, attempt: int, post: Post) -> None:
        """Probe a run until it ends."""

        def report(probe: str, healthy: bool, message: str) -> None:
            post(life.ProbeReport(container, attempt, probe, healthy, message))

        def local_port(number: int) -> int:
            return self._ports.get(number, number)

        prober = Prober(self._spec.container(container), local_port, report)
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
        newest, log = self._logs.get(container, (-1, None))
        return log if newest == attempt else None

    def _key(self, container: str, attempt: int) -> str:
        return f"{self._spec.uid}/{container}/{attempt}"

    def _launch_context(self) -> LaunchContext:
        machine = self._machine
        return LaunchContext(
            machine.peers,
            self._volumes,
            self.folder / "scratch",
            self._marker,
            machine.api_host,
            machine.api_port,
            self._ports,
            machine.objects,
        )
