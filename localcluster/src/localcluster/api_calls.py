"""Calls on an API server with objects as JSON dictionaries, by path, over `optimus.kube.client`."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec
from kubernetes.client import ApiClient

from optimus.kube.client import MERGE_PATCH, Client
from optimus.kube.errors import ErrorKind, KubeError, from_answer

Json: TypeAlias = Mapping[str, Any]

STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class ApiCalls:
    """Calls on one server. Thread-safe; every call raises KubeError when it fails."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._api: ApiClient = client.core.api_client

    def get(self, path: str) -> dict[str, Any]:
        """Read one object."""
        return self._send("GET", path)

    def create(self, path: str, body: Json) -> dict[str, Any]:
        """Create an object in the collection `path`."""
        return self._send("POST", path, body, "application/json")

    def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH) -> dict[str, Any]:
        """Change an object; the content type says by which kind of patch."""
        return self._send("PATCH", path, body, content_type)

    def replace(self, path: str, body: Json) -> dict[str, Any]:
        """Replace an object, unless its resource version has changed."""
        return self._send("PUT", path, body, "application/json")

    def delete(self, path: str, options: Json) -> dict[str, Any]:
        """Delete an object with these DeleteOptions."""
        return self._send("DELETE", path, options, "application/json")

    def _send(
        self, method: str, path: str, body: Json | None = None, content_type: str = ""
    ) -> dict[str, Any]:
        what = f"{method} {path}"
        # The client library encodes JSON by itself, and no other content type.
        content: Any = body if "json" in content_type else msgspec.json.encode(body).decode()
        headers = {"Accept": "application/json", **({"Content-Type": content_type} if body else {})}
        request = partial(self._request, what, method, path, headers, content if body else None)
        answer = self._client.call(what, request)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise KubeError(
                ErrorKind.TRANSIENT, f"cannot {what}: the answer is no object: {error}"
            ) from None

    def _request(
        self, what: str, method: str, path: str, headers: dict[str, str], body: Any, **how: Any
    ) -> Any:
        request = self._api.param_serialize(
            method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        response: Any = self._api.call_api(
            *request, _request_timeout=how["_request_timeout"]
        ).response
        if response.status >= 400:
            raise from_answer(what, response.status, response.read(), response.headers)
        return response


def object_path(plural: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """The API path of an object of the core group, of a subresource, or of all in a namespace."""
    scope = f"/api/v1/namespaces/{quote(namespace)}" if namespace else "/api/v1"
    return "/".join(part for part in (scope, plural, quote(name), subresource) if part)
