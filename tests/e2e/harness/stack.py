"""A cluster under Optimus: the control plane, a system node, training nodes, and both Deployments from `manifests`.

The two processes run as pods, with the rights that the manifests grant them. What is changed for tests is only
what an operator may change: settings through the environment, and which of the two scheduler configurations is used.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.specs import NodeSpec, Taint
from tests.e2e.harness.api import Api, Json
from tests.e2e.harness.jobs import POOL

REPOSITORY: Final = Path(__file__).resolve().parents[3]
SYSTEM_NAMESPACE: Final = "optimus-system"
SCHEDULER: Final = "optimus-scheduler"
AUTOSCALER: Final = "optimus-autoscaler"
_KUBECONFIG: Final = "/var/run/secrets/kubernetes.io/serviceaccount/kubeconfig"
_AVAILABLE_SECONDS: Final = 100
_TAINT = Taint("optimus.dl/training", "true", "NoSchedule")


def training_nodes(*cpus: str, memory: str = "8Gi", gpus: Sequence[int] = ()) -> tuple[NodeSpec, ...]:
    """Return training nodes `train-1`, `train-2`, ... with so many CPUs each, labelled and tainted as such.

    `gpus` says how many GPUs each of the first ones has.
    """
    named = [{"cpu": cpu, "memory": memory} for cpu in cpus]
    for capacity, count in zip(named, gpus, strict=False):
        capacity["nvidia.com/gpu"] = str(count)
    return tuple(
        NodeSpec(f"train-{number}", capacity, POOL, (_TAINT,)) for number, capacity in enumerate(named, start=1)
    )


@dataclass(frozen=True)
class Tuning:
    """Settings of the two processes that differ from their defaults: name of the setting to value."""

    autoscaler: Mapping[str, str] = field(default_factory=dict)
    extender: Mapping[str, str] = field(default_factory=dict)


QUICK_TUNING: Final = Tuning(
    autoscaler={
        "interval_seconds": "5",
        "early_interval_seconds": "2",
        "tick_seconds": "0.5",
        "log_poll_seconds": "1",
        "profiling_seconds": "4",
        "rescale_cost_seconds": "2",
        "rescale_spacing_seconds": "5",
        "node_selector": "optimus.dl/pool=training",
        "log_level": "info",
    },
    extender={
        "node_selector": "optimus.dl/pool=training",
        "reservation_seconds": "30",  # longer than another kube-scheduler waits for a dead leader
        "check_invariants": "true",
        "log_level": "info",
    },
)


class Optimus:
    """Both processes on a running cluster."""

    def __init__(self, cluster: LocalCluster, api: Api, tuning: Tuning) -> None:
        self.cluster, self.api, self.tuning = cluster, api, tuning

    def deploy(self, *, advisory: bool = False) -> None:
        """Apply the manifests, with one of the scheduler configurations, and wait until both processes serve.

        Applied again with the other configuration, it replaces the scheduler's pod, as on any cluster.
        """
        with tempfile.TemporaryDirectory(prefix="optimus-overlay-") as folder:
            kustomization = _kustomization(Path(folder), self.tuning)
            if advisory:
                kustomization["configMapGenerator"] = [_advisory_config(Path(folder))]
            (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            self.cluster.apply(Path(folder))
        for name in (SCHEDULER, AUTOSCALER):
            self.wait_rolled_out(name)

    def wait_rolled_out(self, deployment: str) -> None:
        """Wait until the Deployment's newest pods are available. Raises KubectlError, with what there is to say."""
        wait = f"--timeout={_AVAILABLE_SECONDS}s"
        try:
            self.cluster.kubectl("rollout", "status", f"deployment/{deployment}", "-n", SYSTEM_NAMESPACE, wait)
        except KubectlError as error:
            error.add_note(self.describe(deployment))
            raise

    def describe(self, deployment: str) -> str:
        """Return what kubectl says of a Deployment's pods, and the last lines of each container."""
        selected = ("-n", SYSTEM_NAMESPACE, "-l", f"app.kubernetes.io/name={deployment}")
        asked = (("describe", "pods", *selected), ("logs", *selected, "--all-containers", "--prefix", "--tail=30"))
        return "\n".join(self._said(*arguments) for arguments in asked)

    def _said(self, *arguments: str) -> str:
        try:
            return self.cluster.kubectl(*arguments)
        except KubectlError as error:
            return str(error)

    def pod_of(self, deployment: str) -> Json:
        """Return the one pod of a Deployment that is not being deleted."""
        pods = self.api.items(
            f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods", labelSelector=f"app.kubernetes.io/name={deployment}"
        )
        (pod,) = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
        return pod

    def defects(self, since: str) -> list[str]:
        """Return the lines with which either process reported an error of its own since that instant (RFC 3339).

        Neither reports anything so for what users or the cluster do; the extender also watches its own books.
        """
        found: list[str] = []
        for deployment, container in ((SCHEDULER, "extender"), (AUTOSCALER, "autoscaler")):
            name = self.pod_of(deployment)["metadata"]["name"]
            path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{name}/log"
            log = self.api.text(path, container=container, sinceTime=since)
            found += [line for line in log.splitlines() if " ERROR " in line or line.startswith("Traceback")]
        return found

    def log(self, deployment: str, container: str, lines: int = 200) -> str:
        """Return the last lines of one of the processes."""
        name = self.pod_of(deployment)["metadata"]["name"]
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{name}/log"
        return self.api.text(path, container=container, tailLines=str(lines))


