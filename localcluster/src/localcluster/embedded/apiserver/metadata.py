"""The metadata of every object: what callers may write and what only the server writes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from localcluster.embedded.apiserver.kinds import Json, Resource

_WRITABLE: Final = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")


def timestamp(at: datetime) -> str:
    """Return a time of day as objects hold it, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_terminating(body: Json) -> bool:
    """Tell whether an object is being deleted."""
    return bool(body["metadata"].get("deletionTimestamp"))


def controller_of(body: Json) -> Json | None:
    """Return the reference to the controller of an object."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def new_metadata(given: Json, name: str, namespace: str, uid: str, now: str) -> Json:
    """Return the metadata of a new object."""
    place = {"namespace": namespace} if namespace else {}
    writable = {key: given[key] for key in _WRITABLE if given.get(key)}
    return {"name": name, **place, "uid": uid, "creationTimestamp": now, **writable}


def changed_metadata(before: Json, given: Json) -> Json:
    """Return the metadata of a changed object: the writable part as given, the rest as it was."""
    fixed = {k: value for k, value in before.items() if k not in _WRITABLE or k == "generateName"}
    return {**fixed, **{key: given[key] for key in _WRITABLE[1:] if given.get(key)}}


def with_generation(resource: Resource, before: Json, new: Json) -> Json:
    """Return a changed object with the next generation where its desired state has changed."""
    if not (resource.custom or resource.counts_generations):
        return new
    ignored = {"metadata", "status"} if resource.has_status else {"metadata"}
    if {k: v for k, v in before.items() if k not in ignored} == {
        k: v for k, v in new.items() if k not in ignored
    }:
        return new
    generation = int(before["metadata"].get("generation") or 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def metadata_errors(body: Json, old: Json) -> Iterator[str]:
    """Yield which immutable fields of the metadata a caller changed."""
    metadata, before = body.get("metadata") or {}, old["metadata"]
    for key in ("uid", "deletionTimestamp"):
        if metadata.get(key) and metadata[key] != before.get(key):
            yield f'metadata.{key}: Invalid value: "{metadata[key]}": field is immutable'
    held = before.get("finalizers") or ()
    added = [each for each in metadata.get("finalizers") or () if each not in held]
    if before.get("deletionTimestamp") and added:
        names = ", ".join(f'"{each}"' for each in added)
        why = "Forbidden: no new finalizers can be added if the object is being deleted, found new"
        yield f"metadata.finalizers: {why} finalizers []string{{{names}}}"
