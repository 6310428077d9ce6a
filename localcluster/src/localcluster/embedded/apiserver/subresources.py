"""Requests about a part of an object: its scale, a pod's binding, eviction and log."""

import msgspec

from localcluster.embedded.apiserver.answers import Answer, answer
from localcluster.embedded.apiserver.kinds import PODS, Json
from localcluster.embedded.apiserver.logs import LogRequest, log_request
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.options import delete_options, write_options
from localcluster.embedded.apiserver.refusals import bad_request
from localcluster.embedded.apiserver.requests import Request, decoded, patch_of
from localcluster.embedded.apiserver.scale import scale_of, scaled
from localcluster.embedded.apiserver.shapes import check_shape
from localcluster.embedded.apiserver.writing import patching

_SUCCESS: Json = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def get_scale(objects: Objects, target: Target, request: Request) -> Answer:
    """Show how many replicas an object has and wants. Raises Refusal, as all of these do."""
    del request
    return answer(scale_of(target.resource, objects.get(target).body))


def change_scale(objects: Objects, target: Target, request: Request) -> Answer:
    """Change how many replicas an object wants."""
    main = Target(target.resource, target.namespace, target.name)
    is_patch = request.method == "PATCH"
    options = write_options("PatchOptions" if is_patch else "UpdateOptions", request.query)
    patched = patching(request, patch_of(request, PODS)) if is_patch else None
    body = decoded(request) if patched is None else {}

    def change(old: Json) -> Json:
        wanted = patched(scale_of(target.resource, old)) if patched else body
        return check_shape(target.resource, scaled(target.resource, old, wanted))

    return answer(scale_of(target.resource, objects.change(main, change, options).body))


def bind(objects: Objects, target: Target, request: Request) -> Answer:
    """Bind a pod to a node."""
    binding = decoded(request)
    named = (binding.get("metadata") or {}).get("name") or ""
    if not target.name and not named:
        raise bad_request("Name parameter required.")
    if target.name and named != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    options = write_options("CreateOptions", request.query)
    objects.bind(Target(PODS, target.namespace, named), binding, options)
    return answer(_SUCCESS, 201)


def evict(objects: Objects, target: Target, request: Request) -> Answer:
    """Delete a pod as somebody who empties a node does; no budget stands against it."""
    eviction = decoded(request)
    if (eviction.get("metadata") or {}).get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = write_options("CreateOptions", request.query)
    asked = dict(eviction.get("deleteOptions") or {})
    if options.dry_run:
        asked["dryRun"] = ["All"]
    objects.delete(
        Target(PODS, target.namespace, target.name), delete_options({}, msgspec.json.encode(asked))
    )
    return answer(_SUCCESS, 201)


def log(objects: Objects, target: Target, request: Request) -> LogRequest | Answer:
    """Say where a pod's log is to be had."""
    found = log_request(objects, target, request.query)
    return Answer(204, b"", "text/plain") if found is None else found
