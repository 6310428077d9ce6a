"""Reads and writes of plain JSON objects on the API server, with a time-out on every call.

Scenarios read what any user could see, as it is stored, so nothing here goes through the code
under test."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

Json: TypeAlias = dict[str, Any]

CORE = "/api/v1"
KUBEFLOW = "/apis/kubeflow.org/v1"
OPTIMUS = "/apis/optimus.dl/v1alpha1"
LEASES = "/apis/coordination.k8s.io/v1"
PLURALS: Mapping[str, str] = {
    "TFJob": "tfjobs",
    "MXJob": "mxjobs",
    "PyTorchJob": "pytorchjobs",
}
MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_SECONDS = (5.0, 30.0)


def in_namespace(root: str, namespace: str, plural: str, name: str = "") -> str:
    """Return the path of a collection or, with a name, of one object in a namespace."""
    return f"{root}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


class Api:
    """Calls as the cluster's administrator."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def get(self, path: str, **query: str) -> Json:
        """Return an object or a list. Raises ApiException."""
        return self._json("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Json]:
        """Return the objects of a collection."""
        found: list[Json] = self.get(path, **query)["items"]
        return found

    def find(self, path: str) -> Json | None:
        """Return an object, or None where there is none."""
        try:
            return self.get(path)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def create(self, collection: str, body: Json) -> Json:
        """Create an object."""
        return self._json("POST", collection, body, "application/json")

    def warnings(self, collection: str, body: Json) -> list[str]:
        """Submit an object without storing it; return the warnings of the answer."""
        dry = {"dryRun": "All"}
        response = self._open("POST", collection, body, "application/json", dry, _TIMEOUT_SECONDS)
        try:
            _raise_for(response)
            response.drain_conn()
            found = response.headers.getlist("Warning")
            return [_unquoted(each.encode("latin-1").decode()) for each in found]
        finally:
            response.release_conn()

    def patch(self, path: str, body: Json) -> Json:
        """Change an object by a merge patch."""
        return self._json("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Delete an object; one that is not there is fine."""
        try:
            self._json("DELETE", path, {"propagationPolicy": "Background"}, "application/json")
        except ApiException as error:
            if error.status != 404:
                raise

    def delete_all(self, collection: str) -> None:
        """Delete each object of a collection in a namespace."""
        for each in self.items(collection):
            self.delete(f"{collection}/{each['metadata']['name']}")

    def text(self, path: str, **query: str) -> str:
        """Return an answer that is no JSON, such as a log."""
        return self._read("GET", path, None, None, query).decode(errors="replace")

    @contextmanager
    def watch(self, path: str, seconds: int, **query: str) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open a watch that the server ends after so many seconds."""
        wanted = {**query, "watch": "1", "timeoutSeconds": str(seconds)}
        with self.stream(path, seconds + 10.0, **wanted) as response:
            yield response

    @contextmanager
    def stream(
        self, path: str, silence_seconds: float, **query: str
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open a streamed answer, such as a followed log, until nothing comes for so long."""
        response = self._open("GET", path, None, None, query, (5.0, silence_seconds))
        try:
            _raise_for(response)
            yield response
        finally:
            response.close()

    def _json(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        answer: Json = json.loads(self._read(method, path, body, content_type, query or {}))
        return answer

    def _read(
        self,
        method: str,
        path: str,
        body: Json | None,
        content_type: str | None,
        query: Mapping[str, str],
    ) -> bytes:
        response = self._open(method, path, body, content_type, query, _TIMEOUT_SECONDS)
        try:
            _raise_for(response)
            return response.read()
        finally:
            response.release_conn()

    def _open(
        self,
        method: str,
        path: str,
        body: Json | None,
        content_type: str | None,
        query: Mapping[str, str],
        timeout_seconds: tuple[float, float],
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json, */*"} | (
            {"Content-Type": content_type} if content_type else {}
        )
        request = self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self._client.call_api(*request, _request_timeout=timeout_seconds)
        response: urllib3.BaseHTTPResponse = answer.response
        return response


def _raise_for(response: urllib3.BaseHTTPResponse) -> None:
    if response.status >= 300:
        body = response.read().decode(errors="replace")
        error = ApiException(status=response.status, reason=f"{response.reason}: {body[:500]}")
        raise error


def _unquoted(warning: str) -> str:
    """Return the text of a Warning header: `299 - "text"`."""
    quoted = warning.partition('"')[2].removesuffix('"')
    return re.sub(r"\\(.)", r"\1", quoted)
