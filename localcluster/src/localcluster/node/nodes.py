"""Nodes as objects of the API server: registration, status and the Lease that says they live."""

import logging
import os
import platform
import threading
from datetime import UTC, datetime
from typing import Any, Protocol

from localcluster.node.api import ApiError
from localcluster.node.status import HOST_IP, format_time
from localcluster.specs import NodeSpec

_LOG = logging.getLogger(__name__)
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_DURATION_SECONDS = 40
_VERSION = "v1.36.3-localprocess"


class Calls(Protocol):
    """The calls on the API server that nodes need."""

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        ...

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        ...

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch."""
        ...

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a strategic merge patch."""
        ...


class NodeRegistrar(threading.Thread):
    """Registers nodes, then renews their Leases until the process ends.

    A node whose Lease ran out (the API server or this machine stood still) is given up by the node
    controller, which takes it back only when its own status says again that it is ready: a Lease
    renewed late is not enough."""

    def __init__(
        self, api: Calls, nodes: tuple[NodeSpec, ...], logs_port: int, lease_seconds: float
    ) -> None:
        """Announce these nodes, with logs served on `logs_port` of the loopback address."""
        super().__init__(name="leases", daemon=True)
        self._api = api
        self._nodes = nodes
        self._logs_port = logs_port
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()

    def register_all(self) -> None:
        """Make or take over every node, tell that it is ready, and renew its Lease. Raises
        ApiError."""
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
        """Renew all Leases once, and the status of nodes that were given up."""
        for node in self._nodes:
            self._keep_alive(node)

    def _keep_alive(self, node: NodeSpec) -> None:
        try:
            self._renew(node)
            if not _is_ready(self._api.get(f"/api/v1/nodes/{node.name}")):
                _LOG.warning("node %s was given up, and says again that it is ready", node.name)
                self._tell_status(node)
        except ApiError as error:
            _LOG.warning("the lease of node %s is not renewed: %s", node.name, error)

    def _register(self, node: NodeSpec) -> None:
        labels = node_labels(node)
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": labels},
            "spec": {"taints": [each.as_json() for each in node.taints]},
        }
        try:
            self._api.create("/api/v1/nodes", body)
        except ApiError as error:
            if error.status != 409:
                raise
            self._api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})
        self._tell_status(node)

    def _tell_status(self, node: NodeSpec) -> None:
        self._api.patch(f"/api/v1/nodes/{node.name}/status", {"status": self._status(node)})

    def _status(self, node: NodeSpec) -> dict[str, Any]:
        at = format_time(datetime.now(UTC))
        return {
            "capacity": dict(node.capacity),
            "allocatable": dict(node.capacity),
            # No Hostname: the API server would prefer it, and nothing resolves a node's name here.
            "addresses": [{"type": "InternalIP", "address": HOST_IP}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs_port}},
            "conditions": [
                _condition(
                    "Ready",
                    "True",
                    "KubeletReady",
                    "the node agent runs pods as local processes",
                    at,
                ),
                _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "", at),
                _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "", at),
                _condition("PIDPressure", "False", "KubeletHasSufficientPID", "", at),
            ],
            "nodeInfo": _node_info(),
        }

    def _renew(self, node: NodeSpec) -> None:
        renewed = {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        try:
            self._api.merge(f"{_LEASES}/{node.name}", {"spec": renewed})
        except ApiError as error:
            if error.status != 404:
                raise
            spec = {
                "holderIdentity": node.name,
                "leaseDurationSeconds": _LEASE_DURATION_SECONDS,
                **renewed,
            }
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node.name},
            }
            self._api.create(_LEASES, {**body, "spec": spec})


def node_labels(node: NodeSpec) -> dict[str, str]:
    """Return a node's labels: those that every kubelet sets, then its own."""
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
        **node.labels,
    }


class Reader(Protocol):
    """The call with which a node is read."""

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        ...


def current_labels(api: Reader, node: NodeSpec) -> dict[str, str]:
    """Return the labels that a node has now: users change them. Those of the specification if it
    cannot be read."""
    try:
        labels: dict[str, str] = (
            api.get(f"/api/v1/nodes/{node.name}")["metadata"].get("labels") or {}
        )
    except ApiError as error:
        _LOG.warning(
            "labels of node %s cannot be read, those it was made with are used: %s",
            node.name,
            error,
        )
        return node_labels(node)
    return labels


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _condition(kind: str, status: str, reason: str, message: str, at: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
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
        "kubeProxyVersion": "",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }
