"""What pods refer to on the API server: config maps, Secrets, claims and their volumes, tokens."""

import base64
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from localcluster.api_calls import ApiCalls, object_path
from localcluster.node.pod_spec import Json, Unresolved
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.times import parse_instant

_TOKEN_SECONDS = 3600


class _Missing(Unresolved):
    """It is not there."""


class ClusterObjects:
    """Reads objects each time; keeps tokens for four fifths of their lifetime. Thread-safe."""

    def __init__(self, api: ApiCalls, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._tokens: dict[tuple[str, int], tuple[str, float]] = {}
        self._mutex = threading.Lock()

    def config_map(self, namespace: str, name: str) -> Mapping[str, str]:
        """Return the texts of a config map by key. Raises Unresolved when there is none."""
        text: Mapping[str, str] | None = self._read("configmaps", namespace, name).get("data")
        return text or {}

    def secret(self, namespace: str, name: str, *, optional: bool) -> Mapping[str, str]:
        """Return the texts of a Secret by key; of an optional one that is not there, none. Raises
        Unresolved for one that is missing, or holds what is no text."""
        try:
            values: Mapping[str, str] = self._read("secrets", namespace, name).get("data") or {}
            return {key: base64.b64decode(text).decode() for key, text in values.items()}
        except UnicodeDecodeError:
            raise Unresolved(f'secret "{name}" holds what is no text') from None
        except _Missing:
            if optional:
                return {}
            raise

    def volume_of_claim(self, namespace: str, name: str) -> Json:
        """The PersistentVolume that a claim is bound to. Raises Unresolved while it is not."""
        claim = self._read("persistentvolumeclaims", namespace, name)
        volume_name = claim["spec"].get("volumeName")
        if not volume_name or (claim.get("status") or {}).get("phase") != "Bound":
            raise Unresolved(f'persistentvolumeclaim "{name}" is not bound to a volume')
        return self._read("persistentvolumes", "", volume_name)

    def token(self, pod: Json, lifetime_seconds: int = _TOKEN_SECONDS) -> str:
        """Return a token of the pod's ServiceAccount, bound to the pod. Raises Unresolved."""
        key = (pod["metadata"]["uid"], lifetime_seconds)
        with self._mutex:
            held = self._tokens.get(key)
        if held is not None and self._clock() < held[1]:
            return held[0]
        value, renew_at = self._request(pod, lifetime_seconds)
        with self._mutex:
            self._tokens[key] = (value, renew_at)
        return value

    def forget(self, pod_uid: str) -> None:
        """Drop the tokens of a pod that is gone."""
        with self._mutex:
            self._tokens = {key: held for key, held in self._tokens.items() if key[0] != pod_uid}

    def _request(self, pod: Json, lifetime_seconds: int) -> tuple[str, float]:
        meta, account = pod["metadata"], pod["spec"].get("serviceAccountName") or "default"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": lifetime_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
            },
        }
        namespace = meta["namespace"]
        try:
            path = object_path("serviceaccounts", namespace, account, "token")
            answer = self._api.create(path, body)["status"]
        except KubeError as error:
            sentence = f"no token for service account {namespace}/{account}: {error}"
            raise Unresolved(sentence) from None
        now = self._clock()
        expires = parse_instant(answer["expirationTimestamp"])
        return str(answer["token"]), now + (expires - now) * 0.8

    def _read(self, plural: str, namespace: str, name: str) -> dict[str, Any]:
        path = object_path(plural, namespace, name)
        try:
            return self._api.get(path)
        except KubeError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise _Missing(f'{plural.removesuffix("s")} "{name}" not found') from None
            raise Unresolved(str(error)) from None
