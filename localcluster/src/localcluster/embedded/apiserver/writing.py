"""Objects that are made, replaced, patched, applied and deleted, from the request to the answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.answers import Answer, answer
from localcluster.embedded.apiserver.apply import applied
from localcluster.embedded.apiserver.fieldchecks import FieldCheck, declared, unreadable
from localcluster.embedded.apiserver.kinds import NAMESPACES, Json, Resource
from localcluster.embedded.apiserver.lists import encoded_list
from localcluster.embedded.apiserver.objects import (
    Change,
    Objects,
    Target,
    must_be_meant,
    must_name_version,
)
from localcluster.embedded.apiserver.options import (
    delete_options,
    flag,
    options_refusal,
    write_options,
)
from localcluster.embedded.apiserver.patches import json_patch, merge_patch, strategic_merge
from localcluster.embedded.apiserver.refusals import bad_request, not_allowed, not_found, required
from localcluster.embedded.apiserver.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Request,
    check_kind,
    object_of,
    patch_of,
)
from localcluster.embedded.apiserver.selectors import parse_selection
from localcluster.embedded.apiserver.shapes import check_shape

_MADE_BY_PUT: Final = frozenset(
    {
        "leases",
        "events",
        "endpoints",
        "limitranges",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
    }
)
"""Kinds of which a PUT makes what is not there."""
_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
}


def create(objects: Objects, target: Target, request: Request) -> Answer:
    """Make an object. Raises Refusal, as all of these do."""
    if target.resource.namespaced and not target.namespace:
        raise not_allowed()
    options, check = (
        write_options("CreateOptions", request.query),
        FieldCheck(target.resource, request.query),
    )
    body = check.sent(object_of(request, target.resource))
    return answer(objects.create(target, body, options), 201, check.warnings)


def put(objects: Objects, target: Target, request: Request) -> Answer:
    """Replace an object, or make one of the kinds for which that will do."""
    options, check = (
        write_options("UpdateOptions", request.query),
        FieldCheck(target.resource, request.query),
    )
    body = check.sent(object_of(request, target.resource))
    must_be_meant(target, body)
    there = objects.store.find(target.resource.store_key, (target.namespace, target.name))
    if there is None and target.resource.plural in _MADE_BY_PUT and not target.subresource:
        metadata = {
            key: value for key, value in body["metadata"].items() if key != "resourceVersion"
        }
        return answer(
            objects.create(target, {**body, "metadata": metadata}, options), 201, check.warnings
        )
    if there is None:
        raise not_found(target.resource, target.name)
    must_name_version(target.resource, body, target.name)
    check_shape(target.resource, body)
    return answer(objects.change(target, lambda _: body, options), warnings=check.warnings)


def patch(objects: Objects, target: Target, request: Request) -> Answer:
    """Change an object by a patch of any kind."""
    changes = patch_of(request, target.resource)
    if request.content_type == APPLY_PATCH:
        return _apply(objects, target, request, changes)
    options, check = (
        write_options("PatchOptions", request.query),
        FieldCheck(target.resource, request.query),
    )
    patched = patching(request, changes)

    def change(old: Json) -> Json:
        new = patched(old)
        if not isinstance(new, dict):
            raise bad_request("Invalid JSON Patch")
        return check.patched(_of_its_kind(target.resource, request, new))

    return answer(objects.change(target, change, options), warnings=check.warnings)


def patching(request: Request, changes: Any) -> Change:
    """Return what a patch does to an object."""
    merge = _MERGES.get(request.content_type, strategic_merge)
    return lambda old: merge(old, changes)


def _of_its_kind(resource: Resource, request: Request, body: Json) -> Json:
    """Return what a patch made of an object. Raises Refusal where that is of another kind."""
    if request.content_type == STRATEGIC_PATCH or resource.custom:
        if resource.custom:
            check_kind(body, resource)
        return body
    kind, version = body.get("kind"), body.get("apiVersion")
    if version != resource.api_version:
        raise unreadable(
            body,
            (
                f'no kind "{kind}" is registered for version "{version}" in scheme '
                '"pkg/runtime/scheme.go:111"'
            ),
        )
    if kind != resource.kind:
        group = resource.group.partition(".")[0] or "core"
        raise unreadable(
            body, f"converting (v1.{kind}) to ({group}.{resource.kind}): unknown conversion"
        )
    return body


def _apply(objects: Objects, target: Target, request: Request, config: Any) -> Answer:
    manager, force = request.query.get("fieldManager", ""), flag(request.query, "force")
    if not manager:
        raise options_refusal(
            "PatchOptions", [required("fieldManager", "is required for apply patch")]
        )
    resource, options = target.resource, write_options("PatchOptions", request.query, applies=True)
    _check_applied(target, config)
    live = objects.store.find(resource.store_key, (target.namespace, target.name))
    if live is None:
        made = applied(resource, None, config, manager, force, objects.now())
        return answer(objects.create(target, made, options), 201)
    now = objects.now()

    def change(old: Json) -> Json:
        return check_shape(resource, applied(resource, old, config, manager, force, now))

    return answer(objects.change(target, change, options))


def _check_applied(target: Target, config: Any) -> None:
    resource = target.resource
    kind, version = (
        (config.get(key) or "" for key in ("kind", "apiVersion"))
        if isinstance(config, dict)
        else ("", "")
    )
    if (kind, version) != (resource.kind, resource.api_version):
        raise bad_request(
            f"invalid object type: {version if '/' in version else f'/{version}'}, Kind={kind}"
        )
    must_be_meant(target, config, named=not target.subresource)
    if (config.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    declared(resource, config)


def delete(objects: Objects, target: Target, request: Request) -> Answer:
    """Delete an object."""
    return answer(objects.delete(target, delete_options(request.query, request.body)))


def delete_all(objects: Objects, target: Target, request: Request) -> Answer:
    """Delete all objects of a collection that are selected."""
    if target.resource is NAMESPACES or (target.resource.namespaced and not target.namespace):
        raise not_allowed()
    selection = parse_selection(target.resource, request.query, target.namespace)
    options = delete_options(request.query, request.body)
    version = objects.store.version
    there = objects.store.items(target.resource.store_key, target.namespace)
    found = [each for each in there if selection.matches(each.body)]
    for each in found:
        objects.delete(Target(target.resource, *each.name), options)
    return Answer(200, encoded_list(target.resource, {"resourceVersion": str(version)}, found))
