"""What pods refer to on the API server: config maps, secrets, claims with their volumes, and
tokens."""

import base64
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from localcluster.node.api import ApiError, object_path
from localcluster.node.environment import ObjectSource, Unresolved
from localcluster.node.recovery import parse_time
from localcluster.node.spec import Json

_KINDS = {"configmap": "configmaps", "secret": "secrets"}


class Calls(Protocol):
    """The calls on the API server that are made here."""

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        ...

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object."""
        ...


class ClusterObjects:
    """Reads objects from the API server, each time anew."""

    def __init__(self, api: Calls) -> None:
        """Read from this API server."""
        self._api = api

    def values(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the keys of a "configmap" or "secret", or None when there is no such object."""
        found = self._read(object_path(_KINDS[kind], namespace, name))
        if found is None:
            return None
        binary = "data" if kind == "secret" else "binaryData"
        values = {key: base64.b64decode(value) for key, value in (found.get(binary) or {}).items()}
        if kind == "configmap":
            values.update((key, value.encode()) for key, value in (found.get("data") or {}).items())
        return values

    def volume_of_claim(self, namespace: str, name: str) -> Json:
        """Return the PersistentVolume that a claim is bound to. Raises Unresolved while it is
        not."""
        claim = self._read(object_path("persistentvolumeclaims", namespace, name))
        if claim is None:
            raise Unresolved(f'persistentvolumeclaim "{name}" not found')
        volume_name = claim["spec"].get("volumeName")
        if not volume_name or (claim.get("status") or {}).get("phase") != "Bound":
            raise Unresolved(f'persistentvolumeclaim "{name}" is not bound to a volume')
        volume = self._read(f"/api/v1/persistentvolumes/{volume_name}")
        if volume is None:
            raise Unresolved(f'persistentvolume "{volume_name}" of claim "{name}" not found')
        return volume

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return self._api.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise Unresolved(str(error)) from None


class Remembered:
    """Reads each object once: for one round over many pods that mostly refer to the same ones."""

    def __init__(self, source: ObjectSource) -> None:
        """Ask `source` for what is not known yet."""
        self._source = source
        self._known: dict[tuple[str, str, str], Mapping[str, bytes] | None] = {}

    def values(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the keys of a "configmap" or "secret", or None when there is no such object."""
        key = (kind, namespace, name)
        if key not in self._known:
            self._known[key] = self._source.values(kind, namespace, name)
        return self._known[key]


@dataclass(frozen=True)
class TokenRequest:
    """A token of a ServiceAccount that is bound to a pod: for whom, for what audience, for how
    long."""

    namespace: str
    service_account: str
    pod_name: str
    pod_uid: str
    audience: str
    lifetime_seconds: int


class Tokens:
    """ServiceAccount tokens from the TokenRequest API, renewed after four fifths of their lifetime.
    Thread-safe."""

    def __init__(
        self, api: Calls, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Ask this API server."""
        self._api = api
        self._clock = clock
        self._held: dict[TokenRequest, tuple[str, datetime]] = {}
        self._mutex = threading.Lock()

    def token(self, request: TokenRequest) -> str:
        """Return a token that is good for a while. Raises Unresolved when the API server gives
        none."""
        with self._mutex:
            held = self._held.get(request)
        if held is not None and self._clock() < held[1]:
            return held[0]
        try:
            value, renew_at = self._request(request)
        except ApiError as error:
            raise Unresolved(
                f"no token for service account {request.namespace}/{request.service_account}: "
                f"{error}"
            ) from None
        with self._mutex:
            self._held[request] = (value, renew_at)
        return value

    def forget(self, pod_uid: str) -> None:
        """Drop the tokens of a pod that is gone."""
        with self._mutex:
            self._held = {
                each: held for each, held in self._held.items() if each.pod_uid != pod_uid
            }

    def _request(self, request: TokenRequest) -> tuple[str, datetime]:
        path = object_path("serviceaccounts", request.namespace, request.service_account, "token")
        spec = {
            "audiences": [request.audience] if request.audience else [],
            "expirationSeconds": request.lifetime_seconds,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": request.pod_name,
                "uid": request.pod_uid,
            },
        }
        answer = self._api.create(
            path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        now = self._clock()
        expires = parse_time(answer["status"]["expirationTimestamp"]) or now
        return str(answer["status"]["token"]), now + (expires - now) * 0.8
