"""Training jobs as the API server stores them, and as they are read."""

import json
from typing import Any

from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.training_jobs import TrainingJob, decode_job

RULES = EligibilityConfig()


def replica(
    count: int | None = 1, *, scheduler: str = "optimus-scheduler", **container: object
) -> dict[str, Any]:
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, **container}],
    }
    return {"template": {"spec": spec}} | ({} if count is None else {"replicas": count})


def job_json(kind: str = "TFJob", **annotations: str) -> dict[str, Any]:
    roles: dict[str, Any] = {"PS": replica(2), "Worker": replica(4)}
    if kind == "MXJob":
        roles = {"Scheduler": replica(), "Server": replica(2), "Worker": replica(4)}
    return {
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "9",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {
                f"optimus.dl/{name.replace('_', '-')}": value for name, value in annotations.items()
            },
        },
        "spec": {
            "jobMode": "MXTrain",
            "tfReplicaSpecs" if kind == "TFJob" else "mxReplicaSpecs": roles,
        },
    }


def read(
    raw: dict[str, Any], kind: str = "TFJob", config: EligibilityConfig = RULES
) -> TrainingJob:
    return decode_job(kind, json.dumps(raw).encode(), config=config)


def managed(**annotations: str) -> TrainingJob:
    return read(job_json(**{"target_loss": "0.2", **annotations}))
