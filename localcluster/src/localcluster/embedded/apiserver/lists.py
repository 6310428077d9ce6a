"""Lists: which objects, at which version, in pages.

A page's token names the version of the first page and the object after which the next one begins;
later pages show the objects as they were at that version, so that all pages together are one
moment."""

import base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.options import number, options_refusal
from localcluster.embedded.apiserver.refusals import (
    Problem,
    bad_request,
    expired,
    forbidden_field,
    unsupported,
    version_in_future,
)
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import Expired, Store, Stored, listed

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


_MATCH = "resourceVersionMatch"


class _Token(msgspec.Struct):
    """Where the next page begins."""

    v: str
    rv: int
    start: str


@dataclass(frozen=True)
class ListQuery:
    """What a list asks for besides its selection. `version` is None where any will do."""

    limit: int = 0
    token: str = ""
    version: int | None = None
    exact: bool = False


def parse_list(query: Mapping[str, str]) -> ListQuery:
    """Read the parameters of a list. Raises Refusal."""
    problems = list(_list_problems(query))
    if problems:
        raise options_refusal("ListOptions", problems)
    version, token, match = (
        query.get(key, "") for key in ("resourceVersion", "continue", "resourceVersionMatch")
    )
    limit = max(0, number(query, "limit") or 0)
    if token and version not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    if version and not (version.isascii() and version.isdecimal()):
        said = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {said}")
    if version == "0":  # any version will do, and is then given whole
        return ListQuery(limit if token else 0, token)
    exact = match == "Exact" or bool(limit and not match)
    return ListQuery(limit, token, int(version) if version else None, exact)


def _list_problems(query: Mapping[str, str]) -> Iterator[Problem]:
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and query.get("continue"):
        yield forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    elif match and not version:
        yield forbidden_field(
            _MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in {"", "Exact", "NotOlderThan"}:
        yield unsupported(_MATCH, match, ("Exact", "NotOlderThan", ""))
    if match == "Exact" and version == "0":
        yield forbidden_field(
            _MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if "sendInitialEvents" in query:
        yield forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")


def page(store: Store, resource: Resource, selection: Selection, query: ListQuery) -> bytes:
    """Return one page as the body of an answer. Raises Refusal."""
    if query.version is not None and query.version > store.version:
        raise version_in_future(query.version, store.version)
    version, after = _begin(store, query)
    candidates = _as_of(store, resource, selection.namespace, version, after)
    start = bisect_right(candidates, after, key=_key_of) if after else 0
    chosen, end = _chosen(candidates, start, selection, query.limit)
    metadata: Json = {"resourceVersion": str(version)}
    if end < len(candidates):
        metadata["continue"] = _token(version, _key_of(candidates[end - 1]))
        if selection.everything:
            metadata["remainingItemCount"] = len(candidates) - end
    return encoded_list(resource, metadata, chosen)


def encoded_list(resource: Resource, metadata: Json, items: Iterable[Stored]) -> bytes:
    """Return a list's bytes. Built-in kinds leave kind and apiVersion out of the items, custom ones
    do not."""
    kind, version = resource.list_kind or f"{resource.kind}List", resource.api_version
    metadata = {"continue": "", **metadata} if resource.custom else metadata
    head = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1]
    shown = [
        each.raw if resource.custom else listed(resource.kind, version, each) for each in items
    ]
    return b'%b,"items":[%b]}\n' % (head, b",".join(shown))


def _begin(store: Store, query: ListQuery) -> tuple[int, str]:
    """Return the version to show and the key after which to begin."""
    if query.token:
        token = _read_token(query.token)
        return store.version if token.rv < 0 else token.rv, token.start.rstrip("\0")
    if query.exact and query.version is not None:
        return query.version, ""
    return store.version, ""


def _as_of(
    store: Store, resource: Resource, namespace: str, version: int, after: str
) -> list[Stored]:
    if version == store.version:
        return store.items(resource.store_key, namespace)
    try:
        return store.at(resource.store_key, version, namespace)
    except Expired:
        if not after:
            raise expired("The resourceVersion for the provided list is too old.") from None
        # The rest may be had as it is now: a token of no version.
        raise expired(_TOO_OLD, {"continue": _token(-1, after)}) from None


def _chosen(
    candidates: Sequence[Stored], start: int, selection: Selection, limit: int
) -> tuple[list[Stored], int]:
    """Return what is shown and where the next page begins."""
    if selection.everything:
        end = start + limit if limit else len(candidates)
        return list(candidates[start:end]), min(end, len(candidates))
    chosen = []
    for index in range(start, len(candidates)):
        if selection.matches(candidates[index].body):
            chosen.append(candidates[index])
            if len(chosen) == limit:
                return chosen, index + 1
    return chosen, len(candidates)


def _key_of(item: Stored) -> str:
    return "/".join(item.name)


def _token(version: int, after: str) -> str:
    text = msgspec.json.encode(_Token("meta.k8s.io/v1", version, f"{after}\0"))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token
        )
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
