"""What the API server says instead of doing what was asked: Status objects, in the real one's
words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource


class Refusal(Exception):
    """A request was not carried out; `status` is the answer's body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        metadata: Json | None = None,
    ) -> None:
        """Keep what the answer says; `metadata` is that of a list where the rest of it may still be
        had."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata

    @property
    def status(self) -> Json:
        """The Status object."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata or {},
            "status": "Failure",
        }
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


@dataclass(frozen=True)
class Problem:
    """What is wrong with one field. `kind` is the reason of its cause, as in FieldValueInvalid."""

    kind: str
    field: str
    message: str

    @property
    def sentence(self) -> str:
        """The problem with its place."""
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, why: str = "") -> Problem:
    """Say that a field is missing."""
    return Problem("FieldValueRequired", field, f"Required value{': ' if why else ''}{why}")


def invalid_value(field: str, value: object, why: str) -> Problem:
    """Say that a field has a bad value."""
    return Problem("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {why}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Problem:
    """Say that a field has none of the values that it may have."""
    said = (
        f"Unsupported value: {shown(value)}: supported values: "
        f"{', '.join(shown(each) for each in supported)}"
    )
    return Problem("FieldValueNotSupported", field, said)


def forbidden_field(field: str, why: str) -> Problem:
    """Say that a field may not be set, or not be changed."""
    return Problem("FieldValueForbidden", field, f"Forbidden: {why}")


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def invalid(resource: Resource, name: str, problems: Iterable[Problem]) -> Refusal:
    """Refuse an object of which fields are wrong."""
    listed = list(problems)
    sentences = list(dict.fromkeys(each.sentence for each in listed))
    said = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    causes = [
        {"reason": each.kind, "message": each.message, "field": each.field} for each in listed
    ]
    details = {**_details(name, resource.group, resource.kind), "causes": causes}
    return Refusal(
        422, "Invalid", f'{resource.qualified_kind} "{name}" is invalid: {said}', details
    )


def not_found(resource: Resource, name: str) -> Refusal:
    """Refuse: there is no such object."""
    return Refusal(404, "NotFound", f'{resource.store_key} "{name}" not found', _of(resource, name))


def already_exists(resource: Resource, name: str) -> Refusal:
    """Refuse: there is one already."""
    return Refusal(
        409, "AlreadyExists", f'{resource.store_key} "{name}" already exists', _of(resource, name)
    )


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Resource, name: str, why: str = MODIFIED, subresource: str = "") -> Refusal:
    """Refuse: the object is not what the caller took it for."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.store_key
    details = _details(
        name, resource.group, f"{resource.plural}{'/' if subresource else ''}{subresource}"
    )
    return Refusal(
        409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}', details
    )


def precondition_failed(resource: Resource, name: str, why: str) -> Refusal:
    """Refuse to delete what the caller does not mean. The real server names the kind here, not the
    resource."""
    details = _details(name, resource.group, resource.kind)
    said = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return Refusal(409, "Conflict", said, details)


def forbidden(resource: Resource, name: str, why: str, causes: list[Any] | None = None) -> Refusal:
    """Refuse: not now and not here."""
    details = {**_of(resource, name), **({"causes": causes} if causes else {})}
    return Refusal(403, "Forbidden", f'{resource.store_key} "{name}" is forbidden: {why}', details)


def unauthorized() -> Refusal:
    """Refuse a caller who is not known."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> Refusal:
    """Refuse what cannot be understood."""
    return Refusal(400, "BadRequest", message)


def expired(message: str, metadata: Json | None = None) -> Refusal:
    """Refuse what is too old to know."""
    return Refusal(410, "Expired", message, metadata=metadata)


def no_route() -> Refusal:
    """Refuse a path that nothing is served at."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> Refusal:
    """Refuse a method that the path does not know."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def unprocessable() -> Refusal:
    """Refuse a JSON patch that cannot be applied."""
    return Refusal(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )


def unsupported_media(accepted: Iterable[str]) -> Refusal:
    """Refuse a body in a format that is not known."""
    said = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    return Refusal(415, "UnsupportedMediaType", said)


def too_large(limit: int) -> Refusal:
    """Refuse a body that is longer than is good for anybody."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def version_in_future(asked: int, current: int) -> Refusal:
    """Refuse a resource version that has not been given yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return Refusal(
        504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details
    )


def _of(resource: Resource, name: str) -> Json:
    return _details(name, resource.group, resource.plural)


def _details(name: str, group: str, kind: str) -> Json:
    return {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": kind}
