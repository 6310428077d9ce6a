"""The end of a pod's log, with the reader's own token: who may send one here, and which pods.

The page has no TLS. A token is taken from a browser on the machine of ``kubectl port-forward``
alone: it leaves that machine encrypted, by kubectl. A page that is reached otherwise says so.
"""

import ipaddress
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
from werkzeug.datastructures import Headers

from autoscaler.web.copies import JobCopy
from autoscaler.web.stored import ReadLimit
from optimus.jobs import Role
from optimus.kube.pods import Pod
from optimus.kube.reader_logs import LogEnd

_MOST_PODS: Final = 100
_PROXIED: Final = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")
"""By these headers a proxy says that the browser is elsewhere, though it names a loopback Host."""

ELSEWHERE: Final = (
    "a log is read with your token, which this page takes over kubectl port-forward alone: "
    "open it at 127.0.0.1 or localhost, without a proxy"
)
_OF_ANOTHER: Final = "the request came from another page"
_BUSY: Final = "others read logs just now: try again in a few seconds"


class Logs(Protocol):
    """``optimus.kube.reader_logs.ReaderLogs``; see there."""

    def read(self, pod: Pod, token: str, *, previous: bool) -> LogEnd:
        """The last lines of a log."""


class LogPod(msgspec.Struct, frozen=True):
    """A pod whose log may be asked for."""

    name: str
    restarts: int


class LogOffer(msgspec.Struct, frozen=True, rename="camel"):
    """What may be asked for here; ``why`` says why nothing may, empty where logs are not switched
    on."""

    offered: bool
    why: str = ""
    pods: list[LogPod] = []
    more_pods: int = 0


class LogAnswers:
    """Answers requests for logs; keeps no token. Without ``logs`` it offers none."""

    def __init__(self, logs: Logs | None) -> None:
        self._logs, self._limit = logs, ReadLimit()

    def offer(self, job: JobCopy, remote: str, headers: Headers) -> LogOffer:
        """The job's pods: those that were started again first, trainers before PSs."""
        why = why_not_taken(remote, headers)
        if self._logs is None or why:
            return LogOffer(offered=False, why="" if self._logs is None else why)
        pods = sorted(job.pods, key=_order)
        shown = [LogPod(pod.name, pod.container.restarts) for pod in pods[:_MOST_PODS]]
        return LogOffer(offered=True, pods=shown, more_pods=len(pods) - len(shown))

    def read(self, pod: Pod, remote: str, headers: Headers, *, previous: bool) -> LogEnd:
        """The end of a pod's log, by the token in the header Authorization."""
        if self._logs is None:
            return LogEnd(problem="the operator has not switched logs on")
        why = why_not_taken(remote, headers)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if why or scheme.lower() != "bearer":
            return LogEnd(problem=why or "a token is needed")
        with self._limit.turn() as may_begin:
            if not may_begin:
                return LogEnd(problem=_BUSY)
            return self._logs.read(pod, token.strip(), previous=previous)


def why_not_taken(remote: str, headers: Headers) -> str:
    """Why no token is taken from this request; empty where one is. ``remote``: the address of its
    connection. The name in Host is checked against DNS rebinding: another site's page would show
    its own name there."""
    try:
        host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
    except ValueError:
        host = ""
    if not _is_loopback(remote) or not (host == "localhost" or _is_loopback(host)):
        return ELSEWHERE
    if any(name in headers for name in _PROXIED):
        return ELSEWHERE
    same = headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
    return "" if same else _OF_ANOTHER


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _order(pod: Pod) -> tuple[bool, bool, int, str]:
    is_ps = pod.replica is not None and pod.replica.role is Role.PS
    index = 0 if pod.replica is None else pod.replica.index
    return not pod.container.restarts, is_ps, index, pod.name
