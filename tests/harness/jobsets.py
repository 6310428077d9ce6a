"""JobSets and their pods, with the labels and owners that JobSet 0.11 gives them."""

import json
from typing import Any

from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.training_jobs import TrainingJob, decode_job


def replicated_job(
    name: str, jobs: int = 1, pods: int = 1, cpu: str = "1m", **fields: Any
) -> dict[str, Any]:
    """One of a JobSet's replicated jobs; `fields` are of its Jobs' spec but for ``dependsOn`` and
    ``annotations``."""
    depends, annotations = fields.pop("dependsOn", None), fields.pop("annotations", None)
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod = {"spec": {"schedulerName": "optimus-scheduler", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", **fields}
    template = {"metadata": {"annotations": annotations}, "spec": {**spec, "template": pod}}
    found = {"name": name, "replicas": jobs, "template": template}
    return {**found, "dependsOn": depends} if depends else found


def jobset(name: str, *jobs: dict[str, Any], restarts: int = 0, **fields: Any) -> TrainingJob:
    """A JobSet as it is read; `fields` are of its spec but for ``annotations``, ``conditions``."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    metadata["annotations"] = fields.pop("annotations", None)
    conditions = [{"type": each, "status": "True"} for each in fields.pop("conditions", ())]
    status = {"restarts": restarts, "conditions": conditions}
    body = {"metadata": metadata, "spec": {"replicatedJobs": jobs, **fields}, "status": status}
    return decode_job("JobSet", json.dumps(body).encode(), config=EligibilityConfig())


def pod_of(
    jobset: str, job: str, job_index: int, index: int | None, attempt: int = 0, **status: Any
) -> Pod:
    """A pod of one of its Jobs; ``index`` as in its completion index. `cpu`, `node` and `phase`
    are what they say."""
    name = f"{jobset}-{job}-{job_index}-{index}-{attempt}"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "jobset.sigs.k8s.io/jobset-uid": f"uid-{jobset}",
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "jobset.sigs.k8s.io/job-index": str(job_index),
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    if index is not None:
        labels["batch.kubernetes.io/job-completion-index"] = str(index)
    owner: dict[str, object] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": f"{jobset}-{job}-{job_index}",
    }
    owner |= {"uid": f"uid-{jobset}-{job}-{job_index}", "controller": True}
    cpu, node = status.pop("cpu", "1m"), status.pop("node", None)
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"pod-{name}",
            "labels": labels,
            "ownerReferences": [owner],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "optimus-scheduler",
            "containers": [container],
            "nodeName": node,
        },
        "status": status,
    }
    return decode_pod(json.dumps(body).encode())
