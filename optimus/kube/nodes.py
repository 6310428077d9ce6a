"""Nodes: allocatable resources, labels, taints, cordons."""

from types import MappingProxyType

import msgspec

from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, decoder_of
from optimus.kube.quantity import Amount, offered
from optimus.nodes import Node, Taint


class ClusterNode(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A node as the scheduling core knows it, and what the caches need beside it.

    ``problem`` is a sentence where the node offers nothing at all. A node that is not ready carries
    a taint."""

    node: Node
    problem: str | None = None


class _NodeTaint(msgspec.Struct, gc=False):
    key: str
    effect: str
    value: str | None = None


class _NodeSpec(msgspec.Struct, gc=False):
    unschedulable: bool | None = None
    taints: list[_NodeTaint] | None = None


class _NodeStatus(msgspec.Struct, gc=False):
    allocatable: dict[str, Amount] | None = None


def _node(found: ApiObject[_NodeSpec, _NodeStatus]) -> ClusterNode:
    metadata, spec, status = (
        found.metadata,
        found.spec or _NodeSpec(),
        found.status or _NodeStatus(),
    )
    node = Node(
        name=metadata.name,
        allocatable=offered(status.allocatable),
        labels=MappingProxyType(metadata.labels or {}),
        taints=tuple(
            Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ()
        ),
        cordoned=bool(spec.unschedulable),
    )
    problem = f"node {node.name} has no allocatable resources: nothing fits on it"
    return ClusterNode(name=node.name, node=node, problem=None if node.allocatable else problem)


decode_node = decoder_of(ApiObject[_NodeSpec, _NodeStatus], "a node", _node)


def watched_nodes(label_selector: str = "") -> ListWatch[ClusterNode]:
    """Nodes with these labels; every node by default."""
    return ListWatch("nodes", decode_node, label_selector=label_selector)