@contextmanager
def optimus_cluster(
    name: str,
    training: Sequence[NodeSpec],
    tuning: Tuning = QUICK_TUNING,
    images: Mapping[str, Path | str] | None = None,
    agent: Mapping[str, Any] | None = None,
) -> Iterator[Optimus]:
    """Run a cluster under Optimus: one system node for the two processes, and these training nodes.

    `agent` are settings of the node agent, as `LocalCluster` takes them.
    """
    nodes = (NodeSpec("system", {"cpu": "4", "memory": "8Gi"}), *training)
    with LocalCluster(name, nodes, images=images, agent=agent) as cluster, cluster.api_client() as client:
        yield Optimus(cluster, Api(client), tuning)


def _kustomization(folder: Path, tuning: Tuning) -> Json:
    overlay = os.path.relpath(REPOSITORY / "localcluster" / "overlay", folder.resolve())
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [overlay],
        "patches": [
            _environment(AUTOSCALER, "containers", "OPTIMUS_", tuning.autoscaler),
            _environment(SCHEDULER, "initContainers", "OPTIMUS_EXTENDER_", tuning.extender),
        ],
    }


def _environment(deployment: str, containers: str, prefix: str, settings: Mapping[str, str]) -> Json:
    path = f"/spec/template/spec/{containers}/0/env/-"
    added = [
        {"op": "add", "path": path, "value": {"name": prefix + name.upper(), "value": value}}
        for name, value in settings.items()
    ]
    return {"target": {"kind": "Deployment", "name": deployment}, "patch": yaml.safe_dump(added)}


def _advisory_config(folder: Path) -> Json:
    """Write `scheduler-config/advisory.yaml`, with the kubeconfig that process nodes need, where kustomize finds it."""
    config: Json = yaml.safe_load((REPOSITORY / "scheduler-config" / "advisory.yaml").read_text())
    config["clientConnection"] = {**config.get("clientConnection", {}), "kubeconfig": _KUBECONFIG}
    (folder / "kube-scheduler-config.yaml").write_text(yaml.safe_dump(config))
    return {
        "name": "optimus-scheduler-config",
        "namespace": SYSTEM_NAMESPACE,
        "behavior": "replace",
        "files": ["kube-scheduler-config.yaml"],
    }
