"""Pods of these tests, and waiting for what the API server says of them."""

import json
from typing import Any

from localcluster.cluster import LocalCluster


def container(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container that runs a shell script."""
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **fields}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod that is not restarted unless it says otherwise."""
    metadata = {"name": name}
    whole = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": list(containers),
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


class Namespace:
    """One test's namespace on a cluster."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def kubectl(self, *args: str, body: dict[str, Any] | None = None) -> str:
        """Run kubectl in the namespace."""
        return self.cluster.kubectl(
            "-n", self.name, *args, stdin=json.dumps(body) if body else None
        )

    def make(self, *bodies: dict[str, Any]) -> None:
        """Create objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self.kubectl("create", "-f", "-", body=items)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Read an object."""
        return self.cluster.get("-n", self.name, kind, name)

    def wait(self, pod_name: str, what: str, seconds: int = 180) -> dict[str, Any]:
        """Wait until a JSON path of a pod has a value (`.status.phase=Running`) and return the
        pod."""
        path, _, value = what.partition("=")
        self.kubectl(
            "wait", f"pod/{pod_name}", f"--for=jsonpath={{{path}}}={value}", f"--timeout={seconds}s"
        )
        return self.get("pod", pod_name)

    def ended(self, pod_name: str, phase: str = "Succeeded") -> str:
        """Wait until a pod has ended so and return its log."""
        self.wait(pod_name, f".status.phase={phase}")
        return self.kubectl("logs", pod_name)
