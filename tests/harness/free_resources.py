"""Free room of nodes, from Node and Pod objects as the API server stores them.

A second reading of what Kubernetes documents, on purpose: the code under test has its own in
`kube`."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.harness.api import Json

_SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_HARD = ("NoSchedule", "NoExecute")


def amount(resource: str, quantity: str) -> int:
    """Return a quantity as a whole number: cpu in millicores, memory in bytes, others in pieces."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity))
    assert found, f"{quantity!r} is not a quantity that these tests use"
    number, suffix = Decimal(found[1]), found[2]
    if suffix == "m":
        number, suffix = number / 1000, ""
    units = number * _SUFFIXES[suffix]
    return int(units * 1000 if resource == "cpu" else units)


def requests_of(spec: Json) -> dict[str, int]:
    """Return what a pod (its spec) asks for: containers and sidecars summed, or a greater init
    container; one pod."""
    sidecars = [
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    ]
    before = [
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") != "Always"
    ]
    wanted = _sum([*spec["containers"], *sidecars])
    for each in before:
        for resource, needed in _sum([each]).items():
            wanted[resource] = max(wanted.get(resource, 0), needed)
    return {**wanted, "pods": 1}


def free_resources(
    nodes: Sequence[Json], pods: Sequence[Json], template: Json
) -> dict[str, dict[str, int]]:
    """Return the free room of every node that a pod of this template's spec may go to.

    Pods that have ended take no room; pods being deleted still do.
    """
    free = {
        node["metadata"]["name"]: {
            name: amount(name, of) for name, of in node["status"]["allocatable"].items()
        }
        for node in nodes
        if admits(node, template)
    }
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in free and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            for resource, taken in requests_of(pod["spec"]).items():
                free[node][resource] = free[node].get(resource, 0) - taken
    return free


def admits(node: Json, template: Json) -> bool:
    """Tell whether selector and taints let a pod of this spec onto the node."""
    labels = node["metadata"].get("labels") or {}
    wanted: Mapping[str, str] = template.get("nodeSelector") or {}
    if node["spec"].get("unschedulable") or any(
        labels.get(key) != value for key, value in wanted.items()
    ):
        return False
    taints = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in _HARD]
    return all(
        any(_tolerates(each, taint) for each in template.get("tolerations") or ())
        for taint in taints
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(
        toleration.get("key") == taint["key"]
        and toleration.get("value", "") == taint.get("value", "")
    )


def _sum(containers: Sequence[Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        for resource, quantity in (
            (container.get("resources") or {}).get("requests") or {}
        ).items():
            total[resource] = total.get(resource, 0) + amount(resource, quantity)
    return total
