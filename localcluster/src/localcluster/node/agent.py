"""The agent: its nodes, the pods bound to them, and the threads between."""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from localcluster.api_calls import ApiCalls
from localcluster.embedded.raw_objects import RawObject, raw_objects
from localcluster.kubeconfig import read_kubeconfig
from localcluster.node.admission import NodeAdmission
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.config import AgentConfig
from localcluster.node.lifecycle import EmitEvent, StatusJson, Vanished
from localcluster.node.logs import LogFile
from localcluster.node.logs_server import serve_logs
from localcluster.node.node_status import NodeRegistrar
from localcluster.node.peer_addresses import PeerAddresses
from localcluster.node.pod_processes import Machine, PodProcesses
from localcluster.node.pod_spec import Unresolved, parse_pod
from localcluster.node.process_table import ProcessTable, end_marked
from localcluster.node.runner import PodRunner, RunnerContext
from localcluster.ports import PortAllocator
from optimus.kube.client import connect
from optimus.kube.errors import KubeError
from optimus.kube.events import EventType, EventWriter
from optimus.kube.reflector import Reflector

_LOG = logging.getLogger(__name__)
_LONGEST_PAUSE_SECONDS = 5.0


class Agent:
    """Runs the pods of its nodes. `run` returns once `stop` was called and all have ended."""

    def __init__(self, config: AgentConfig) -> None:
        """Raises KubeError or ValueError where the kubeconfig cannot be used."""
        self._config = config
        self._stop = threading.Event()
        self._runners: dict[str, PodRunner] = {}
        self._mutex = threading.Lock()
        self._client = connect(config.kubeconfig, user_agent="optimus-localcluster-node")
        self._api = ApiCalls(self._client)
        self._admission = {node.name: NodeAdmission(node.capacity) for node in config.nodes}
        self._events = EventWriter(self._client, "kubelet", api_version="v1")
        self._event_pool = ThreadPoolExecutor(1, "events")
        self._machine = self._make_machine()

    def stop(self) -> None:
        """Make `run` end the containers and return."""
        self._stop.set()

    def run(self) -> None:
        """Register the nodes, print `ready`, and run pods until stopped."""
        ended = end_marked(self._machine.marker)
        if ended:
            _LOG.warning("%d processes of an earlier agent have been killed", ended)
        logs = serve_logs(self)
        lease_seconds = self._config.settings.lease_seconds
        nodes = NodeRegistrar(self._api, self._config.nodes, logs.server_port, lease_seconds)
        pods = Reflector(
            self._client, raw_objects("", "v1", "pods", "Pod"), observer=self.pod_changed
        )
        if self._register(nodes):
            print("ready", flush=True)
            nodes.start()
            pods.start()
            while not self._stop.wait(self._config.settings.refresh_seconds):
                self._refresh()
            pods.stop()
            nodes.stop()
        self._end_pods()
        logs.stop()

    def pod_changed(self, before: RawObject | None, after: RawObject | None) -> None:
        """Take a change of any pod; those bound to a node of this agent are run."""
        if before is not None and (after is None or after.uid != before.uid):
            self._pod_gone(before.body)
        if after is not None:
            self._pod_seen(after.body)

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool
    ) -> tuple[Path, LogFile | None] | str:
        """Return a container's log and its live file, or a sentence why there is none."""
        with self._mutex:
            runners = list(self._runners.values())
        named = [
            each for each in runners if (each.spec.namespace, each.spec.name) == (namespace, pod)
        ]
        if not named:
            return f'pod "{namespace}/{pod}" does not run on this node'
        return named[-1].log(container, previous=previous)

    def _pod_seen(self, pod: dict[str, Any]) -> None:
        self._machine.peers.pod_seen(pod)
        node = pod["spec"].get("nodeName")
        if node not in self._admission:
            return
        uid = pod["metadata"]["uid"]
        with self._mutex:
            runner = self._runners.get(uid)
            if runner is None and not self._stop.is_set():
                self._runners[uid] = self._start_runner(pod, node)
        if runner is not None:
            runner.update(pod)

    def _pod_gone(self, pod: dict[str, Any]) -> None:
        self._machine.peers.pod_gone(pod)
        with self._mutex:
            runner = self._runners.get(pod["metadata"]["uid"])
        if runner is not None:
            runner.post(Vanished())

    def _make_machine(self) -> Machine:
        credentials = read_kubeconfig(self._config.kubeconfig)
        address = urlsplit(credentials.server)
        state_dir = self._config.state_dir.resolve()
        pods_dir = state_dir / "pods"
        pods_dir.mkdir(parents=True, exist_ok=True)
        ports = PortAllocator()
        return Machine(
            table=ProcessTable(),
            images=self._config.images,
            objects=ClusterObjects(self._api),
            peers=PeerAddresses(ports.allocate, ports.release),
            ports=ports,
            api=self._api,
            api_host=address.hostname or "",
            api_port=address.port or 443,
            server=(credentials.server, credentials.ca_pem),
            pods_dir=pods_dir,
            marker=str(state_dir),
        )

    def _register(self, nodes: NodeRegistrar) -> bool:
        """Register all nodes, waiting for the API server; False when stopped meanwhile."""
        pause = 0.2
        while not self._stop.is_set():
            try:
                nodes.register_all()
            except KubeError as error:
                _LOG.warning("nodes are not registered yet: %s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                return True
        return False

    def _start_runner(self, pod: dict[str, Any], node: str) -> PodRunner:
        context = RunnerContext(
            api=self._api,
            emit=self._emit,
            admission=self._admission[node],
            back_off=self._config.settings.back_off,
            forgotten=self._forget,
        )
        runner = PodRunner(pod, context, PodProcesses(parse_pod(pod), pod, self._machine))
        runner.start()
        return runner

    def _emit(self, pod: StatusJson, event: EmitEvent) -> None:
        """Emit an Event on a pod in the background, one at a time; losing one does no harm."""
        about, kind = RawObject(dict(pod)), EventType(event.kind)
        self._event_pool.submit(self._events.emit, about, kind, event.reason, event.message)

    def _forget(self, uid: str) -> None:
        with self._mutex:
            self._runners.pop(uid, None)

    def _refresh(self) -> None:
        with self._mutex:
            runners = list(self._runners.values())
        for runner in runners:
            try:
                runner.refresh()
            except (Unresolved, OSError) as error:
                _LOG.info("volumes of %s are not refreshed: %s", runner.name, error)
            except Exception:  # noqa: BLE001 -- a defect met by one pod must not end all the others
                _LOG.exception("volumes of %s are not refreshed", runner.name)

    def _end_pods(self) -> None:
        """End all containers without touching their pods: they belong to the next agent."""
        with self._mutex:
            runners = list(self._runners.values())
        for runner in runners:
            runner.abandon()
        self._machine.table.end_all(self._config.settings.shutdown_seconds)
        end_marked(self._machine.marker)
        self._machine.ports.close()
        self._event_pool.shutdown(wait=False, cancel_futures=True)
        _LOG.info("agent %d has ended its containers", os.getpid())
