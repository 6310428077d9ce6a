"""Requests and responses as values: paths, bodies, query options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

import msgspec
import yaml

from localcluster.embedded.apiserver.errors import (
    StatusError,
    bad_request,
    no_route,
    version_in_future,
)
from localcluster.embedded.apiserver.kinds import Json, Kinds, Resource
from localcluster.embedded.apiserver.protobuf import PROTOBUF, decoded
from localcluster.embedded.apiserver.store import Stored

JSON: Final = "application/json"
_YAML: Final = "application/yaml"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str = JSON
    body: bytes = b""
    authorization: bytes = b""
    accept: bytes = b""

    @classmethod
    def of(
        cls, method: str, path: str, query: bytes, headers: Mapping[bytes, bytes], body: bytes
    ) -> "Request":
        """Return a request from what the HTTP server has read; header names are in lower case."""
        options = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}
        content_type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
        authorization, accept = headers.get(b"authorization", b""), headers.get(b"accept", b"")
        return cls(method, path, options, content_type or JSON, body, authorization, accept)


@dataclass(frozen=True)
class Response:
    """One whole response."""

    code: int
    body: bytes
    content_type: str = JSON


def respond(body: Json | Stored, code: int = 200) -> Response:
    """Return an object or a Status as a response."""
    raw = body.raw if isinstance(body, Stored) else msgspec.json.encode(body)
    return Response(code, raw + b"\n")


@dataclass(frozen=True)
class Target:
    """What a request is about: a kind, and perhaps one object of it and a subresource of that."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(kinds: Kinds, path: str) -> Target | None:
    """Return the target of a path; None outside of the served groups. Raises StatusError."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2 and parts[1] == "v1":
        return _target(kinds, "", "v1", parts[2:])
    if parts[0] == "apis" and len(parts) > 3 and parts[2] in kinds.versions(parts[1]):
        return _target(kinds, parts[1], parts[2], parts[3:])
    return None


def _target(kinds: Kinds, group: str, version: str, parts: list[str]) -> Target:
    namespace = ""
    is_namespace = not group and (len(parts) < 3 or parts[2] == "status")
    if parts[0] == "namespaces" and not is_namespace:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", ""][:3] if len(parts) < 4 else ("", "", "")
    resource = kinds.find(group, version, plural)
    if resource is None or (subresource and subresource not in resource.subresources):
        raise no_route()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise no_route()
    return Target(resource, namespace, name, subresource)


def body_of(request: Request) -> Json:
    """Return the body as a JSON object. Raises StatusError."""
    if request.content_type == PROTOBUF:
        return decoded(request.body)
    if request.content_type not in {JSON, _YAML}:
        raise _unsupported_media((JSON, _YAML))
    body = _parsed(request, "couldn't get version/kind; json parse error", request.content_type)
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: no JSON object")
    return body


def object_of(request: Request, resource: Resource) -> Json:
    """Return the body as an object of this kind. Raises StatusError."""
    body = body_of(request)
    check_kind(body, resource)
    return body


def check_kind(body: Json, resource: Resource) -> None:
    """Refuse an object of another kind. Raises StatusError."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if resource.custom and not (kind and version):
        missing = "apiVersion" if kind else "Kind"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object '{missing}' is missing"
        )
    if version and version != resource.api_version:
        why = f"the API version in the data ({version}) does not match the expected API version"
        raise bad_request(f"{why} ({resource.api_version})")
    if kind and kind != resource.kind:
        raise bad_request(f"the kind in the data ({kind}) does not match {resource.kind}")


def patch_of(request: Request, resource: Resource) -> Any:
    """Return the body as a patch. Raises StatusError for a format that the kind does not take."""
    accepted = {JSON_PATCH, MERGE_PATCH, APPLY_PATCH}
    if request.content_type not in (accepted if resource.custom else {*accepted, STRATEGIC_PATCH}):
        raise _unsupported_media(sorted(accepted))
    kind = _YAML if request.content_type == APPLY_PATCH else JSON
    patch = _parsed(request, "error decoding patch", kind)
    if isinstance(patch, list) != (request.content_type == JSON_PATCH):
        raise bad_request("error decoding patch: a JSON patch is a list, any other an object")
    return patch


def _parsed(request: Request, failure: str, kind: str) -> Any:
    try:
        # Almost all YAML that is sent is JSON, which msgspec reads a hundred times faster.
        if kind == _YAML and not request.body.lstrip().startswith((b"{", b"[")):
            return yaml.safe_load(request.body)
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"{failure}: {error}") from None


def _unsupported_media(accepted: Iterable[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, "UnsupportedMediaType", f"{message}{', '.join(accepted)}")


def flag(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a flag is set: by any value but `false` (in any case) and `0`."""
    return name in query and query[name].lower() not in {"false", "0"}


def number(query: Mapping[str, Any], name: str) -> int | None:
    """Return an integer of a query, None where it is missing or empty. Raises StatusError."""
    text = query.get(name)
    if text in {None, ""}:
        return None
    try:
        return int(str(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def version_number(query: Mapping[str, str]) -> int | None:
    """Return the `resourceVersion` of a query, None where it is empty. Raises StatusError."""
    version = query.get("resourceVersion", "")
    if version and not (version.isascii() and version.isdecimal()):
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{version}": '
            f'strconv.ParseUint: parsing "{version}": invalid syntax'
        )
    return int(version) if version else None


def check_version(query: Mapping[str, str], current: int) -> None:
    """Refuse a read of a version that has not been given yet. Raises StatusError."""
    version = version_number(query)
    if version is not None and version > current:
        raise version_in_future(version, current)


def refuse_dry_run(query: Mapping[str, str]) -> None:
    """Refuse a dry run: a write that is read as one without it would take effect."""
    if query.get("dryRun"):
        raise bad_request("dry runs are not served by the embedded API server")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    """What must hold for a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """What a deletion asks for. Dependents go in the background, whatever is asked for."""

    kind: Literal["DeleteOptions"] = "DeleteOptions"
    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background"] | None = None
    dry_run: tuple[()] = ()
    preconditions: Preconditions = Preconditions()


def delete_options(request: Request) -> DeleteOptions:
    """Return the options of a deletion: of the body, or else of the query. Raises StatusError."""
    refuse_dry_run(request.query)
    if not request.body:
        return options_of({key: value for key, value in request.query.items() if key != "pretty"})
    return options_of(body_of(request))


def options_of(given: Mapping[str, Any]) -> DeleteOptions:
    """Return the options of a deletion or an eviction. Raises StatusError for one not served."""
    try:
        return msgspec.convert(given, DeleteOptions, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(f"these options of a deletion are not served: {error}") from None
