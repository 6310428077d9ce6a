"""A machine for pods without a control plane: real processes and files, and an API server in
memory."""

import threading
import time
from pathlib import Path
from typing import Any

from localcluster.backoff import BackOff
from localcluster.images import Environment, ImageCatalog
from localcluster.node import lifecycle as life
from localcluster.node.admission import NodeAdmission
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.peer_addresses import PeerAddresses
from localcluster.node.pod_processes import Machine, PodProcesses
from localcluster.node.pod_spec import parse_pod
from localcluster.node.process_table import ProcessTable
from localcluster.node.runner import PodRunner, RunnerContext
from localcluster.ports import PortAllocator
from tests.unit.node.fake_api import FakeApi

CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
_WAIT_SECONDS = 180.0


class Recorder:
    """Events, kept."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def emit(self, pod: life.StatusJson, event: life.EmitEvent) -> None:
        self.reasons.append(event.reason)


class NodeHarness:
    """A node on which pods can be run; `close` ends all that runs."""

    def __init__(self, folder: Path) -> None:
        self.api = FakeApi()
        self.recorder = Recorder()
        self.admission = NodeAdmission(CAPACITY)
        self.forgotten = threading.Event()
        self.table = ProcessTable()
        self.ports = PortAllocator()
        self.images = ImageCatalog({"busybox": Environment(command=("sh",))})
        self.folder = folder
        self.machine = Machine(
            table=self.table,
            images=self.images,
            objects=ClusterObjects(self.api),
            peers=PeerAddresses(self.ports.allocate, self.ports.release),
            ports=self.ports,
            api=self.api,
            api_host="127.0.0.1",
            api_port=6443,
            server=("https://127.0.0.1:6443", ""),
            pods_dir=folder / "pods",
            marker=str(folder),
        )

    def run(self, pod: dict[str, Any]) -> "RunningPod":
        """Run a pod as if it had just been bound to the node."""
        context = RunnerContext(
            self.api,
            self.recorder.emit,
            self.admission,
            BackOff(0.05, 0.2, 600),
            lambda _: self.forgotten.set(),
        )
        processes = PodProcesses(parse_pod(pod), pod, self.machine)
        runner = PodRunner(pod, context, processes)
        runner.start()
        return RunningPod(self, runner, pod)

    def close(self) -> None:
        """End all containers."""
        self.table.end_all(0.2)
        self.ports.close()


class RunningPod:
    """A pod on a node_harness, seen through its status."""

    def __init__(self, node_harness: NodeHarness, runner: PodRunner, raw: dict[str, Any]) -> None:
        self.node_harness = node_harness
        self.runner = runner
        self.raw = raw
        self.path = f"/api/v1/namespaces/ns/pods/{raw['metadata']['name']}"

    @property
    def status(self) -> dict[str, Any]:
        """What the API server has."""
        found: dict[str, Any] = self.node_harness.api.objects.get(self.path, {}).get("status") or {}
        return found

    def container(self, name: str = "main") -> dict[str, Any]:
        """The status of one container, {} before there is one."""
        all_of_them = [
            *(self.status.get("initContainerStatuses") or ()),
            *(self.status.get("containerStatuses") or ()),
        ]
        return next((each for each in all_of_them if each["name"] == name), {})

    def wait_phase(self, *phases: str) -> "RunningPod":
        """Wait for one of these phases."""
        self.node_harness.api.wait(lambda: self.status.get("phase") in phases)
        return self

    def wait_container(self, state: str, name: str = "main") -> "RunningPod":
        """Wait until a container is waiting, running or terminated."""
        self.node_harness.api.wait(lambda: state in self.container(name).get("state", {}))
        return self

    def wait_log(self, text: str, container: str = "main") -> str:
        """Wait until a container's log holds a text and return the log."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.runner.log(container, previous=False)
            if not isinstance(found, str) and text in found[0].read_text():
                return found[0].read_text()
            threading.Event().wait(0.02)
        raise AssertionError(f"{text!r} is not in the log: {found}")

    def delete(self, grace_seconds: int) -> None:
        """Delete the pod as the API server would tell it."""
        meta = {
            **self.raw["metadata"],
            "deletionTimestamp": "2099-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace_seconds,
        }
        self.runner.update({**self.raw, "metadata": meta})
