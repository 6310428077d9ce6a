"""Copies of whole objects as they are stored, for programs that look at more than the product
does."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from optimus.kube.client import path_of
from optimus.kube.errors import Malformed
from optimus.kube.list_watch import ListWatch

_OBJECTS = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class RawObject:
    """One object as JSON."""

    body: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace; "" for kinds without."""
        return str(self.body["metadata"].get("namespace", ""))


def _decode(type_meta: dict[str, str], raw: bytes | msgspec.Raw) -> RawObject:
    try:
        # The items of a list do not say of which kind they are.
        return RawObject({**_OBJECTS.decode(raw), **type_meta})
    except msgspec.MsgspecError as error:
        raise Malformed(f"not an object: {error}") from error


def stored(
    group: str, version: str, plural: str, kind: str, label_selector: str = ""
) -> ListWatch[RawObject]:
    """Objects of every namespace, whole."""
    api_version = f"{group}/{version}" if group else version
    decode: Callable[[bytes | msgspec.Raw], RawObject] = partial(
        _decode, {"apiVersion": api_version, "kind": kind}
    )
    return ListWatch(
        plural, path_of(group, version, plural), decode, label_selector, optional=bool(group)
    )
