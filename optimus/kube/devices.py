"""Devices of dynamic resource allocation: what nodes have, what pods claim, what is allocated.

Device classes select devices by CEL expressions. Those that demand a driver and values of
attributes are read, as drivers ship them; of any other expression it is only known that it selects
no more than the rest of the class does.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, decoder_of
from optimus.kube.store import T

_GROUP: Final = "resource.k8s.io"
_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
_EVERY: Final = "All"
_REPELLING: Final = ("NoSchedule", "NoExecute")

_UNCOUNTED: Final = "devices are not counted"

PoolName = tuple[str, str]
"""A driver, and a pool of its devices."""


class AttributeValue(NamedTuple):
    """A demand on a device: a driver (the attribute "") or the value of an attribute."""

    attribute: str
    """Its domain and name, joined by a slash."""

    value: str | int | bool


class Device(msgspec.Struct, frozen=True, gc=False):
    """One device of a pool."""

    name: str
    values: frozenset[AttributeValue] = frozenset()
    """Its driver and its attributes."""

    is_tainted: bool = False
    """It goes to claims alone that tolerate its taints."""


class ResourceSlice(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """Devices of one pool. A pool may have several slices, which are replaced together."""

    pool: PoolName
    generation: int = 0
    slices: int = 1
    node: str = ""
    """The node to which its devices belong; empty: several nodes reach them."""

    devices: tuple[Device, ...] = ()
    is_countable: bool = True
    """Each device is on one node and is allocated to one claim, independent of others."""


class DeviceClass(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A device class. It selects no device without all these ``values``."""

    values: frozenset[AttributeValue] = frozenset()
    is_exact: bool = True
    """It selects every device with these values."""


class DeviceRequest(NamedTuple):
    """A number of devices of a class; 0 where it cannot be told."""

    device_class: str
    number: int
    is_exact: bool = True
    """Any devices of the class will do."""


class ClaimTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A resource claim template: each pod that names it gets a claim of its own."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()


class AllocatedDevice(NamedTuple):
    """A device that a claim has got."""

    pool: PoolName
    device: str


class DeviceClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A resource claim. ``pod_uid`` is the pod that it was made for, by a template, and
    ``pod_claim`` which of the pod's claims it is."""

    namespace: str
    name: str
    pod_uid: str = ""
    pod_claim: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    allocated: tuple[AllocatedDevice, ...] = ()


# --- the JSON


class _Selector(msgspec.Struct, gc=False):
    cel: Mapping[str, str] = msgspec.field(default_factory=dict)


class _ExactRequest(msgspec.Struct, gc=False, rename="camel"):
    device_class_name: str = ""
    selectors: list[_Selector] | None = None
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool = False
    tolerations: list[msgspec.Raw] | None = None
    capacity: object = None


class _Request(msgspec.Struct, gc=False):
    exactly: _ExactRequest | None = None


class _Devices(msgspec.Struct, gc=False):
    requests: list[_Request] | None = None
    constraints: list[msgspec.Raw] | None = None


class _ClaimSpec(msgspec.Struct, gc=False):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _TemplateSpec(msgspec.Struct, gc=False):
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


class _Result(msgspec.Struct, gc=False, rename="camel"):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class _Results(msgspec.Struct, gc=False):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct, gc=False):
    devices: _Results = msgspec.field(default_factory=_Results)


class _ClaimStatus(msgspec.Struct, gc=False):
    allocation: _Allocation | None = None


class _ClassSpec(msgspec.Struct, gc=False):
    selectors: list[_Selector] | None = None


class _Attribute(
    msgspec.Struct, gc=False, rename={"text": "string", "number": "int", "flag": "bool"}
):
    text: str | None = None
    number: int | None = None
    flag: bool | None = None


class _DeviceTaint(msgspec.Struct, gc=False):
    effect: str = ""


class _StoredDevice(msgspec.Struct, gc=False, rename="camel"):
    name: str
    attributes: dict[str, _Attribute] | None = None
    consumes_counters: list[msgspec.Raw] | None = None
    taints: list[_DeviceTaint] | None = None
    allow_multiple_allocations: bool | None = None


