"""A server without HTTP for tests; controllers run when a test says so, its clock stands still."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json, Kinds, Resource
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.patches import merge_patch
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.server import controllers_of
from localcluster.embedded.apiserver.store import Change, Store
from localcluster.embedded.apiserver.wire import JSON, Request, Response, Target

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.io"},
    "spec": {
        "group": "test.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "color": {"type": "string", "default": "red"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
NS = "/api/v1/namespaces/ns"


class Clock:
    """Tells a time that only tests move."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class ApiServer:
    """Everything behind the routes, with a namespace `ns` and a custom resource `widgets`."""

    store: Store = field(default_factory=Store)
    kinds: Kinds = field(default_factory=Kinds)
    clock: Clock = field(default_factory=Clock)
    log: list[tuple[str, Change]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects = Objects(self.store, self.kinds, self.clock, Random(1))
        self.controllers = controllers_of(self.objects)
        self.routes = Routes(self.objects, "here")
        self.store.subscribe(lambda kind, change: self.log.append((kind, change)))
        self.create("namespaces", {"metadata": {"name": "ns"}})
        self.create("customresourcedefinitions", WIDGETS)
        self.settle()

    def settle(self) -> None:
        """Let every controller act."""
        self.controllers.run_all()

    def resource(self, plural: str) -> Resource:
        return next(each for each in self.kinds.all() if each.plural == plural)

    def target(self, plural: str, name: str = "", subresource: str = "") -> Target:
        resource = self.resource(plural)
        return Target(resource, "ns" if resource.namespaced else "", name, subresource)

    def create(self, plural: str, body: Json) -> Json:
        return self.objects.create(self.target(plural), body).body

    def get(self, plural: str, name: str) -> Json | None:
        resource = self.resource(plural)
        found = self.store.find(resource.store_key, ("ns" if resource.namespaced else "", name))
        return None if found is None else found.body

    def names(self, plural: str) -> list[str]:
        return [each.name[1] for each in self.store.items(self.resource(plural).store_key, "ns")]

    def request(
        self, method: str, path: str, body: object = None, content: str = JSON
    ) -> tuple[int, Any]:
        """One request as HTTP brings it; the answer's code and body."""
        path, _, query = path.partition("?")
        raw = (
            b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        )
        answer = self.routes.handle(
            Request.of(method, path, query.encode(), {b"content-type": content.encode()}, raw)
        )
        assert isinstance(answer, Response)
        return answer.code, msgspec.json.decode(
            answer.body
        ) if answer.content_type == JSON else answer.body


def pod(name: str = "p", **spec: object) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }


def config_map(name: str, **metadata: object) -> Json:
    return {"metadata": {"name": name, **metadata}}


def owner(body: Json, **more: object) -> Json:
    """A reference to the owner."""
    metadata = body["metadata"]
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def patched(server: ApiServer, plural: str, name: str, patch: Json, subresource: str = "") -> Json:
    """An object after a merge patch."""
    target = server.target(plural, name, subresource)
    return server.objects.change(target, lambda old: merge_patch(old, patch)).body


def refusal(work: Callable[[], object]) -> StatusError:
    """What is raised instead of doing what was asked."""
    with pytest.raises(StatusError) as refused:
        work()
    return refused.value
