"""Events on jobs: equal ones are counted in one Event, and no job can flood the API server."""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from cachetools import LRUCache, TTLCache

from optimus.kube.client import Client, path_of, path_segment
from optimus.kube.errors import ErrorKind
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.results import Refused, Written, written
from optimus.kube.times import format_second

LONGEST_MESSAGE: Final = 1024
_LIFETIME_SECONDS: Final = 3600.0
"""The API server keeps Events for an hour by default; after that an equal one is a new one."""

_REPEAT_SECONDS: Final = 60.0
"""Equal Events are counted at once but written at most this often."""

_BURST: Final = 25
_BURST_SECONDS: Final = 600.0
"""client-go's own limit at the start: 25 new Events on one object in 10 minutes."""


NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})


class EventType(StrEnum):
    """The types of Events in Kubernetes."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Subject(Protocol):
    """The object that an Event is about: a ``TrainingJob``."""

    @property
    def kind(self) -> str:
        """TFJob, for example."""

    @property
    def namespace(self) -> str:
        """The job's namespace."""

    @property
    def name(self) -> str:
        """The job's name."""

    @property
    def uid(self) -> str:
        """The job's UID."""


class _Content(NamedTuple):
    uid: str
    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _WrittenSeries:
    name: str
    count: int
    written_at: float


class EventWriter:
    """Writes Events; safe to use from several threads, one at a time."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        api_version: str | None = None,
        now: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._component = component
        self._api_version = api_version
        self._now = now
        self._timer = timer
        self._lock = threading.Lock()
        self._series: TTLCache[Hashable, _WrittenSeries] = TTLCache(4096, _LIFETIME_SECONDS, timer)
        self._recent: LRUCache[str, list[float]] = LRUCache(4096)

    def emit(
        self,
        job: Subject,
        kind: EventType,
        reason: str,
        message: str,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> Written | Refused | None:
        """Write an Event; ``reason`` is CamelCase. ``None``: only counted, or over the limit.

        Events that differ in ``annotations`` alone are equal."""
        with self._lock:
            content = _Content(job.uid, kind, reason, message[:LONGEST_MESSAGE])
            series = self._series.get(content)
            if series is not None:
                return self._repeat(job, content, series, annotations)
            return self._create(job, content, annotations) if self._within_limit(job.uid) else None

    def _within_limit(self, uid: str) -> bool:
        now = self._timer()
        recent = [at for at in self._recent.get(uid, ()) if now - at < _BURST_SECONDS]
        self._recent[uid] = recent
        if len(recent) >= _BURST:
            return False
        recent.append(now)
        return True

    def _create(
        self, job: Subject, content: _Content, annotations: Mapping[str, str]
    ) -> Written | Refused:
        # As client-go names them: unique by the time, so that no list is needed first.
        name = f"{job.name[:200]}.{time.time_ns():x}"
        what = f"write an Event on {job.kind} {job.namespace}/{job.name}"
        body = self._event(job, content, name, annotations)
        path = path_of("", "v1", "events", job.namespace)
        outcome = written(lambda: self._client.post(what, path, body))
        if isinstance(outcome, Written):
            self._series[content] = _WrittenSeries(name, 1, self._timer())
        return outcome

    def _event(
        self, job: Subject, content: _Content, name: str, annotations: Mapping[str, str]
    ) -> dict[str, object]:
        now = format_second(self._now())
        return {
            "metadata": {
                "name": name,
                "namespace": job.namespace,
                "annotations": dict(annotations),
            },
            "involvedObject": {
                "apiVersion": self._api_version or JOB_KINDS[job.kind].api_version,
                "kind": job.kind,
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
            },
            "type": content.type.value,
            "reason": content.reason,
            "message": content.message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    def _repeat(
        self,
        job: Subject,
        content: _Content,
        series: _WrittenSeries,
        annotations: Mapping[str, str],
    ) -> Written | Refused | None:
        series.count += 1
        if self._timer() - series.written_at < _REPEAT_SECONDS:
            return None
        what = f"count an Event on {job.kind} {job.namespace}/{job.name}"
        body = {"count": series.count, "lastTimestamp": format_second(self._now())}
        path = f"{path_of('', 'v1', 'events', job.namespace)}/{path_segment(series.name)}"
        outcome = written(lambda: self._client.patch(what, path, body))
        if isinstance(outcome, Refused) and outcome.kind is ErrorKind.NOT_FOUND:
            # The API server has forgotten it sooner than thought.
            self._series.pop(content, None)
            return self._create(job, content, annotations) if self._within_limit(job.uid) else None
        series.written_at = self._timer()
        return outcome
