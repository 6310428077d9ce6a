"""The extender's Events on jobs that wait for nodes, as the autoscaler copies them to profiles."""

from typing import Final

import msgspec

from optimus.kube.client import path_of
from optimus.kube.contract import EXTENDER_COMPONENT, WAITING_EVENT
from optimus.kube.errors import decode
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ObjectMetadata


class WaitingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, by the newest Event on it."""

    namespace: str
    name: str
    job_uid: str
    message: str
    last_at: str
    """RFC 3339."""


class _Subject(msgspec.Struct):
    uid: str = ""


class _RawEvent(msgspec.Struct, rename="camel"):
    metadata: ObjectMetadata
    involved_object: _Subject
    message: str = ""
    last_timestamp: str | None = None


_DECODER: Final = msgspec.json.Decoder(_RawEvent)


def decode_waiting_event(raw: bytes | msgspec.Raw) -> WaitingEvent:
    """An Event from its JSON.

    Raises:
        Malformed: the JSON is no Event."""
    event = decode(_DECODER, raw, "an Event")
    return WaitingEvent(
        namespace=event.metadata.namespace,
        name=event.metadata.name,
        job_uid=event.involved_object.uid,
        message=event.message,
        last_at=event.last_timestamp or "",
    )


def watched_waiting_events() -> ListWatch[WaitingEvent]:
    """These Events of every namespace; no others are sent."""
    selector = f"reason={WAITING_EVENT},source={EXTENDER_COMPONENT}"
    path = path_of("", "v1", "events")
    return ListWatch("events", path, decode_waiting_event, field_selector=selector)
