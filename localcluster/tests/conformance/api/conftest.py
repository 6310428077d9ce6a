"""A custom resource of the tests' own: `things`, with a schema, defaults and a status."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.api_calls import MERGE, ApiCalls, Json

GROUP, VERSION, PLURAL = "conformance.test", "v1", "things"


@dataclass(frozen=True)
class Things:
    """Calls on `things` in one namespace."""

    api: ApiCalls
    namespace: str

    def create(self, name: str, spec: Json | None = None, **rest: Any) -> Json:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Thing",
            "metadata": {"name": name},
            "spec": spec or {},
            **rest,
        }
        return self._call(self.api.custom.create_namespaced_custom_object, body)

    def read(self, name: str) -> Json:
        return self._call(self.api.custom.get_namespaced_custom_object, name)

    def patch(self, name: str, body: Any, content_type: str = MERGE) -> Json:
        return self._call(
            self.api.custom.patch_namespaced_custom_object, name, body, _content_type=content_type
        )

    def replace(self, name: str, body: Json) -> Json:
        return self._call(self.api.custom.replace_namespaced_custom_object, name, body)

    def delete(self, name: str) -> Json:
        return self._call(self.api.custom.delete_namespaced_custom_object, name)

    @property
    def path(self) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{PLURAL}"

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Json:
        answer: Json = method(GROUP, VERSION, self.namespace, PLURAL, *arguments, **named)
        return answer


@pytest.fixture(scope="session")
def defined(api: ApiCalls) -> Iterator[None]:
    """The definition of `things`, served for as long as the session needs it."""
    api.definitions.create_custom_resource_definition(_definition())
    api.wait_until(
        lambda: api.read_or_none(lambda: api.get(f"/apis/{GROUP}/{VERSION}/{PLURAL}")),
        "things are served",
    )
    yield
    api.definitions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")


@pytest.fixture
def things(api: ApiCalls, namespace: str, defined: None) -> Things:
    """`things` in the test's own namespace."""
    return Things(api, namespace)


def _definition() -> Json:
    spec = {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "default": 1},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "nested": {
                "type": "object",
                "properties": {"kept": {"type": "string", "default": "yes"}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "steps": {
                "type": "array",
                "items": {"type": "object", "properties": {"at": {"type": "integer"}}},
            },
        },
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": PLURAL, "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def version_of(api: ApiCalls, path: str) -> str:
    version: str = api.get(path)["metadata"]["resourceVersion"]
    return version
