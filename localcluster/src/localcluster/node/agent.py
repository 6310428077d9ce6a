"""The agent: nodes on one side, the pods bound to them on the other, and the threads between."""

import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

from localcluster.node.admission import NodeBooks
from localcluster.node.api import Api, ApiError, read_kubeconfig
from localcluster.node.config import AgentConfig
from localcluster.node.containers import ProcessTable
from localcluster.node.environment import Unresolved
from localcluster.node.events import EventRecorder
from localcluster.node.leftovers import end_marked
from localcluster.node.lifecycle import Vanished
from localcluster.node.logs import LogFile
from localcluster.node.logs_server import LogServer
from localcluster.node.nodes import NodeRegistrar, current_labels
from localcluster.node.objects import ClusterObjects, Remembered, Tokens
from localcluster.node.ports import PortAllocator
from localcluster.node.processes import Machine, PodProcesses
from localcluster.node.reflector import Reflector
from localcluster.node.runner import PodRunner, RunnerContext
from localcluster.node.services import RunTable
from localcluster.node.spec import parse_pod

_LOG = logging.getLogger(__name__)


class Agent:
    """Runs the pods of its nodes. `run` returns once `stop` was called and all containers have
    ended."""

    def __init__(self, config: AgentConfig) -> None:
        """Connect to the API server that the configuration names; nothing is registered yet."""
        self._config = config
        self._stop = threading.Event()
        self._broken = False
        self._capacities = {node.name: node.capacity for node in config.nodes}
        self._runners: dict[str, PodRunner] = {}
        self._mutex = threading.Lock()
        self._api = Api(read_kubeconfig(config.kubeconfig))
        self._books = {
            node.name: NodeBooks(node.name, node.capacity, partial(current_labels, self._api, node))
            for node in config.nodes
        }
        self._recorder = EventRecorder(self._api)
        self._machine = self._make_machine()

    def stop(self) -> None:
        """Make `run` end the containers and return."""
        self._stop.set()

    def run(self) -> bool:
        """Register the nodes, say `ready`, and run pods until stopped; return whether the end was
        orderly."""
        ended = end_marked(self._machine.marker)
        if ended:
            _LOG.warning(
                "%d processes of an earlier agent were still running and have been killed", ended
            )
        logs = LogServer(self)
        leases = NodeRegistrar(
            self._api, self._config.nodes, logs.port, self._config.settings.lease_seconds
        )
        reflector = Reflector(self._api, self)
        if self._register(leases):
            print("ready", flush=True)
            threads = [
                leases,
                self._recorder,
                threading.Thread(target=self._follow, args=(reflector,), name="pods", daemon=True),
                threading.Thread(target=self._refresh, name="refresh", daemon=True),
            ]
            for thread in threads:
                thread.start()
            self._stop.wait()
        reflector.stop()
        leases.stop()
        self._end_pods()
        logs.stop()
        return not self._broken

    def seen(self, pod: dict[str, Any]) -> None:
        """Take in a pod: one of ours is run, any is known to the table of training runs."""
        self._machine.services.saw(pod)
        node = pod["spec"].get("nodeName")
        if node not in self._books:
            return
        uid = pod["metadata"]["uid"]
        with self._mutex:
            runner = self._runners.get(uid)
            if runner is None and not self._stop.is_set():
                self._take_on(pod, node)
                return
        if runner is not None:
            runner.update(pod)

    def gone(self, pod: dict[str, Any]) -> None:
        """Take in that a pod is gone from the API server."""
        self._machine.services.lost(pod)
        with self._mutex:
            runner = self._runners.get(pod["metadata"]["uid"])
        if runner is not None:
            runner.post(Vanished())

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool
    ) -> tuple[Path, LogFile | None] | str:
        """Return a container's log for the log server, or a sentence."""
        with self._mutex:
            named = [
                each
                for each in self._runners.values()
                if each.plan.namespace == namespace and each.plan.name == pod
            ]
        if not named:
            return f'pod "{namespace}/{pod}" does not run on this node'
        return named[-1].log(container, previous=previous)

    def _make_machine(self) -> Machine:
        credentials = self._api.credentials
        state_dir = self._config.state_dir.resolve()
        pods_dir = state_dir / "pods"
        pods_dir.mkdir(parents=True, exist_ok=True)
        ports = PortAllocator()
        return Machine(
            table=ProcessTable(),
            images=self._config.images,
            objects=ClusterObjects(self._api),
            tokens=Tokens(self._api),
            services=RunTable(ports),
            ports=ports,
            api=self._api,
            api_host=credentials.host,
            api_port=credentials.port,
            server=credentials.server,
            ca_pem=credentials.ca_pem,
            pods_dir=pods_dir,
            marker=str(state_dir),
        )

    def _register(self, nodes: NodeRegistrar) -> bool:
        """Register all nodes, waiting for the API server; return False when told to stop
        meanwhile."""
        pause = 0.2
        while not self._stop.is_set():
            try:
                nodes.register_all()
            except ApiError as error:
                _LOG.warning("nodes are not registered yet: %s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, 5.0)
            else:
                return True
        return False

    def _take_on(self, pod: dict[str, Any], node: str) -> None:
        """Begin to run a pod. One that cannot even be read is left alone: it must not stop the
        others."""
        try:
            self._runners[pod["metadata"]["uid"]] = self._begin(pod, node)
        except (KeyError, TypeError, ValueError) as error:
            _LOG.warning("pod %s cannot be understood: %r", pod["metadata"].get("name"), error)

    def _begin(self, pod: dict[str, Any], node: str) -> PodRunner:
        context = RunnerContext(
            api=self._api,
            recorder=self._recorder,
            books=self._books[node],
            back_off=self._config.settings.back_off,
            forgotten=self._forgotten,
        )
        processes = PodProcesses(parse_pod(pod), pod, self._machine, self._capacities[node])
        runner = PodRunner(pod, context, processes)
        runner.start()
        return runner

    def _forgotten(self, uid: str) -> None:
        with self._mutex:
            self._runners.pop(uid, None)

    def _follow(self, reflector: Reflector) -> None:
        """Follow all pods. Without that the agent is deaf: it ends, to be started again."""
        try:
            reflector.run()
        except Exception:  # noqa: BLE001 -- whatever it is, an agent that hears nothing must not go on
            _LOG.exception("pods cannot be followed any more, the agent ends")
            self._broken = True
            self._stop.set()

    def _refresh(self) -> None:
        """Bring files in volumes up to date, every few seconds; each object is read once per
        round."""
        while not self._stop.wait(self._config.settings.refresh_seconds):
            source = Remembered(self._machine.objects)
            with self._mutex:
                runners = list(self._runners.values())
            for runner in runners:
                try:
                    runner.refresh(source)
                except (Unresolved, OSError) as error:
                    _LOG.info("volumes of %s are not refreshed: %s", runner.name, error)

    def _end_pods(self) -> None:
        """End all containers without touching their pods: they belong to the next agent."""
        with self._mutex:
            runners = list(self._runners.values())
        for runner in runners:
            runner.abandon()
        self._machine.table.end_all(self._config.settings.shutdown_seconds)
        end_marked(self._machine.marker)
        self._machine.ports.close()
        _LOG.info("agent %d has ended its containers", os.getpid())
