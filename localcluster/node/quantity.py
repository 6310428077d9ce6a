"""Kubernetes quantities ("500m", "2Gi") as exact decimals, for admission and resource fields."""

from decimal import Decimal, InvalidOperation

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


def parse_quantity(text: str | float) -> Decimal:
    """Read a quantity in its base unit (cores, bytes, pieces). Raises ValueError for what is no quantity."""
    text = str(text).strip()
    number, factor = text, Decimal(1)
    for length in (2, 1):
        if text[-length:] in _SUFFIXES:
            number, factor = text[:-length], _SUFFIXES[text[-length:]]
            break
    try:
        value = Decimal(number) * factor
    except InvalidOperation:
        raise ValueError(f'"{text}" is not a quantity') from None
    if not value.is_finite():
        raise ValueError(f'"{text}" is not a quantity')
    return value


def format_integer(value: Decimal) -> str:
    """Write a quantity as the whole number at or above it, as a resource field of a container does."""
    return str(int(value.to_integral_value(rounding="ROUND_CEILING")))
