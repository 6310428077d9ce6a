"""Applies manifests to an API server, for a machine without kubectl."""

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
        # One by one: a definition among the objects serves those that follow.
        return "".join(apply_object(api, body) for body in render(path))
    except KubeError as error:
        raise ClusterError(str(error)) from error


def apply_object(api: ApiCalls, body: Json) -> str:
    """Apply one object server-side; return a line about it. Raises KubeError or ClusterError."""
    api.patch(f"{_path(api, body)}?fieldManager=localcluster&force=true", body, APPLY_PATCH)
    return f"{body['kind'].lower()}/{body['metadata']['name']} serverside-applied\n"


def _path(api: ApiCalls, body: Json) -> str:
    version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for each in api.get(root)["resources"]:
        if each["kind"] == kind and "/" not in each["name"]:
            namespace = quote(metadata.get("namespace") or "default")
            place = f"/namespaces/{namespace}" if each["namespaced"] else ""
            return f"{root}{place}/{each['name']}/{quote(metadata['name'])}"
    raise ClusterError(f"the API server does not serve {kind} of {version}")
