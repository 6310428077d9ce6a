"""The capacity, labels and taints of a node, as users and tests write them.

A node here is an entry in the API server whose pods are local processes, so its capacity is a
statement, not a measurement: eight "GPUs" can be stated on a machine that has none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from optimus.kube.quantity import offered

DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


class Backend(StrEnum):
    """What a cluster's control plane is made of."""

    REAL = "real"
    """The programs of a Kubernetes release and of the training operator."""
    EMBEDDED = "embedded"
    """Stand-ins in Python (`localcluster.embedded`): up in a second, nothing to build, no TLS and
    no rights."""


@dataclass(frozen=True)
class Taint:
    """A taint of a node: pods without a matching toleration stay away (effect as in Kubernetes)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __post_init__(self) -> None:
        if self.effect not in _TAINT_EFFECTS:
            effects = ", ".join(_TAINT_EFFECTS)
            raise ValueError(f"taint {self.key!r}: effect {self.effect!r} is none of {effects}")


@dataclass(frozen=True)
class NodeSpec:
    """One node: its name, its capacity as Kubernetes quantities, its labels and taints.

    `capacity` is completed by `DEFAULT_CAPACITY`; any resource name is possible, `nvidia.com/gpu`
    too. Raises ValueError, with a sentence, on a bad name or a quantity that Kubernetes would not
    read."""

    name: str
    capacity: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is no node name: lower-case letters, digits, '-' and '.' are"
            )
        offered(self.capacity)
        object.__setattr__(self, "capacity", {**DEFAULT_CAPACITY, **self.capacity})


def parse_capacity(text: str) -> dict[str, str]:
    """Read a command-line capacity such as `cpu=4,memory=8Gi,nvidia.com/gpu=2`.

    Raises ValueError with a sentence that names the part that is wrong."""
    capacity: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        resource, equals, quantity = part.partition("=")
        if not (equals and resource and quantity):
            raise ValueError(
                f"{part!r} is no capacity; write resource=quantity, as in cpu=4,memory=8Gi"
            )
        capacity[resource] = quantity
    offered(capacity)
    return capacity


def numbered_nodes(
    count: int, capacity: Mapping[str, str], prefix: str = "node"
) -> tuple[NodeSpec, ...]:
    """Return `count` equal nodes, `<prefix>-1` to `<prefix>-<count>`."""
    return tuple(NodeSpec(f"{prefix}-{number}", capacity) for number in range(1, count + 1))
