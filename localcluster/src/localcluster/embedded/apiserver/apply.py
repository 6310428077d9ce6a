"""Server-side apply: a manager says which fields it wants; those that it no longer mentions go.

What each manager applied is kept in metadata.managedFields, as paths of fields. Managers conflict
where one wants another value in a field that another one applied. Writers that do not apply are not
recorded, and never conflict."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.patches import merge_key, merge_patch, strategic_merge
from localcluster.embedded.apiserver.refusals import Refusal

Path: TypeAlias = tuple[str, ...]
"""From the top of an object to a field: `f:name` for a key, `k:{...}` for the element of a list
with this key."""

_NOT_OWNED: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")}
)


def applied(
    resource: Resource, live: Json | None, config: Json, manager: str, force: bool, now: str
) -> Json:
    """Return the object after `manager` applied `config` to what is there (None: nothing). Raises
    Refusal."""
    wanted = frozenset(_fields(config, resource.custom)) - _NOT_OWNED
    owners = _owners(live or {})
    own = owners.pop(manager, frozenset())
    for other, conflicts in _conflicts(live or {}, config, wanted, owners).items():
        if not force:
            raise _refusal({other: conflicts})
        owners[other] -= conflicts
    base = live or {}
    for path in sorted(own - wanted - frozenset().union(*owners.values())):
        base = _without(base, path)
    merge = merge_patch if resource.custom else strategic_merge
    new: Json = merge(base, config)
    metadata = {key: value for key, value in new["metadata"].items() if key != "resourceVersion"}
    metadata["managedFields"] = _records(
        live, resource.api_version, {**owners, manager: wanted}, now
    )
    return {**new, "metadata": metadata}


def _fields(value: Any, custom: bool, at: Path = ()) -> Iterator[Path]:
    """Yield the paths of the fields that hold a value of their own."""
    if not isinstance(value, dict) or not value:
        yield at
        return
    for key, each in value.items():
        path = (*at, f"f:{key}")
        name = merge_key(key, each) if isinstance(each, list) and each and not custom else None
        if name is None:
            yield from _fields(each, custom, path)
            continue
        for element in each:
            yield from _fields(element, custom, (*path, _element(name, element[name])))


def _element(key: str, value: Any) -> str:
    return f"k:{msgspec.json.encode({key: value}).decode()}"


def _owners(live: Json) -> dict[str, frozenset[Path]]:
    records = (live.get("metadata") or {}).get("managedFields") or ()
    return {
        each["manager"]: frozenset(_paths(each["fieldsV1"]))
        for each in records
        if each.get("operation") == "Apply"
    }


def _paths(tree: Json, at: Path = ()) -> Iterator[Path]:
    for key, inner in tree.items():
        yield from _paths(inner, (*at, key)) if inner else [(*at, key)]


def _records(
    live: Json | None, api_version: str, owners: dict[str, frozenset[Path]], now: str
) -> list[Json]:
    known = {
        each["manager"]: each
        for each in ((live or {}).get("metadata") or {}).get("managedFields") or ()
    }
    records = []
    for manager, paths in owners.items():
        record: Json = {
            "manager": manager,
            "operation": "Apply",
            "apiVersion": api_version,
            "time": now,
        }
        record.update({"fieldsType": "FieldsV1", "fieldsV1": _tree(paths)})
        before = known.get(manager)
        if before is not None and before["fieldsV1"] == record["fieldsV1"]:
            record["time"] = before["time"]
        if paths:
            records.append(record)
    return records


def _tree(paths: frozenset[Path]) -> Json:
    tree: Json = {}
    for path in sorted(paths):
        at = tree
        for part in path:
            at = at.setdefault(part, {})
    return tree


def _conflicts(
    live: Json, config: Json, wanted: frozenset[Path], owners: dict[str, frozenset[Path]]
) -> dict[str, frozenset[Path]]:
    found = {}
    for manager, paths in owners.items():
        different = frozenset(
            path for path in paths & wanted if _value(live, path) != _value(config, path)
        )
        if different:
            found[manager] = different
    return found


def _value(body: Any, path: Path) -> Any:
    for part in path:
        if body is None:
            return None
        body = body.get(part[2:]) if part.startswith("f:") else _found(body, part)
    return body


def _found(elements: list[Any], part: str) -> Any:
    ((key, value),) = msgspec.json.decode(part[2:]).items()
    return next(
        (each for each in elements if isinstance(each, dict) and each.get(key) == value), None
    )


def _without(body: Any, path: Path) -> Any:
    """Return a body without the field at a path; what is left empty by that goes, too."""
    part, rest = path[0], path[1:]
    if body is None:
        return None
    if part.startswith("k:"):
        element = _found(body, part)
        inner = _without(element, rest) if rest else None
        # An element goes with its key, whatever the server filled in beside it.
        gone = not inner or _found([inner], part) is None
        return [
            inner if each is element else each for each in body if each is not element or not gone
        ]
    inner = _without(body.get(part[2:]), rest) if rest else None
    kept = {key: value for key, value in body.items() if key != part[2:]}
    return {**kept, part[2:]: inner} if inner else kept


def _refusal(conflicts: dict[str, frozenset[Path]]) -> Refusal:
    listed = [
        (manager, _said(path)) for manager, paths in conflicts.items() for path in sorted(paths)
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}
        for manager, field in listed
    ]
    if len(listed) == 1:
        said = f'Apply failed with 1 conflict: conflict with "{listed[0][0]}": {listed[0][1]}'
    else:
        fields = "".join(f"\n- {field}" for _, field in listed)
        said = (
            f'Apply failed with {len(listed)} conflicts: conflicts with "{listed[0][0]}":{fields}'
        )
    return Refusal(409, "Conflict", said, {"causes": causes})


def _said(path: Path) -> str:
    return "".join(
        f".{part[2:]}" if part.startswith("f:") else f"[{_keyed(part)}]" for part in path
    )


def _keyed(part: str) -> str:
    ((key, value),) = msgspec.json.decode(part[2:]).items()
    return f"{key}={msgspec.json.encode(value).decode()}"
