"""The file of ``--config``: values of both processes in YAML, a section for each.

The sections are ``autoscaler``, ``extender`` and ``policy``; each process reads its own, and both
refuse a file with another. Keys are the names of settings with dashes. The file is read once, at
the start: a change has effect at the next one. It holds no secrets, only paths of them are
settings, as flags."""

import math
from collections.abc import Hashable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

Sections = Mapping[str, Mapping[str, Any]]
"""Section -> key -> value."""

SECTIONS: Final = ("autoscaler", "extender", "policy")

ALMOST: Final = 0.8
"""The similarity from which on one name is taken for a misspelling of the other."""


def key_of(field: str) -> str:
    """The key of a field in the file."""
    return field.replace("_", "-")


def read_sections(path: Path | None) -> tuple[Sections, list[str]]:
    """The content of the file, and a sentence for each problem of its form; nothing without a
    file."""
    if path is None:
        return {}, []
    try:
        content = yaml.load(path.read_text(), _Loader) or {}  # noqa: S506 - a subclass of SafeLoader
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        return {}, [f"--config {str(path)!r}: {why}"]
    if not isinstance(content, dict):
        return {}, [f"--config {str(path)!r}: {' or '.join(SECTIONS)} is expected at the top"]
    sections, problems = dict[str, Mapping[str, Any]](), list[str]()
    for name, section in content.items():
        if name not in SECTIONS:
            problems.append(unknown(f"section {name}", str(name), SECTIONS))
        elif not isinstance(section or {}, dict):
            problems.append(f"section {name}: keys with values are expected")
        else:
            sections[name] = {str(key): value for key, value in (section or {}).items()}
    return sections, problems


def unknown(label: str, name: str, names: Iterable[str]) -> str:
    """The sentence about a name that does not exist, with the one that may be meant."""
    close = get_close_matches(name.lower().replace("_", "-"), names, n=1, cutoff=ALMOST)
    return f"{label}: unknown" + (f"; did you mean {close[0]}?" if close else "")


def convert(kind: Any, value: Any) -> object:
    """A value of the file as one of this type.

    Raises:
        ValueError: the value is of another type; a sentence that says what is expected.
    """
    if kind == tuple[str, ...]:
        return _texts(value)
    if kind == Mapping[str, float]:
        return _weights(value)
    if kind is bool and not isinstance(value, bool):
        raise ValueError("true or false is expected")
    if kind is str and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise ValueError("a text is expected")
    if kind is float and not _is_amount(value, int | float):
        raise ValueError("a number, 0 or more, is expected")
    if kind is int and not _is_amount(value, int):
        raise ValueError("a whole number, 0 or more, is expected")
    return kind(value)


def _is_amount(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < math.inf


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError("a list of names is expected")
    return tuple(value)


def _weights(value: Any) -> dict[str, float]:
    items = value.items() if isinstance(value, dict) else [("", 0)]
    if not all(name and _is_amount(weight, int | float) and weight for name, weight in items):
        raise ValueError("names with numbers above 0 are expected: {ml: 2}")
    return {str(name): float(weight) for name, weight in items}


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice; YAML would take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        plain = (key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge")
        keys = [self.construct_object(key, deep=True) for key in plain]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice} is given twice in the mapping of line {line}")
        return super().construct_mapping(node, deep)
