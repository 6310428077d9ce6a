"""What is said of fields that a custom resource does not have: dropped, warned of, or refused, as
the caller asks.

`fieldValidation=Strict`, which kubectl sends with everything it writes, turns a typing error into a
refusal; without it the field is dropped and a warning goes with the answer. Built-in kinds are not
checked: their types are not known here.
"""

from collections.abc import Mapping

import msgspec

from localcluster.embedded.apiserver import schema
from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.metadata import unknown_metadata
from localcluster.embedded.apiserver.refusals import Problem, Refusal, bad_request
from localcluster.embedded.apiserver.shapes import check_shape


class FieldCheck:
    """Looks at the bodies of one request; `warnings` is what it has to say."""

    def __init__(self, resource: Resource, query: Mapping[str, str]) -> None:
        """Take the kind, and the query with the caller's wish."""
        self._resource = resource
        self._mode = query.get("fieldValidation") or "Warn"
        self.warnings: tuple[str, ...] = ()

    def sent(self, body: Json) -> Json:
        """Return a body that was sent whole. Raises Refusal."""
        unknown = self._unknown(body)
        if unknown:
            kind, version = self._resource.kind, self._resource.version
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {_strictly(unknown)}'
            )
        return body

    def patched(self, body: Json) -> Json:
        """Return a body that a patch made. Raises Refusal."""
        unknown = self._unknown(body)
        if unknown:
            raise unreadable(body, _strictly(unknown))
        try:
            check_shape(self._resource, body)
        except Refusal as refusal:
            why = refusal.message.partition(f"cannot be handled as a {self._resource.kind}: ")[2]
            raise unreadable(body, why) if why else refusal from None
        return body

    def _unknown(self, body: Json) -> list[str]:
        """Return what is to be refused, as sentences."""
        if self._resource.schema is None or self._mode == "Ignore":
            return []
        paths = [*schema.unknown_fields(self._resource.schema, body), *unknown_metadata(body)]
        said = [f'unknown field "{path}"' for path in sorted(paths)]
        self.warnings = () if self._mode == "Strict" else tuple(said)
        return said if self._mode == "Strict" else []


def declared(resource: Resource, config: Json) -> Json:
    """Return what an applier sent. Raises Refusal for a field that the kind does not have."""
    unknown = (
        sorted(schema.unknown_fields(resource.schema, config))
        if resource.schema is not None
        else []
    )
    if unknown:
        namespace, name = (
            (config.get("metadata") or {}).get(key) or "" for key in ("namespace", "name")
        )
        about = f"({namespace}/{name}; {resource.api_version}, Kind={resource.kind})"
        raise Refusal(
            500,
            "",
            (
                f"failed to create typed patch object {about}: .{unknown[0]}: field not declared "
                "in "
                "schema"
            ),
        )
    return config


def unreadable(body: Json, why: str) -> Refusal:
    """Refuse a patch whose result cannot be read as an object of its kind."""
    shown = msgspec.json.encode(msgspec.json.encode(body).decode()).decode()
    problem = Problem("FieldValueInvalid", "patch", f"Invalid value: {shown}: {why}")
    cause = {"reason": problem.kind, "message": problem.message, "field": problem.field}
    return Refusal(422, "Invalid", f' "" is invalid: {problem.sentence}', {"causes": [cause]})


def _strictly(unknown: list[str]) -> str:
    return f"strict decoding error: {', '.join(unknown)}"
