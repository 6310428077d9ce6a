"""What a request asks for besides its object: flags of a query, and the options of a write, checked
as Go's types do.

A value that is not known is refused, not passed over: `dryRun=all` that is read as "no" would
write."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from localcluster.embedded.apiserver import protobuf
from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.refusals import (
    Problem,
    Refusal,
    bad_request,
    forbidden_field,
    invalid,
    shown,
    unsupported,
)

_NO: Final = frozenset({"false", "0"})
_CHECKS: Final = ("", "Ignore", "Strict", "Warn")
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_LONGEST_MANAGER: Final = 128
_DELETE_OPTIONS: Final = "DeleteOptions"


def flag(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a flag is set: whatever is given but `false` (in any case) and `0` sets it,
    nothing included."""
    return name in query and query[name].lower() not in _NO


def number(query: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of a query, None where it is missing or empty. Raises Refusal."""
    text = query.get(name)
    if text in {None, ""}:
        return None
    try:
        return int(str(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def options_refusal(kind: str, problems: Iterable[Problem]) -> Refusal:
    """Refuse options (`ListOptions`, `PatchOptions`, ...) of which something is wrong."""
    return invalid(Resource("meta.k8s.io", "v1", "", kind), "", problems)


def write_options(kind: str, query: Mapping[str, str], *, applies: bool = False) -> Options:
    """Return the options of a write that makes or changes an object. Raises Refusal.

    `kind` is the name that messages give the options, as in CreateOptions.
    """
    problems = list(_write_problems(query, may_force=applies or kind != "PatchOptions"))
    if problems:
        raise options_refusal(kind, problems)
    return Options(dry_run="dryRun" in query)


def _write_problems(query: Mapping[str, str], *, may_force: bool) -> Iterator[Problem]:
    if not may_force and "force" in query:
        yield forbidden_field("force", "may not be specified for non-apply patch")
    if len(query.get("fieldManager", "")) > _LONGEST_MANAGER:
        yield Problem(
            "FieldValueTooLong",
            "fieldManager",
            f"Too long: may not be more than {_LONGEST_MANAGER} bytes",
        )
    yield from _dry_run_problems([query["dryRun"]] if "dryRun" in query else [])
    if query.get("fieldValidation", "") not in _CHECKS:
        yield unsupported("fieldValidation", query["fieldValidation"], _CHECKS)


def _dry_run_problems(asked: list[Any]) -> Iterator[Problem]:
    if any(each != "All" for each in asked):
        yield unsupported("dryRun", asked, ["All"])


def delete_options(query: Mapping[str, str], body: bytes) -> Options:
    """Return the options of a deletion: those of the body, else, without a body, of the query.
    Raises Refusal."""
    given = _in_body(body) if body else _in_query(query)
    policy, orphan, dry = (
        given.get("propagationPolicy"),
        given.get("orphanDependents"),
        given.get("dryRun") or [],
    )
    problems = [
        *_policy_problems(policy, orphan),
        *_dry_run_problems(dry),
    ]
    if problems:
        raise options_refusal(_DELETE_OPTIONS, problems)
    preconditions = given.get("preconditions") or {}
    seconds = given.get("gracePeriodSeconds")
    return Options(
        dry_run=bool(dry),
        grace_seconds=None if seconds is None else 1 if seconds < 0 else seconds,
        propagation=policy or ("Orphan" if orphan else None),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )


def _policy_problems(policy: Any, orphan: Any) -> Iterator[Problem]:
    if policy is None:
        return
    if orphan is not None:
        said = "orphanDependents and deletionPropagation cannot be both set"
        yield Problem(
            "FieldValueInvalid", "propagationPolicy", f"Invalid value: {shown(policy)}: {said}"
        )
    elif policy not in _POLICIES:
        yield unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))


def _in_query(query: Mapping[str, str]) -> Json:
    given: Json = {"gracePeriodSeconds": number(query, "gracePeriodSeconds")}
    given.update(
        {"propagationPolicy": query["propagationPolicy"]} if "propagationPolicy" in query else {}
    )
    given.update(
        {"orphanDependents": flag(query, "orphanDependents")} if "orphanDependents" in query else {}
    )
    return {**given, **({"dryRun": [query["dryRun"]]} if "dryRun" in query else {})}


def _in_body(body: bytes) -> Json:
    if body.startswith(protobuf.MAGIC):
        return protobuf.decoded(body)
    try:
        given = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        said = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"couldn't get version/kind; json parse error: {said}") from None
    if not isinstance(given, dict):
        raise bad_request("couldn't get version/kind; json parse error: no JSON object")
    return checked_delete_options(given)


def checked_delete_options(given: Json) -> Json:
    """Return DeleteOptions as they stand in a body. Raises Refusal for another kind and for fields
    of another type."""
    kind, version = given.get("kind") or _DELETE_OPTIONS, given.get("apiVersion") or "v1"
    if kind != _DELETE_OPTIONS:
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    for name, wanted, said in (
        ("gracePeriodSeconds", int, "int64"),
        ("propagationPolicy", str, "string"),
        ("orphanDependents", bool, "bool"),
        ("dryRun", list, "[]string"),
        ("preconditions", dict, "v1.Preconditions"),
    ):
        value = given.get(name)
        if value is not None and (
            not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))
        ):
            found = (
                "string"
                if isinstance(value, str)
                else "number"
                if isinstance(value, int | float)
                else "object"
            )
            raise bad_request(
                f"json: cannot unmarshal {found} into Go struct field {_DELETE_OPTIONS}.{name} of "
                f"type {said}"
            )
    return given
