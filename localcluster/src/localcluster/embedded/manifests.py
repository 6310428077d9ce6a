"""Applies manifests to an API server, for a machine without kubectl."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from localcluster.api_calls import APPLY_PATCH, ApiCalls
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.kustomize import render
from localcluster.errors import ClusterError
from optimus.kube.client import connect
from optimus.kube.errors import KubeError


def apply(kubeconfig: Path, path: Path) -> str:
    """Apply a file, a folder or a kustomization; return a line for each object, as kubectl prints.

    Raises ClusterError with the server's message where it refuses one."""
    api = ApiCalls(connect(kubeconfig, user_agent="localcluster"))
    try:
        return "".join(f"{line}\n" for line in _apply_all(api, render(path)))
    except KubeError as error:
        raise ClusterError(str(error)) from error


def _apply_all(api: ApiCalls, objects: Iterable[Json]) -> Iterator[str]:
    for body in objects:
        # One by one: a definition among the objects serves those that follow.
        api.patch(_path(api, body), body, APPLY_PATCH)
        yield f"{body['kind'].lower()}/{body['metadata']['name']} serverside-applied"


def _path(api: ApiCalls, body: Json) -> str:
    version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for each in api.get(root)["resources"]:
        if each["kind"] == kind and "/" not in each["name"]:
            namespace = quote(metadata.get("namespace") or "default")
            place = f"/namespaces/{namespace}" if each["namespaced"] else ""
            return f"{root}{place}/{each['name']}/{quote(metadata['name'])}"
    raise ClusterError(f"the API server does not serve {kind} of {version}")
