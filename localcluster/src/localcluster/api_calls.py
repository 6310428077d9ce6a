"""Calls on an API server with objects as JSON dictionaries, by path, over `optimus.kube.client`."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from optimus.kube.client import JSON, MERGE_PATCH, Client
from optimus.kube.errors import ErrorKind, KubeError

Json: TypeAlias = Mapping[str, Any]

STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class ApiCalls:
    """Calls on one server. Thread-safe; every call raises KubeError when it fails."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str) -> dict[str, Any]:
        """Read one object."""
        what = f"GET {path}"
        return _object(what, self._client.get(what, path))

    def create(self, path: str, body: Json) -> dict[str, Any]:
        """Create an object in the collection `path`."""
        return self._send("POST", path, body)

    def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH) -> dict[str, Any]:
        """Change an object; the content type says by which kind of patch."""
        return self._send("PATCH", path, body, content_type)

    def replace(self, path: str, body: Json) -> dict[str, Any]:
        """Replace an object, unless its resource version has changed."""
        return self._send("PUT", path, body)

    def delete(self, path: str, options: Json) -> dict[str, Any]:
        """Delete an object with these DeleteOptions."""
        return self._send("DELETE", path, options)

    def _send(self, method: str, path: str, body: Json, content_type: str = JSON) -> dict[str, Any]:
        what = f"{method} {path}"
        return _object(what, self._client.send(what, method, path, body, content_type))


def _object(what: str, answer: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise KubeError(
            ErrorKind.TRANSIENT, f"cannot {what}: the answer is no object: {error}"
        ) from None


def object_path(plural: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """The API path of an object of the core group, of a subresource, or of all in a namespace."""
    scope = f"/api/v1/namespaces/{quote(namespace)}" if namespace else "/api/v1"
    return "/".join(part for part in (scope, plural, quote(name), subresource) if part)
