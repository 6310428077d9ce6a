"""The metadata that every object has: what callers may say of it, and what only the server does."""

import re
from collections.abc import Iterator
from typing import Final

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.refusals import Problem, forbidden_field, invalid_value

SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_SAID: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{SUBDOMAIN}')"
)
LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_SAID: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end"
    " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation "
    f"is '{LABEL}')"
)
_FREE: Final = (
    "generateName",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_KNOWN: Final = frozenset(
    {
        *_FREE,
        *(
            "name",
            "namespace",
            "selfLink",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
        ),
        *("deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)
_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_VALUE_SAID: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is"
    f" '{_VALUE}')"
)
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


_NAME_PART: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_MADE_OF: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_LONGEST: Final = 63
_ANNOTATIONS_BYTES: Final = 256 * 1024


def value_problems(value: str) -> Iterator[str]:
    """Yield what is wrong with a label's value."""
    if len(value) > _LONGEST:
        yield f"must be no more than {_LONGEST} bytes"
    if not re.fullmatch(_VALUE, value):
        yield _VALUE_SAID


def key_problems(key: str) -> Iterator[str]:
    """Yield what is wrong with the key of a label or of an annotation."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield (
            f"a valid label key {_MADE_OF} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash and not re.fullmatch(SUBDOMAIN, prefix):
        yield f"prefix part {SUBDOMAIN_SAID}"
    if not name:
        yield "name part must be non-empty"
    if len(name) > _LONGEST:
        yield f"name part must be no more than {_LONGEST} bytes"
    if not re.fullmatch(_NAME_PART, name):
        yield f"name part {_MADE_OF}"


def label_problems(labels: Json, field: str) -> Iterator[Problem]:
    """Yield what is wrong with labels, or with what is to be equal to labels."""
    for key, value in labels.items():
        yield from (invalid_value(field, key, said) for said in key_problems(key))
        yield from (invalid_value(field, value, said) for said in value_problems(value))


def new_metadata(given: Json, name: str, namespace: str, uid: str, now: str) -> Json:
    """Return the metadata of a new object."""
    place = {"namespace": namespace} if namespace else {}
    free = {key: given[key] for key in _FREE if given.get(key)}
    generate = {"generateName": free.pop("generateName")} if "generateName" in free else {}
    return {"name": name, **generate, **place, "uid": uid, "creationTimestamp": now, **free}


def unknown_metadata(body: Json) -> Iterator[str]:
    """Yield the fields of an object's metadata that no object has, as paths."""
    yield from (f"metadata.{key}" for key in body.get("metadata") or {} if key not in _KNOWN)


def changed_metadata(before: Json, given: Json) -> Json:
    """Return the metadata of a changed object: what callers may change, as given; the rest as it
    was."""
    fixed = {
        key: value for key, value in before.items() if key not in _FREE or key == "generateName"
    }
    return {**fixed, **{key: given[key] for key in _FREE[1:] if given.get(key)}}


def with_generation(resource: Resource, before: Json, new: Json) -> Json:
    """Return a changed object with the next generation, where what its owner wants of it has
    changed."""
    if resource.custom:
        ignored = {"metadata", "status"} if resource.has_status else {"metadata"}
        same = _without(before, ignored) == _without(new, ignored)
    elif resource.counts_generations:
        same = before.get("spec") == new.get("spec")
    else:
        return new
    if same:
        return new
    generation = int(before["metadata"].get("generation") or 0) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def _without(body: Json, keys: set[str]) -> Json:
    return {key: value for key, value in body.items() if key not in keys}


def metadata_problems(body: Json, old: Json | None = None) -> Iterator[Problem]:
    """Yield what is wrong with what a caller says in an object's metadata."""
    metadata = body.get("metadata") or {}
    if old is not None:
        yield from _changes(metadata, old["metadata"])
    before = old["metadata"] if old is not None else {}
    if metadata.get("labels") != before.get("labels"):
        yield from label_problems(metadata.get("labels") or {}, "metadata.labels")
    if metadata.get("annotations") != before.get("annotations"):
        yield from _annotation_problems(metadata.get("annotations") or {})
    for index, each in enumerate(metadata.get("finalizers") or ()):
        if "/" not in each and each not in _STANDARD_FINALIZERS:
            said = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", each, said)
    yield from _owner_problems(metadata.get("ownerReferences") or [])


def _annotation_problems(annotations: Json) -> Iterator[Problem]:
    for key in annotations:
        yield from (
            invalid_value("metadata.annotations", key, said) for said in key_problems(key.lower())
        )
    if (
        sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _ANNOTATIONS_BYTES
    ):
        said = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield Problem("FieldValueTooLong", "metadata.annotations", said)


def _changes(metadata: Json, before: Json) -> Iterator[Problem]:
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        # The real server checks it twice, and says it once.
        yield from [invalid_value("metadata.uid", metadata["uid"], "field is immutable")] * 2
    going = metadata.get("deletionTimestamp")
    if going and going != before.get("deletionTimestamp"):
        yield from [invalid_value("metadata.deletionTimestamp", going, "field is immutable")] * 2
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
        if (each.get("apiVersion"), each.get("kind")) == ("v1", "Event"):
            yield invalid_value(place, each, "/v1, Kind=Event is disallowed from being an owner")
    controllers = [each for each in owners if each.get("controller")]
    if len(controllers) > 1:
        named = " and ".join(f"{each['kind']}/{each['name']}" for each in controllers[:2])
        why = (
            'Only one reference can have Controller set to true. Found "true" in references '
            f"for {named}"
        )
        yield invalid_value(place, owners, why)
