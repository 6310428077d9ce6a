"""Label and field selectors of a query.

A label selector is a list of requirements, separated by commas, all of which must hold: `a=b`,
`a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`. A field selector knows `=`, `==`, `!=`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from localcluster.embedded.apiserver.errors import bad_request
from localcluster.embedded.apiserver.kinds import Json, Resource

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(rf"({_KEY})\s*(==|!=|=)\s*([-A-Za-z0-9_./]*)")
_EXISTS: Final = re.compile(rf"(!?)\s*({_KEY})")
_FIELD: Final = re.compile(r"([^=!]+?)(==|!=|=)(.*)")
_ALWAYS: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Requirement:
    """One requirement of a selector: any of `values`, or any value at all (None)."""

    key: str
    values: frozenset[str] | None = None
    negated: bool = False

    def holds(self, found: str | None) -> bool:
        """Tell whether a value, None where there is none, meets the requirement."""
        matches = found is not None if self.values is None else found in self.values
        return matches != self.negated


@dataclass(frozen=True)
class Selection:
    """Which objects a list or a watch is about."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    namespace: str = ""

    @property
    def everything(self) -> bool:
        """Whether no selector was given; the namespace does not count."""
        return not self.labels and not self.fields

    def matches(self, body: Json) -> bool:
        """Tell whether an object is selected by its labels and fields."""
        labels = body["metadata"].get("labels") or {}
        return all(each.holds(labels.get(each.key)) for each in self.labels) and all(
            each.holds(_field_of(body, each.key)) for each in self.fields
        )


def selector_of(selector: Json) -> tuple[Requirement, ...]:
    """Return the requirements of a selector that an object has as a field."""
    equal = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return (
        *(Requirement(key, frozenset([value])) for key, value in equal),
        *(
            Requirement(
                each["key"],
                frozenset(each["values"]) if each.get("values") else None,
                each["operator"] in {"NotIn", "DoesNotExist"},
            )
            for each in expressions
        ),
    )


def parse_selection(resource: Resource, query: Mapping[str, str], namespace: str) -> Selection:
    """Read both selectors of a query. Raises StatusError."""
    labels = parse_labels(query.get("labelSelector", ""))
    return Selection(labels, parse_fields(resource, query.get("fieldSelector", "")), namespace)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector. Raises StatusError."""
    parts = (part.strip() for part in re.split(r",(?![^()]*\))", text))  # not inside brackets
    return tuple(_label_requirement(part) for part in parts if part)


def parse_fields(resource: Resource, text: str) -> tuple[Requirement, ...]:
    """Read a field selector. Raises StatusError, also for a field that cannot be selected."""
    requirements = tuple(_field_requirement(part) for part in text.split(",") if part)
    for each in requirements:
        if each.key not in {*_ALWAYS, *resource.selectable}:
            raise bad_request(f"field label not supported: {each.key}")
    return requirements


def _field_of(body: Json, path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "source" and isinstance(value, dict):
        value = value.get("component")
    return "" if value is None else str(value)


def _label_requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Requirement(found[1], values, found[2] == "notin")
    if found := _EQUAL.fullmatch(part):
        return Requirement(found[1], frozenset([found[3]]), found[2] == "!=")
    if found := _EXISTS.fullmatch(part):
        return Requirement(found[2], None, bool(found[1]))
    raise bad_request(f"unable to parse requirement: found '{part}', expected: identifier")


def _field_requirement(part: str) -> Requirement:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    return Requirement(found[1].strip(), frozenset([found[3].strip()]), found[2] == "!=")
