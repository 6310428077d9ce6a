"""Applies manifests to an API server, server-side, for a machine without kubectl."""

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
_MANAGER: Final = urlencode({"fieldManager": "localcluster", "force": "true"})


def apply(kubeconfig: Path, path: Path) -> str:
    """Apply a file, a folder or a kustomization; return a line for each object, as kubectl prints
    them.

    Raises ClusterError with the server's sentence where it refuses one.
    """
    return "".join(f"{line}\n" for line in _apply_all(read_kubeconfig(kubeconfig), render(path)))


def _apply_all(credentials: Credentials, objects: Iterable[Json]) -> Iterable[str]:
    server, headers = credentials.server, {"Authorization": f"Bearer {credentials.token}"}
    with urllib3.PoolManager(
        headers=headers, retries=False, timeout=urllib3.Timeout(_SECONDS)
    ) as pool:
        for body in objects:
            # Kinds are looked up one by one: a definition among the objects serves those that
            # follow.
            path = _path(pool, server, body)
            _ask(pool, "PATCH", f"{server}{path}?{_MANAGER}", body)
            yield f"{body['kind'].lower()}/{body['metadata']['name']} serverside-applied"


def _path(pool: urllib3.PoolManager, server: str, body: Json) -> str:
    version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = _ask(pool, "GET", f"{server}{root}")["resources"]
    found = next(
        (each for each in served if each["kind"] == kind and "/" not in each["name"]), None
    )
    if found is None:
        raise ClusterError(f"the API server does not serve {kind} of {version}")
    place = (
        f"/namespaces/{quote(metadata.get('namespace') or 'default')}"
        if found["namespaced"]
        else ""
    )
    return f"{root}{place}/{found['name']}/{quote(metadata['name'])}"


def _ask(
    pool: urllib3.PoolManager, method: str, url: str, body: Json | None = None
) -> dict[str, Any]:
    headers = {
        **pool.headers,
        **({} if body is None else {"Content-Type": "application/apply-patch+yaml"}),
    }
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = pool.request(method, url, body=data, headers=headers)
    except urllib3.exceptions.HTTPError as error:
        raise ClusterError(f"the API server did not answer {method} {url}: {error}") from error
    parsed = (
        json.loads(answer.data)
        if answer.data.startswith(b"{")
        else {"message": answer.data.decode()}
    )
    if answer.status >= 300:
        raise ClusterError(
            f"the API server refused {method} {url} with {answer.status}: {parsed.get('message')}"
        )
    return dict(parsed)
