"""Namespaces, reduced to the labels by which pods select other pods."""

from collections.abc import Mapping

import msgspec

from optimus.kube.client import path_of
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, decoder_of
from optimus.placement.rules import Labels


class Namespace(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A namespace and its labels."""

    labels: Labels = ()


_namespace = decoder_of(ApiObject[object, object], "a namespace")


def decode_namespace(raw: bytes | msgspec.Raw) -> Namespace:
    """A namespace from the JSON of one v1 Namespace.

    Raises:
        Malformed: the JSON is no namespace.
    """
    metadata = _namespace(raw).metadata
    return Namespace(name=metadata.name, labels=_sorted(metadata.labels))


def watched_namespaces() -> ListWatch[Namespace]:
    """Every namespace."""
    return ListWatch("namespaces", path_of("", "v1", "namespaces"), decode_namespace)


def _sorted(labels: Mapping[str, str] | None) -> Labels:
    return tuple(sorted((labels or {}).items()))
