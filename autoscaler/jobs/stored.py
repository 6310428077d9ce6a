"""A job's profile: as it is stored, and as it should be."""

from dataclasses import dataclass
from typing import NamedTuple

from optimus.kube.profiles import ProfileStatus, TrainingProfile


class Shown(NamedTuple):
    """The status that a profile should show, until an instant or other inputs."""

    status: ProfileStatus
    inputs: tuple[object, ...]
    until: float


@dataclass(slots=True)
class JobProfile:
    """One job's profile."""

    stored: TrainingProfile | None = None
    """The profile as read or written last; ``None`` if there is none, or it is not known."""

    status: ProfileStatus | None = None
    """What it shows, without the saved state."""

    written_at: float | None = None
    """When this process wrote it last."""

    unwritten: str = ""
    """Why it could not be written last; empty where it was."""

    refused_version: str = ""
    """The version of which a write was refused."""

    superseded_by: TrainingProfile | None = None
    """The profile, where another instance has written it since it was read: what is remembered here
    is older."""

    name_taken_at: float | None = None
    """When another job's profile was last found to hold the name."""

    discarded: str = ""
    """Its UID, once it is deleted: it was made for a pause of a job that is not managed."""

    shown: Shown | None = None
    """What it should show."""
