"""Whole objects as JSON dictionaries, for programs that look at more than the product does."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from optimus.kube.errors import Malformed
from optimus.kube.list_watch import ListWatch

Json: TypeAlias = dict[str, Any]
"""A whole object, or a part of one."""

_OBJECTS = msgspec.json.Decoder(Json)


@dataclass(frozen=True)
class RawObject:
    """One object. It can be the subject of an Event."""

    body: Json

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace; "" for kinds without."""
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(self.body["metadata"]["uid"])


def raw_objects(
    group: str,
    version: str,
    plural: str,
    kind: str,
    *,
    label_selector: str = "",
    field_selector: str = "",
) -> ListWatch[RawObject]:
    """Objects of every namespace, whole."""
    api_version = f"{group}/{version}" if group else version

    def decode(raw: bytes | msgspec.Raw) -> RawObject:
        try:
            body = _OBJECTS.decode(raw)
        except msgspec.MsgspecError as error:
            raise Malformed(f"not an object: {error}") from error
        body["metadata"].pop("managedFields", None)
        # The items of a list do not say of which kind they are.
        return RawObject({**body, "apiVersion": api_version, "kind": kind})

    selectors = label_selector, field_selector
    return ListWatch(plural, decode, group, version, *selectors, optional=bool(group))
