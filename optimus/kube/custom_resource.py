"""Calls on this project's custom resources: TrainingProfiles and WorkloadProfiles."""

from functools import partial

from optimus.kube.client import Client
from optimus.kube.contract import GROUP, VERSION
from optimus.kube.results import Refused, Written, written

_JSON_PATCH = "application/json-patch+json"


class CustomResource:
    """One kind of object; ``plural`` is its name in the API server's paths."""

    def __init__(self, client: Client, plural: str) -> None:
        self._client, self._plural = client, plural

    def call(self, what: str, method: str, namespace: str, **arguments: object) -> bytes:
        """A call of the client library's ``CustomObjectsApi``; see ``Client.call``."""
        return self._client.call(
            what,
            getattr(self._client.custom, method),
            group=GROUP,
            version=VERSION,
            namespace=namespace,
            plural=self._plural,
            **arguments,
        )

    def delete(
        self, what: str, namespace: str, name: str, preconditions: dict[str, str]
    ) -> Written | Refused:
        """Delete the object that meets the preconditions."""
        method, body = "delete_namespaced_custom_object", {"preconditions": preconditions}
        return written(partial(self.call, what, method, namespace, name=name, body=body))

    def replace_status(
        self, what: str, namespace: str, name: str, status: object, *, uid: str, version: str
    ) -> Written | Refused:
        """Replace the whole status. INVALID where the UID is another; CONFLICT where the resource
        version is, unless it is empty."""
        patch: list[dict[str, object]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        if version:
            # Not a test, which would be refused as invalid: so the server sees a conflict.
            path = "/metadata/resourceVersion"
            patch.append({"op": "replace", "path": path, "value": version})
        write = partial(
            self.call, what, "patch_namespaced_custom_object_status", namespace, name=name
        )
        return written(partial(write, body=patch, _content_type=_JSON_PATCH))
