"""The part of the OpenAPI documents that kubectl insists on before it writes: that fields are
checked by the server."""

from localcluster.embedded.apiserver.kinds import Json, Kinds, Resource

ROOT = "/openapi/v3"
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldValidation")
]


def document(kinds: Kinds, path: str) -> Json | None:
    """Return the index, or the document of one version of a group; None where there is none."""
    groups = {_place(each): each for each in kinds.all()}
    if path == ROOT:
        return {"paths": {place: {"serverRelativeURL": f"{ROOT}/{place}"} for place in groups}}
    place = path.removeprefix(f"{ROOT}/")
    if place not in groups:
        return None
    paths = {_path(each): {"patch": _patch(each)} for each in kinds.all() if _place(each) == place}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
    }


def _place(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_place(resource)}{namespace}/{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Json:
    about = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    answers = {"200": {"description": "OK"}}
    return {
        "parameters": _PARAMETERS,
        "responses": answers,
        "x-kubernetes-group-version-kind": about,
    }
