"""The kinds that are watched, ready for a ``Reflector``."""

from kube.caches import Kind
from kube.client import path_of
from kube.nodes import ClusterNode, decode_node
from kube.pods import Pod, decode_pod


def pods(label_selector: str = "", field_selector: str = "") -> Kind[Pod]:
    """Pods of every namespace."""
    return Kind("pods", path_of("", "v1", "pods"), decode_pod, label_selector, field_selector)


def nodes(label_selector: str = "") -> Kind[ClusterNode]:
    """Nodes."""
    return Kind("nodes", path_of("", "v1", "nodes"), decode_node, label_selector)
