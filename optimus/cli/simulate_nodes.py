"""Nodes as written on the command line: ``7:cpu=16,memory=80 6:cpu=8,memory=48,gpu=2``."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn

from optimus.cli.command import BadInput
from optimus.nodes import Node
from optimus.resources import CPU, MEMORY, PODS, Resources
from optimus.simulator.results import GPU

_UNITS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {"cpu": (CPU, 1000), "memory": (MEMORY, 2**30), "gpu": (GPU, 1), "pods": (PODS, 1)}
)
"""Name on the command line -> name and units of one: cores, GiB, GPUs, pods."""
_PODS: Final = 110
"""What the kubelet takes unless told otherwise."""


def parse_nodes(texts: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that the arguments describe; raises ``BadInput``."""
    nodes: list[Node] = []
    for kind, text in enumerate(texts, start=1):
        count, allocatable = _parse(text)
        nodes += [
            Node(f"{chr(96 + kind) if kind <= 26 else kind}-{n:04}", allocatable)
            for n in range(count)
        ]
    return tuple(nodes)


def _parse(text: str) -> tuple[int, Resources]:
    count, _, amounts = text.partition(":")
    if not count.isdecimal() or not 1 <= int(count) <= 100_000 or not amounts:
        _refuse(text)
    given = [_amount(text, part) for part in amounts.split(",")]
    if len(dict(given)) < len(given):
        _refuse(text)
    return int(count), Resources({PODS: _PODS, **dict(given)})


def _amount(text: str, part: str) -> tuple[str, int]:
    name, _, value = part.partition("=")
    if name.strip() not in _UNITS:
        _refuse(text)
    resource, units = _UNITS[name.strip()]
    try:
        amount = float(value)
    except ValueError:
        _refuse(text)
    whole = amount == amount // 1 or units > 1
    if not math.isfinite(amount) or not 0 < amount * units < 2**62 or not whole:
        _refuse(text)
    return resource, int(amount * units)


def _refuse(text: str) -> NoReturn:
    known = ", ".join(_UNITS)
    raise BadInput(
        "--nodes",
        (
            f"a count and amounts above 0 of {known}, each once, are expected, like "
            f"6:cpu=8,memory=48,gpu=2, not {text!r}"
        ),
    )
