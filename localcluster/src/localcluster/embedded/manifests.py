"""Applies manifests to an API server, for a machine without kubectl.

A folder with a kustomization is read as one that changes the rendered `manifests/install`: its
patches (a list of operations, or an object to merge), for the kind and name of their target, and
the files of its ConfigMaps. Other fields are refused: `kubectl apply -k` knows them."""

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import yaml

from localcluster.api_calls import APPLY_PATCH, ApiCalls
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.patches import json_patch, strategic_merge
from localcluster.errors import ClusterError
from localcluster.paths import REPOSITORY
from localcluster.storage import read_yaml
from optimus.kube.client import connect
from optimus.kube.errors import KubeError

_MANIFESTS: Final = REPOSITORY / "manifests"
_KNOWN: Final = {"apiVersion", "kind", "resources", "configMapGenerator", "patches"}
_HASH: Final = re.compile("-[a-z0-9]{10}$")


def apply(kubeconfig: Path, path: Path) -> str:
    """Apply a file, a folder or a kustomization; return a line for each object, as kubectl prints.

    Raises ClusterError with the server's message where it refuses one."""
    api = ApiCalls(connect(kubeconfig, user_agent="localcluster"))
    try:
        # One by one: a definition among the objects serves those that follow.
        return "".join(apply_object(api, body) for body in read(path))
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


def read(path: Path) -> list[Json]:
    """Return the objects of a file, a folder or a kustomization. Raises ClusterError."""
    if path.is_dir() and (path / "kustomization.yaml").exists():
        return _kustomized(path.resolve())
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [body for file in files for body in read_yaml(file)]


def _kustomized(folder: Path) -> list[Json]:
    if folder == _MANIFESTS:
        return read_yaml(_MANIFESTS / "install" / "install.yaml")
    content = read_yaml(folder / "kustomization.yaml")[0]
    resources = [(folder / name).resolve() for name in content["resources"]]
    if unknown := {key for key, value in content.items() if value} - _KNOWN:
        fields = ", ".join(sorted(unknown))
        raise ClusterError(f"{folder} has {fields}, which is not known here; use kubectl apply -k")
    # Of the installation, its definitions are part.
    objects = [each for path in resources if path != _MANIFESTS / "crds" for each in read(path)]
    for generator in content.get("configMapGenerator") or ():
        data = {name: (folder / name).read_text() for name in generator["files"]}
        target = {"kind": "ConfigMap", "name": generator["name"]}
        objects = _patched(objects, target, {"data": data}, folder)
    for patch in content.get("patches") or ():
        change = yaml.safe_load(patch["patch"])
        objects = _patched(objects, patch["target"], change, folder)
    return _with_new_names(objects)


def _patched(
    objects: Iterable[Json], target: Json, change: list[Json] | Json, folder: Path
) -> list[Json]:
    merge: Callable[[Any, Any], Any] = strategic_merge
    if isinstance(change, list):
        merge = json_patch
    changed, there = [], False
    for each in objects:
        is_target = (each["kind"], _base_name(each)) == (target["kind"], target["name"])
        changed.append(merge(each, change) if is_target else each)
        there = there or is_target
    if not there:
        raise ClusterError(f"a patch in {folder} is for {target}, which is not there")
    return changed


def _base_name(body: Json) -> str:
    """Return an object's name, of a ConfigMap without the hash of its content."""
    name = str(body["metadata"]["name"])
    return _HASH.sub("", name) if body["kind"] == "ConfigMap" else name


def _with_new_names(objects: list[Json]) -> list[Json]:
    """Return objects with the names of ConfigMaps by their content: pods that read one are
    recreated when it changes."""
    text = msgspec.json.encode(objects).decode()
    for each in objects:
        name = each["metadata"]["name"]
        if (base := _base_name(each)) != name:
            digest = hashlib.sha256(msgspec.json.encode(each["data"])).hexdigest()[:10]
            text = text.replace(f'"{name}"', f'"{base}-{digest}"')
    renamed: list[Json] = msgspec.json.decode(text)
    return renamed
