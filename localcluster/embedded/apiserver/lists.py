"""Lists: which objects, at which version, in pages.

A page's token names the version of the first page and the object after which the next one begins; later pages show
the objects as they were at that version, so that all pages together are one moment.
"""

import base64
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.refusals import (
    Refusal,
    bad_request,
    expired,
    forbidden_field,
    version_in_future,
)
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import Expired, Store, Stored, listed

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


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
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and not version and not query.get("continue"):
        raise option_refusal("resourceVersionMatch is forbidden unless resourceVersion is provided")
    try:
        number = int(version) if version else None
    except ValueError:
        said = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {said}") from None
    return ListQuery(_limit(query.get("limit", "")), query.get("continue", ""), number or None, match == "Exact")


def option_refusal(why: str) -> Refusal:
    """Refuse parameters that do not go together."""
    problem = forbidden_field("resourceVersionMatch", why)
    causes = [{"reason": problem.kind, "message": problem.message, "field": problem.field}]
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    return Refusal(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {problem.sentence}', details)


def _limit(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def page(store: Store, resource: Resource, selection: Selection, query: ListQuery) -> bytes:
    """Return one page as the body of an answer. Raises Refusal."""
    if query.version is not None and query.version > store.version:
        raise version_in_future(query.version, store.version)
    version, after = _begin(store, query)
    candidates = _as_of(store, resource, selection.namespace, version)
    start = bisect_right(candidates, after, key=_key_of) if after else 0
    chosen, end = _chosen(candidates, start, selection, query.limit)
    metadata: Json = {"resourceVersion": str(version)}
    if end < len(candidates):
        metadata["continue"] = _token(version, candidates[end - 1])
        if selection.everything:
            metadata["remainingItemCount"] = len(candidates) - end
    return encoded_list(resource, metadata, chosen)


def encoded_list(resource: Resource, metadata: Json, items: Iterable[Stored]) -> bytes:
    """Return a list's bytes. Built-in kinds leave kind and apiVersion out of the items, custom ones do not."""
    kind, version = resource.list_kind or f"{resource.kind}List", resource.api_version
    metadata = {"continue": "", **metadata} if resource.custom else metadata
    head = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1]
    shown = [each.raw if resource.custom else listed(resource.kind, version, each) for each in items]
    return b'%b,"items":[%b]}\n' % (head, b",".join(shown))


def _begin(store: Store, query: ListQuery) -> tuple[int, str]:
    """Return the version to show and the key after which to begin."""
    if query.token:
        token = _read_token(query.token)
        return token.rv, token.start.rstrip("\0")
    if query.exact and query.version is not None:
        return query.version, ""
    return store.version, ""


def _as_of(store: Store, resource: Resource, namespace: str, version: int) -> list[Stored]:
    if version == store.version:
        return store.items(resource.store_key, namespace)
    try:
        return store.at(resource.store_key, version, namespace)
    except Expired:
        raise expired(_TOO_OLD) from None


def _chosen(candidates: Sequence[Stored], start: int, selection: Selection, limit: int) -> tuple[list[Stored], int]:
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


def _token(version: int, last: Stored) -> str:
    text = msgspec.json.encode(_Token("meta.k8s.io/v1", version, f"{_key_of(last)}\0"))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
