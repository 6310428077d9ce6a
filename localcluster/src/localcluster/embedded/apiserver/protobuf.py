"""The few messages in protobuf that kubectl sends: `create namespace`, `create configmap`, `drain`
and their like.

A message is a row of fields: a number with a wire type, then a whole number or so many bytes. Which
field is called what stands in Kubernetes' generated.proto files; here are those of the kinds that
people make without a file."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.refusals import Refusal, bad_request

MAGIC: Final = b"k8s\0"
_TEXT, _NUMBER, _FLAG, _TEXTS, _PAIRS, _DATA = "text", "number", "flag", "texts", "pairs", "data"

Message = Mapping[int, tuple[str, Any]]
"""Fields by number: each with its name in JSON, and how it is written or the message that it is."""

_METADATA: Final[Message] = {
    1: ("name", _TEXT),
    2: ("generateName", _TEXT),
    3: ("namespace", _TEXT),
    5: ("uid", _TEXT),
    6: ("resourceVersion", _TEXT),
    11: ("labels", _PAIRS),
    12: ("annotations", _PAIRS),
    14: ("finalizers", _TEXTS),
}
_DELETE_OPTIONS: Final[Message] = {
    1: ("gracePeriodSeconds", _NUMBER),
    2: ("preconditions", {1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)}),
    3: ("orphanDependents", _FLAG),
    4: ("propagationPolicy", _TEXT),
    5: ("dryRun", _TEXTS),
}
_ASKED: Final[Message] = {
    number: (name, _TEXT)
    for number, name in enumerate(
        ("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1
    )
}
_UNKNOWN: Final[Message] = {
    1: ("about", {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)}),
    2: ("raw", "bytes"),
}
_SIZES: Final = {1: 8, 5: 4}
"""How many bytes a field of these wire types has."""
_META: Final = ("metadata", _METADATA)
_MESSAGES: Final[Mapping[str, Message]] = {
    "Namespace": {1: _META},
    "ServiceAccount": {1: _META},
    "ConfigMap": {1: _META, 2: ("data", _PAIRS), 3: ("binaryData", _DATA), 4: ("immutable", _FLAG)},
    "Secret": {1: _META, 2: ("data", _DATA), 3: ("type", _TEXT), 4: ("stringData", _PAIRS)},
    "PriorityClass": {
        1: _META,
        2: ("value", _NUMBER),
        3: ("globalDefault", _FLAG),
        4: ("description", _TEXT),
        5: ("preemptionPolicy", _TEXT),
    },
    "Eviction": {1: _META, 2: ("deleteOptions", _DELETE_OPTIONS)},
    "DeleteOptions": _DELETE_OPTIONS,
    "TokenRequest": {
        1: _META,
        2: ("spec", {1: ("audiences", _TEXTS), 4: ("expirationSeconds", _NUMBER)}),
    },
    "SelfSubjectAccessReview": {2: ("spec", {1: ("resourceAttributes", _ASKED)})},
}


def decoded(body: bytes) -> Json:
    """Return an object that came as protobuf. Raises Refusal for what is none and for kinds not
    known here."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is no protobuf: it does not begin with k8s and a zero")
    try:
        whole = _message(_UNKNOWN, body[len(MAGIC) :])
        about = whole.get("about", {})
        kind = about.get("kind", "")
        if kind in _MESSAGES:
            return {**about, **_message(_MESSAGES[kind], whole.get("raw", b""))}
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is no protobuf that can be read: {error}") from None
    said = (
        f"a {kind} in protobuf is not read here; send it as JSON or YAML, as kubectl apply -f does"
    )
    raise Refusal(415, "UnsupportedMediaType", said)


def _message(fields: Message, data: bytes) -> Json:
    found: Json = {}
    for number, value in _fields(data):
        if number not in fields:
            continue
        name, shape = fields[number]
        if shape == _TEXTS:
            found.setdefault(name, []).append(value.decode())
        elif shape in (_PAIRS, _DATA):
            pair = dict(_fields(value))
            entry = base64.b64encode(pair.get(2, b"")) if shape == _DATA else pair.get(2, b"")
            found.setdefault(name, {})[pair.get(1, b"").decode()] = entry.decode()
        else:
            read = _value(shape, value)
            # An empty word is what Go writes where there is none.
            found.update({} if read == "" else {name: read})
    return found


def _value(shape: Any, value: Any) -> Any:
    if isinstance(shape, Mapping):
        return _message(shape, value)
    return value.decode() if shape == _TEXT else bool(value) if shape == _FLAG else value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field. Raises IndexError where the bytes end too
    early."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        wire, number = key & 7, key >> 3
        if wire == 0:
            value, at = _number(data, at)
            yield number, value - (1 << 64) if value >> 63 else value
            continue
        size, at = _number(data, at) if wire == 2 else (_SIZES.get(wire, len(data) + 1), at)
        if at + size > len(data):
            raise IndexError("it ends within a field")
        yield number, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a whole number and the place after it: seven bits a byte, the lowest first."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
