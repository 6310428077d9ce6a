"""Resources that a ``Reflector`` lists and watches, and the form of the answers: pages and
events."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import urllib3

from optimus.kube.client import path_of
from optimus.kube.errors import ErrorKind, KubeError, Malformed, Status, decode, from_status
from optimus.kube.store import T

_LONGEST_LINE: Final = 16 * 2**20
"""Bytes of one watch event: far beyond the 3 MB that etcd lets an object have."""

Item = TypeVar("Item")


class PageSource(Protocol):
    """A source of lists and objects; ``optimus.kube.client.Client`` is one."""

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """The body of a GET."""


class ListSource(PageSource, Protocol):
    """A source of lists and watches; ``optimus.kube.client.Client`` is one."""

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
    decode: Callable[[bytes | msgspec.Raw], T]
    group: str = ""
    version: str = "v1"
    label_selector: str = ""
    field_selector: str = ""
    optional: bool = False
    without: str = ""
    """The consequence of going on without the right to list it; empty where that right is
    needed."""

    @property
    def path(self) -> str:
        """The path of the collection, in every namespace."""
        return path_of(self.group, self.version, self.plural)

    def selectors(self) -> list[tuple[str, str]]:
        """The part of a query that narrows a list or a watch down."""
        wanted = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return [(name, text) for name, text in wanted if text]


class Identity(msgspec.Struct, gc=False, rename="camel"):
    """The part of any object's metadata that a copy of it needs."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _AnyObject(msgspec.Struct, gc=False):
    metadata: Identity


class ListMetadata(msgspec.Struct, rename="camel"):
    """The version of a list, and the token of its next page."""

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
    identity: Identity


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
    page = decode(_PAGES, body, "a list")
    if not page.metadata.resource_version:
        raise Malformed("the list names no resource version to watch from")
    return page


def read_pages(
    source: PageSource, what: str, path: str, query: Sequence[tuple[str, str]], size: int = 500
) -> Iterator[ListPage]:
    """The pages of a list, of so many objects each.

    Raises:
        KubeError: the API server did not answer with one.
        Malformed: the body is not a list."""
    token = ""
    while True:
        more = [("continue", token)] if token else []
        page = decode_page(source.get(what, path, [*query, ("limit", str(size)), *more]))
        yield page
        token = page.metadata.next_page or ""
        if not token:
            return


def read_list(
    source: PageSource, what: str, path: str, query: Sequence[tuple[str, str]] = ()
) -> list[msgspec.Raw]:
    """All objects of a list, not decoded yet.

    Raises:
        KubeError: the API server did not answer with them."""
    try:
        return [raw for page in read_pages(source, what, path, query) for raw in page.items or ()]
    except Malformed as error:
        raise KubeError(ErrorKind.INVALID, f"cannot {what}: {error}") from error


def identity_of(raw: bytes | msgspec.Raw) -> Identity:
    """The identity of any object.

    Raises:
        Malformed: the JSON is no object."""
    return decode(_OBJECTS, raw, "an object").metadata


def decode_item(decode_one: Callable[[msgspec.Raw], Item], raw: msgspec.Raw) -> Item:
    """One object of many.

    Raises:
        Malformed: as ``decode_one`` does; the sentence names the object."""
    try:
        return decode_one(raw)
    except Malformed as error:
        raise Malformed(f"{_name_of(raw)}: {error}") from error


def _name_of(raw: msgspec.Raw) -> str:
    with suppress(Malformed):
        identity = identity_of(raw)
        return "/".join(filter(None, (identity.namespace, identity.name))) or _NAMELESS
    return _NAMELESS


_NAMELESS: Final = "an object without a name"


def decoded(
    raws: Iterable[msgspec.Raw], decode_one: Callable[[msgspec.Raw], Item], said: list[str]
) -> list[Item]:
    """The objects that can be decoded; a sentence on each of the others is added to ``said``."""
    found: list[Item] = []
    for raw in raws:
        try:
            found.append(decode_item(decode_one, raw))
        except Malformed as error:
            said.append(str(error))
    return found


def decode_event(what: str, line: bytes) -> Event:
    """One event of a watch.

    Raises:
        KubeError: the event is an error of the API server.
        Malformed: the line is not an event.
    """
    event = decode(_LINES, line, "an event")
    if event.type == "ERROR":
        status = decode(_STATUSES, event.object, "an error")
        raise from_status(what, status, status.code or 500)
    return Event(event.type, event.object, identity_of(event.object))


def lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body as they arrive. An unfinished last line is dropped."""
    kept = b""
    for chunk in response.stream(65536):
        *whole, kept = (kept + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(kept) > _LONGEST_LINE:
            raise urllib3.exceptions.ProtocolError("an event is longer than any object can be")
