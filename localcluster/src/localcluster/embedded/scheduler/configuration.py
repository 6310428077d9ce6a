"""The KubeSchedulerConfiguration file, as far as it is obeyed: of profiles, the names."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from localcluster.embedded.raw_objects import Json

DEFAULT_SCHEDULER: Final = "default-scheduler"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class BadConfiguration(ValueError):
    """The file cannot be used; `str()` says why."""


@dataclass(frozen=True)
class ExtenderConfiguration:
    """One entry of `extenders`; a verb that is "" is not called."""

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    timeout_seconds: float = 5.0
    ignorable: bool = False


@dataclass(frozen=True)
class ElectionConfiguration:
    """Which Lease is held while this process schedules."""

    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


@dataclass(frozen=True)
class Configuration:
    """What the file configures. `election` is None where it schedules without a Lease."""

    scheduler_names: frozenset[str] = frozenset({DEFAULT_SCHEDULER})
    extenders: tuple[ExtenderConfiguration, ...] = ()
    election: ElectionConfiguration | None = None
    kubeconfig: Path | None = None


def read_configuration(text: str) -> Configuration:
    """Return the configuration in a file's text. Raises BadConfiguration."""
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or document.get("kind") != "KubeSchedulerConfiguration":
        raise BadConfiguration("the file holds no KubeSchedulerConfiguration")
    profiles = document.get("profiles") or [{}]
    kubeconfig = (document.get("clientConnection") or {}).get("kubeconfig")
    return Configuration(
        frozenset(each.get("schedulerName") or DEFAULT_SCHEDULER for each in profiles),
        tuple(_extender(each) for each in document.get("extenders") or ()),
        _election(document.get("leaderElection") or {}),
        Path(kubeconfig) if kubeconfig else None,
    )


def _extender(body: Json) -> ExtenderConfiguration:
    not_known = ("bindVerb", "managedResources", "enableHTTPS", "tlsConfig")
    unknown = [key for key in not_known if body.get(key)]
    if unknown or not body.get("nodeCacheCapable"):
        what = f"that names {unknown[0]}" if unknown else "without nodeCacheCapable: true"
        raise BadConfiguration(f"an extender {what} is not supported here")
    return ExtenderConfiguration(
        url=body["urlPrefix"].rstrip("/"),
        filter_verb=body.get("filterVerb", ""),
        prioritize_verb=body.get("prioritizeVerb", ""),
        weight=body.get("weight", 0),
        timeout_seconds=_seconds(body.get("httpTimeout"), 5.0),
        ignorable=body.get("ignorable", False),
    )


def _election(body: Json) -> ElectionConfiguration | None:
    if body.get("leaderElect") is False:
        return None
    default = ElectionConfiguration()
    return ElectionConfiguration(
        namespace=body.get("resourceNamespace") or default.namespace,
        name=body.get("resourceName") or default.name,
        lease_seconds=_seconds(body.get("leaseDuration"), default.lease_seconds),
        renew_seconds=_seconds(body.get("renewDeadline"), default.renew_seconds),
        retry_seconds=_seconds(body.get("retryPeriod"), default.retry_seconds),
    )


def _seconds(text: str | None, default: float) -> float:
    """Return a Go duration such as 5s or 1m30s in seconds."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text or "")
    if text and "".join(number + unit for number, unit in parts) != text:
        raise BadConfiguration(f"{text!r} is no duration; write for example 5s or 500ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts) or default
