"""Persistent volume claims, persistent volumes and storage classes, reduced to what decides which
nodes a pod may go to; and the labels of namespaces, by which pods select other pods."""

from collections.abc import Mapping

import msgspec

from optimus.jobs import Requirement
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, ObjectMetadata, decoder_of
from optimus.kube.podspec import (
    LabelSelector,
    NodeSelector,
    ResourceRequirements,
    label_requirements,
    node_terms,
)
from optimus.kube.quantity import Amount, parse_quantity
from optimus.placement.rules import Labels, NodeTerms

_BOUND = "pv.kubernetes.io/bind-completed"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class VolumeClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A persistent volume claim. ``volume`` is the one that it is bound to, or asks for; ``bytes``
    what it requests."""

    namespace: str
    name: str
    storage_class: str = ""
    volume: str = ""
    is_bound: bool = False
    is_lost: bool = False
    leaving: bool = False
    access_modes: tuple[str, ...] = ()
    bytes: int = 0
    mode: str = "Filesystem"
    requirements: tuple[Requirement, ...] = ()
    """The labels of its volume must fulfil them."""


class Volume(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A persistent volume. ``claim`` is the namespace and name of the claim that it is for;
    ``terms`` the nodes that reach it, ``None`` for every node."""

    name: str
    storage_class: str = ""
    claim: tuple[str, str] | None = None
    available: bool = False
    access_modes: tuple[str, ...] = ()
    bytes: int = 0
    mode: str = "Filesystem"
    labels: Labels = ()
    terms: NodeTerms | None = None
    is_csi: bool = False


class StorageClass(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A storage class. ``topologies`` are the nodes that it provisions for; none: every node."""

    name: str
    provisioner: str = ""
    waits_for_pod: bool = False
    """A volume is bound or made only once a pod has a node (WaitForFirstConsumer)."""

    topologies: NodeTerms = ()


class Namespace(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A namespace and its labels."""

    name: str
    labels: Labels = ()


class _ClaimSpec(msgspec.Struct, gc=False, rename="camel"):
    storage_class_name: str | None = None
    volume_name: str | None = None
    access_modes: list[str] | None = None
    resources: ResourceRequirements | None = None
    volume_mode: str | None = None
    selector: LabelSelector | None = None


class _Phase(msgspec.Struct, gc=False):
    phase: str | None = None


class _ClaimReference(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""


class _VolumeAffinity(msgspec.Struct, gc=False):
    required: NodeSelector | None = None


class _VolumeSpec(msgspec.Struct, gc=False, rename="camel"):
    storage_class_name: str | None = None
    claim_ref: _ClaimReference | None = None
    access_modes: list[str] | None = None
    capacity: dict[str, Amount] | None = None
    volume_mode: str | None = None
    node_affinity: _VolumeAffinity | None = None
    csi: object = None


class _TopologyLabel(msgspec.Struct, gc=False):
    key: str = ""
    values: list[str] | None = None


class _TopologyTerm(msgspec.Struct, gc=False, rename="camel"):
    match_label_expressions: list[_TopologyLabel] | None = None


class _StoredClass(msgspec.Struct, gc=False, rename="camel"):
    metadata: ObjectMetadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_TopologyTerm] | None = None


def _claim(found: ApiObject[_ClaimSpec, _Phase]) -> VolumeClaim:
    metadata, spec = found.metadata, found.spec or _ClaimSpec()
    return VolumeClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        storage_class=spec.storage_class_name or "",
        volume=spec.volume_name or "",
        is_bound=bool(spec.volume_name) and _BOUND in (metadata.annotations or {}),
        is_lost=found.status is not None and found.status.phase == "Lost",
        leaving=metadata.deletion_timestamp is not None,
        access_modes=tuple(sorted(spec.access_modes or ())),
        bytes=_bytes(spec.resources.requests if spec.resources else None),
        mode=spec.volume_mode or "Filesystem",
        requirements=label_requirements(spec.selector) or (),
    )


def _volume(found: ApiObject[_VolumeSpec, _Phase]) -> Volume:
    spec = found.spec or _VolumeSpec()
    reference = spec.claim_ref
    required = spec.node_affinity.required if spec.node_affinity else None
    return Volume(
        name=found.metadata.name,
        storage_class=spec.storage_class_name or "",
        claim=None if reference is None else (reference.namespace, reference.name),
        available=found.status is not None and found.status.phase == "Available",
        access_modes=tuple(sorted(spec.access_modes or ())),
        bytes=_bytes(spec.capacity),
        mode=spec.volume_mode or "Filesystem",
        labels=_sorted(found.metadata.labels),
        terms=None if required is None else node_terms(required),
        is_csi=spec.csi is not None,
    )


def _class(found: _StoredClass) -> StorageClass:
    return StorageClass(
        name=found.metadata.name,
        provisioner=found.provisioner,
        waits_for_pod=found.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                Requirement(label.key, "In", tuple(label.values or ()))
                for label in term.match_label_expressions or ()
            )
            for term in found.allowed_topologies or ()
        ),
    )


def _namespace(found: ApiObject[object, object]) -> Namespace:
    return Namespace(name=found.metadata.name, labels=_sorted(found.metadata.labels))


decode_claim = decoder_of(ApiObject[_ClaimSpec, _Phase], "a persistent volume claim", _claim)
decode_volume = decoder_of(ApiObject[_VolumeSpec, _Phase], "a persistent volume", _volume)
decode_storage_class = decoder_of(_StoredClass, "a storage class", _class)
decode_namespace = decoder_of(ApiObject[object, object], "a namespace", _namespace)


def watched_claims() -> ListWatch[VolumeClaim]:
    """Persistent volume claims of every namespace."""
    return ListWatch("persistentvolumeclaims", decode_claim)


def watched_volumes() -> ListWatch[Volume]:
    """Every persistent volume."""
    return ListWatch("persistentvolumes", decode_volume)


def watched_storage_classes() -> ListWatch[StorageClass]:
    """Every storage class."""
    return ListWatch("storageclasses", decode_storage_class, "storage.k8s.io", optional=True)


def watched_namespaces() -> ListWatch[Namespace]:
    """Every namespace."""
    return ListWatch("namespaces", decode_namespace)


def _sorted(labels: Mapping[str, str] | None) -> Labels:
    return tuple(sorted((labels or {}).items()))


def _bytes(amounts: Mapping[str, Amount] | None) -> int:
    return int(parse_quantity((amounts or {}).get("storage", 0)))
