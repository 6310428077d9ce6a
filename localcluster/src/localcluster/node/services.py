"""Host names and ports of a training job's replicas, turned into 127.0.0.1 and ports of their own.

The training operator gives every replica a Service and names peers by it: `job-ps-0.ns.svc:2222` in
TF_CONFIG, `job-scheduler-0` and port 9091 in MX_CONFIG and DMLC_PS_ROOT_URI/PORT. All pods here
share one network namespace, so the operator's fixed port would collide. A replica's port belongs to
(owner of the pod, service, port) within one *run* of the job: a run begins with its first pod on
the API server and ends when none is left, which is what suspending does. A single replica that is
made again keeps its port, a resumed job gets new ones."""

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

from localcluster.node.spec import Json, is_training_replica, owner
from localcluster.node.status import HOST_IP


class Ports(Protocol):
    """Where ports come from."""

    def allocate(self) -> int:
        """Return a port that nobody else has."""
        ...

    def release(self, port: int) -> None:
        """Take a port back."""
        ...


class RunTable:
    """The ports of all running training jobs. Fed with every pod of the API server, bound or not.
    Thread-safe."""

    def __init__(self, ports: Ports) -> None:
        """Draw ports from `ports` and give them back when a run ends."""
        self._ports = ports
        self._pods: dict[str, set[str]] = {}
        self._table: dict[str, dict[tuple[str, int], int]] = {}
        self._mutex = threading.Lock()

    def saw(self, pod: Json) -> None:
        """Take note of a pod that exists."""
        if is_training_replica(pod):
            with self._mutex:
                self._pods.setdefault(_run_key(pod), set()).add(pod["metadata"]["uid"])

    def lost(self, pod: Json) -> None:
        """Take note of a pod that is gone; with the last one of a job its run ends."""
        if not is_training_replica(pod):
            return
        key = _run_key(pod)
        with self._mutex:
            pods = self._pods.get(key, set())
            pods.discard(pod["metadata"]["uid"])
            if not pods:
                self._pods.pop(key, None)
                for port in self._table.pop(key, {}).values():
                    self._ports.release(port)

    def port(self, pod: Json, host: str, port: int) -> int:
        """Return the local port of a service (`host` with or without namespace) in the run of this
        pod."""
        service = (host.partition(".")[0], port)
        with self._mutex:
            run = self._table.setdefault(_run_key(pod), {})
            if service not in run:
                run[service] = self._ports.allocate()
            return run[service]

    def rewrite(self, pod: Json, variables: dict[str, str]) -> dict[str, str]:
        """Return the variables with every peer's address turned into a local one; others are left
        out.

        A value that is not what the operator writes stays as it is: its program will say what it
        thinks of it."""
        if not is_training_replica(pod):
            return {}

        def local(host: str, port: int) -> int:
            return self.port(pod, host, port)

        changed: dict[str, str] = {}
        if "TF_CONFIG" in variables:
            changed["TF_CONFIG"] = _rewrite_json(variables["TF_CONFIG"], _tensorflow_entry, local)
        if "MX_CONFIG" in variables:
            changed["MX_CONFIG"] = _rewrite_json(variables["MX_CONFIG"], _mxnet_entry, local)
        changed.update(_rewrite_root(variables, local))
        return changed


_Local = Callable[[str, int], int]


def _run_key(pod: Json) -> str:
    controller = owner(pod)
    assert controller is not None
    return f"{pod['metadata']['namespace']}/{controller['uid']}"


def _rewrite_json(text: str, entry: Callable[[Any, _Local], Any], local: _Local) -> str:
    try:
        config = json.loads(text)
        cluster = config["cluster"]
        config["cluster"] = {
            role: _rewrite_members(members, entry, local) for role, members in cluster.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return text
    return json.dumps(config, separators=(",", ":"))


def _rewrite_members(members: Any, entry: Callable[[Any, _Local], Any], local: _Local) -> Any:
    """Rewrite a role's members: a list, or a map from index to member where the cluster is
    sparse."""
    if isinstance(members, dict):
        return {index: entry(member, local) for index, member in members.items()}
    return [entry(member, local) for member in members]


def _tensorflow_entry(member: Any, local: _Local) -> str:
    host, _, port = str(member).rpartition(":")
    return f"{HOST_IP}:{local(host, int(port))}"


def _mxnet_entry(member: Any, local: _Local) -> dict[str, Any]:
    return {**member, "url": HOST_IP, "port": local(str(member["url"]), int(member["port"]))}


def _rewrite_root(variables: dict[str, str], local: _Local) -> dict[str, str]:
    host, port = variables.get("DMLC_PS_ROOT_URI"), variables.get("DMLC_PS_ROOT_PORT", "")
    if not host or not port.isdigit():
        return {}
    return {
        "DMLC_PS_ROOT_URI": HOST_IP,
        "DMLC_PS_ROOT_PORT": str(local(host, int(port))),
        "DMLC_NODE_HOST": HOST_IP,
    }
