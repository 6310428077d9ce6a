"""Namespaces, reduced to the labels by which pods select other pods."""

from collections.abc import Mapping

import msgspec

from optimus.kube.client import path_of
from optimus.kube.errors import decode
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ObjectMetadata
from optimus.placement.rules import Labels


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A namespace and its labels."""

    name: str
    labels: Labels = ()

    @property
    def namespace(self) -> str:
        """Namespaces belong to no namespace."""
        return ""


class _RawNamespace(msgspec.Struct, gc=False):
    metadata: ObjectMetadata


_NAMESPACES = msgspec.json.Decoder(_RawNamespace)


def decode_namespace(raw: bytes | msgspec.Raw) -> Namespace:
    """A namespace from the JSON of one v1 Namespace.

    Raises:
        Malformed: the JSON is no namespace.
    """
    metadata = decode(_NAMESPACES, raw, "a namespace").metadata
    return Namespace(name=metadata.name, labels=_sorted(metadata.labels))


def watched_namespaces() -> ListWatch[Namespace]:
    """Every namespace."""
    return ListWatch("namespaces", path_of("", "v1", "namespaces"), decode_namespace)


def _sorted(labels: Mapping[str, str] | None) -> Labels:
    return tuple(sorted((labels or {}).items()))
