"""The routes: from a request to what is done, and to the answer.

Watches and followed logs have answers that go on. For those a description is returned, and
whoever speaks HTTP carries it out.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from localcluster.embedded.apiserver import discovery, openapi, subresources, tokens, writing
from localcluster.embedded.apiserver.answers import Answer, answer
from localcluster.embedded.apiserver.journal import Unrecorded
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.lists import page, parse_list
from localcluster.embedded.apiserver.logs import LogRequest
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.options import flag
from localcluster.embedded.apiserver.refusals import (
    Refusal,
    bad_request,
    no_route,
    not_allowed,
    unauthorized,
    version_in_future,
)
from localcluster.embedded.apiserver.requests import Request, decoded, target_of
from localcluster.embedded.apiserver.selectors import parse_selection
from localcluster.embedded.apiserver.tables import ASKED, TableEvents, table
from localcluster.embedded.apiserver.tokens import Gate
from localcluster.embedded.apiserver.watching import WatchRequest, parse_watch

_LOG = logging.getLogger(__name__)

COMPACT = "/localcluster/compact"
"""A POST here makes the server forget its history, as etcd's compaction does. For tests; no real
server has it."""


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
        except Unrecorded as error:
            _LOG.error("%s %s was refused: %s", request.method, request.path, error)
            full = Refusal(500, "InternalError", f"Internal error occurred: {error}")
            return answer(full.status, full.code)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # What was sent is not of the form that this kind of request has, and the real server's
            # types would say so.
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
        if found is None and self._is_of_built_in_group(request.path):
            raise no_route()
        if found is None:
            return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
        return answer(found)

    def _is_of_built_in_group(self, path: str) -> bool:
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" and len(parts) > 2 else ""
        known = {each.group for each in self._objects.kinds.all() if not each.custom}
        return (parts[0] == "api" and len(parts) > 1) or (bool(group) and group in known)

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
        return answer(
            self._gate.token_for(account.body, decoded(request), self._objects.clock()), 201
        )


def _list(objects: Objects, target: Target, request: Request) -> Outcome:
    selection = parse_selection(target.resource, request.query, target.namespace)
    if flag(request.query, "watch"):
        include = request.query.get("includeObject") or "Metadata"
        shown = (
            TableEvents(target.resource, objects.clock, include) if _wants_table(request) else None
        )
        return WatchRequest(target.resource, selection, parse_watch(request.query), shown)
    body = page(objects.store, target.resource, selection, parse_list(request.query))
    if not _wants_table(request):
        return Answer(200, body)
    listed = msgspec.json.decode(body)
    return answer(_table(objects, target, request, listed["items"], listed["metadata"]))


def _wants_table(request: Request) -> bool:
    return ASKED in request.accept.decode("latin-1")


def _table(
    objects: Objects, target: Target, request: Request, bodies: Iterable[Json], metadata: Json
) -> Json:
    include = request.query.get("includeObject") or "Metadata"
    return table(target.resource, bodies, metadata, objects.clock(), include=include)


def _get(objects: Objects, target: Target, request: Request) -> Answer:
    asked = request.query.get("resourceVersion", "")
    if asked.isdecimal() and int(asked) > objects.store.version:
        raise version_in_future(int(asked), objects.store.version)
    found = objects.get(target)
    if not _wants_table(request):
        return answer(found)
    version = {"resourceVersion": found.body["metadata"]["resourceVersion"]}
    return answer(_table(objects, target, request, [found.body], version))


_ROUTES: Mapping[tuple[str, str], Callable[[Objects, Target, Request], Outcome]] = {
    ("collection", "GET"): _list,
    ("collection", "POST"): writing.create,
    ("collection", "DELETE"): writing.delete_all,
    ("object", "GET"): _get,
    ("object", "PUT"): writing.put,
    ("object", "PATCH"): writing.patch,
    ("object", "DELETE"): writing.delete,
    ("status", "GET"): _get,
    ("status", "PUT"): writing.put,
    ("status", "PATCH"): writing.patch,
    ("scale", "GET"): subresources.get_scale,
    ("scale", "PUT"): subresources.change_scale,
    ("scale", "PATCH"): subresources.change_scale,
    ("binding", "POST"): subresources.bind,
    ("eviction", "POST"): subresources.evict,
    ("log", "GET"): subresources.log,
}
