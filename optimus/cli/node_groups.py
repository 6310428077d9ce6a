"""Nodes of a simulation as they are given: ``7:cpu=16,memory=80 6:cpu=8,memory=48,gpu=2``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from optimus.cli.arguments import named_amounts
from optimus.cli.command import BadInput
from optimus.nodes import NODE_KIND_LABEL, NODE_PRICE_LABEL, Node
from optimus.resources import CPU, MEMORY, PODS, Resources
from optimus.simulator.results import GPU

_UNITS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {"cpu": (CPU, 1000), "memory": (MEMORY, 2**30), "gpu": (GPU, 1), "pods": (PODS, 1)}
)
"""Name in ``--nodes`` -> resource and units of one: cores, GiB, GPUs, pods."""
_PODS: Final = 110
"""The kubelet's default."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal nodes; ``kind`` is what they are called where kinds are told apart."""

    name: str
    count: int
    allocatable: Resources
    kind: str
    speed: float
    price: float | None


def parse_nodes(texts: Sequence[str]) -> tuple[Node, ...]:
    """Nodes by their groups; raises ``BadInput``.

    Each group is a kind of nodes of its own where any of them says ``speed=``, ``price=`` or
    ``kind=``."""
    nodes: list[Node] = []
    for group in map(_group, range(1, len(texts) + 1), texts):
        labels = {NODE_KIND_LABEL: group.kind} if _tells_kinds(texts) else {}
        if group.price is not None:
            labels[NODE_PRICE_LABEL] = f"{group.price:g}"
        nodes += [
            Node(f"{group.name}-{n:04}", group.allocatable, labels) for n in range(group.count)
        ]
    return tuple(nodes)


def parse_arithmetic(texts: Sequence[str]) -> Mapping[str, float]:
    """By kind of nodes the part of the usual arithmetic that its workers compute at; none where no
    text says ``speed=``."""
    groups = list(map(_group, range(1, len(texts) + 1), texts))
    told = any("speed=" in text.replace(" ", "") for text in texts)
    return {group.kind: group.speed for group in groups} if told else {}


def _tells_kinds(texts: Sequence[str]) -> bool:
    return any(f"{name}=" in text for text in texts for name in ("speed", "price", "kind"))


def _group(number: int, text: str) -> _Group:
    count, _, rest = text.partition(":")
    parts = [each.strip() for each in rest.split(",")]
    kinds = [each.partition("=")[2].strip() for each in parts if each.startswith("kind=")]
    name = chr(96 + number) if number <= 26 else str(number)
    try:
        others = ",".join(each for each in parts if not each.startswith("kind="))
        amounts = named_amounts(others, (*_UNITS, "speed", "price"))
        speed, price = amounts.pop("speed", 1.0), amounts.pop("price", None)
        is_right = 1 <= int(count) <= 100_000 and 0 < speed <= 1 and price != 0
        if not is_right or len(kinds) > 1 or not all(kinds):
            raise ValueError(text)
        kind = kinds[0] if kinds else name
        return _Group(name, int(count), _allocatable(amounts), kind, speed, price)
    except ValueError:
        names = f"{', '.join(_UNITS)}, a price, and a speed of at most 1"
        expected = f"a count and amounts above 0 of {names}, each once, are expected"
        example = "6:cpu=8,memory=48,gpu=2"
        raise BadInput("--nodes", f"{expected}, like {example}, not {text!r}") from None


def _allocatable(amounts: Mapping[str, float]) -> Resources:
    """Return what one node offers; raises ``ValueError``."""
    offered = {PODS: _PODS}
    for name, value in amounts.items():
        resource, units = _UNITS[name]
        if value == 0 or (units == 1 and not value.is_integer()):
            raise ValueError(name)
        offered[resource] = int(value * units)
    return Resources(offered)