class _Pool(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class _SliceSpec(msgspec.Struct, gc=False, rename="camel"):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    node_name: str | None = None
    devices: list[_StoredDevice] | None = None


def _slice(found: ApiObject[_SliceSpec, object]) -> ResourceSlice:
    spec = found.spec or _SliceSpec()
    devices = spec.devices or []
    shared = any(each.consumes_counters or each.allow_multiple_allocations for each in devices)
    return ResourceSlice(
        name=found.metadata.name,
        pool=(spec.driver, spec.pool.name),
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=spec.node_name or "",
        devices=tuple(_device(spec.driver, each) for each in devices),
        is_countable=bool(spec.node_name) and not shared,
    )


def _device(driver: str, raw: _StoredDevice) -> Device:
    values = [AttributeValue("", driver)]
    for name, found in (raw.attributes or {}).items():
        qualified = name if "/" in name else f"{driver}/{name}"
        known = (found.text, found.number, found.flag)
        values += [AttributeValue(qualified, value) for value in known if value is not None]
    tainted = any(taint.effect in _REPELLING for taint in raw.taints or ())
    return Device(raw.name, frozenset(values), tainted)


def _class(found: ApiObject[_ClassSpec, object]) -> DeviceClass:
    values, is_exact = set[AttributeValue](), True
    for selector in (found.spec or _ClassSpec()).selectors or ():
        known, whole = read_expression(selector.cel.get("expression", ""))
        values |= known
        is_exact &= whole
    return DeviceClass(name=found.metadata.name, values=frozenset(values), is_exact=is_exact)


def _template(found: ApiObject[_TemplateSpec, object]) -> ClaimTemplate:
    metadata, requests = found.metadata, _requests((found.spec or _TemplateSpec()).spec)
    return ClaimTemplate(namespace=metadata.namespace, name=metadata.name, requests=requests)


def _claim(found: ApiObject[_ClaimSpec, _ClaimStatus]) -> DeviceClaim:
    metadata, status = found.metadata, found.status or _ClaimStatus()
    pod_claim = (metadata.annotations or {}).get(_POD_CLAIM, "")
    owners = [each.uid for each in metadata.owner_references or () if each.kind == "Pod"]
    results = status.allocation.devices.results if status.allocation else ()
    return DeviceClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        pod_uid=owners[0] if pod_claim and owners else "",
        pod_claim=pod_claim,
        requests=_requests(found.spec or _ClaimSpec()),
        allocated=tuple(
            AllocatedDevice((each.driver, each.pool), each.device)
            for each in results or ()
            if not each.admin_access
        ),
    )


def _requests(spec: _ClaimSpec) -> tuple[DeviceRequest, ...]:
    related = bool(spec.devices.constraints)
    return tuple(_request(each.exactly, related) for each in spec.devices.requests or ())


def _request(raw: _ExactRequest | None, related: bool) -> DeviceRequest:
    if (
        raw is None  # one of several alternatives
        or raw.allocation_mode == _EVERY
        or raw.admin_access
        or raw.tolerations
        or raw.capacity is not None
    ):
        return DeviceRequest("", 0, is_exact=False)
    return DeviceRequest(raw.device_class_name, raw.count, not (raw.selectors or related))


decode_slice = decoder_of(ApiObject[_SliceSpec, object], "a resource slice", _slice)
decode_class = decoder_of(ApiObject[_ClassSpec, object], "a device class", _class)
decode_template = decoder_of(
    ApiObject[_TemplateSpec, object], "a resource claim template", _template
)
decode_device_claim = decoder_of(ApiObject[_ClaimSpec, _ClaimStatus], "a resource claim", _claim)


# --- expressions

_TEXT = r""" "[^"\\]*" | '[^'\\]*' """
_VALUE = rf"{_TEXT} | -?\d{{1,18}} | true | false"
_ATTRIBUTE = rf"device\.attributes\[({_TEXT})\](?:\.([A-Za-z_]\w*)|\[({_TEXT})\])"
_DEMAND = re.compile(rf"\s*(?:(device\.driver)|{_ATTRIBUTE})\s*==\s*({_VALUE})\s*", re.VERBOSE)


def read_expression(text: str) -> tuple[frozenset[AttributeValue], bool]:
    """The values that a CEL expression demands of a device, and whether it demands nothing else.

    Of an expression that is not a conjunction of such demands nothing is read."""
    values = set[AttributeValue]()
    while True:
        found = _DEMAND.match(text)
        if found is None:
            return frozenset(), False
        driver, domain, name, quoted, value = found.groups()
        attribute = "" if driver else f"{_unquoted(domain)}/{name or _unquoted(quoted)}"
        values.add(AttributeValue(attribute, _literal(value)))
        text = text[found.end() :]
        if not text:
            return frozenset(values), True
        if not text.startswith("&&"):
            return frozenset(), False
        text = text.removeprefix("&&")


def _unquoted(text: str) -> str:
    return text[1:-1]


def _literal(text: str) -> str | int | bool:
    if text in ("true", "false"):
        return text == "true"
    return _unquoted(text) if text[0] in "\"'" else int(text)


# --- what is watched


def _watched(plural: str, decoder: Callable[[bytes | msgspec.Raw], T]) -> ListWatch[T]:
    return ListWatch(plural, decoder, _GROUP, optional=True, without=_UNCOUNTED)


def watched_slices() -> ListWatch[ResourceSlice]:
    """Every slice of devices."""
    return _watched("resourceslices", decode_slice)


def watched_device_classes() -> ListWatch[DeviceClass]:
    """Every device class."""
    return _watched("deviceclasses", decode_class)


def watched_claim_templates() -> ListWatch[ClaimTemplate]:
    """Resource claim templates of every namespace."""
    return _watched("resourceclaimtemplates", decode_template)


def watched_device_claims() -> ListWatch[DeviceClaim]:
    """Resource claims of every namespace."""
    return _watched("resourceclaims", decode_device_claim)
