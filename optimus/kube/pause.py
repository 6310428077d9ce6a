"""Sets and removes the annotation with which a user pauses the changes of a job."""

import json
from typing import Protocol

from optimus.kube.contract import Annotation
from optimus.kube.training_jobs import TrainingJob, job_path


class Patcher(Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    def patch(self, what: str, path: str, body: bytes) -> bytes:
        """A merge patch; the answer's body."""


def set_paused(client: Patcher, job: TrainingJob, *, paused: bool) -> None:
    """Pause the job, or let it be changed again.

    Raises:
        KubeError: the API server did not do it; CONFLICT where the name is another job's by now."""
    annotations = {Annotation.PAUSE: "true" if paused else None}
    body = {"metadata": {"uid": job.uid, "annotations": annotations}}
    path = job_path(job.kind, job.namespace, job.name)
    client.patch(f"annotate {job.kind} {job.key}", path, json.dumps(body).encode())
