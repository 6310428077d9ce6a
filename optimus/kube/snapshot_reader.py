"""The whole cluster as one snapshot, read without caches: for a user's question."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from optimus.kube.client import path_of
from optimus.kube.errors import KubeError, Malformed
from optimus.kube.job_facts import Source, read_list
from optimus.kube.job_list import list_jobs
from optimus.kube.nodes import decode_node
from optimus.kube.pods import decode_pod
from optimus.snapshot import ClusterSnapshot

T = TypeVar("T")


def read_snapshot(client: Source, node_selector: str = "") -> ClusterSnapshot:
    """All jobs, the nodes with these labels, and the pods that take their room; no quotas.

    Raises:
        KubeError: the user may not read one of them."""
    selector = [("labelSelector", node_selector)] if node_selector else []
    nodes = _decoded(
        read_list(client, "list nodes", path_of("", "v1", "nodes"), selector), decode_node
    )
    raws = read_list(client, "list pods of all namespaces", path_of("", "v1", "pods"))
    jobs = list_jobs(client, None)
    placed = (pod.bound() or pod.ended() for pod in _decoded(raws, decode_pod))
    active = (each.job.active for each in jobs.jobs)
    return ClusterSnapshot.of(
        client.server_clock.now(),
        [job for job in active if job is not None],
        [each.node for each in nodes],
        [pod for pod in placed if pod is not None],
    )


def snapshot_or_reason(client: Source, node_selector: str = "") -> ClusterSnapshot | str:
    """The snapshot, or a sentence on what may not be read."""
    try:
        return read_snapshot(client, node_selector)
    except KubeError as error:
        return error.sentence


def _decoded(raws: list[msgspec.Raw], decode: Callable[[msgspec.Raw], T]) -> list[T]:
    """Objects that cannot be read are left out, as the caches do."""
    found = []
    for raw in raws:
        try:
            found.append(decode(raw))
        except Malformed:
            continue
    return found
