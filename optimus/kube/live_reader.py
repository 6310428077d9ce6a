"""Uncached reads, for decisions that cannot be taken back."""

from optimus.jobs import JobKey
from optimus.kube.client import Client, path_of
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.job_kinds import pod_selector
from optimus.kube.list_watch import decode_item, read_pages
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.results import Refused, answer_of
from optimus.kube.training_jobs import TrainingJob, decode_job, job_path


class LiveReader:
    """Reads from the API server itself."""

    def __init__(self, client: Client, config: EligibilityConfig) -> None:
        self._client = client
        self._config = config

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        """The job as it is stored now."""
        return answer_of(lambda: self._job(kind, key))

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        """Every pod of the job that is there now, those being deleted included."""
        return answer_of(lambda: tuple(self._pods(job)))

    def _job(self, kind: str, key: JobKey) -> TrainingJob:
        what = f"read {kind} {key}"
        body = self._client.get(what, job_path(kind, key.namespace, key.name))
        try:
            return decode_job(kind, body, config=self._config)
        except Malformed as error:
            raise KubeError(ErrorKind.INVALID, f"cannot {what}: {error}") from error

    def _pods(self, job: TrainingJob) -> list[Pod]:
        what, path = f"list the pods of {job.key}", path_of("", "v1", "pods", job.namespace)
        query = [("labelSelector", pod_selector(job.kind, job.name))]
        try:
            pages = read_pages(self._client, what, path, query)
            pods = [decode_item(decode_pod, raw) for page in pages for raw in page.items or ()]
        except Malformed as error:
            # A pod that cannot be read must not be taken for a pod that is gone: here one bad pod
            # fails the whole answer.
            raise KubeError(ErrorKind.TRANSIENT, f"cannot {what}: {error}") from error
        # Another kind of job may have the same name, and so the same labels.
        return [pod for pod in pods if pod.owner is not None and pod.owner.uid == job.uid]
