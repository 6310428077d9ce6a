"""The whole cluster as one snapshot, read without caches: for a user's question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from optimus.cli.job_facts import JobSource
from optimus.cli.job_list import list_jobs
from optimus.cli.rights import explained
from optimus.jobs import Job
from optimus.kube.admission import Priorities, quotas_of
from optimus.kube.client import path_of
from optimus.kube.errors import KubeError, Malformed
from optimus.kube.list_watch import read_list
from optimus.kube.nodes import decode_node
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.quotas import (
    PriorityClass,
    ResourceQuota,
    decode_priority_class,
    decode_quota,
)
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.training_jobs import TrainingJob
from optimus.snapshot import ClusterSnapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """A snapshot, and sentences on what may not be read."""

    snapshot: ClusterSnapshot
    not_readable: tuple[str, ...] = ()


def read_cluster(client: JobSource, settings: ClusterSettings, namespace: str) -> ReadCluster:
    """All jobs, the nodes that Optimus uses, the pods that take their room, and the quotas of one
    namespace.

    Raises:
        KubeError: the user may not read one of the first three."""
    selector = [("labelSelector", settings.node_selector)] if settings.node_selector else []
    nodes = _decoded(
        read_list(client, "list nodes", path_of("", "v1", "nodes"), selector), decode_node
    )
    raws = read_list(client, "list pods of all namespaces", path_of("", "v1", "pods"))
    ignored, listed = settings.ignored_resources, list_jobs(client, None)
    namespaces = {job.job.uid: job.job.namespace for job in listed.jobs}
    pods = [_checked(pod.without(ignored), namespaces) for pod in _decoded(raws, decode_pod)]
    said: list[str] = []
    limits = _quotas(client, namespace, said)
    every = (each.job for each in listed.jobs)
    stored = [each if each.job is None else _planned(each, each.job, settings) for each in every]
    admitted = Priorities().set_on(stored, _priority_classes(client))
    owned: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.owner is not None:
            owned.setdefault(pod.owner.uid, []).append(pod)
    placed = (pod.bound() or pod.ended() for pod in pods)
    snapshot = ClusterSnapshot.of(
        client.server_clock.now(),
        [each.active for each in admitted if each.active is not None],
        [node.node for node in nodes],
        [pod for pod in placed if pod is not None],
    )
    quotas = quotas_of(admitted, owned, limits)
    return ReadCluster(replace(snapshot, quotas=quotas), tuple(said))


def _planned(stored: TrainingJob, job: Job, settings: ClusterSettings) -> TrainingJob:
    return replace(stored, job=settings.planned(job))


def _quotas(client: JobSource, namespace: str, said: list[str]) -> list[ResourceQuota]:
    """The quotas of a namespace; that they may not be read is said."""
    try:
        path = path_of("", "v1", "resourcequotas", namespace)
        what = f"list resourcequotas of namespace {namespace}"
        return _decoded(read_list(client, what, path), decode_quota)
    except KubeError as error:
        said.append(explained(error))
        return []


def _priority_classes(client: JobSource) -> list[PriorityClass]:
    """Users of a namespace may seldom read them; a template names its class by itself."""
    path = path_of("scheduling.k8s.io", "v1", "priorityclasses")
    try:
        return _decoded(read_list(client, "list priorityclasses", path), decode_priority_class)
    except KubeError:
        return []


def cluster_or_reason(
    client: JobSource, settings: ClusterSettings, namespace: str
) -> ReadCluster | str:
    """The cluster, or a sentence on what may not be read."""
    try:
        return read_cluster(client, settings, namespace)
    except KubeError as error:
        return explained(error)


def _decoded(raws: list[msgspec.Raw], decode: Callable[[msgspec.Raw], T]) -> list[T]:
    """Objects that cannot be read are left out, as the caches do."""
    found = []
    for raw in raws:
        try:
            found.append(decode(raw))
        except Malformed:
            continue
    return found


def _checked(pod: Pod, namespaces: Mapping[str, str]) -> Pod:
    """Without its job where that is in another namespace: anybody may write a UID into a pod."""
    if pod.owner is None or namespaces.get(pod.owner.uid, pod.namespace) == pod.namespace:
        return pod
    return msgspec.structs.replace(pod, owner=None, replica=None)
