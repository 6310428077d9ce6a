"""Kubernetes quantities ("500m", "2Gi") as exact decimals, for admission and resource fields."""

import re
from decimal import Decimal
from typing import Final

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}


_QUANTITY: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|([eE][+-]?\d+))?", re.ASCII
)


def parse_quantity(text: str | float) -> Decimal:
    """Read a quantity in its base unit (cores, bytes, pieces). Raises ValueError for what is no
    quantity."""
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f'"{text}" is not a quantity')
    number, suffix, exponent = found.groups()
    return Decimal(f"{number}{exponent or ''}") * _SUFFIXES.get(suffix or "", Decimal(1))


def format_integer(value: Decimal) -> str:
    """Write a quantity as the whole number at or above it, as a resource field of a container
    does."""
    return str(int(value.to_integral_value(rounding="ROUND_CEILING")))
