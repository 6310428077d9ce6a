"""Writes to jobs and pods. Each is one patch, so a crash leaves it done or not done."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from optimus.jobs import Counts, Role
from optimus.kube.client import Client, path_of, path_segment
from optimus.kube.contract import Annotation
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written, written
from optimus.kube.suspension import SuspensionMark
from optimus.kube.training_jobs import TrainingJob, job_path
from optimus.rescale.words import PauseReason

MAX_RESTARTS: Final = "maxRestarts"
"""The field of ``elasticPolicy`` that limits how often an agent starts its processes again."""

_NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


class JobWriter:
    """Suspends, resizes and resumes jobs; each patch carries the resource version decided on."""

    def __init__(self, client: Client, instance: str = "") -> None:
        """``instance`` is the autoscaler that writes, as its marks name it."""
        self._client, self._instance = client, instance

    def suspend(
        self,
        job: TrainingJob,
        interval_id: str,
        limits: Mapping[str, int] = _NO_LIMITS,
        pause: PauseReason | None = None,
    ) -> Written | Refused:
        """Suspend the job and mark it as suspended by the autoscaler, in one patch with what is
        left of its limits: a lost answer does not shorten them twice."""
        mark = SuspensionMark(interval_id, self._instance, pause).text
        elastic = {name: left for name, left in limits.items() if name == MAX_RESTARTS}
        policy = {"suspend": True} | {name: limits[name] for name in limits if name not in elastic}
        spec: dict[str, object] = {"runPolicy": policy}
        if elastic:
            spec["elasticPolicy"] = elastic
        return self._patch("suspend", job, {Annotation.SUSPENDED_BY: mark}, spec)

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        """Set the counts, resume and remove the mark in one patch; no pod may be left."""
        spec = {"runPolicy": {"suspend": False}, **_replicas(job, counts)}
        return self._patch("resume", job, {Annotation.SUSPENDED_BY: None}, spec)

    def unmark(self, job: TrainingJob) -> Written | Refused:
        """Remove the mark: the suspension is now the user's. Nothing else changes."""
        return self._patch("unmark", job, {Annotation.SUSPENDED_BY: None}, None)

    def _patch(
        self,
        verb: str,
        job: TrainingJob,
        annotations: dict[str, str | None],
        spec: dict[str, object] | None,
    ) -> Written | Refused:
        metadata = {"resourceVersion": job.resource_version, "annotations": annotations}
        body: dict[str, object] = {"metadata": metadata}
        if spec is not None:
            body["spec"] = spec
        what, path = f"{verb} {job.kind} {job.key}", job_path(job.kind, job.namespace, job.name)
        return written(lambda: self._client.patch(what, path, body))


def _replicas(job: TrainingJob, counts: Counts) -> dict[str, object]:
    replicas = {
        job.replica_keys[role]: {"replicas": count}
        for role, count in ((Role.PS, counts.ps), (Role.WORKER, counts.workers))
        if role in job.replica_keys
    }
    return {JOB_KINDS[job.kind].replica_specs: replicas}


class PodWriter:
    """Requeues pending pods, and annotates pods whose job's goal is met; all by
    ``pods/status``, which also holds annotations, and which a scheduler may write.

    Each patch names the pod's UID: a new pod of the same name must not get the old one's."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        """Make kube-scheduler try the pod again, by an annotation whose text changes."""
        metadata = {"uid": pod.uid, "annotations": {Annotation.REQUEUED: reason}}
        return self._patch("requeue", pod, {"metadata": metadata})

    def set_goal_met(self, pod: Pod, at: str | None) -> Written | Refused:
        """Annotate the pod with the instant since which its job's goal has been met, or remove
        the annotation."""
        metadata = {"uid": pod.uid, "annotations": {Annotation.GOAL_MET: at}}
        return self._patch("annotate", pod, {"metadata": metadata})

    def _patch(self, verb: str, pod: Pod, body: dict[str, object]) -> Written | Refused:
        path = f"{path_of('', 'v1', 'pods', pod.namespace)}/{path_segment(pod.name)}/status"
        what = f"{verb} pod {pod.namespace}/{pod.name}"
        return written(lambda: self._client.patch(what, path, body))
