"""What a ``Reflector`` lists and watches, and the form of the answers: pages and events."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Generic, Protocol

import msgspec
import urllib3

from optimus.kube.errors import Malformed, Status, from_status
from optimus.kube.store import T

_LONGEST_LINE: Final = 16 * 2**20
"""Bytes of one watch event: far beyond the 3 MB that etcd lets an object have."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class ListSource(Protocol):
    """Where lists and watches come from; ``optimus.kube.client.Client`` is one."""

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """The body of a GET."""

    def stream(
        self, what: str, path: str, query: Sequence[tuple[str, str]], read_seconds: float
    ) -> AbstractContextManager[urllib3.BaseHTTPResponse]:
        """A GET whose body is read as it arrives."""


@dataclass(frozen=True, slots=True)
class ListWatch(Generic[T]):
    """A collection of objects to list and watch, and how to decode one.

    An ``optional`` resource may be unknown to the API server (its CRD is not installed): the cache
    is then empty, counts as synced, and the server is asked again from time to time.
    """

    plural: str
    path: str
    decode: Callable[[bytes | msgspec.Raw], T]
    label_selector: str = ""
    field_selector: str = ""
    optional: bool = False
    without: str = ""
    """What it means to go on without the right to list it; empty where that right is needed."""

    def selectors(self) -> list[tuple[str, str]]:
        """The part of a query that narrows a list or a watch down."""
        wanted = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return [(name, text) for name, text in wanted if text]


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    """What a copy needs to know of any object."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _AnyObject(msgspec.Struct, gc=False):
    metadata: Metadata


class ListMetadata(msgspec.Struct, rename="camel"):
    """Where a list stands: its version, and the token of its next page."""

    resource_version: str = ""
    next_page: str | None = msgspec.field(name="continue", default=None)


class ListPage(msgspec.Struct):
    """One page of a list, its objects not decoded yet: one bad object must not spoil the others."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """One change; ``type`` is ADDED, MODIFIED, DELETED or BOOKMARK, which has a version alone."""

    type: str
    object: msgspec.Raw
    metadata: Metadata


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_PAGES = msgspec.json.Decoder(ListPage)
_LINES = msgspec.json.Decoder(_Line)
_OBJECTS = msgspec.json.Decoder(_AnyObject)
_STATUSES = msgspec.json.Decoder(Status)


def decode_page(body: bytes) -> ListPage:
    """One page of a list.

    Raises:
        Malformed: the body is not a list.
    """
    try:
        page = _PAGES.decode(body)
    except _UNREADABLE as error:
        raise Malformed(f"the list cannot be decoded: {error}") from error
    if not page.metadata.resource_version:
        raise Malformed("the list names no resource version to watch from")
    return page


def decode_event(what: str, line: bytes) -> Event:
    """One event of a watch.

    Raises:
        KubeError: the event is an error of the API server.
        Malformed: the line is not an event.
    """
    try:
        event = _LINES.decode(line)
        if event.type == "ERROR":
            status = _STATUSES.decode(event.object)
            raise from_status(what, status, status.code or 500)
        return Event(event.type, event.object, _OBJECTS.decode(event.object).metadata)
    except _UNREADABLE as error:
        raise Malformed(f"an event cannot be decoded: {error}") from error


def lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body as they arrive. An unfinished last line is dropped."""
    kept = b""
    for chunk in response.stream(65536):
        *whole, kept = (kept + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(kept) > _LONGEST_LINE:
            raise urllib3.exceptions.ProtocolError("an event is longer than any object can be")
