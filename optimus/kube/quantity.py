"""Kubernetes quantities as integers: CPU in millicores, memory in bytes, others in units."""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Final, TypeVar

from optimus.kube.errors import Malformed
from optimus.resources import CPU, MEMORY, NONE, PODS, Resources

_FORM = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,2})|([numkKMGTPE]|[KMGTPE]i))?",
    re.ASCII,
)
_FACTORS: Final = {
    **{suffix: Decimal(1000) ** (n - 3) for n, suffix in enumerate(("n", "u", "m", "", "k"))},
    **{suffix: Decimal(1000) ** n for n, suffix in enumerate("KMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** n for n, suffix in enumerate("KMGTPE", start=1)},
}
_NOTHING = re.compile(r"[+-]?[0.]+(?![0-9.])")
_LARGEST = 2**63 - 1

MOST_KINDS: Final = 128
"""The kinds of resources that are read of one object."""

_Value = TypeVar("_Value", str | int | float, int)

Amount = str | int | float
"""A quantity in JSON: the API server writes strings, users also write numbers."""


def requested(amounts: Mapping[str, Amount] | None) -> Resources:
    """Return what a container requests: fractions are rounded up, as kube-scheduler does.

    Raises:
        Malformed: an amount is not a quantity, negative or beyond 63 bits.
    """
    return _resources(amounts, ROUND_CEILING)


def offered(amounts: Mapping[str, Amount] | None) -> Resources:
    """Return what a node has: fractions are rounded down, so that capacity is not overstated.

    Raises:
        Malformed: an amount is not a quantity, negative or beyond 63 bits.
    """
    return _resources(amounts, ROUND_FLOOR)


def _resources(amounts: Mapping[str, Amount] | None, rounding: str) -> Resources:
    # Thousands of pods ask for the same few amounts.
    return _parsed(tuple(most_kinds(amounts).items()), rounding) if amounts else NONE


def most_kinds(amounts: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """The first ``MOST_KINDS``, those of which there is nothing last: whoever writes a pod may name
    ten thousands of resources, which each version of it would leave in the caches below."""
    if len(amounts) <= MOST_KINDS:
        return amounts

    def place(name: str) -> tuple[bool, bool, str]:
        return name not in (CPU, MEMORY, PODS), bool(_NOTHING.match(str(amounts[name]))), name

    first = sorted(amounts, key=place)
    return {name: amounts[name] for name in first[:MOST_KINDS]}


@lru_cache(maxsize=4096)
def _parsed(amounts: tuple[tuple[str, Amount], ...], rounding: str) -> Resources:
    return _shared(tuple(sorted((name, str(amount)) for name, amount in amounts)), rounding)


@lru_cache(maxsize=4096)
def _shared(amounts: tuple[tuple[str, str], ...], rounding: str) -> Resources:
    """One object for the same amounts, in whatever order they are written."""
    return Resources({name: _integer(name, text, rounding) for name, text in amounts})


def _integer(resource: str, text: str, rounding: str) -> int:
    try:
        amount = parse_quantity(text) * (1000 if resource == CPU else 1)
    except Malformed as error:
        raise Malformed(f"{resource}: {error}") from error
    if amount < 0:
        raise Malformed(f"{resource}: {text!r} is negative")
    if amount > _LARGEST:
        raise Malformed(f"{resource}: {text!r} is too large")
    return int(amount.to_integral_value(rounding))


def parse_quantity(text: Amount) -> Decimal:
    """A quantity as an exact number, in cores, bytes or units.

    Raises:
        Malformed: the text is not a quantity.
    """
    written = str(text)
    found = _FORM.fullmatch(written) if len(written) <= 64 else None
    if found is None:
        raise Malformed(f"{written[:64]!r} is not a quantity; write for example 2, 500m or 1.5Gi")
    number, exponent, suffix = found.groups(default="")
    return Decimal(f"{number}{exponent}") * _FACTORS[suffix]
