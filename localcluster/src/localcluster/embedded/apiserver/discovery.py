"""Discovery: the server's version, its groups, the kinds of each, and a little of OpenAPI.

kubectl looks in OpenAPI, before it writes, whether the server validates fields itself."""

from typing import Final

from localcluster.embedded.apiserver.kinds import Json, Kinds, Resource

VERSION: Final[Json] = {
    **dict.fromkeys(("gitCommit", "gitTreeState", "goVersion", "compiler", "platform"), ""),
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3-embedded",
    "buildDate": "1970-01-01T00:00:00Z",
}
HEALTH: Final = frozenset({"/healthz", "/readyz", "/livez"})
_OPENAPI: Final = "/openapi/v3"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldValidation")
]


def document(kinds: Kinds, path: str, address: str) -> Json | None:
    """Return the document at a path, None where there is none."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served}
        case ["api", "v1"]:
            return _resources(kinds, "", "v1")
        case ["apis"]:
            groups = [_group(kinds, name) for name in kinds.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if kinds.versions(group):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, group)}
        case ["apis", group, version] if version in kinds.versions(group):
            return _resources(kinds, group, version)
        case ["openapi", "v3", *_]:
            return _openapi(kinds, path)
    return None


def _group(kinds: Kinds, name: str) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in kinds.versions(name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kinds: Kinds, group: str, version: str) -> Json:
    served = (each for each in kinds.all() if (each.group, each.version) == (group, version))
    entries = [entry for each in served for entry in each.discovery_entries()]
    named = f"{group}/{version}" if group else version
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named}
    return {**head, "resources": entries}


def _openapi(kinds: Kinds, path: str) -> Json | None:
    roots = {_root(each) for each in kinds.all()}
    if path == _OPENAPI:
        return {"paths": {root: {"serverRelativeURL": f"{_OPENAPI}/{root}"} for root in roots}}
    root = path.removeprefix(f"{_OPENAPI}/")
    if root not in roots:
        return None
    paths = {}
    for each in kinds.all():
        if _root(each) == root:
            namespace = "/namespaces/{namespace}" if each.namespaced else ""
            about = {"group": each.group, "version": each.version, "kind": each.kind}
            patch: Json = {"parameters": _PARAMETERS, "x-kubernetes-group-version-kind": about}
            patch["responses"] = {"200": {"description": "OK"}}
            paths[f"/{root}{namespace}/{each.plural}/{{name}}"] = {"patch": patch}
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": paths}


def _root(resource: Resource) -> str:
    return f"{'apis' if resource.group else 'api'}/{resource.api_version}"
