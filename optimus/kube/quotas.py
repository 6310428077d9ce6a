"""ResourceQuotas and PriorityClasses, decoded.

Amounts of a quota are by one name for each thing that is limited: ``cpu`` means ``requests.cpu``,
``count/pods`` means ``pods``. What is no resource of pods (``services``, ``count/jobs.batch``) is
left out.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, ClusterScoped, ObjectMetadata, decoder_of
from optimus.kube.quantity import Amount, requested
from optimus.resources import CPU, PODS, Resources

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_STORAGE_OF_CLAIMS: Final = "requests.storage"
_PLAIN: Final = (CPU, "memory", "ephemeral-storage")


class ResourceQuota(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A ResourceQuota: ``limited`` are the names in ``hard``, which may be 0.

    One with scopes limits nothing here: the API server alone decides which pods it counts."""

    namespace: str
    name: str
    limited: tuple[str, ...]
    hard: Resources
    used: Resources


class PriorityClass(ClusterScoped, frozen=True, kw_only=True):
    """A PriorityClass."""

    value: int
    is_default: bool = False


class _QuotaSpec(msgspec.Struct, rename="camel"):
    hard: dict[str, Amount] | None = None
    scopes: list[str] | None = None
    scope_selector: object = None


class _QuotaStatus(msgspec.Struct):
    used: dict[str, Amount] | None = None


class _RawClass(msgspec.Struct, rename="camel"):
    metadata: ObjectMetadata
    value: int = 0
    global_default: bool | None = None


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


def _quota(quota: ApiObject[_QuotaSpec, _QuotaStatus]) -> ResourceQuota:
    spec = quota.spec or _QuotaSpec()
    is_plain = not (spec.scopes or spec.scope_selector)
    limited, hard = quota_amounts((spec.hard if is_plain else None) or {})
    _, used = quota_amounts((quota.status or _QuotaStatus()).used or {})
    return ResourceQuota(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        limited=limited,
        hard=hard,
        used=used,
    )


def _class(found: _RawClass) -> PriorityClass:
    is_default = bool(found.global_default)
    return PriorityClass(name=found.metadata.name, value=found.value, is_default=is_default)


decode_quota = decoder_of(ApiObject[_QuotaSpec, _QuotaStatus], "a ResourceQuota", _quota)
decode_priority_class = decoder_of(_RawClass, "a PriorityClass", _class)


def watched_quotas() -> ListWatch[ResourceQuota]:
    """ResourceQuotas of every namespace."""
    without = "quotas are not respected"
    return ListWatch("resourcequotas", decode_quota, optional=True, without=without)


def watched_priority_classes() -> ListWatch[PriorityClass]:
    """All PriorityClasses."""
    without, group = "the priority of a job is known from its pods alone", "scheduling.k8s.io"
    decoder = decode_priority_class
    return ListWatch("priorityclasses", decoder, group, optional=True, without=without)
