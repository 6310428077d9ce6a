"""The routes: from a request to what is done, and to the answer.

Three kinds of requests have answers that go on: watches and followed logs. For those a description is returned, and
whoever speaks HTTP carries it out.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from localcluster.embedded.apiserver import discovery, openapi, tokens
from localcluster.embedded.apiserver.apply import applied
from localcluster.embedded.apiserver.kinds import PODS, Json
from localcluster.embedded.apiserver.lists import encoded_list, page, parse_list
from localcluster.embedded.apiserver.logs import LogRequest, log_request
from localcluster.embedded.apiserver.objects import Change, Objects, Target, must_name_version
from localcluster.embedded.apiserver.patches import json_patch, merge_patch, strategic_merge
from localcluster.embedded.apiserver.refusals import Refusal, bad_request, not_allowed, required, unauthorized
from localcluster.embedded.apiserver.requests import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    Request,
    check_kind,
    decoded,
    object_of,
    options_of,
    patch_of,
    target_of,
)
from localcluster.embedded.apiserver.scale import scale_of, scaled
from localcluster.embedded.apiserver.selectors import parse_selection
from localcluster.embedded.apiserver.store import Stored
from localcluster.embedded.apiserver.tables import ASKED, table
from localcluster.embedded.apiserver.tokens import Gate
from localcluster.embedded.apiserver.watching import WatchRequest, parse_watch

_LOG = logging.getLogger(__name__)

COMPACT = "/localcluster/compact"
"""A POST here makes the server forget its history, as etcd's compaction does. For tests; no real server has it."""


@dataclass(frozen=True)
class Answer:
    """One whole answer."""

    code: int
    body: bytes
    content_type: str = JSON


Outcome: TypeAlias = Answer | WatchRequest | LogRequest


class Routes:
    """Everything that is served."""

    def __init__(self, objects: Objects, address: str, gate: Gate | None = None) -> None:
        self._objects = objects
        self._address = address
        self._gate = gate or Gate()

    def handle(self, request: Request) -> Outcome:
        """Do what a request asks for. Never raises Refusal: that becomes a Status object."""
        if request.path in discovery.HEALTH:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        try:
            if not self._gate.admits(request.authorization, self._objects.clock()):
                raise unauthorized()
            target = target_of(self._objects.kinds, request.path)
            return self._outside(request) if target is None else self._on(target, request)
        except Refusal as refusal:
            return answer(refusal.status, refusal.code)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # What was sent is not of the form that this kind of request has, and the real server's types would say so.
            _LOG.info("%s %s cannot be read", request.method, request.path, exc_info=True)
            unread = bad_request(f"the request cannot be read: {error!r}")
            return answer(unread.status, unread.code)

    def _outside(self, request: Request) -> Answer:
        if request.path == COMPACT and request.method == "POST":
            self._objects.store.compact()
            return answer({"version": self._objects.store.version})
        if request.path in tokens.REVIEWS and request.method == "POST":
            return answer(tokens.review(tokens.REVIEWS[request.path], decoded(request)), 201)
        found = discovery.document(self._objects.kinds, request.path, self._address)
        found = found or openapi.document(self._objects.kinds, request.path)
        if found is None:
            return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
        return answer(found)

    def _on(self, target: Target, request: Request) -> Outcome:
        if (target.subresource, request.method) == ("token", "POST"):
            return self._token(target, request)
        level = target.subresource or ("object" if target.name else "collection")
        route = _ROUTES.get((level, request.method))
        if route is None:
            raise not_allowed()
        return route(self._objects, target, request)

    def _token(self, target: Target, request: Request) -> Answer:
        account = self._objects.get(Target(target.resource, target.namespace, target.name))
        return answer(self._gate.token_for(account.body, decoded(request), self._objects.clock()), 201)


def answer(body: Json | Stored, code: int = 200) -> Answer:
    """Return an object or a Status as an answer."""
    raw = body.raw if isinstance(body, Stored) else msgspec.json.encode(body)
    return Answer(code, raw + b"\n")


def _list(objects: Objects, target: Target, request: Request) -> Outcome:
    selection = parse_selection(target.resource, request.query, target.namespace)
    if request.query.get("watch") in {"true", "1"}:
        return WatchRequest(target.resource, selection, parse_watch(request.query))
    body = page(objects.store, target.resource, selection, parse_list(request.query))
    if not _wants_table(request):
        return Answer(200, body)
    listed = msgspec.json.decode(body)
    return answer(table(target.resource, listed["items"], listed["metadata"], objects.clock()))


def _wants_table(request: Request) -> bool:
    return ASKED in request.accept.decode("latin-1")


def _create(objects: Objects, target: Target, request: Request) -> Answer:
    if target.resource.namespaced and not target.namespace:
        raise not_allowed()
    body = object_of(request, target.resource)
    return answer(objects.create(target, body, options_of(request)), 201)


