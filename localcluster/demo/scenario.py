"""What the demo plays: the nodes, the installation, the jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from localcluster.cluster import LocalCluster
from localcluster.specs import NodeSpec, Taint
from localcluster.supervise import REPOSITORY

NAMESPACE: Final = "default"
_TRAINING: Final = 3
_LIGHT: Final = REPOSITORY / "examples" / "light"


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One job of the demo: the example it is made from, and the annotations that the demo adds to it."""

    name: str
    manifest: str
    annotations: Mapping[str, str]


FIRST: Final = DemoJob("light-tf", "tfjob.yaml", {"optimus.dl/target-loss": "0.14", "optimus.dl/at-target": "suspend"})
SECOND: Final = DemoJob("light-mx", "mxjob.yaml", {"optimus.dl/target-loss": "0.14", "optimus.dl/at-target": "suspend"})


def nodes() -> list[NodeSpec]:
    """A node for the two processes of Optimus, and the pool that the operator guide recommends for training."""
    pool = {"optimus.dl/pool": "training"}
    taint = (Taint("optimus.dl/training", "true"),)
    training = [NodeSpec(f"n{number}", {"cpu": "4"}, pool, taint) for number in range(1, _TRAINING + 1)]
    return [NodeSpec("system"), *training]


def install(cluster: LocalCluster, checkpoints: Path) -> None:
    """Apply the shipped manifests and wait until both processes are available."""
    cluster.apply(Path(__file__).parent / "optimus")
    volume: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "light-checkpoints"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(checkpoints)},
            "claimRef": {"namespace": NAMESPACE, "name": "light-checkpoints"},
        },
    }
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(volume))
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(_LIGHT / "checkpoints-pvc.yaml"))
    for deployment in ("optimus-scheduler", "optimus-autoscaler"):
        cluster.kubectl("-n", "optimus-system", "rollout", "status", f"deploy/{deployment}", "--timeout=90s")


def submit(cluster: LocalCluster, job: DemoJob) -> None:
    """Submit a job as its user would."""
    manifest = yaml.safe_load((_LIGHT / job.manifest).read_text())
    manifest["metadata"]["annotations"].update(job.annotations)
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", input=yaml.safe_dump(manifest))
