"""The metadata of every object: what callers may write and what only the server writes."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from localcluster.embedded.apiserver.errors import FieldError, forbidden_field, invalid_value
from localcluster.embedded.apiserver.kinds import Json, Resource

LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
_LOWER_CASE: Final = "must consist of lower case alphanumeric characters"
LABEL_RULE: Final = (
    f"a lowercase RFC 1123 label {_LOWER_CASE} or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{LABEL}')"
)
_SUBDOMAIN_RULE: Final = (
    f"a lowercase RFC 1123 subdomain {_LOWER_CASE}, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation"
    f" is '{_NAME}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '({_NAME})?')"
)
_LONGEST: Final = 63
_WRITABLE: Final = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")
_FREE_NAMES: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})


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


def name_errors(resource: Resource, name: str) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a new object."""
    if resource.plural in _FREE_NAMES:
        return
    is_label = resource.plural in {"namespaces", "services"}
    longest = _LONGEST if is_label else 253
    if len(name) > longest:
        yield invalid_value("metadata.name", name, f"must be no more than {longest} characters")
    if not re.fullmatch(LABEL if is_label else _SUBDOMAIN, name):
        yield invalid_value("metadata.name", name, LABEL_RULE if is_label else _SUBDOMAIN_RULE)


def label_errors(labels: Json, field: str) -> Iterator[FieldError]:
    """Yield what is wrong with labels, or with what is to match labels."""
    for key, value in labels.items():
        yield from _key_errors(key, field)
        if len(value) > _LONGEST:
            yield invalid_value(field, value, f"must be no more than {_LONGEST} bytes")
        if not re.fullmatch(f"({_NAME})?", value):
            yield invalid_value(field, value, _VALUE_RULE)


def _key_errors(key: str, field: str) -> Iterator[FieldError]:
    prefix, slash, name = key.rpartition("/")
    if slash and not re.fullmatch(_SUBDOMAIN, prefix):
        yield invalid_value(field, key, f"prefix part {_SUBDOMAIN_RULE}")
    if len(name) > _LONGEST:
        yield invalid_value(field, key, f"name part must be no more than {_LONGEST} bytes")
    if not re.fullmatch(_NAME, name):
        yield invalid_value(field, key, f"name part {_NAME_RULE}")


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


def metadata_errors(body: Json, old: Json | None = None) -> Iterator[FieldError]:
    """Yield what is wrong with the metadata that a caller gave."""
    metadata, before = body.get("metadata") or {}, old["metadata"] if old else {}
    if old is not None:
        yield from _immutable_errors(metadata, before)
    if metadata.get("labels") != before.get("labels"):
        yield from label_errors(metadata.get("labels") or {}, "metadata.labels")
    if metadata.get("annotations") != before.get("annotations"):
        for key in metadata.get("annotations") or {}:
            yield from _key_errors(key, "metadata.annotations")


def _immutable_errors(metadata: Json, before: Json) -> Iterator[FieldError]:
    for key in ("uid", "deletionTimestamp"):
        if metadata.get(key) and metadata[key] != before.get(key):
            yield invalid_value(f"metadata.{key}", metadata[key], "field is immutable")
    held = before.get("finalizers") or ()
    added = [each for each in metadata.get("finalizers") or () if each not in held]
    if before.get("deletionTimestamp") and added:
        names = ", ".join(f'"{each}"' for each in added)
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        yield forbidden_field("metadata.finalizers", f"{why} []string{{{names}}}")
