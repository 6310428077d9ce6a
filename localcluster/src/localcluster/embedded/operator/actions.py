"""What the operator does to the cluster, as values."""

from dataclasses import dataclass
from typing import TypeAlias

from localcluster.embedded.operator.jobs import Json


@dataclass(frozen=True)
class CreatePod:
    """Create this pod."""

    body: Json


@dataclass(frozen=True)
class CreateService:
    """Create this service."""

    body: Json


@dataclass(frozen=True)
class DeletePod:
    """Delete the pod of this name, if it still has this uid."""

    name: str
    uid: str


@dataclass(frozen=True)
class DeleteService:
    """Delete the service of this name."""

    name: str


@dataclass(frozen=True)
class WriteStatus:
    """Write the job's status, unless the job has changed meanwhile."""

    status: Json


@dataclass(frozen=True)
class Tell:
    """Emit an Event about the job; ``type`` is Normal or Warning."""

    type: str
    reason: str
    message: str


Action: TypeAlias = CreatePod | CreateService | DeletePod | DeleteService | WriteStatus | Tell
