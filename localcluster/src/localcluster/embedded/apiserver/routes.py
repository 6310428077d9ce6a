"""Routes: from a request to what is done and the response.

Watches and logs have responses that go on. For those a description is returned, and the
application carries it out."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from localcluster.embedded.apiserver import deletion, discovery, errors, wire
from localcluster.embedded.apiserver.auth import Authenticator
from localcluster.embedded.apiserver.kinds import NAMESPACES, PODS, Json, Resource
from localcluster.embedded.apiserver.logs import LogRequest, log_request
from localcluster.embedded.apiserver.objects import Objects, check_identity, check_replaces
from localcluster.embedded.apiserver.patches import json_patch, merge_patch, strategic_merge
from localcluster.embedded.apiserver.selectors import Selection, parse_selection
from localcluster.embedded.apiserver.store import Store, Stored
from localcluster.embedded.apiserver.tables import ACCEPTED, table
from localcluster.embedded.apiserver.watches import WatchRequest, parse_watch

_LOG = logging.getLogger(__name__)
_TEXT: Final = "text/plain; charset=utf-8"
_MADE_BY_PUT: Final = frozenset({"leases", "events"})
"""Kinds of which a PUT creates what is not there."""
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

Outcome: TypeAlias = wire.Response | WatchRequest | LogRequest


class Routes:
    """Everything that is served."""

    def __init__(
        self, objects: Objects, address: str, authenticator: Authenticator | None = None
    ) -> None:
        self._objects = objects
        self._address = address
        self._authenticator = authenticator or Authenticator()

    def handle(self, request: wire.Request) -> Outcome:
        """Do what a request asks for. Errors become Status objects."""
        if request.path in discovery.HEALTH:
            return wire.Response(200, b"ok", _TEXT)
        try:
            if not self._authenticator.admits(request.authorization):
                raise errors.StatusError(401, "Unauthorized", "Unauthorized")
            target = wire.target_of(self._objects.kinds, request.path)
            return self._without_target(request) if target is None else self._on(target, request)
        except errors.StatusError as error:
            return wire.respond(error.status, error.code)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # The body has not the form of its kind, which the real server's Go types would find.
            _LOG.info("%s %s cannot be read", request.method, request.path, exc_info=True)
            unread = errors.bad_request(f"the request cannot be read: {error!r}")
            return wire.respond(unread.status, unread.code)

    def _without_target(self, request: wire.Request) -> wire.Response:
        found = discovery.document(self._objects.kinds, request.path, self._address)
        if found is not None:
            return wire.respond(found)
        parts = request.path.strip("/").split("/")
        known = {each.group for each in self._objects.kinds.all() if not each.custom}
        if parts[0] == "api" or (parts[0] == "apis" and len(parts) > 2 and parts[1] in known):
            raise errors.no_route()
        return wire.Response(404, b"404 page not found\n", _TEXT)

    def _on(self, target: wire.Target, request: wire.Request) -> Outcome:
        if (target.subresource, request.method) == ("token", "POST"):
            account = self._objects.get(target)
            now = self._objects.clock()
            return wire.respond(
                self._authenticator.token_for(account.body, wire.body_of(request), now), code=201
            )
        level = target.subresource or ("object" if target.name else "collection")
        route = _ROUTES.get((level, request.method))
        if route is None:
            raise errors.not_allowed()
        return route(self._objects, target, request)


def _list(objects: Objects, target: wire.Target, request: wire.Request) -> Outcome:
    resource = target.resource
    selection = parse_selection(resource, request.query, target.namespace)
    if wire.flag(request.query, "watch"):
        return WatchRequest(resource, selection, parse_watch(request.query))
    body = listed(objects.store, resource, selection, request.query)
    if ACCEPTED not in request.accept:
        return wire.Response(200, body)
    found = msgspec.json.decode(body)
    return wire.respond(table(resource, found["items"], found["metadata"], objects.clock()))


def listed(
    store: Store, resource: Resource, selection: Selection, query: Mapping[str, str]
) -> bytes:
    """Return the selected objects as the body of a response, always whole. Raises StatusError."""
    wire.check_version(query, store.version)
    wire.number(query, "limit")
    items = store.items(resource.store_key, selection.namespace)
    chosen = (each for each in items if selection.matches(each.body))
    return _encoded_list(resource, store.version, chosen)


def _encoded_list(resource: Resource, version: int, items: Iterable[Stored]) -> bytes:
    """Return a list's bytes. Items of built-in kinds come without kind and apiVersion."""
    metadata: Json = {"resourceVersion": str(version)}
    about: Json = {"kind": resource.list_kind or f"{resource.kind}List"}
    about["apiVersion"] = resource.api_version
    if resource.custom:
        metadata, shown = {"continue": "", **metadata}, [each.raw for each in items]
    else:
        head = len(msgspec.json.encode({**about, "kind": resource.kind}))
        shown = [b"{" + each.raw[head:] for each in items]
    head_raw = msgspec.json.encode({**about, "metadata": metadata})[:-1]
    return b'%b,"items":[%b]}\n' % (head_raw, b",".join(shown))


