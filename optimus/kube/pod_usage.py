"""The memory and CPU that the pods of training jobs use, by the API ``metrics.k8s.io``."""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from optimus.kube.client import Query, path_of
from optimus.kube.errors import Malformed, decode
from optimus.kube.job_kinds import NAME_LABELS
from optimus.kube.quantity import Amount, requested
from optimus.resources import Resources

NEAR_LIMIT: Final = 0.85
"""The part of its memory limit from which a container is near it: embeddings and caches grow while
a job trains."""
_METRICS: Final = "metrics.k8s.io", "v1beta1"

PodUsage: TypeAlias = Mapping[tuple[str, str], Mapping[str, Resources]]
"""By namespace and name of a pod, then by container."""


class UsageSource(Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    def get(self, what: str, path: str, query: Query = ()) -> bytes:
        """The raw body of a GET."""


class _Usage(msgspec.Struct):
    name: str = ""
    usage: dict[str, Amount] | None = None


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Named
    containers: list[_Usage] = []


class _PodMetricsList(msgspec.Struct):
    """It is computed when it is asked for: it has no pages and no version to watch from."""

    items: list[_PodMetrics] = []


_POD_METRICS: Final = msgspec.json.Decoder(_PodMetricsList)


def read_usage(client: UsageSource, namespace: str | None = None) -> PodUsage:
    """The use of the pods of training jobs, in a namespace or (``None``) in all.

    Raises:
        KubeError: the API server did not answer with it; NOT_FOUND, or TRANSIENT behind an
            aggregated API without a server, where there is no such API.
        Malformed: the answer is no list of it."""
    what, path = "list the use of pods", path_of(*_METRICS, "pods", namespace)
    bodies = [client.get(what, path, [("labelSelector", each)]) for each in NAME_LABELS]
    found = {}
    for pod in (each for body in bodies for each in decode(_POD_METRICS, body, what).items):
        try:
            amounts = {each.name: requested(each.usage) for each in pod.containers}
        except Malformed:
            continue
        found[pod.metadata.namespace, pod.metadata.name] = amounts
    return found


def limit_text(pod: str, used: int, limit: int) -> str:
    """How much of its memory limit a pod uses, both in bytes."""
    of = f"{used / 2**30:.3g} of {limit / 2**30:.3g} Gi"
    return f"{pod} uses {used / limit:.0%} of its memory limit ({of})"
