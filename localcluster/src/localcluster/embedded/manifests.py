"""Applies manifests to an API server, for a machine without kubectl."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.kustomize import render
from localcluster.errors import ClusterError
from localcluster.kubeconfig import Credentials, read_kubeconfig

_SECONDS: Final = 20.0
_APPLY: Final = "application/apply-patch+yaml"
_MANAGER: Final = urlencode({"fieldManager": "localcluster", "force": "true"})


def apply(kubeconfig: Path, path: Path) -> str:
    """Apply a file, a folder or a kustomization; return a line for each object, as kubectl prints.

    Raises ClusterError with the server's message where it refuses one.
    """
    return "".join(f"{line}\n" for line in _apply_all(read_kubeconfig(kubeconfig), render(path)))


def _apply_all(credentials: Credentials, objects: Iterable[Json]) -> Iterable[str]:
    headers = {"Authorization": f"Bearer {credentials.token}"}
    timeout = urllib3.Timeout(_SECONDS)
    with urllib3.PoolManager(headers=headers, retries=False, timeout=timeout) as pool:
        for body in objects:
            # One by one: a definition among the objects serves those that follow.
            url = f"{credentials.server}{_path(pool, credentials.server, body)}"
            _call(pool, "PATCH", f"{url}?{_MANAGER}", body)
            yield f"{body['kind'].lower()}/{body['metadata']['name']} serverside-applied"


def _path(pool: urllib3.PoolManager, server: str, body: Json) -> str:
    version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for each in _call(pool, "GET", f"{server}{root}")["resources"]:
        if each["kind"] == kind and "/" not in each["name"]:
            namespace = quote(metadata.get("namespace") or "default")
            place = f"/namespaces/{namespace}" if each["namespaced"] else ""
            return f"{root}{place}/{each['name']}/{quote(metadata['name'])}"
    raise ClusterError(f"the API server does not serve {kind} of {version}")


def _call(
    pool: urllib3.PoolManager, method: str, url: str, body: Json | None = None
) -> dict[str, Any]:
    headers = {**pool.headers, **({"Content-Type": _APPLY} if body else {})}
    data = json.dumps(body).encode() if body else None
    try:
        response = pool.request(method, url, body=data, headers=headers)
    except urllib3.exceptions.HTTPError as error:
        raise ClusterError(f"the API server did not answer {method} {url}: {error}") from error
    is_json = response.data.startswith(b"{")
    parsed = json.loads(response.data) if is_json else {"message": response.data.decode()}
    if response.status >= 300:
        refused = f"the API server refused {method} {url} with {response.status}"
        raise ClusterError(f"{refused}: {parsed.get('message')}")
    return dict(parsed)
