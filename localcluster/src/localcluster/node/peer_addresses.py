"""Host names and ports of a training job's replicas, turned into 127.0.0.1 and ports of their own.

The training operator gives every replica a Service and names peers by it: `job-ps-0.ns.svc:2222` in
TF_CONFIG, `job-scheduler-0` and port 9091 in MX_CONFIG and DMLC_PS_ROOT_URI/PORT, `job-master-0`
and port 23456 in MASTER_ADDR/PORT. All pods here share one network namespace, so the operator's
fixed port would collide. A replica's port belongs to
(owner of the pod, service, port) within one *run* of the job: a run begins with its first pod on
the API server and ends when none is left, which is what suspending does. A single replica that is
made again keeps its port, a resumed job gets new ones."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from localcluster.node.pod_spec import HOST_IP, Json, owner
from optimus.kube.job_kinds import JOB_KINDS


class PeerAddresses:
    """The ports of all running training jobs, from every pod of the API server. Thread-safe."""

    def __init__(self, allocate: Callable[[], int], release: Callable[[int], None]) -> None:
        """Take free ports from `allocate` and give them back with `release`."""
        self._allocate, self._release = allocate, release
        self._pods: dict[str, set[str]] = {}
        self._by_run: dict[str, dict[tuple[str, int], int]] = {}
        self._mutex = threading.Lock()

    def pod_seen(self, pod: Json) -> None:
        """Note a pod that exists."""
        if is_training_replica(pod):
            with self._mutex:
                self._pods.setdefault(_run_key(pod), set()).add(pod["metadata"]["uid"])

    def pod_gone(self, pod: Json) -> None:
        """Note that a pod is gone; with the last one of a job its run ends."""
        if not is_training_replica(pod):
            return
        key = _run_key(pod)
        with self._mutex:
            pods = self._pods.get(key, set())
            pods.discard(pod["metadata"]["uid"])
            if not pods:
                self._pods.pop(key, None)
                for port in self._by_run.pop(key, {}).values():
                    self._release(port)

    def port(self, pod: Json, host: str, port: int) -> int:
        """Return the local port of a service, with or without namespace, in the run of this pod."""
        service = (host.partition(".")[0], port)
        with self._mutex:
            run = self._by_run.setdefault(_run_key(pod), {})
            if service not in run:
                run[service] = self._allocate()
            return run[service]

    def rewrite(self, pod: Json, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that name peers, each address turned into a local one.

        A value that is not what the operator writes stays as it is: its program will report it."""
        if not is_training_replica(pod):
            return {}
        changed = {
            name: self._rewrite_config(pod, variables[name], entry)
            for name, entry in (("TF_CONFIG", _TENSORFLOW), ("MX_CONFIG", _MXNET))
            if name in variables
        }
        host, port = variables.get("DMLC_PS_ROOT_URI"), variables.get("DMLC_PS_ROOT_PORT", "")
        if host and port.isdigit():
            local = str(self.port(pod, host, int(port)))
            changed.update(
                DMLC_PS_ROOT_URI=HOST_IP, DMLC_PS_ROOT_PORT=local, DMLC_NODE_HOST=HOST_IP
            )
        for prefix in ("", "PET_"):
            host, port = (variables.get(f"{prefix}MASTER_{end}", "") for end in ("ADDR", "PORT"))
            if host and port.isdigit():
                local = str(self.port(pod, host, int(port)))
                changed |= {f"{prefix}MASTER_ADDR": HOST_IP, f"{prefix}MASTER_PORT": local}
        return changed

    def _rewrite_config(self, pod: Json, text: str, form: "_Form") -> str:
        def local(member: Any) -> Any:
            host, port = form.read(member)
            return form.write(member, self.port(pod, host, int(port)))

        try:
            config = json.loads(text)
            for role, members in config["cluster"].items():
                # A sparse cluster maps indices to members.
                config["cluster"][role] = (
                    {index: local(member) for index, member in members.items()}
                    if isinstance(members, dict)
                    else [local(member) for member in members]
                )
        except (ValueError, TypeError, KeyError, AttributeError):
            return text
        return json.dumps(config, separators=(",", ":"))


class _Form(NamedTuple):
    """How a cluster's member is written: its host and port, and the member at a local port."""

    read: Callable[[Any], tuple[str, str]]
    write: Callable[[Any, int], Any]


_TENSORFLOW = _Form(
    lambda member: str(member).rpartition(":")[::2], lambda _, port: f"{HOST_IP}:{port}"
)
_MXNET = _Form(
    lambda member: (str(member["url"]), str(member["port"])),
    lambda member, port: {**member, "url": HOST_IP, "port": port},
)


def is_training_replica(pod: Json) -> bool:
    """Whether a pod is a replica of a training job, whose peers find each other by host names."""
    controller = owner(pod)
    return controller is not None and controller.get("kind") in JOB_KINDS


def _run_key(pod: Json) -> str:
    controller = owner(pod)
    assert controller is not None
    return f"{pod['metadata']['namespace']}/{controller['uid']}"
