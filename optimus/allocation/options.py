"""Options of a policy: the fields of its dataclass, read from plain values by name.

A name is the field's with hyphens, as of a flag: ``min-gain-fraction``. A value has the type of the
field, and an enum's is its text. What is not given keeps the field's default.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

Options = Mapping[str, object]
"""Values by the names of options, as a file of YAML or JSON holds them."""

T = TypeVar("T")


def with_options(kind: type[T], options: Options) -> T:
    """The policy with these options.

    Raises:
        ValueError: an option does not exist, or its value is not of its type; a sentence for users.
    """
    as_dataclass: Any = kind
    known = [each.name.replace("_", "-") for each in fields(as_dataclass)]
    hints = get_type_hints(kind)
    unknown = sorted(set(options) - set(known))
    if unknown:
        has = f"its options are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"there is no option {unknown[0]!r}: {has}")
    read = {name.replace("-", "_"): value for name, value in options.items()}
    return kind(**{name: _value(name, value, hints[name]) for name, value in read.items()})


def _value(name: str, value: Any, hint: Any) -> object:
    if issubclass(hint, StrEnum):
        return _member(name, value, hint)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or not 0 <= value < math.inf:
        what = "a number" if hint is float else "a whole number"
        raise ValueError(
            f"{name.replace('_', '-')}: {what} of 0 or more is expected, not {value!r}"
        )
    return value


def _member(name: str, value: object, kind: type[StrEnum]) -> StrEnum:
    if isinstance(value, str) and value in list(kind):
        return kind(value)
    expected = " or ".join(kind)
    raise ValueError(f"{name.replace('_', '-')}: {expected} is expected, not {value!r}")
