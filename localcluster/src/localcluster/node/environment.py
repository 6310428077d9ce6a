"""The environment variables of a container: env, envFrom and their references, in a kubelet's
order.

Values may refer to variables named before them (`$(NAME)`). A reference that cannot be resolved
raises `Unresolved`, which becomes the waiting reason CreateContainerConfigError, tried again like
with a kubelet."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from localcluster.node.expansion import expand
from localcluster.node.fields import field_value, resource_value
from localcluster.node.spec import Json

_NAME = re.compile(r"^[^=\x00]+$")


class Unresolved(Exception):
    """A variable or a file refers to something that is not there now; the message is for the pod's
    user."""


class ObjectSource(Protocol):
    """Where config maps and secrets come from."""

    def values(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the keys of a "configmap" or "secret", or None when there is no such object."""
        ...


@dataclass(frozen=True)
class EnvironmentContext:
    """What the variables of one container are computed from.

    `base` are the variables that the container starts with; `literal` rewrites a literal value of
    the pod's spec before anything refers to it (host names and ports of a training job).
    """

    pod: Json
    source: ObjectSource
    base: Mapping[str, str]
    node_capacity: Mapping[str, str]
    literals: Mapping[str, str]


def resolve_environment(container: Json, context: EnvironmentContext) -> dict[str, str]:
    """Return all variables of a container. Raises Unresolved for a reference that cannot be
    followed."""
    values = dict(context.base)
    for each in container.get("envFrom") or ():
        values.update(_imported(each, context))
    for each in container.get("env") or ():
        if not _NAME.match(each["name"]):
            raise Unresolved(f'"{each["name"]}" is not the name of an environment variable')
        found = _value(each, container, values, context)
        if found is not None:
            values[each["name"]] = found
    return values


def _imported(entry: Json, context: EnvironmentContext) -> dict[str, str]:
    prefix = entry.get("prefix") or ""
    for kind, key in (("configmap", "configMapRef"), ("secret", "secretRef")):
        reference = entry.get(key)
        if reference:
            content = _object(kind, reference, context)
            return {prefix + name: _text(value, name) for name, value in (content or {}).items()}
    raise Unresolved("an envFrom entry names neither a config map nor a secret")


def _value(
    entry: Json, container: Json, known: Mapping[str, str], context: EnvironmentContext
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(context.literals.get(entry["name"], entry.get("value") or ""), known)
    try:
        if "fieldRef" in source:
            return field_value(context.pod, source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            return resource_value(
                context.pod, container, source["resourceFieldRef"], context.node_capacity
            )
    except ValueError as error:
        raise Unresolved(f"environment variable {entry['name']}: {error}") from None
    for kind, key in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if key in source:
            return _keyed(kind, source[key], context)
    raise Unresolved(
        f"environment variable {entry['name']}: its valueFrom is not known to process nodes"
    )


def _keyed(kind: str, reference: Json, context: EnvironmentContext) -> str | None:
    content = _object(kind, reference, context)
    if content is not None and reference["key"] in content:
        return _text(content[reference["key"]], reference["key"])
    if reference.get("optional"):
        return None
    raise Unresolved(f"couldn't find key {reference['key']} in {kind} {_where(reference, context)}")


def _object(kind: str, reference: Json, context: EnvironmentContext) -> Mapping[str, bytes] | None:
    name = reference.get("name") or ""
    content = context.source.values(kind, context.pod["metadata"]["namespace"], name)
    if content is None and not reference.get("optional"):
        raise Unresolved(
            f'{kind} "{name}" not found in namespace {context.pod["metadata"]["namespace"]}'
        )
    return content


def _where(reference: Json, context: EnvironmentContext) -> str:
    return f"{context.pod['metadata']['namespace']}/{reference.get('name') or ''}"


def _text(value: bytes, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unresolved(
            f'key "{key}" is not text, so it cannot be an environment variable'
        ) from None


def literal_values(container: Json) -> dict[str, Any]:
    """Return the environment variables whose value stands in the pod itself."""
    return {
        each["name"]: each.get("value") or ""
        for each in container.get("env") or ()
        if "valueFrom" not in each
    }
