"""A fake training job, with its objects on the API server.

Its training is known: loss = 1 / (0.5 k + 1) + 0.05 after k epochs of ten steps; its
speed is 1 / (2 / w + 0.1 w / p + 0.1).
"""

import json
import marshal
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from optimus.jobs import Counts
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.times import format_second
from optimus.kube.training_jobs import TrainingJob, decode_job
from optimus.progress.types import LogLine

STEPS_PER_EPOCH = 10
SUSPENDED_BY = "optimus.dl/suspended-by"
START_AT = 1_800_000_000.0


@dataclass
class FakeJob:
    """One job: what the API server stores of it, and the training behind it."""

    manifest: dict[str, Any]
    pods: list[dict[str, Any]] = field(default_factory=list)
    step: float = 0.0
    saved: int = 0
    lines: list[LogLine] = field(default_factory=list)
    runs: int = 0
    left_at: float = 0.0
    version: int = 1
    kind: str = "TFJob"

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def replicas(self) -> dict[str, Any]:
        specs: dict[str, Any] = self.manifest["spec"][JOB_KINDS[self.kind].replica_specs]
        return specs

    @property
    def counts(self) -> Counts:
        ps = self.replicas.get("PS", {"replicas": 0})
        return Counts(ps["replicas"], self.replicas["Worker"]["replicas"])

    @property
    def suspended(self) -> bool:
        return bool(self.manifest["spec"]["runPolicy"].get("suspend"))

    @property
    def is_dynamic(self) -> bool:
        """Whether its pods are told of no whole gang."""
        return bool(self.manifest["spec"].get("enableDynamicWorker"))

    @property
    def leaving(self) -> bool:
        return any("deletionTimestamp" in pod["metadata"] for pod in self.pods)

    def speed(self) -> float:
        """Steps per second."""
        ps, workers = self.counts
        if not ps:
            every = workers + bool(self.replicas.get("Master"))
            return 1 / (4 / every + 0.1)
        return 1 / (2 / workers + 0.1 * workers / ps + 0.1)

    def changed(self) -> None:
        self.version += 1
        self.manifest["metadata"]["resourceVersion"] = str(self.version)

    def decoded(self) -> TrainingJob:
        # Version 2 writes equal objects as equal bytes, in a fraction of the time of JSON.
        return _decoded(self.kind, marshal.dumps(self.manifest, 2))

    def annotate(self, **annotations: str | None) -> None:
        """Set or remove annotations under optimus.dl/ (dashes as underscores)."""
        stored: dict[str, Any] = self.manifest["metadata"]["annotations"]
        for key, value in annotations.items():
            name = f"optimus.dl/{key.replace('_', '-')}"
            stored.pop(name, None)
            if value is not None:
                stored[name] = value
        self.changed()


@lru_cache(maxsize=1000)
def _decoded(kind: str, stored: bytes) -> TrainingJob:
    """Once for each change of the job, as a reflector does it."""
    manifest = json.dumps(marshal.loads(stored)).encode()
    return decode_job(kind, manifest, config=EligibilityConfig())


def tf_job(
    name: str, ps: int, workers: int, namespace: str = "team", **annotations: str
) -> FakeJob:
    """A TFJob with cpu requests of 1 for each PS and worker, annotated (dashes as underscores)
    under optimus.dl/. No other job runs the same."""
    container = {
        "name": "tensorflow",
        "resources": {"requests": {"cpu": "1"}},
        "command": [f"train_{name}_alone"],
    }
    template = {"spec": {"schedulerName": "optimus-scheduler", "containers": [container]}}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        # No other has come for a day: it may grow.
        "creationTimestamp": format_second(START_AT - 86_400),
        "annotations": {
            f"optimus.dl/{key.replace('_', '-')}": value for key, value in annotations.items()
        },
    }
    specs = {
        "PS": {"replicas": ps, "template": template},
        "Worker": {"replicas": workers, "template": template},
    }
    return FakeJob(
        {"metadata": metadata, "spec": {"runPolicy": {}, "tfReplicaSpecs": specs}, "status": {}}
    )


def pytorch_job(name: str, workers: int, **annotations: str) -> FakeJob:
    """A PyTorchJob of a Master and workers, as ``tf_job`` makes a TFJob; a batch of 64."""
    made = tf_job(name, 0, workers, **{"global_batch_size": "64", **annotations})
    specs = made.manifest["spec"].pop("tfReplicaSpecs")
    specs["Master"] = specs.pop("PS") | {"replicas": 1}
    made.manifest["spec"]["pytorchReplicaSpecs"] = specs
    made.kind = "PyTorchJob"
    return made


def torch_pods(fake: FakeJob, at: float, first: int = 0) -> list[dict[str, Any]]:
    """The Master and all workers from the first, as made for the present counts."""
    workers = fake.counts.workers
    roles = [("master", 0)] * (not first) + [("worker", index) for index in range(first, workers)]
    pods = [pod_of(fake, role, index, "", at) for role, index in roles]
    for rank, pod in enumerate(pods):
        variables = {"PET_NNODES": str(workers + 1), "RANK": str(rank)}
        env = [{"name": name, "value": value} for name, value in variables.items()]
        pod["spec"]["containers"][0]["env"] = env
    return pods


def pod_of(fake: FakeJob, role: str, index: int, config: str, at: float) -> dict[str, Any]:
    name = f"{fake.name}-{role}-{index}"
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": fake.kind,
        "name": fake.name,
        "controller": True,
    }
    container = {
        "name": "tensorflow",
        "resources": {"requests": {"cpu": "1"}},
        "env": [{"name": "TF_CONFIG", "value": config}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": fake.manifest["metadata"]["namespace"],
            "uid": f"{name}-{fake.runs}",
            "labels": {
                "training.kubeflow.org/job-name": fake.name,
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
            },
            "ownerReferences": [owner | {"uid": f"uid-{fake.name}"}],
        },
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {
            "phase": "Running",
            "startTime": format_second(at),
            "containerStatuses": [
                {
                    "name": "tensorflow",
                    "restartCount": 0,
                    "state": {"running": {"startedAt": format_second(at)}},
                }
            ],
        },
    }
