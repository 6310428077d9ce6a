"""Events as they are read, and the extender's on jobs that wait for nodes: a sentence for people,
and its values.

The values are an annotation on the Event. The autoscaler copies the sentence to profiles, and the
page shows the values."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from optimus.kube.contract import EXTENDER_COMPONENT, WAIT_ANNOTATION, WAITING_EVENT
from optimus.kube.errors import Malformed, decode
from optimus.kube.events import LONGEST_MESSAGE
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import decoder_of
from optimus.kube.times import instant_of


class JobAhead(msgspec.Struct, frozen=True, rename="camel"):
    """A job before a gang in the queue."""

    job: str
    keeps_nodes: int
    """The number of nodes that it keeps the gang from, that would fit with them."""


class Wait(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Why a job waits for nodes. Jobs are NAMESPACE/NAME, instants RFC 3339."""

    text: str = ""
    """A sentence with figures; the Event's message, and no part of the annotation."""

    ahead: tuple[JobAhead, ...] = ()
    """The jobs before it in the queue: those that keep nodes from it first, some of the others."""

    jobs_ahead: int = 0
    awaits: str = ""
    """The job whose end is waited for."""

    expected_at: str | None = None
    """When that was expected at the time of the Event; ``None`` where no end of it is known."""

    never: bool = False
    """It does not fit even once all training jobs have ended."""

    rules: tuple[str, ...] = ()
    """The placement rules that refuse it, where amounts do not."""

    def expected(self, now: float) -> float | None:
        """When capacity is expected (seconds since the epoch); ``None`` where that is not known, or
        has passed."""
        at = instant_of(self.expected_at)
        return at if at is not None and at > now else None

    def annotations(self) -> dict[str, str]:
        """Return what the Event carries beside the sentence."""
        values = msgspec.json.encode(msgspec.structs.replace(self, text=""))
        return {WAIT_ANNOTATION: values.decode()}


class WaitingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, by one Event on it."""

    namespace: str
    name: str
    job_uid: str
    wait: Wait
    last_at: str
    """RFC 3339."""


@dataclass(frozen=True, slots=True)
class EventFacts:
    """One Event on the job or on one of its pods."""

    about: str
    type: str
    reason: str
    message: str
    last_at: str
    """RFC 3339; empty where it is not known."""

    count: int = 1
    component: str = ""
    about_uid: str = ""
    wait: Wait | None = None
    """It is set for the extender's Event on a job that waits for nodes."""


class _EventMetadata(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    annotations: dict[str, str] | None = None


class _EventSubject(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _EventSource(msgspec.Struct):
    component: str = ""


class _EventSeries(msgspec.Struct, rename="camel"):
    count: int = 1
    last_observed_time: str | None = None


class _StoredEvent(msgspec.Struct, rename="camel"):
    involved_object: _EventSubject
    metadata: _EventMetadata = msgspec.field(default_factory=_EventMetadata)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    reporting_component: str = ""
    source: _EventSource = msgspec.field(default_factory=_EventSource)
    series: _EventSeries | None = None
    """It is there in an Event of the newer form."""


_WAITS: Final = msgspec.json.Decoder(Wait)
_LONGEST_ANNOTATION: Final = 4096
"""Characters; the extender names a few jobs, each in less than 200."""


def _waiting(event: _StoredEvent) -> WaitingEvent:
    return WaitingEvent(
        namespace=event.metadata.namespace,
        name=event.metadata.name,
        job_uid=event.involved_object.uid,
        wait=read_wait((event.metadata.annotations or {}).get(WAIT_ANNOTATION), event.message),
        last_at=event.last_timestamp or "",
    )


def _facts(event: _StoredEvent) -> EventFacts:
    series = event.series or _EventSeries()
    annotation = (event.metadata.annotations or {}).get(WAIT_ANNOTATION)
    return EventFacts(
        event.involved_object.name,
        event.type,
        event.reason,
        event.message,
        series.last_observed_time or event.last_timestamp or event.event_time or "",
        event.count or series.count,
        event.reporting_component or event.source.component,
        event.involved_object.uid,
        None if annotation is None else read_wait(annotation, event.message),
    )


decode_waiting_event = decoder_of(_StoredEvent, "an Event", _waiting)
decode_event = decoder_of(_StoredEvent, "an Event", _facts)


def read_wait(annotation: str | None, message: str) -> Wait:
    """The wait that an Event tells of: the sentence alone where the annotation, which anybody may
    write, is wrong."""
    wait, known = Wait(), annotation or "{}"
    if len(known) <= _LONGEST_ANNOTATION:
        with suppress(Malformed):
            wait = decode(_WAITS, known.encode(), "a wait")
    return msgspec.structs.replace(wait, text=message[:LONGEST_MESSAGE])


def watched_waiting_events() -> ListWatch[WaitingEvent]:
    """These Events of every namespace; no others are sent."""
    selector = f"reason={WAITING_EVENT},source={EXTENDER_COMPONENT}"
    return ListWatch("events", decode_waiting_event, field_selector=selector)
