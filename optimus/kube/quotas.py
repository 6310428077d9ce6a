"""ResourceQuotas, LimitRanges and PriorityClasses, decoded.

Amounts of a quota are by one name for each thing that is limited: ``cpu`` means ``requests.cpu``,
``count/pods`` means ``pods``. What is no resource of pods (``services``, ``count/jobs.batch``) is
left out.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from optimus.kube.client import path_of
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, ObjectMetadata, decoder_of
from optimus.kube.quantity import Amount, requested
from optimus.resources import CPU, PODS, Resources

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_STORAGE_OF_CLAIMS: Final = "requests.storage"
_PLAIN: Final = (CPU, "memory", "ephemeral-storage")


class Scope(msgspec.Struct, frozen=True):
    """Which pods a quota counts: one condition of several."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A ResourceQuota: ``limited`` are the names in ``hard``, which may be 0."""

    namespace: str
    name: str
    limited: tuple[str, ...]
    hard: Resources
    used: Resources
    scopes: tuple[Scope, ...] = ()


class Bounds(msgspec.Struct, frozen=True, eq=False):
    """One item of a LimitRange, for containers or for whole pods; amounts as written."""

    per: Literal["container", "pod"]
    default: Mapping[str, Amount]
    default_request: Mapping[str, Amount]
    least: Resources
    most: Resources
    ratio: Mapping[str, Amount]


class LimitRange(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A LimitRange; items for volume claims are left out."""

    namespace: str
    name: str
    bounds: tuple[Bounds, ...]


class PriorityClass(ClusterScoped, frozen=True, kw_only=True):
    """A PriorityClass."""

    value: int
    is_default: bool = False


class _ScopeRequirement(msgspec.Struct, rename="camel"):
    scope_name: str
    operator: str = "Exists"
    values: list[str] | None = None


class _ScopeSelector(msgspec.Struct, rename="camel"):
    match_expressions: list[_ScopeRequirement] | None = None


class _QuotaSpec(msgspec.Struct, rename="camel"):
    hard: dict[str, Amount] | None = None
    scopes: list[str] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(msgspec.Struct):
    used: dict[str, Amount] | None = None


class _Item(msgspec.Struct, rename="camel"):
    type: str = ""
    default: dict[str, Amount] | None = None
    default_request: dict[str, Amount] | None = None
    min: dict[str, Amount] | None = None
    max: dict[str, Amount] | None = None
    max_limit_request_ratio: dict[str, Amount] | None = None


class _RangeSpec(msgspec.Struct):
    limits: list[_Item] | None = None


class _RawClass(msgspec.Struct, rename="camel"):
    metadata: ObjectMetadata
    value: int = 0
    global_default: bool | None = None


_quota = decoder_of(ApiObject[_QuotaSpec, _QuotaStatus], "a ResourceQuota")
_range = decoder_of(ApiObject[_RangeSpec, object], "a LimitRange")
_class = decoder_of(_RawClass, "a PriorityClass")


def quota_amounts(written: Mapping[str, Amount]) -> tuple[tuple[str, ...], Resources]:
    """The names that are limited, and the amounts, CPU in millicores; of two names for one thing
    the smaller amount counts.

    Raises:
        Malformed: an amount is no quantity.
    """
    amounts: dict[str, int] = {}
    for name, amount in written.items():
        found = _name(name)
        if found is None:
            continue
        plain = found.removeprefix(_REQUESTS).removeprefix(_LIMITS)
        value = requested({plain: amount})[plain]
        amounts[found] = min(value, amounts.get(found, value))
    return tuple(sorted(amounts)), Resources(amounts)


def _name(written: str) -> str | None:
    """The name under which a resource is counted; ``None`` for what is none of pods."""
    if written in (PODS, "count/pods"):
        return PODS
    if written in _PLAIN or written.startswith("hugepages-"):
        return _REQUESTS + written
    is_of_pods = written.startswith((_REQUESTS, _LIMITS)) and written != _STORAGE_OF_CLAIMS
    return written if is_of_pods else None


def budget_amounts(written: Mapping[str, Amount]) -> tuple[tuple[str, ...], Resources]:
    """The amounts of a budget, in which extended resources have their plain names.

    Raises:
        Malformed: an amount is no quantity.
    """
    return quota_amounts(
        {
            _REQUESTS + name if "/" in name and not name.startswith(_REQUESTS) else name: amount
            for name, amount in written.items()
        }
    )


def decode_quota(raw: bytes | msgspec.Raw) -> ResourceQuota:
    """A ResourceQuota from its JSON.

    Raises:
        Malformed: the JSON is no such object, or an amount no quantity.
    """
    quota = _quota(raw)
    spec = quota.spec or _QuotaSpec()
    limited, hard = quota_amounts(spec.hard or {})
    _, used = quota_amounts((quota.status or _QuotaStatus()).used or {})
    selector = spec.scope_selector or _ScopeSelector()
    scopes = [Scope(scope) for scope in spec.scopes or ()]
    scopes += [
        Scope(expression.scope_name, expression.operator, tuple(expression.values or ()))
        for expression in selector.match_expressions or ()
    ]
    return ResourceQuota(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        limited=limited,
        hard=hard,
        used=used,
        scopes=tuple(scopes),
    )


def decode_limit_range(raw: bytes | msgspec.Raw) -> LimitRange:
    """A LimitRange from its JSON.

    Raises:
        Malformed: the JSON is no such object, or an amount no quantity.
    """
    found = _range(raw)
    items = (found.spec or _RangeSpec()).limits or ()
    return LimitRange(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        bounds=tuple(_bounds(item) for item in items if item.type in ("Container", "Pod")),
    )


def _bounds(item: _Item) -> Bounds:
    for amounts in (item.default, item.default_request, item.max_limit_request_ratio):
        requested(amounts)  # an amount that is no quantity makes the whole object unusable
    return Bounds(
        "container" if item.type == "Container" else "pod",
        item.default or {},
        item.default_request or {},
        requested(item.min),
        requested(item.max),
        item.max_limit_request_ratio or {},
    )


def decode_priority_class(raw: bytes | msgspec.Raw) -> PriorityClass:
    """A PriorityClass from its JSON.

    Raises:
        Malformed: the JSON is no such object.
    """
    found = _class(raw)
    is_default = bool(found.global_default)
    return PriorityClass(name=found.metadata.name, value=found.value, is_default=is_default)


def watched_quotas() -> ListWatch[ResourceQuota]:
    """ResourceQuotas of every namespace."""
    path, without = path_of("", "v1", "resourcequotas"), "quotas are not respected"
    return ListWatch("resourcequotas", path, decode_quota, optional=True, without=without)


def watched_limit_ranges() -> ListWatch[LimitRange]:
    """LimitRanges of every namespace."""
    path, without = path_of("", "v1", "limitranges"), "their defaults and limits are not known"
    return ListWatch("limitranges", path, decode_limit_range, optional=True, without=without)


def watched_priority_classes() -> ListWatch[PriorityClass]:
    """All PriorityClasses."""
    path = path_of("scheduling.k8s.io", "v1", "priorityclasses")
    without = "the priority of a job is known from its pods alone"
    return ListWatch("priorityclasses", path, decode_priority_class, optional=True, without=without)
