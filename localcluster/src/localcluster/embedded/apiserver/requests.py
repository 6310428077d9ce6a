"""What a request says: its path as a target, its body as an object or a patch, its options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
import yaml

from localcluster.embedded.apiserver import protobuf
from localcluster.embedded.apiserver.kinds import PODS, Json, Kinds, Resource
from localcluster.embedded.apiserver.objects import Target
from localcluster.embedded.apiserver.refusals import (
    Refusal,
    bad_request,
    invalid,
    invalid_value,
    no_route,
    unsupported_media,
)

JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_BODIES: Final = (JSON, _YAML, _PROTOBUF)
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
        """Take apart what the HTTP server has read; names of headers are in lower case."""
        parameters = (
            dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}
        )
        content_type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
        shown, wanted = headers.get(b"authorization", b""), headers.get(b"accept", b"")
        return cls(method, path, parameters, content_type or JSON, body, shown, wanted)


def target_of(kinds: Kinds, path: str) -> Target | None:
    """Return what a path is about; None where it lies outside of the served groups. Raises
    Refusal."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2 and parts[1] == "v1":
        return _within(kinds, "", "v1", parts[2:])
    if parts[0] == "apis" and len(parts) > 3 and parts[2] in kinds.versions(parts[1]):
        return _within(kinds, parts[1], parts[2], parts[3:])
    return None


def _within(kinds: Kinds, group: str, version: str, parts: list[str]) -> Target:
    namespace = ""
    own = not group and (len(parts) < 3 or parts[2] in {"status", "finalize"})
    if parts[0] == "namespaces" and not own:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", ""][:3] if len(parts) < 4 else ("", "", "")
    if (group, plural) == ("", "bindings") and namespace and not name:
        return Target(PODS, namespace, "", "binding")
    resource = kinds.find(group, version, plural)
    if resource is None or (subresource and subresource not in resource.served_subresources):
        raise no_route()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise no_route()
    return Target(resource, namespace, name, subresource)


def decoded(request: Request) -> Any:
    """Return the body as JSON values. Raises Refusal."""
    if request.content_type == _PROTOBUF:
        return protobuf.decoded(request.body)
    if request.content_type not in {JSON, _YAML}:
        raise unsupported_media(_BODIES)
    try:
        return (
            yaml.safe_load(request.body)
            if request.content_type == _YAML
            else msgspec.json.decode(request.body)
        )
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        said = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        shown = request.body[:100].decode(errors="replace")
        raise bad_request(
            f"couldn't get version/kind; json parse error: {said} ({shown})"
        ) from None


def object_of(request: Request, resource: Resource) -> Json:
    """Return the body as an object of this kind. Raises Refusal."""
    try:
        body = decoded(request)
    except Refusal as refusal:
        if refusal.code != 400:
            raise
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): {refusal}"
        ) from None
    if not isinstance(body, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): no JSON object"
        )
    check_kind(body, resource, request.body)
    return body


def check_kind(body: Json, resource: Resource, raw: bytes = b"") -> None:
    """Refuse an object that says it is of another kind."""
    version, kind = body.get("apiVersion"), body.get("kind")
    if resource.custom and not (kind and version):
        missing, shown = ("Kind" if not kind else "apiVersion"), raw.decode(errors="replace")
        said = f"Object '{missing}' is missing in '{shown}'"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): {said} "
            f"({shown[:30]} ...)"
        )
    if version and version != resource.api_version:
        said = f"the API version in the data ({version}) does not match the expected API version"
        raise bad_request(f"{said} ({resource.api_version})")
    if kind and kind != resource.kind:
        if resource.custom:
            other = Resource(resource.group, resource.version, resource.plural, kind)
            name = (body.get("metadata") or {}).get("name", "")
            raise invalid(other, name, [invalid_value("kind", kind, f"must be {resource.kind}")])
        group = resource.group.partition(".")[0] or "core"
        conversion = f"converting (v1.{kind}) to ({group}.{resource.kind}): unknown conversion"
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"{conversion}"
        )


def patch_of(request: Request, resource: Resource) -> Any:
    """Return the body as a patch. Raises Refusal for a format that the kind does not take."""
    formats = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    accepted = formats if resource.custom else (*formats, STRATEGIC_PATCH)
    if request.content_type not in accepted:
        if request.content_type == STRATEGIC_PATCH:
            raise unsupported_media(formats)
        raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        if request.content_type == APPLY_PATCH and not request.body.lstrip().startswith(b"{"):
            return yaml.safe_load(request.body)
        patch = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        said = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"error decoding patch: {said}") from None
    if isinstance(patch, list) and request.content_type != JSON_PATCH:
        said = "json: cannot unmarshal array into Go value of type map[string]interface {}"
        raise bad_request(f"error decoding patch: {said}")
    return patch
