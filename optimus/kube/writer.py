"""Every write to jobs and pods: each is one patch, so that a crash leaves it done or not done,
never half done."""

from optimus.jobs import Counts, Role
from optimus.kube.client import MERGE_PATCH, Client
from optimus.kube.contract import Annotation
from optimus.kube.job_kinds import JOB_KINDS, OPERATOR_GROUP, OPERATOR_VERSION
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written, written
from optimus.kube.training_jobs import TrainingJob


class JobWriter:
    """Suspends, resizes and resumes jobs; every patch is guarded by the resource version that was
    decided on."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def suspend(self, job: TrainingJob, interval_id: str) -> Written | Refused:
        """Suspend the job and say whose doing it is."""
        return self._patch(
            "suspend", job, {Annotation.SUSPENDED_BY: interval_id}, {"runPolicy": {"suspend": True}}
        )

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        """Set the counts, resume and take the mark away, all at once; the job's pods must all be
        gone."""
        replicas = {
            job.replica_keys[role]: {"replicas": count}
            for role, count in ((Role.PS, counts.ps), (Role.WORKER, counts.workers))
            if role in job.replica_keys
        }
        spec = {"runPolicy": {"suspend": False}, JOB_KINDS[job.kind].replica_specs: replicas}
        return self._patch("resume", job, {Annotation.SUSPENDED_BY: None}, spec)

    def unmark(self, job: TrainingJob) -> Written | Refused:
        """Take away the mark of a suspension that is no longer ours; nothing else changes."""
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
        return written(
            lambda: self._client.call(
                f"{verb} {job.kind} {job.key}",
                self._client.custom.patch_namespaced_custom_object,
                group=OPERATOR_GROUP,
                version=OPERATOR_VERSION,
                namespace=job.namespace,
                plural=JOB_KINDS[job.kind].plural,
                name=job.name,
                body=body,
                _content_type=MERGE_PATCH,
            )
        )


class PodWriter:
    """Tells pending pods where they are planned. Both writes go to ``pods/status``, all that a
    scheduler may write.

    Each names the pod's UID, so that a pod made anew under the same name is not told what was meant
    for the old one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        """Set the pod's nominated node, or clear it; this also wakes a pod that was refused."""
        return self._patch(
            "nominate", pod, {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        )

    def wake(self, pod: Pod, reason: str) -> Written | Refused:
        """Make kube-scheduler try the pod again: a changed annotation does, if its text is a new
        one."""
        metadata = {"uid": pod.uid, "annotations": {Annotation.WOKEN: reason}}
        return self._patch("wake", pod, {"metadata": metadata})

    def _patch(self, verb: str, pod: Pod, body: dict[str, object]) -> Written | Refused:
        return written(
            lambda: self._client.call(
                f"{verb} pod {pod.namespace}/{pod.name}",
                self._client.core.patch_namespaced_pod_status,
                name=pod.name,
                namespace=pod.namespace,
                body=body,
                _content_type=MERGE_PATCH,
            )
        )
