"""Lists: which objects, at which version, in pages.

A page's token names the version of the first page and the object after which the next one begins.
Later pages show the objects as they were at that version, so all pages together are consistent."""

import base64
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from localcluster.embedded.apiserver.errors import bad_request, expired, version_in_future
from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import Expired, Store, Stored
from localcluster.embedded.apiserver.wire import number, version_number


class _Token(msgspec.Struct):
    version: int
    after: str


@dataclass(frozen=True)
class ListQuery:
    """The options of a list besides its selection. `version` is None where any will do."""

    limit: int = 0
    token: str = ""
    version: int | None = None
    exact: bool = False


def parse_list(query: Mapping[str, str]) -> ListQuery:
    """Read the options of a list. Raises StatusError."""
    version, token = version_number(query), query.get("continue", "")
    limit, match = max(0, number(query, "limit") or 0), query.get("resourceVersionMatch", "")
    if token and version:
        raise bad_request("specifying resource version is not allowed when using continue")
    if version == 0:  # any version will do, and is then given whole
        return ListQuery(limit if token else 0, token)
    return ListQuery(limit, token, version, match == "Exact" or bool(limit and not match))


def page(store: Store, resource: Resource, selection: Selection, query: ListQuery) -> bytes:
    """Return one page as the body of a response. Raises StatusError."""
    if query.version is not None and query.version > store.version:
        raise version_in_future(query.version, store.version)
    version, after = store.version, ""
    if query.token:
        token = _read_token(query.token)
        version, after = token.version, token.after
    elif query.exact and query.version is not None:
        version = query.version
    try:
        candidates = store.at(resource.store_key, version, selection.namespace)
    except Expired:
        what = "continue parameter" if after else "resourceVersion for the provided list"
        raise expired(f"The {what} is too old.") from None
    start = bisect_right(candidates, after, key=_key_of) if after else 0
    chosen, end = _chosen(candidates, start, selection, query.limit)
    metadata: Json = {"resourceVersion": str(version)}
    if end < len(candidates):
        metadata["continue"] = _token(version, _key_of(candidates[end - 1]))
        if selection.everything:
            metadata["remainingItemCount"] = len(candidates) - end
    return encoded_list(resource, metadata, chosen)


def encoded_list(resource: Resource, metadata: Json, items: Iterable[Stored]) -> bytes:
    """Return a list's bytes. Items of built-in kinds come without kind and apiVersion."""
    kind, version = resource.list_kind or f"{resource.kind}List", resource.api_version
    if resource.custom:
        metadata, shown = {"continue": "", **metadata}, [each.raw for each in items]
    else:
        head = len(msgspec.json.encode({"kind": resource.kind, "apiVersion": version}))
        shown = [b"{" + each.raw[head:] for each in items]
    head_raw = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1]
    return b'%b,"items":[%b]}\n' % (head_raw, b",".join(shown))


def _chosen(
    candidates: list[Stored], start: int, selection: Selection, limit: int
) -> tuple[list[Stored], int]:
    """Return the objects of a page and where the next page begins."""
    chosen: list[Stored] = []
    for index in range(start, len(candidates)):
        if selection.matches(candidates[index].body):
            chosen.append(candidates[index])
            if len(chosen) == limit:
                return chosen, index + 1
    return chosen, len(candidates)


def _key_of(item: Stored) -> str:
    return "/".join(item.name)


def _token(version: int, after: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token(version, after))).decode()


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
