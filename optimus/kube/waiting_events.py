"""The extender's Events on jobs that wait for nodes: a sentence for people, and its values.

The values are an annotation on the Event. The autoscaler copies the sentence to profiles, and the
page shows the values."""

from typing import Final

import msgspec

from optimus.kube.client import path_of
from optimus.kube.contract import EXTENDER_COMPONENT, WAIT_ANNOTATION, WAITING_EVENT
from optimus.kube.errors import Malformed, decode
from optimus.kube.events import LONGEST_MESSAGE
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ObjectMetadata


class JobAhead(msgspec.Struct, frozen=True, rename="camel"):
    """A job before a gang in the queue."""

    job: str
    keeps_nodes: int
    """How many nodes it keeps the gang from, that would fit with them."""


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
    """When that is; ``None`` where no end of it is known."""

    def annotations(self) -> dict[str, str]:
        """What the Event carries beside the sentence."""
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


class _Subject(msgspec.Struct):
    uid: str = ""


class _RawEvent(msgspec.Struct, rename="camel"):
    metadata: ObjectMetadata
    involved_object: _Subject
    message: str = ""
    last_timestamp: str | None = None


_DECODER: Final = msgspec.json.Decoder(_RawEvent)
_WAITS: Final = msgspec.json.Decoder(Wait)
_LONGEST_ANNOTATION: Final = 4096
"""Characters; the extender names a few jobs, each in less than 200."""


def decode_waiting_event(raw: bytes | msgspec.Raw) -> WaitingEvent:
    """An Event from its JSON.

    Raises:
        Malformed: the JSON is no Event."""
    event = decode(_DECODER, raw, "an Event")
    return WaitingEvent(
        namespace=event.metadata.namespace,
        name=event.metadata.name,
        job_uid=event.involved_object.uid,
        wait=_wait(event),
        last_at=event.last_timestamp or "",
    )


def _wait(event: _RawEvent) -> Wait:
    """Read the wait: the sentence alone where the annotation, which anybody may write, is wrong."""
    annotation = (event.metadata.annotations or {}).get(WAIT_ANNOTATION, "{}")
    try:
        wait = decode(_WAITS, annotation.encode(), "a wait")
    except Malformed:
        wait = Wait()
    if len(annotation) > _LONGEST_ANNOTATION:
        wait = Wait()
    return msgspec.structs.replace(wait, text=event.message[:LONGEST_MESSAGE])


def watched_waiting_events() -> ListWatch[WaitingEvent]:
    """These Events of every namespace; no others are sent."""
    selector = f"reason={WAITING_EVENT},source={EXTENDER_COMPONENT}"
    path = path_of("", "v1", "events")
    return ListWatch("events", path, decode_waiting_event, field_selector=selector)
