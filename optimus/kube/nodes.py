"""Nodes: allocatable resources, labels, taints, cordons."""

from types import MappingProxyType

import msgspec

from optimus.kube.client import path_of
from optimus.kube.errors import decode
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ObjectMetadata
from optimus.kube.quantity import Amount, offered
from optimus.nodes import Node, Taint


class ClusterNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node as the scheduling core knows it, and what the caches need beside it.

    ``problem`` is a sentence where the node offers nothing at all. A node that is not ready carries
    a taint."""

    name: str
    node: Node
    problem: str | None = None

    @property
    def namespace(self) -> str:
        """Nodes belong to no namespace."""
        return ""


class _Taint(msgspec.Struct, gc=False):
    key: str
    effect: str
    value: str | None = None


class _Spec(msgspec.Struct, gc=False):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Status(msgspec.Struct, gc=False):
    allocatable: dict[str, Amount] | None = None


class _RawNode(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_RawNode)


def decode_node(raw: bytes | msgspec.Raw) -> ClusterNode:
    """A node from the JSON of one v1 Node.

    Raises:
        Malformed: the JSON is not a node, or states an amount that is not a quantity.
    """
    return _view(decode(_DECODER, raw, "a node"))


def watched_nodes(label_selector: str = "") -> ListWatch[ClusterNode]:
    """Nodes with these labels; every node by default."""
    return ListWatch("nodes", path_of("", "v1", "nodes"), decode_node, label_selector)


def _view(raw: _RawNode) -> ClusterNode:
    spec, status = raw.spec or _Spec(), raw.status or _Status()
    node = Node(
        name=raw.metadata.name,
        allocatable=offered(status.allocatable),
        labels=MappingProxyType(raw.metadata.labels or {}),
        taints=tuple(
            Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ()
        ),
        cordoned=bool(spec.unschedulable),
    )
    return ClusterNode(
        name=raw.metadata.name,
        node=node,
        problem=None
        if node.allocatable
        else f"node {node.name} has no allocatable resources: nothing fits on it",
    )
