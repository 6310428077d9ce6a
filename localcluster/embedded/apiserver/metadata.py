"""The metadata that every object has: what callers may say of it, and what only the server does."""

import re
from collections.abc import Iterator
from typing import Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.refusals import Problem, forbidden_field, invalid_value

_FREE: Final = ("generateName", "labels", "annotations", "ownerReferences", "finalizers", "managedFields")
_LABEL: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_SAID: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL}')"
)
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def new_metadata(given: Json, name: str, namespace: str, uid: str, now: str) -> Json:
    """Return the metadata of a new object."""
    place = {"namespace": namespace} if namespace else {}
    free = {key: given[key] for key in _FREE if given.get(key)}
    generate = {"generateName": free.pop("generateName")} if "generateName" in free else {}
    return {"name": name, **generate, **place, "uid": uid, "creationTimestamp": now, **free}


def changed_metadata(before: Json, given: Json) -> Json:
    """Return the metadata of a changed object: what callers may change, as given; the rest as it was."""
    fixed = {key: value for key, value in before.items() if key not in _FREE or key == "generateName"}
    return {**fixed, **{key: given[key] for key in _FREE[1:] if given.get(key)}}


def metadata_problems(body: Json, old: Json | None = None) -> Iterator[Problem]:
    """Yield what is wrong with what a caller says in an object's metadata."""
    metadata = body.get("metadata") or {}
    if old is not None:
        yield from _changes(metadata, old["metadata"])
    for value in (metadata.get("labels") or {}).values():
        if not re.fullmatch(_LABEL, str(value)) or len(str(value)) > 63:
            yield invalid_value("metadata.labels", value, _LABEL_SAID)
    for index, each in enumerate(metadata.get("finalizers") or ()):
        if "/" not in each and each not in _STANDARD_FINALIZERS:
            said = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", each, said)
    yield from _owner_problems(metadata.get("ownerReferences") or [])


def _changes(metadata: Json, before: Json) -> Iterator[Problem]:
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        # The real server checks it twice, and says it once.
        yield from [invalid_value("metadata.uid", metadata["uid"], "field is immutable")] * 2
    held = before.get("finalizers") or ()
    added = [each for each in metadata.get("finalizers") or () if each not in held]
    if before.get("deletionTimestamp") and added:
        said = ", ".join(f'"{each}"' for each in added)
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        yield from [forbidden_field("metadata.finalizers", f"{why} []string{{{said}}}")] * 2


def _owner_problems(owners: list[Json]) -> Iterator[Problem]:
    place = "metadata.ownerReferences"
    for each in owners:
        for name, said in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not each.get(name):
                yield invalid_value(f"{place}.{name}", "", said)
    controllers = [each for each in owners if each.get("controller")]
    if len(controllers) > 1:
        named = " and ".join(f"{each['kind']}/{each['name']}" for each in controllers[:2])
        why = f'Only one reference can have Controller set to true. Found "true" in references for {named}'
        yield invalid_value(place, owners, why)
