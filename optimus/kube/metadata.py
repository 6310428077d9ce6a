"""The parts that all objects of the API server have in common, and how they are decoded."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from optimus.kube.errors import decode

T = TypeVar("T")
Stored = TypeVar("Stored")
Spec = TypeVar("Spec")
Status = TypeVar("Status")


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    """An object for which another one was made."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group of its kind; the core group is ""."""
        return self.api_version.rpartition("/")[0]


class ObjectMetadata(msgspec.Struct, gc=False, rename="camel"):
    """The metadata of any object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controllers(self) -> list[OwnerReference]:
        """The owners that manage the object; the API server allows one."""
        return [owner for owner in self.owner_references or () if owner.controller]


class UniqueMetadata(ObjectMetadata, gc=False, kw_only=True):
    """The metadata of an object that is known by its UID."""

    uid: str


class StatusCondition(msgspec.Struct, gc=False):
    """One condition in an object's status."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class ApiObject(msgspec.Struct, Generic[Spec, Status], gc=False):
    """An object as the API server stores it."""

    metadata: ObjectMetadata
    spec: Spec | None = None
    status: Status | None = None


class ClusterScoped(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An object that belongs to no namespace."""

    name: str

    @property
    def namespace(self) -> str:
        """The empty name."""
        return ""


def decoder_of(
    stored: type[Stored], what: str, view: Callable[[Stored], T]
) -> Callable[[bytes | msgspec.Raw], T]:
    """A function from the JSON of one object to the ``view`` of what is read of it.

    It raises ``Malformed`` where the JSON is not ``what`` it should be, such as "a pod", or states
    what ``view`` cannot use, such as an amount that is no quantity."""
    decoder = msgspec.json.Decoder(stored)
    return lambda raw: view(decode(decoder, raw, what))