def _get(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.check_version(request.query, objects.store.version)
    found = objects.get(target)
    if ACCEPTED not in request.accept:
        return wire.respond(found)
    version = {"resourceVersion": str(found.version)}
    return wire.respond(table(target.resource, [found.body], version, objects.clock()))


def _create(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.refuse_dry_run(request.query)
    if target.resource.namespaced and not target.namespace:
        raise errors.not_allowed()
    return wire.respond(objects.create(target, wire.object_of(request, target.resource)), 201)


def _replace(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.refuse_dry_run(request.query)
    body = wire.object_of(request, target.resource)
    check_identity(target, body, named=True)
    if objects.find(target) is None:
        if target.resource.plural not in _MADE_BY_PUT:
            raise errors.not_found(target.resource, target.name)
        metadata = {k: each for k, each in body["metadata"].items() if k != "resourceVersion"}
        return wire.respond(objects.create(target, {**body, "metadata": metadata}), 201)
    check_replaces(target, body)
    return wire.respond(objects.change(target, lambda _: body))


def _patch(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.refuse_dry_run(request.query)
    resource, patch = target.resource, wire.patch_of(request, target.resource)
    applies = request.content_type == wire.APPLY_PATCH
    if applies:
        wire.check_kind(patch, resource)
        check_identity(target, patch, named=True)
        if objects.find(target) is None:
            return wire.respond(objects.create(target, patch), 201)
    merge: Callable[[Any, Any], Any] = strategic_merge
    if request.content_type == wire.JSON_PATCH:
        merge = json_patch
    elif request.content_type == wire.MERGE_PATCH or resource.custom:
        merge = merge_patch

    def change(old: Json) -> Json:
        new: Json = merge(old, patch)
        wire.check_kind(new, resource)
        return new

    return wire.respond(objects.change(target, change))


def _delete(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    return wire.respond(objects.delete(target, wire.delete_options(request)))


def _delete_collection(
    objects: Objects, target: wire.Target, request: wire.Request
) -> wire.Response:
    resource, options = target.resource, wire.delete_options(request)
    if resource is NAMESPACES or (resource.namespaced and not target.namespace):
        raise errors.not_allowed()
    selection = parse_selection(resource, request.query, target.namespace)
    version = objects.store.version
    there: Iterable[Any] = objects.store.items(resource.store_key, target.namespace)
    found = [each for each in there if selection.matches(each.body)]
    for each in found:
        objects.delete(wire.Target(resource, *each.name), options)
    return wire.Response(200, _encoded_list(resource, version, found))


def _bind(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.refuse_dry_run(request.query)
    binding = wire.body_of(request)
    if (binding.get("metadata") or {}).get("name") != target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    objects.bind(target, binding)
    return wire.respond({**_SUCCESS, "code": 201}, 201)


def _evict(objects: Objects, target: wire.Target, request: wire.Request) -> wire.Response:
    wire.refuse_dry_run(request.query)
    options = wire.options_of(wire.body_of(request).get("deleteOptions") or {})
    pods = objects.store.items(PODS.store_key, target.namespace)
    budgets = objects.store.items("poddisruptionbudgets.policy", target.namespace)
    deletion.check_budgets(objects.get(target).body, budgets, pods)
    objects.delete(target, options)
    return wire.respond({**_SUCCESS, "code": 201}, 201)


def _log(
    objects: Objects, target: wire.Target, request: wire.Request
) -> LogRequest | wire.Response:
    found = log_request(objects, target, request.query)
    return wire.Response(204, b"", "text/plain") if found is None else found


_ROUTES: Final[
    Mapping[tuple[str, str], Callable[[Objects, wire.Target, wire.Request], Outcome]]
] = {
    ("collection", "GET"): _list,
    ("collection", "POST"): _create,
    ("collection", "DELETE"): _delete_collection,
    ("object", "GET"): _get,
    ("object", "PUT"): _replace,
    ("object", "PATCH"): _patch,
    ("object", "DELETE"): _delete,
    ("status", "GET"): _get,
    ("status", "PUT"): _replace,
    ("status", "PATCH"): _patch,
    ("binding", "POST"): _bind,
    ("eviction", "POST"): _evict,
    ("log", "GET"): _log,
}
