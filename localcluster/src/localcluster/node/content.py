"""The files of config map, secret, downward API and projected volumes: what they hold, and writing
them."""

import base64
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from localcluster.node.environment import ObjectSource, Unresolved
from localcluster.node.fields import field_value, resource_value
from localcluster.node.objects import TokenRequest
from localcluster.node.rewriting import Rewriting
from localcluster.node.spec import Json

_PRIVATE = 0o600


class TokenSource(Protocol):
    """Where tokens of ServiceAccounts come from."""

    def token(self, request: TokenRequest) -> str:
        """Return a token that is good for a while. Raises Unresolved when there is none."""
        ...


@dataclass(frozen=True)
class ContentSource:
    """Where the content of files comes from, and what a kubeconfig beside a token says of the API
    server."""

    objects: ObjectSource
    tokens: TokenSource
    node_capacity: Mapping[str, str]
    server: str
    ca_pem: str

    def reading(self, objects: ObjectSource) -> "ContentSource":
        """Return the same with another source of config maps and secrets."""
        return replace(self, objects=objects)


@dataclass(frozen=True)
class File:
    """Content and mode of one file."""

    data: bytes
    mode: int


Files = dict[str, File]


def volume_files(
    volume: Json, pod: Json, source: ContentSource, place: Path, rewriting: Rewriting
) -> Files:
    """Return the files of a volume by relative path. Raises Unresolved when something is not there.

    `place` is the folder they will be written to; a kubeconfig that stands beside a token names it.
    """
    if "projected" in volume:
        projected = volume["projected"]
        mode = projected.get("defaultMode") or 0o644
        files: Files = {}
        for part in projected.get("sources") or ():
            files.update(_part(part, mode, pod, source, rewriting))
            if "serviceAccountToken" in part:
                token = place / part["serviceAccountToken"]["path"]
                config = kubeconfig(source, token, pod["metadata"]["namespace"])
                files[str(token.with_name("kubeconfig").relative_to(place))] = File(
                    config, _PRIVATE
                )
        return files
    kind = next(key for key in volume if key != "name")
    reference = dict(volume[kind])
    # A secret volume says `secretName` where a projected source says `name`.
    reference.setdefault("name", reference.get("secretName") or "")
    return _part({kind: reference}, reference.get("defaultMode") or 0o644, pod, source, rewriting)


def kubeconfig(source: ContentSource, token: Path, namespace: str) -> bytes:
    """Return a kubeconfig (JSON is YAML) that acts as the ServiceAccount whose token stands in a
    file."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [
            {"name": "pod", "cluster": {"server": source.server, **_authority(source.ca_pem)}}
        ],
        "users": [{"name": "pod", "user": {"tokenFile": str(token)}}],
        "contexts": [
            {"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": namespace}}
        ],
    }
    return json.dumps(config, indent=1).encode()


def write_files(place: Path, files: Files) -> None:
    """Make a folder hold exactly these files; each is replaced in one step, and only when it
    differs."""
    for name, file in files.items():
        target = place / name
        if not target.is_relative_to(place) or ".." in Path(name).parts:
            raise Unresolved(f'path "{name}" leads out of its volume')
        if not target.is_file() or target.read_bytes() != file.data:
            _replace(target, file)
    for path in place.rglob("*"):
        if path.is_file() and str(path.relative_to(place)) not in files:
            path.unlink()


def _replace(target: Path, file: File) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(descriptor, "wb") as output:
        output.write(file.data)
        os.fchmod(output.fileno(), file.mode)
    Path(temporary).replace(target)


def _part(part: Json, mode: int, pod: Json, source: ContentSource, rewriting: Rewriting) -> Files:
    if "configMap" in part:
        files = _keyed("configmap", part["configMap"], mode, pod, source)
        return {
            name: File(_rewritten(file.data, rewriting), file.mode) for name, file in files.items()
        }
    if "secret" in part:
        return _keyed("secret", part["secret"], mode, pod, source)
    if "downwardAPI" in part:
        return dict(_downward(part["downwardAPI"].get("items") or (), mode, pod, source))
    if "serviceAccountToken" in part:
        token = source.tokens.token(_token_request(part["serviceAccountToken"], pod))
        return {part["serviceAccountToken"]["path"]: File(token.encode(), _PRIVATE)}
    raise Unresolved(
        f"a projected volume has a source that process nodes do not know: {', '.join(part)}"
    )


def _keyed(kind: str, reference: Json, mode: int, pod: Json, source: ContentSource) -> Files:
    namespace, name = pod["metadata"]["namespace"], reference.get("name") or ""
    values = source.objects.values(kind, namespace, name)
    if values is None:
        if reference.get("optional"):
            return {}
        raise Unresolved(f'{kind} "{name}" not found in namespace {namespace}')
    items = reference.get("items")
    if not items:
        return {key: File(data, mode) for key, data in values.items()}
    missing = [item["key"] for item in items if item["key"] not in values]
    if missing and not reference.get("optional"):
        raise Unresolved(f'{kind} "{name}" has no key {", ".join(missing)}')
    present = [item for item in items if item["key"] in values]
    return {item["path"]: File(values[item["key"]], item.get("mode") or mode) for item in present}


def _downward(
    items: Iterable[Json], mode: int, pod: Json, source: ContentSource
) -> Iterable[tuple[str, File]]:
    for item in items:
        try:
            if "fieldRef" in item:
                value = field_value(pod, item["fieldRef"]["fieldPath"])
            else:
                value = resource_value(pod, {}, item["resourceFieldRef"], source.node_capacity)
        except ValueError as error:
            raise Unresolved(f"downward API file {item['path']}: {error}") from None
        yield item["path"], File(value.encode(), item.get("mode") or mode)


def _token_request(projection: Json, pod: Json) -> TokenRequest:
    return TokenRequest(
        namespace=pod["metadata"]["namespace"],
        service_account=pod["spec"].get("serviceAccountName") or "default",
        pod_name=pod["metadata"]["name"],
        pod_uid=pod["metadata"]["uid"],
        audience=projection.get("audience") or "",
        lifetime_seconds=int(projection.get("expirationSeconds") or 3600),
    )


def _rewritten(data: bytes, rewriting: Rewriting) -> bytes:
    try:
        return rewriting.file(data.decode()).encode()
    except UnicodeDecodeError:
        return data


def _authority(ca_pem: str) -> dict[str, str]:
    return (
        {"certificate-authority-data": base64.b64encode(ca_pem.encode()).decode()} if ca_pem else {}
    )
