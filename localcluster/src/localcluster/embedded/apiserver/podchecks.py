"""What the API server finds wrong with a pod's spec, also with one in a template, in the real one's
words and order.

As far as somebody who writes a job's template can get it wrong: names, images, mounts, amounts,
tolerations. A template that a real cluster refuses must not run here.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.metadata import LABEL, LABEL_SAID, key_problems, label_problems
from localcluster.embedded.apiserver.refusals import (
    Problem,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from localcluster.node.quantity import parse_quantity

LISTS: Final = ("containers", "initContainers")
RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods", "storage"})
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_LAST_PORT: Final = 65535
_LONGEST_PORT_NAME: Final = 15


def spec_problems(spec: Json, field: str) -> Iterator[Problem]:
    """Yield what is wrong with a spec that stands at `field`."""
    yield from _volume_problems(spec.get("volumes") or [], f"{field}.volumes")
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    volumes = {each.get("name") for each in spec.get("volumes") or ()}
    names: set[str] = set()
    for which in LISTS:
        for index, each in enumerate(spec.get(which) or ()):
            place = f"{field}.{which}[{index}]"
            yield from _container_problems(each, place, volumes)
            if each.get("name") and each["name"] in names:
                yield _duplicate(f"{place}.name", each["name"])
            names.add(each.get("name"))
    yield from _one_of(spec, "restartPolicy", RESTART_POLICIES, field)
    yield from _one_of(spec, "dnsPolicy", _DNS_POLICIES, field)
    yield from label_problems(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    for index, each in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_problems(each, f"{field}.tolerations[{index}]")
    yield from _gate_problems(spec, field)


def _one_of(holder: Json, key: str, supported: tuple[str, ...], field: str) -> Iterator[Problem]:
    if holder.get(key) and holder[key] not in supported:
        yield unsupported(f"{field}.{key}", holder[key], supported)


def _duplicate(field: str, value: str) -> Problem:
    return Problem("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def _volume_problems(volumes: list[Json], field: str) -> Iterator[Problem]:
    names: set[str] = set()
    for index, each in enumerate(volumes):
        name = each["name"]
        if not re.fullmatch(LABEL, name):
            yield invalid_value(f"{field}[{index}].name", name, LABEL_SAID)
        if name in names:
            yield _duplicate(f"{field}[{index}].name", name)
        names.add(name)


def _container_problems(container: Json, field: str, volumes: set[Any]) -> Iterator[Problem]:
    name, image = container.get("name"), container.get("image")
    if not name:
        yield required(f"{field}.name")
    elif not re.fullmatch(LABEL, name):
        yield invalid_value(f"{field}.name", name, LABEL_SAID)
    if not image:
        yield required(f"{field}.image")
    elif image != image.strip():
        yield invalid_value(f"{field}.image", image, "must not have leading or trailing whitespace")
    for index, each in enumerate(container.get("ports") or ()):
        yield from _port_problems(each, f"{field}.ports[{index}]")
    for index, each in enumerate(container.get("env") or ()):
        if not each["name"]:
            yield required(f"{field}.env[{index}].name")
    yield from _mount_problems(
        container.get("volumeMounts") or [], f"{field}.volumeMounts", volumes
    )
    yield from _one_of(container, "imagePullPolicy", _PULL_POLICIES, field)
    yield from _resource_problems(container.get("resources") or {}, f"{field}.resources")


def _port_problems(port: Json, field: str) -> Iterator[Problem]:
    name, number = port.get("name") or "", port["containerPort"]
    if len(name) > _LONGEST_PORT_NAME:
        yield invalid_value(
            f"{field}.name", name, f"must be no more than {_LONGEST_PORT_NAME} characters"
        )
    if name and not re.fullmatch(r"[-a-z0-9]+", name):
        said = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid_value(f"{field}.name", name, said)
    if name and not re.search(r"[a-z]", name):
        yield invalid_value(f"{field}.name", name, "must contain at least one letter (a-z)")
    if number == 0:
        yield required(f"{field}.containerPort")
    elif not 1 <= number <= _LAST_PORT:
        yield invalid_value(
            f"{field}.containerPort", number, f"must be between 1 and {_LAST_PORT}, inclusive"
        )


def _mount_problems(mounts: list[Json], field: str, volumes: set[Any]) -> Iterator[Problem]:
    paths: set[str] = set()
    for index, each in enumerate(mounts):
        if each["name"] not in volumes:
            yield Problem(
                "FieldValueNotFound", f"{field}[{index}].name", f'Not found: "{each["name"]}"'
            )
        if each["mountPath"] in paths:
            yield invalid_value(f"{field}[{index}].mountPath", each["mountPath"], "must be unique")
        paths.add(each["mountPath"])


def _resource_problems(resources: Json, field: str) -> Iterator[Problem]:
    limits, requests = (resources.get(which) or {} for which in ("limits", "requests"))
    for which, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _amount_problems(name, text, f"{field}.{which}[{name}]")
            if which == "requests":
                yield from _against_limit(name, text, limits, field)


def _amount_problems(name: str, text: str, field: str) -> Iterator[Problem]:
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        yield invalid_value(field, name, "must be a standard resource type or fully qualified")
    if "/" not in name and name not in _OF_CONTAINERS and not name.startswith("hugepages-"):
        yield invalid_value(field, name, "must be a standard resource for containers")
    amount = parse_quantity(text)
    if amount < 0:
        yield invalid_value(field, text, "must be greater than or equal to 0")
    if "/" in name and amount != amount.to_integral_value():
        yield invalid_value(field, text, "must be an integer")


def _against_limit(
    name: str, text: str, limits: Mapping[str, str], field: str
) -> Iterator[Problem]:
    """Yield what is wrong with a request beside its limit. What is not the machine's own cannot be
    promised twice."""
    if name in limits:
        asked, most = parse_quantity(text), parse_quantity(limits[name])
        if "/" in name and asked != most:
            yield invalid_value(
                f"{field}.requests", text, f"must be equal to {name} limit of {limits[name]}"
            )
        elif asked > most:
            yield invalid_value(
                f"{field}.requests",
                text,
                f"must be less than or equal to {name} limit of {limits[name]}",
            )
    elif "/" in name and parse_quantity(text) != Decimal(0):
        yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")


def _toleration_problems(toleration: Json, field: str) -> Iterator[Problem]:
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    if key:
        yield from (invalid_value(f"{field}.key", key, said) for said in key_problems(key))
    elif operator != "Exists":
        said = (
            'operator must be Exists when `key` is empty, which means "match all values and '
            'all keys"'
        )
        yield invalid_value(f"{field}.operator", operator, said)
    if operator not in {"", "Equal", "Exists"}:
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if operator == "Exists" and value:
        yield invalid_value(
            f"{field}.operator", value, "value must be empty when `operator` is 'Exists'"
        )
    yield from _one_of(toleration, "effect", EFFECTS, field)


def _gate_problems(spec: Json, field: str) -> Iterator[Problem]:
    gates = spec.get("schedulingGates") or ()
    for index, each in enumerate(gates):
        place = f"{field}.schedulingGates[{index}]"
        yield from (invalid_value(place, each["name"], said) for said in key_problems(each["name"]))
    if gates and spec.get("nodeName"):
        yield forbidden_field(
            f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def added_gates(spec: Json, old: Json) -> Iterator[Problem]:
    """Yield the gates of a changed pod that it did not have before."""
    held = {each["name"] for each in old.get("schedulingGates") or ()}
    for index, each in enumerate(spec.get("schedulingGates") or ()):
        if each["name"] not in held:
            said = f"only deletion is allowed, but found new scheduling gate '{each['name']}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", said)
