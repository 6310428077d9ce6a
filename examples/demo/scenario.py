"""The demo's nodes, installation and jobs; the same on either back end, without kubectl.

Each job is submitted twice: under Optimus, and untouched on nodes of the same size. That one has
no annotation of Optimus, and the cluster's default scheduler places it. Both end by themselves, at
the same loss."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client as api

from localcluster.cluster import LocalCluster
from localcluster.errors import ClusterError
from localcluster.paths import REPOSITORY
from localcluster.specs import NodeSpec, Taint

MANAGED: Final = "default"
UNTOUCHED: Final = "untouched"
"""The namespaces of the two."""
SYSTEM: Final = "optimus-system"
_DEPLOYMENTS: Final = ("optimus-scheduler", "optimus-autoscaler")
_AVAILABLE_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_ALONE: Final = "default-scheduler"
NODES: Final = 3
CPUS: Final = "6"
"""Of each node."""
_LIGHT: Final = REPOSITORY / "examples" / "light"
TARGET_LOSS: Final = 0.18
"""Of both jobs, where the caller names no other: that of the examples."""

_GOAL: Final = {"optimus.dl/target-loss": f"{TARGET_LOSS:g}"}
# Cheaper steps and shorter epochs than in the examples. All costs by the same factor: which counts
# are best stays.
_QUICK_TF: Final = {
    "--examples-per-epoch": "640",
    "--example-seconds": "0.00125",
    "--message-seconds": "0.0005",
    "--link-mbit": "400",
    "--log-seconds": "0.25",
    "--checkpoint-seconds": "1",
}
_QUICK_MX: Final = {
    "--examples-per-epoch": "640",
    "--learning-rate": "0.008",
    "--example-seconds": "0.0025",
    "--message-seconds": "0.001",
    "--link-mbit": "200",
    "--log-seconds": "0.5",
    "--checkpoint-seconds": "1",
}


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One job: the example it is made from, and the annotations and flags of the demo."""

    name: str
    manifest: str
    annotations: Mapping[str, str]
    flags: Mapping[str, str]

    def aiming_at(self, loss: float) -> "DemoJob":
        """The same job with another target loss."""
        return replace(
            self, annotations={**self.annotations, "optimus.dl/target-loss": f"{loss:g}"}
        )

    def body(self, namespace: str = MANAGED) -> dict[str, Any]:
        """The object that a user would apply."""
        body: dict[str, Any] = yaml.safe_load((_LIGHT / self.manifest).read_text())
        metadata = body["metadata"]
        loss = self.annotations["optimus.dl/target-loss"]
        metadata["namespace"] = namespace
        metadata["annotations"].update(self.annotations)
        roles = next(value for key, value in body["spec"].items() if key.endswith("ReplicaSpecs"))
        for role in roles.values():
            spec = role["template"]["spec"]
            (container,) = spec["containers"]
            arguments = with_flags(container["args"], self.flags)
            container["args"] = [*arguments, f"--target-loss={loss}"]
            if namespace == UNTOUCHED:
                spec |= {"schedulerName": _ALONE, "nodeSelector": _pool(UNTOUCHED)}
        if namespace == UNTOUCHED:
            del metadata["annotations"]
        return body


FIRST: Final = DemoJob(
    "light-tf", "tfjob.yaml", {**_GOAL, "optimus.dl/steps-per-epoch": "10"}, _QUICK_TF
)
_MX: Final = {
    "optimus.dl/steps-per-epoch": "20",
    "optimus.dl/min-workers": "2",
}  # room is made for what is submitted
SECOND: Final = DemoJob("light-mx", "mxjob.yaml", {**_GOAL, **_MX}, _QUICK_MX)


def _pool(name: str) -> dict[str, str]:
    return {"optimus.dl/pool": name}


def nodes() -> list[NodeSpec]:
    """Return a node for the two processes of Optimus, and two equal pools for training."""
    taint = (Taint("optimus.dl/training", "true"),)
    training = [
        NodeSpec(f"{prefix}{number}", {"cpu": CPUS}, _pool(name), taint)
        for prefix, name in (("n", "training"), ("u", UNTOUCHED))
        for number in range(1, NODES + 1)
    ]
    return [NodeSpec("system"), *training]


def with_flags(arguments: Sequence[str], flags: Mapping[str, str]) -> list[str]:
    """Arguments written as ``--flag=value``, of which those in ``flags`` have other values.

    Raises:
        ValueError: a flag that is not there; the example has changed."""
    missing = flags.keys() - {each.partition("=")[0] for each in arguments if "=" in each}
    if missing:
        raise ValueError(f"the example has no {', '.join(sorted(missing))} to change")
    changed: list[str] = []
    for each in arguments:
        name, equals, _ = each.partition("=")
        changed.append(f"{name}={flags[name]}" if equals and name in flags else each)
    return changed


def install(cluster: LocalCluster, folder: Path) -> None:
    """Apply the shipped manifests and wait until both processes are available; checkpoints go to
    ``folder``.

    Raises:
        ClusterError: they were not, in the time that a slow machine needs."""
    cluster.apply(Path(__file__).parent / "optimus")
    _apply(
        cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": UNTOUCHED}}, folder
    )
    for namespace in (MANAGED, UNTOUCHED):
        name = f"light-checkpoints-{namespace}"
        volume: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": str(folder / name)},
                "claimRef": {"namespace": namespace, "name": "light-checkpoints"},
            },
        }
        _apply(cluster, volume, folder)
        claim = yaml.safe_load((_LIGHT / "checkpoints-pvc.yaml").read_text())
        claim["metadata"]["namespace"] = namespace
        _apply(cluster, claim, folder)
    _wait_available(cluster)


def submit(cluster: LocalCluster, job: DemoJob, folder: Path) -> None:
    """Submit a job as its users would, untouched and under Optimus."""
    for namespace in (UNTOUCHED, MANAGED):
        _apply(cluster, job.body(namespace), folder)


def _apply(cluster: LocalCluster, body: Mapping[str, Any], folder: Path) -> None:
    path = folder / f"{body['metadata']['name']}.yaml"
    path.write_text(yaml.safe_dump(dict(body)))
    cluster.apply(path)


def _wait_available(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + _AVAILABLE_SECONDS
    with cluster.api_client() as client:
        apps = api.AppsV1Api(client)
        for name in _DEPLOYMENTS:
            while not _is_available(apps.read_namespaced_deployment(name, SYSTEM)):
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"{name} did not become available in {_AVAILABLE_SECONDS:.0f} s"
                    )
                time.sleep(_LOOK_SECONDS)


def _is_available(deployment: api.V1Deployment) -> bool:
    return deployment.status is not None and bool(deployment.status.available_replicas)
