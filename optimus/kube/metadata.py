"""The metadata of an object, as far as any reader needs it."""

import msgspec


class ObjectMetadata(msgspec.Struct, gc=False, rename="camel"):
    """What an object of the API server says of itself."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
