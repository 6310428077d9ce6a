"""Calls on this project's custom resources: TrainingProfiles and WorkloadProfiles."""

from collections.abc import Callable
from typing import Generic

import msgspec

from optimus.kube.client import Client, path_of, path_segment
from optimus.kube.contract import GROUP, VERSION
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.metadata import T
from optimus.kube.results import Refused, Written, written

_JSON_PATCH = "application/json-patch+json"


class CustomResource(Generic[T]):
    """Objects of one kind, by namespace and name; ``T`` is what they are decoded to."""

    def __init__(
        self,
        client: Client,
        kind: str,
        plural: str,
        decoder: Callable[[bytes | msgspec.Raw], T],
    ) -> None:
        """``plural`` is the kind's name in the API server's paths."""
        self._client, self._kind, self._plural, self._decode = client, kind, plural, decoder

    def create(self, namespace: str, name: str, body: dict[str, object]) -> T:
        """Create an object; ``body`` is its metadata and spec.

        Raises:
            KubeError: it was not created; EXISTS where there is one of the name."""
        what = f"create {self._kind} {namespace}/{name}"
        named = {"apiVersion": f"{GROUP}/{VERSION}", "kind": self._kind, **body}
        collection = path_of(GROUP, VERSION, self._plural, namespace)
        return self._decoded(what, self._client.post(what, collection, named))

    def read(self, namespace: str, name: str) -> T:
        """The object as it is stored now.

        Raises:
            KubeError: it was not read; NOT_FOUND where there is none."""
        what = f"read {self._kind} {namespace}/{name}"
        return self._decoded(what, self._client.get(what, self._path(namespace, name)))

    def delete(self, namespace: str, name: str, preconditions: dict[str, str]) -> Written | Refused:
        """Delete the object that meets the preconditions."""
        what, path = f"delete {self._kind} {namespace}/{name}", self._path(namespace, name)
        body = {"preconditions": preconditions}
        return written(lambda: self._client.send(what, "DELETE", path, body))

    def replace_status(
        self, namespace: str, name: str, status: object, *, uid: str, version: str
    ) -> Written | Refused:
        """Replace the whole status. INVALID where the UID is another; CONFLICT where the resource
        version is, unless it is empty."""
        what = f"write the status of {self._kind} {namespace}/{name}"
        patch: list[dict[str, object]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        if version:
            # Not a test, which would be refused as invalid: so the server sees a conflict.
            pointer = "/metadata/resourceVersion"
            patch.append({"op": "replace", "path": pointer, "value": version})
        path = f"{self._path(namespace, name)}/status"
        return written(lambda: self._client.patch(what, path, patch, _JSON_PATCH))

    def _path(self, namespace: str, name: str) -> str:
        return f"{path_of(GROUP, VERSION, self._plural, namespace)}/{path_segment(name)}"

    def _decoded(self, what: str, body: bytes) -> T:
        try:
            return self._decode(body)
        except Malformed as error:
            raise KubeError(ErrorKind.INVALID, f"cannot {what}: {error}") from error
