"""JobSets and their pods, with the labels and owners that JobSet 0.11 gives them."""

import json
from typing import Any

from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import TRAINER_GROUP
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.training_jobs import TrainingJob, decode_job


def replicated_job(
    name: str, jobs: int = 1, pods: int = 1, cpu: str = "1m", **fields: Any
) -> dict[str, Any]:
    """One of a JobSet's replicated jobs; `fields` are of its Jobs' spec but for ``dependsOn``,
    ``annotations`` and ``labels``."""
    depends = fields.pop("dependsOn", None)
    metadata = {each: fields.pop(each, None) for each in ("annotations", "labels")}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod = {"spec": {"schedulerName": "optimus-scheduler", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", **fields}
    template = {"metadata": metadata, "spec": {**spec, "template": pod}}
    found = {"name": name, "replicas": jobs, "template": template}
    return {**found, "dependsOn": depends} if depends else found


def train_steps(nodes: int, cpu: str = "1m") -> list[dict[str, Any]]:
    """The replicated jobs of a fine-tuning runtime of Kubeflow Trainer: so many pods train once
    data and model are there."""
    steps = ("dataset-initializer", "model-initializer")
    labels = {
        each: {f"{TRAINER_GROUP}/trainjob-ancestor-step": each} for each in (*steps, "trainer")
    }
    first = [replicated_job(each, labels=labels[each]) for each in steps]
    complete = [{"name": each, "status": "Complete"} for each in steps]
    training = replicated_job("node", 1, nodes, cpu, dependsOn=complete, labels=labels["trainer"])
    return [*first, training]


def jobset_json(
    name: str, *jobs: dict[str, Any], restarts: int = 0, owner: str = "", **fields: Any
) -> dict[str, Any]:
    """A JobSet as it is stored; `fields` are of its spec but for ``annotations``, ``conditions``.
    ``owner``: the group of the TrainJob that has made it."""
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    metadata["annotations"] = fields.pop("annotations", None)
    if owner:
        reference = {"apiVersion": f"{owner}/v1alpha1", "kind": "TrainJob", "name": name}
        metadata["ownerReferences"] = [{**reference, "uid": "t", "controller": True}]
    conditions = [{"type": each, "status": "True"} for each in fields.pop("conditions", ())]
    status = {"restarts": restarts, "conditions": conditions}
    return {"metadata": metadata, "spec": {"replicatedJobs": jobs, **fields}, "status": status}


def jobset(name: str, *jobs: dict[str, Any], **fields: Any) -> TrainingJob:
    """Return a JobSet as it is read; `fields` as in ``jobset_json``."""
    raw = json.dumps(jobset_json(name, *jobs, **fields)).encode()
    return decode_job("JobSet", raw, config=EligibilityConfig())


def pod_of(
    jobset: str, job: str, job_index: int, index: int | None, attempt: int = 0, **status: Any
) -> Pod:
    """Return a pod as it is read; see ``pod_json``."""
    raw = json.dumps(pod_json(jobset, job, job_index, index, attempt, **status)).encode()
    return decode_pod(raw)


def pod_json(
    jobset: str, job: str, job_index: int, index: int | None, attempt: int = 0, **status: Any
) -> dict[str, Any]:
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
    return {
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
