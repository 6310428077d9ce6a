"""Label and field selectors, as they stand in a query and as they stand in an object.

A label selector in a query is a list of requirements, separated by commas, all of which must hold:
`a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`, `a<1`. A field selector
knows `=`, `==` and `!=`."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.metadata import value_problems
from localcluster.embedded.apiserver.refusals import Refusal, bad_request, invalid_value

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|!=|=|>|<)\s*([-A-Za-z0-9_./]*)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"([^=!]+?)(==|!=|=)(.*)")
_ALWAYS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True)
class Requirement:
    """One thing that a selector asks of a value; `values` holds one word or several."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, found: str | None) -> bool:
        """Tell whether a value, None where there is none, is as asked for."""
        return _OPERATORS[self.operator](found, self.values)


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
        """Tell whether an object is selected, by its labels and fields."""
        labels = body["metadata"].get("labels") or {}
        return all(each.holds(labels.get(each.key)) for each in self.labels) and all(
            each.holds(field_of(body, each.key)) for each in self.fields
        )


def parse_selection(resource: Resource, query: Mapping[str, str], namespace: str) -> Selection:
    """Read both selectors of a query. Raises Refusal."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return Selection(parse_labels(labels), parse_fields(resource, fields), namespace)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector. Raises Refusal."""
    return tuple(_label_requirement(part) for part in _parts(text))


def parse_fields(resource: Resource, text: str) -> tuple[Requirement, ...]:
    """Read a field selector. Raises Refusal, in the words of the real server, for a field that
    cannot be asked for."""
    requirements = tuple(_field_requirement(part) for part in re.split(r"(?<!\\),", text) if part)
    for each in requirements:
        if each.key not in {*_ALWAYS, *resource.selectable}:
            raise _unknown_field(resource, each.key)
    return requirements


def from_object(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Read a selector as it stands in a Deployment: matchLabels and matchExpressions."""
    exact = [
        Requirement(key, "=", frozenset([value]))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    others = [
        Requirement(each["key"], words[each["operator"]], frozenset(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    ]
    return (*exact, *others)


def field_of(body: Json, path: str) -> str:
    """Return a field as a selector sees it: a word, empty where there is none."""
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "source" and isinstance(value, dict):
        value = value.get("component")
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _parts(text: str) -> Iterable[str]:
    """Split at the commas outside of brackets."""
    return filter(None, (part.strip() for part in re.split(r",(?![^()]*\))", text)))


def _label_requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return _valid(Requirement(found[1], found[2], values))
    if found := _EQUAL.fullmatch(part):
        return _valid(
            Requirement(found[1], "=" if found[2] == "==" else found[2], frozenset([found[3]]))
        )
    if found := _EXISTS.fullmatch(part):
        return Requirement(found[2], "!" if found[1] else "exists")
    raise bad_request(f"unable to parse requirement: found '{part}', expected: identifier")


def _valid(requirement: Requirement) -> Requirement:
    """Return a requirement whose values a label can have. Raises Refusal for others."""
    counts = requirement.operator in {"<", ">"}
    for place, value in enumerate(sorted(requirement.values)):
        if counts and not re.fullmatch(r"[-+]?\d+", value):
            said = invalid_value(
                f"values[{place}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"
            )
            raise bad_request(f"unable to parse requirement: {said.sentence}")
        for each in value_problems(value):
            said = invalid_value(f"values[{place}][{requirement.key}]", value, each)
            raise bad_request(f"unable to parse requirement: {said.sentence}")
    return requirement


def _field_requirement(part: str) -> Requirement:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    return Requirement(
        found[1].strip(),
        "!=" if found[2] == "!=" else "=",
        frozenset([_unescaped(found[3].strip())]),
    )


def _unescaped(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


def _unknown_field(resource: Resource, key: str) -> Refusal:
    if resource.custom or resource.selectable:
        return bad_request(f"field label not supported: {key}")
    known = ", ".join(f'"{each}"' for each in _ALWAYS)
    return bad_request(f'"{key}" is not a known field selector: only {known}')


def _compared(above: bool) -> Callable[[str | None, frozenset[str]], bool]:
    def compare(found: str | None, values: frozenset[str]) -> bool:
        try:
            have, limit = int(found or ""), int(next(iter(values)))
        except ValueError:
            return False
        return have > limit if above else have < limit

    return compare


_OPERATORS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "=": lambda found, values: found in values,
    "in": lambda found, values: found in values,
    "!=": lambda found, values: found not in values,
    "notin": lambda found, values: found not in values,
    "exists": lambda found, _: found is not None,
    "!": lambda found, _: found is None,
    ">": _compared(above=True),
    "<": _compared(above=False),
}
