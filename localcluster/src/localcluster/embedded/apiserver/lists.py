"""Lists: the selected objects as they are now.

A list always comes whole: a server may ignore `limit`."""

from collections.abc import Iterable, Mapping

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import Store, Stored
from localcluster.embedded.apiserver.wire import check_version, number


def listed(
    store: Store, resource: Resource, selection: Selection, query: Mapping[str, str]
) -> bytes:
    """Return a list as the body of a response. Raises StatusError."""
    check_version(query, store.version)
    number(query, "limit")
    items = store.items(resource.store_key, selection.namespace)
    chosen = (each for each in items if selection.matches(each.body))
    return encoded_list(resource, {"resourceVersion": str(store.version)}, chosen)


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