def _delete_all(objects: Objects, target: Target, request: Request) -> Answer:
    if target.resource.namespaced and not target.namespace:
        raise not_allowed()
    selection = parse_selection(target.resource, request.query, target.namespace)
    options = options_of(request, _delete_body(request))
    version = objects.store.version
    found = [
        each
        for each in objects.store.items(target.resource.store_key, target.namespace)
        if selection.matches(each.body)
    ]
    for each in found:
        objects.delete(Target(target.resource, *each.name), options)
    return Answer(200, encoded_list(target.resource, {"resourceVersion": str(version)}, found))


def _get(objects: Objects, target: Target, request: Request) -> Answer:
    found = objects.get(target)
    if not _wants_table(request):
        return answer(found)
    version = {"resourceVersion": found.body["metadata"]["resourceVersion"]}
    return answer(table(target.resource, [found.body], version, objects.clock()))


def _put(objects: Objects, target: Target, request: Request) -> Answer:
    body = object_of(request, target.resource)
    objects.get(target)
    must_name_version(target.resource, body, target.name)
    return answer(objects.change(target, lambda _: body, options_of(request)))


def _patch(objects: Objects, target: Target, request: Request) -> Answer:
    patch = patch_of(request, target.resource)
    if request.content_type == APPLY_PATCH:
        return _apply(objects, target, request, patch)
    return answer(objects.change(target, _patching(request, patch), options_of(request)))


def _patching(request: Request, patch: Any) -> Change:
    merge = _MERGES.get(request.content_type, strategic_merge)
    return lambda old: merge(old, patch)


def _apply(objects: Objects, target: Target, request: Request, config: Json) -> Answer:
    manager, force = request.query.get("fieldManager", ""), request.query.get("force") == "true"
    if not manager:
        problem = required("fieldManager", "is required for apply patch")
        cause = {"reason": problem.kind, "message": problem.message, "field": problem.field}
        details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause]}
        raise Refusal(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem.sentence}', details)
    check_kind(config, target.resource)
    resource, options, now = target.resource, options_of(request), objects.now()
    live = objects.store.find(resource.store_key, (target.namespace, target.name))
    if live is None:
        named = {**config, "metadata": {**(config.get("metadata") or {}), "name": target.name}}
        return answer(objects.create(target, applied(resource, None, named, manager, force, now), options), 201)
    return answer(objects.change(target, lambda old: applied(resource, old, config, manager, force, now), options))


def _delete(objects: Objects, target: Target, request: Request) -> Answer:
    return answer(objects.delete(target, options_of(request, _delete_body(request))))


def _delete_body(request: Request) -> Json:
    body = msgspec.json.decode(request.body) if request.body.startswith(b"{") else {}
    return body if isinstance(body, dict) else {}


def _get_scale(objects: Objects, target: Target, request: Request) -> Answer:
    del request
    return answer(scale_of(target.resource, objects.get(target).body))


def _change_scale(objects: Objects, target: Target, request: Request) -> Answer:
    main = Target(target.resource, target.namespace, target.name)
    patching = _patching(request, patch_of(request, PODS)) if request.method == "PATCH" else None
    body = decoded(request) if patching is None else {}

    def change(old: Json) -> Json:
        wanted = patching(scale_of(target.resource, old)) if patching else body
        return scaled(target.resource, old, wanted)

    return answer(scale_of(target.resource, objects.change(main, change, options_of(request)).body))


def _bind(objects: Objects, target: Target, request: Request) -> Answer:
    binding = decoded(request)
    name = target.name or (binding.get("metadata") or {}).get("name") or ""
    objects.bind(Target(PODS, target.namespace, name), binding)
    return answer(_SUCCESS, 201)


def _evict(objects: Objects, target: Target, request: Request) -> Answer:
    body = decoded(request).get("deleteOptions") or {}
    objects.delete(Target(PODS, target.namespace, target.name), options_of(request, body))
    return answer(_SUCCESS, 201)


def _log(objects: Objects, target: Target, request: Request) -> LogRequest | Answer:
    found = log_request(objects, target, request.query)
    return Answer(204, b"", "text/plain") if found is None else found


_SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {JSON_PATCH: json_patch, MERGE_PATCH: merge_patch}
_ROUTES: Mapping[tuple[str, str], Callable[[Objects, Target, Request], Outcome]] = {
    ("collection", "GET"): _list,
    ("collection", "POST"): _create,
    ("collection", "DELETE"): _delete_all,
    ("object", "GET"): _get,
    ("object", "PUT"): _put,
    ("object", "PATCH"): _patch,
    ("object", "DELETE"): _delete,
    ("status", "GET"): _get,
    ("status", "PUT"): _put,
    ("status", "PATCH"): _patch,
    ("scale", "GET"): _get_scale,
    ("scale", "PUT"): _change_scale,
    ("scale", "PATCH"): _change_scale,
    ("binding", "POST"): _bind,
    ("eviction", "POST"): _evict,
    ("log", "GET"): _log,
}
