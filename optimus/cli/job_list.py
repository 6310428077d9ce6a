"""The training jobs of one namespace or of all, with their profiles and what their pods hold.

As ``job_facts`` for one job: what may not be read is left out and said."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from optimus.cli.job_facts import JobSource, told_of_kind
from optimus.cli.rights import explained
from optimus.kube.client import path_of
from optimus.kube.contract import GROUP, PROFILES, VERSION
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_kinds import JOB_KINDS, NAME_LABELS
from optimus.kube.list_watch import decoded, read_list
from optimus.kube.pod_failures import failure_of
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.profiles import ProfileStatus, decode_profile
from optimus.kube.training_jobs import TrainingJob, decode_job, jobs_path
from optimus.resources import Resources, total

NO_PROFILES: Final = (
    "the API server knows no TrainingProfiles, so that nothing but the jobs themselves can be"
    " shown: kubectl apply --server-side -k manifests/crds installs them"
)
NO_JOBS: Final = (
    "the API server knows neither TFJobs nor MXJobs: is the Kubeflow training operator installed?"
)


@dataclass(frozen=True, slots=True)
class ListedJob:
    """One job."""

    job: TrainingJob
    profile: ProfileStatus | None = None
    profile_was_read: bool = True
    """``None`` for the profile means that there is none."""

    held: Resources | None = None
    """The amounts that its pods take of nodes; ``None`` where pods may not be read."""

    failure: str = ""
    """Why its pods do not run as they should."""


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs by namespace and name; ``now`` is the API server's time, seconds since the epoch."""

    now: float
    jobs: tuple[ListedJob, ...]
    not_readable: tuple[str, ...] = ()
    """Sentences on what could not be read."""


def list_jobs(client: JobSource, namespace: str | None) -> JobList:
    """The jobs of a namespace; ``None``: of all.

    Raises:
        KubeError: no jobs may be read, or there are none of their kinds."""
    said: list[str] = []
    jobs = read_jobs(client, namespace, said)
    profiles = read_profiles(client, namespace, said)
    pods, now = _pods(client, namespace, said), client.server_clock.now()
    listed = [
        _listed(job, profiles, None if pods is None else pods[job.namespace, job.uid], now)
        for job in sorted(jobs, key=lambda each: (each.namespace, each.name, each.kind))
    ]
    return JobList(now, tuple(listed), tuple(said))


def _listed(
    job: TrainingJob,
    profiles: Mapping[str, ProfileStatus] | None,
    pods: Sequence[Pod] | None,
    now: float,
) -> ListedJob:
    profile = None if profiles is None else profiles.get(job.uid)
    # A pod that runs again after an error is judged by the autoscaler, which reads its log.
    failure = failure_of(pods or (), now, trained_at=0.0 if profile is None else now)
    return ListedJob(
        job,
        profile,
        profiles is not None,
        None if pods is None else total(each.resources for each in pods if each.bound()),
        "" if failure is None else str(failure),
    )


def job_names(client: JobSource, namespace: str) -> list[str]:
    """The names of the jobs of a namespace.

    Raises:
        KubeError: as ``list_jobs``."""
    return sorted({job.name for job in read_jobs(client, namespace, [])})


def read_jobs(client: JobSource, namespace: str | None, said: list[str]) -> list[TrainingJob]:
    """The jobs of a namespace, or of all; what cannot be read is added to ``said``.

    Raises:
        KubeError: as ``list_jobs``."""
    found: list[TrainingJob] = []
    failures: list[KubeError] = []
    for kind in JOB_KINDS.values():
        try:
            path, what = jobs_path(kind.name, namespace), f"list {kind.plural}{_where(namespace)}"
            raws = read_list(client, what, path)
        except KubeError as error:
            failures.append(told_of_kind(client, kind, error))
            continue
        decode_one = partial(decode_job, kind.name, config=EligibilityConfig())
        found += decoded(raws, decode_one, said)
    refused = [failure for failure in failures if failure.kind is not ErrorKind.NOT_FOUND]
    if len(failures) == len(JOB_KINDS):
        raise refused[0] if refused else KubeError(ErrorKind.NOT_FOUND, NO_JOBS)
    said += map(explained, refused)
    return found


def read_profiles(
    client: JobSource, namespace: str | None, said: list[str]
) -> Mapping[str, ProfileStatus] | None:
    """The profiles by the UID of the job; ``None``: they may not be read."""
    try:
        path = path_of(GROUP, VERSION, PROFILES, namespace)
        raws = read_list(client, f"list {PROFILES}{_where(namespace)}", path)
    except KubeError as error:
        is_missing = error.kind is ErrorKind.NOT_FOUND
        said.append(NO_PROFILES if is_missing else explained(error))
        return {} if is_missing else None
    found = decoded(raws, decode_profile, said)
    return {each.job.uid: each.status for each in found if each.name == each.job.name}


def _pods(
    client: JobSource, namespace: str | None, said: list[str]
) -> defaultdict[tuple[str, str], list[Pod]] | None:
    """The pods of each job, by namespace and UID: a pod may name a job of another namespace as its
    owner."""
    try:
        raws = read_pods_of_jobs(client, f"list the pods of jobs{_where(namespace)}", namespace)
    except KubeError as error:
        said.append(explained(error))
        return None
    found = defaultdict[tuple[str, str], list[Pod]](list)
    for pod in decoded(raws, decode_pod, said):
        if pod.owner is not None:
            found[pod.namespace, pod.owner.uid].append(pod)
    return found


def read_pods_of_jobs(client: JobSource, what: str, namespace: str | None) -> list[msgspec.Raw]:
    """The pods of the jobs of all kinds, of a namespace or of all, not decoded yet.

    Raises:
        KubeError: the API server did not answer with them."""
    path = path_of("", "v1", "pods", namespace)
    return [
        raw
        for label in NAME_LABELS
        for raw in read_list(client, what, path, [("labelSelector", label)])
    ]


def _where(namespace: str | None) -> str:
    return " of all namespaces" if namespace is None else f" of namespace {namespace}"
