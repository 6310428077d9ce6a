"""What a copy is made of: which objects, how each is read, and where they come from."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol

import msgspec
import urllib3

from optimus.kube.store import T


class Source(Protocol):
    """Where lists and watches come from; ``optimus.kube.client.Client`` is one."""

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """The body of a GET."""
        ...

    def stream(
        self, what: str, path: str, query: Sequence[tuple[str, str]], read_seconds: float
    ) -> AbstractContextManager[urllib3.BaseHTTPResponse]:
        """A GET whose body is read as it arrives."""
        ...


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What to keep a copy of.

    ``optional`` kinds may be unknown to the API server (a CRD that is not installed): then the copy
    is empty, counts as synced, and is looked for again from time to time.
    """

    plural: str
    path: str
    decode: Callable[[bytes | msgspec.Raw], T]
    label_selector: str = ""
    field_selector: str = ""
    optional: bool = False

    def selectors(self) -> list[tuple[str, str]]:
        """The part of a query that narrows a list or a watch down."""
        wanted = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return [(name, text) for name, text in wanted if text]
