"""Bodies in Kubernetes' protobuf, which kubectl's own commands send: `drain`, `create namespace`.

A body is an envelope (four bytes, the kind, the object). A message is described by its fields:
`NUMBER NAME`, with `[]` for a list, `{}` for a map and `:TYPE` for what is no string."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_MESSAGES: Final[Mapping[str, str]] = {
    "Envelope": "1 type:TypeMeta, 2 raw:raw",
    "TypeMeta": "1 apiVersion, 2 kind",
    "ObjectMeta": "1 name, 2 generateName, 3 namespace, 11 labels{}, 12 annotations{}",
    "Preconditions": "1 uid, 2 resourceVersion",
    "DeleteOptions": "1 gracePeriodSeconds:int, 2 preconditions:Preconditions, "
    "4 propagationPolicy, 5 dryRun[]",
    "Eviction": "1 metadata:ObjectMeta, 2 deleteOptions:DeleteOptions",
    "Namespace": "1 metadata:ObjectMeta",
}


def decoded(body: bytes) -> Json:
    """Return the object of a body. Raises StatusError for a kind that is not known here."""
    envelope = _message("Envelope", body[len(_MAGIC) :]) if body.startswith(_MAGIC) else {}
    kind = str((envelope.get("type") or {}).get("kind", ""))
    if kind not in _MESSAGES:
        why = f"{kind or 'this body'} is served as JSON only: add --dry-run=client -o json to the"
        end = "command and pipe what it prints to kubectl create -f -"
        raise StatusError(415, "UnsupportedMediaType", f"{why} {end}")
    return {**envelope["type"], **_message(kind, envelope.get("raw", b""))}


def _message(name: str, data: bytes) -> Json:
    fields = dict(each.split(" ") for each in _MESSAGES[name].split(", "))
    found: Json = {}
    for number, value in _fields(data):
        key, _, kind = fields.get(str(number), "").partition(":")
        if key.endswith("[]"):
            found.setdefault(key[:-2], []).append(_value(kind, value))
        elif key.endswith("{}"):
            entry = dict(_fields(value))
            found.setdefault(key[:-2], {})[entry[1].decode()] = _value(kind, entry.get(2, b""))
        elif key:
            found[key] = _value(kind, value)
    return found


def _value(kind: str, value: Any) -> Any:
    if kind == "":
        return value.decode()
    if kind == "int":
        return value - (1 << 64) if value >> 63 else value
    return value if kind == "raw" else _message(kind, value)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field: an integer, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)  # Kubernetes' messages have integers and bytes only
        if tag & 7 == 2:
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
