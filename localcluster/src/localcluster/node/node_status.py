"""Node objects of the agent: registration, status, and the Lease that says that they live."""

import logging
import os
import platform
import threading
import time
from typing import Final

import msgspec

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls
from localcluster.embedded.apiserver.pods import is_ready
from localcluster.node.pod_spec import HOST_IP
from localcluster.specs import NodeSpec
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.times import format_instant, format_second

_LOG = logging.getLogger(__name__)
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_DURATION_SECONDS: Final = 40
_VERSION: Final = "v1.36.3-localprocess"


class NodeRegistrar(threading.Thread):
    """Registers nodes, then renews their Leases until the process ends.

    A node whose Lease ran out (the API server or this machine stood still) is marked Unknown by the
    node controller until its own status says again that it is ready: a late Lease is not enough."""

    def __init__(
        self, api: ApiCalls, nodes: tuple[NodeSpec, ...], logs_port: int, lease_seconds: float
    ) -> None:
        """Announce these nodes, with logs served on `logs_port` of the loopback address."""
        super().__init__(name="leases", daemon=True)
        self._api = api
        self._nodes = nodes
        self._logs_port = logs_port
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()

    def register_all(self) -> None:
        """Create or update every node and its Lease. Raises KubeError."""
        for node in self._nodes:
            self._register(node)
            self._renew(node)

    def stop(self) -> None:
        """End renewing."""
        self._ended.set()

    def run(self) -> None:
        """Renew all Leases, each time the period is over."""
        while not self._ended.wait(self._lease_seconds):
            self.keep_alive()

    def keep_alive(self) -> None:
        """Renew all Leases once, and write the status of nodes that were marked Unknown."""
        for node in self._nodes:
            try:
                self._renew(node)
                if not is_ready(self._api.get(f"/api/v1/nodes/{node.name}")):
                    _LOG.warning(
                        "node %s was marked Unknown; its status is written again", node.name
                    )
                    self._write_status(node)
            except KubeError as error:
                _LOG.warning("the lease of node %s is not renewed: %s", node.name, error)

    def _register(self, node: NodeSpec) -> None:
        metadata = {"name": node.name, "labels": node_labels(node)}
        spec = {"taints": [msgspec.to_builtins(each) for each in node.taints]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
        try:
            self._api.create("/api/v1/nodes", body)
        except KubeError as error:
            if error.kind not in (ErrorKind.EXISTS, ErrorKind.CONFLICT):
                raise
            self._api.patch(f"/api/v1/nodes/{node.name}", {"metadata": metadata})
        self._write_status(node)

    def _write_status(self, node: NodeSpec) -> None:
        now, message = format_second(time.time()), "the node agent runs pods as local processes"
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": message}
        status = {
            "capacity": dict(node.capacity),
            "allocatable": dict(node.capacity),
            # No Hostname: the API server would prefer it, and nothing resolves a node's name here.
            "addresses": [{"type": "InternalIP", "address": HOST_IP}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs_port}},
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "nodeInfo": _node_info(),
        }
        path = f"/api/v1/nodes/{node.name}/status"
        self._api.patch(path, {"status": status}, STRATEGIC_PATCH)

    def _renew(self, node: NodeSpec) -> None:
        renewed = {"renewTime": format_instant(time.time())}
        try:
            self._api.patch(f"{_LEASES}/{node.name}", {"spec": renewed})
        except KubeError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            duration = {"leaseDurationSeconds": _LEASE_DURATION_SECONDS}
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node.name},
                "spec": {"holderIdentity": node.name, **duration, **renewed},
            }
            self._api.create(_LEASES, body)


def node_labels(node: NodeSpec) -> dict[str, str]:
    """Return a node's labels: those that every kubelet sets, then its own."""
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        **node.labels,
    }


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _node_info() -> dict[str, str]:
    return {
        "architecture": _architecture(),
        "operatingSystem": "linux",
        "kernelVersion": os.uname().release,
        "osImage": "local processes",
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": _VERSION,
    }
