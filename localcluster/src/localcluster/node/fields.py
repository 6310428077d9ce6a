"""The downward API: values of a pod's own fields and of its containers' resources, for variables
and files."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from localcluster.node.quantity import format_integer, parse_quantity
from localcluster.node.spec import Json
from localcluster.node.status import HOST_IP

_KEYED = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


def field_value(pod: Json, path: str) -> str:
    """Return the value of a `fieldRef`. Raises ValueError with a sentence for a field that is not
    supported."""
    keyed = _KEYED.match(path)
    if keyed:
        return str((pod["metadata"].get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        return _lines(pod["metadata"].get(path.partition(".")[2]) or {})
    values: dict[str, Any] = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"].get("nodeName") or "",
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName") or "",
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
        "status.podIP": HOST_IP,
        "status.podIPs": HOST_IP,
    }
    if path not in values:
        raise ValueError(f'field "{path}" is not known to process nodes')
    return str(values[path])


def resource_value(
    pod: Json, container: Json, reference: Json, node_capacity: Mapping[str, str]
) -> str:
    """Return the value of a `resourceFieldRef`, in units of its divisor, rounded up.

    A missing limit is the node's capacity, as with a kubelet. Raises ValueError for another kind of
    field."""
    if reference.get("containerName"):
        container = _named(pod, str(reference["containerName"]))
    section, _, resource = str(reference["resource"]).partition(".")
    if section not in {"limits", "requests"}:
        raise ValueError(
            f'resource field "{reference["resource"]}" must start with "limits." or "requests."'
        )
    found = ((container.get("resources") or {}).get(section) or {}).get(resource)
    if found is None:
        found = node_capacity.get(resource, "0") if section == "limits" else "0"
    divisor = parse_quantity(reference.get("divisor") or "1")
    return format_integer(parse_quantity(found) / (divisor or Decimal(1)))


def _named(pod: Json, name: str) -> Json:
    spec = pod["spec"]
    for each in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if each["name"] == name:
            found: Json = each
            return found
    raise ValueError(f'a resource field names container "{name}", which the pod does not have')


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(values.items()))


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
