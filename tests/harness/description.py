"""Describes a namespace for the reader of a failed test; needs no kubectl and never fails."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, PLURALS, Json, in_namespace

UNREADABLE: Final = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a read meets where there is nothing to read, or no server to ask."""
_MOST: Final = 60
"""Lines of one kind: of Events, which begin with their time, the newest."""


class Lists(Protocol):
    """Where objects are listed."""

    def items(self, path: str, **query: str) -> list[Json]:
        """Return the objects of a collection. Raises what `UNREADABLE` names."""
        ...


def describe(api: Lists, namespace: str) -> str:
    """Return the pods, jobs, profiles and Events of a namespace, one line each, in order."""
    return "\n".join(_lines(api, namespace))


def _lines(api: Lists, namespace: str) -> Iterator[str]:
    for heading, (root, plural, line) in _SHOWN.items():
        yield f"--- {heading}"
        try:
            yield from sorted(
                line(each) for each in api.items(in_namespace(root, namespace, plural))
            )[-_MOST:]
        except UNREADABLE as error:
            yield f"(not to be read: {error})"


def _pod(pod: Json) -> str:
    status = pod["status"]
    states = (
        f"{each['name']} {_said(each.get('state') or {})}"
        for each in status.get("containerStatuses") or ()
    )
    why = [
        each["message"]
        for each in status.get("conditions") or ()
        if each["type"] == "PodScheduled" and each.get("message")
    ]
    goes = "is being deleted" if pod["metadata"].get("deletionTimestamp") else ""
    node = pod["spec"].get("nodeName") or "no node"
    nominated = (
        f"nominated to {status['nominatedNodeName']}" if status.get("nominatedNodeName") else ""
    )
    return _line(_name(pod), str(status.get("phase")), node, nominated, goes, *states, *why)


def _job(job: Json) -> str:
    spec = job["spec"]
    roles = spec.get("tfReplicaSpecs") or spec.get("mxReplicaSpecs") or {}
    counts = (f"{role} {each.get('replicas')}" for role, each in roles.items())
    held = "suspend" if (spec.get("runPolicy") or {}).get("suspend") else ""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return _line(
        _name(job),
        *counts,
        held,
        *(each["type"] for each in conditions if each["status"] == "True"),
    )


def _profile(profile: Json) -> str:
    status = profile.get("status") or {}
    return _line(
        _name(profile), *(f"{key} {value}" for key, value in status.items() if key != "state")
    )


def _event(event: Json) -> str:
    at = event.get("lastTimestamp") or event.get("eventTime") or ""
    about = event.get("involvedObject") or {}
    return _line(
        at,
        f"{about.get('kind')}/{about.get('name')}",
        event.get("reason") or "",
        event.get("message") or "",
    )


_SHOWN: Final[Mapping[str, tuple[str, str, Callable[[Json], str]]]] = {
    "pods": (CORE, "pods", _pod),
    **{kind + "s": (KUBEFLOW, plural, _job) for kind, plural in PLURALS.items()},
    "profiles": (OPTIMUS, "trainingprofiles", _profile),
    "events": (CORE, "events", _event),
}


def _said(state: Json) -> str:
    """Such as `running` or `terminated Error 1`."""
    for what, more in state.items():
        return " ".join(map(str, filter(None, (what, more.get("reason"), more.get("exitCode")))))
    return "in no state"


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])


def _line(*parts: str) -> str:
    return "  " + ", ".join(filter(None, parts))
