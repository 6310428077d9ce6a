"""Lists and events as the tables that kubectl prints."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from localcluster.embedded.apiserver.columns import (
    BUILT_IN,
    NAME_AND_AGE,
    Cell,
    Column,
    ago,
    at_path,
    name,
)
from localcluster.embedded.apiserver.kinds import Json, Resource

ASKED: Final = "as=Table"
"""What an Accept header says where a table is wanted."""


def table(
    resource: Resource,
    bodies: Iterable[Json],
    metadata: Json,
    now: datetime,
    *,
    include: str = "Metadata",
) -> Json:
    """Return objects as a Table; `include` says how much of each object goes with its row:
    Metadata, Object or None."""
    columns = columns_of(resource)
    rows = [
        {"cells": [cell(each, now) for *_, cell in columns], **_with_row(resource, each, include)}
        for each in bodies
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**head, "columnDefinitions": [_definition(*each[:3]) for each in columns], "rows": rows}


class TableEvents:
    """Turns the objects of one watch into tables of one row; only the first says what the columns
    are."""

    def __init__(self, resource: Resource, clock: Callable[[], datetime], include: str) -> None:
        """Take the kind, a clock, and how much of an object goes with its row."""
        self._resource = resource
        self._clock = clock
        self._include = include
        self._told = False

    def __call__(self, body: Json) -> bytes:
        """Return an object as a table."""
        version = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        found = table(self._resource, [body], version, self._clock(), include=self._include)
        if self._told:
            found["columnDefinitions"] = None
        self._told = True
        return msgspec.json.encode(found)


def _definition(heading: str, kind: str, rank: int) -> Json:
    form = "name" if heading == "Name" else ""
    return {"name": heading, "type": kind, "format": form, "description": heading, "priority": rank}


def _with_row(resource: Resource, body: Json, include: str) -> Json:
    if include == "None":
        return {"object": None}
    if include == "Object":
        return {"object": {"kind": resource.kind, "apiVersion": resource.api_version, **body}}
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {"object": {**head, "metadata": body["metadata"]}}


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Return the columns of a kind: those of its definition, or those that people know of built-in
    kinds."""
    if not resource.columns:
        return NAME_AND_AGE if resource.custom else BUILT_IN.get(resource.plural, NAME_AND_AGE)
    defined = (
        (each["name"], each["type"], each.get("priority", 0), _said(each))
        for each in resource.columns
    )
    return (("Name", "string", 0, name), *defined)


def _said(column: Mapping[str, Any]) -> Cell:
    def cell(body: Json, now: datetime) -> Any:
        value = at_path(body, column["jsonPath"])
        return ago(value, now) if column["type"] == "date" and value else value

    return cell
