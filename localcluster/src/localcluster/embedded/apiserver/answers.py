"""One whole answer to a request."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.requests import JSON
from localcluster.embedded.apiserver.store import Stored


@dataclass(frozen=True)
class Answer:
    """One whole answer. `warnings` are for whoever asked to read, as kubectl prints them."""

    code: int
    body: bytes
    content_type: str = JSON
    warnings: tuple[str, ...] = ()


def answer(body: Json | Stored, code: int = 200, warnings: Iterable[str] = ()) -> Answer:
    """Return an object or a Status as an answer."""
    raw = body.raw if isinstance(body, Stored) else msgspec.json.encode(body)
    return Answer(code, raw + b"\n", warnings=tuple(warnings))
