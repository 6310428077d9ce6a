"""Status errors of the API server, in the real server's words."""

from collections.abc import Iterable
from typing import Final

from localcluster.embedded.apiserver.kinds import Json, Resource

MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """A request was not carried out; `status` is the body of the response."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    @property
    def status(self) -> Json:
        """The Status object."""
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


def invalid(resource: Resource, name: str, errors: Iterable[str]) -> StatusError:
    """An object has fields that are wrong; each error begins with the field."""
    sentences = list(dict.fromkeys(errors))
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    message = f'{resource.qualified_kind} "{name}" is invalid: {text}'
    return StatusError(422, "Invalid", message, _details(name, resource.group, resource.kind))


def not_found(resource: Resource, name: str) -> StatusError:
    """There is no such object."""
    message = f'{resource.store_key} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(name, resource.group, resource.plural))


def already_exists(resource: Resource, name: str) -> StatusError:
    """There is an object of this name already."""
    message = f'{resource.store_key} "{name}" already exists'
    details = _details(name, resource.group, resource.plural)
    return StatusError(409, "AlreadyExists", message, details)


def conflict(
    resource: Resource, name: str, why: str = MODIFIED, subresource: str = ""
) -> StatusError:
    """The object has changed since the caller read it, or its state rules the request out."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.store_key
    details = _details(name, resource.group, plural if subresource else resource.plural)
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, details)


def precondition_failed(resource: Resource, name: str, why: str) -> StatusError:
    """A deletion is about another object. The real server names the kind, not the resource."""
    details = _details(name, resource.group, resource.kind)
    message = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return StatusError(409, "Conflict", message, details)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    """Admission refuses the request."""
    message = f'{resource.store_key} "{name}" is forbidden: {why}'
    details = _details(name, resource.group, resource.plural)
    return StatusError(403, "Forbidden", message, details)


def bad_request(message: str) -> StatusError:
    """The request cannot be read."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """The version asked for is no longer known."""
    return StatusError(410, "Expired", message)


def no_route() -> StatusError:
    """Nothing is served at the path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> StatusError:
    """The path does not take the method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def version_in_future(asked: int, current: int) -> StatusError:
    """The resource version has not been given yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def _details(name: str, group: str, kind: str) -> Json:
    return {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": kind}
