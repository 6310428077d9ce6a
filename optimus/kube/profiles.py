"""TrainingProfiles: the stored knowledge of a job, and its only writer."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from optimus.jobs import Counts
from optimus.kube.client import Client
from optimus.kube.contract import GROUP, PROFILE_KIND, PROFILES, VERSION, Phase
from optimus.kube.custom_resource import CustomResource
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, decoder_of
from optimus.kube.results import Refused, Written, answer_of
from optimus.kube.training_jobs import TrainingJob


class JobRef(msgspec.Struct, frozen=True):
    """The job that a profile is about."""

    kind: str
    name: str
    uid: str


class RescaleStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One rescale, as far as it has come; enough for another process to go on with it.

    ``step`` is the autoscaler's word for where it stands, since ``step_at``. Instants are RFC 3339.
    """

    id: str
    started_at: str
    from_ps: int
    from_workers: int
    to_ps: int
    to_workers: int
    why: str = ""
    step: str = ""
    step_at: str | None = None
    purpose: str = ""
    restarts: int = 0
    failure: str = ""
    return_ps: int | None = None
    """The counts to which a roll-back goes; without them to those before."""

    return_workers: int | None = None
    pause: str = ""
    """Why the job is paused by it, or was before it: ``goal``, ``policy`` or ``gang``."""

    @property
    def target(self) -> Counts:
        """The counts that the job goes to."""
        return Counts(self.to_ps, self.to_workers)

    @property
    def origin(self) -> Counts:
        """The counts that the job comes from."""
        return Counts(self.from_ps, self.from_workers)

    @property
    def returns_to(self) -> Counts | None:
        """The counts to which a roll-back goes, where they are not those before."""
        ps, workers = self.return_ps, self.return_workers
        return None if ps is None or workers is None else Counts(ps, workers)


class RecommendationStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The decision on a job that is not changed; seconds to its goal now and then."""

    ps: int
    workers: int
    action: str
    seconds_now: int | None = None
    seconds_then: int | None = None


class AvoidedNode(msgspec.Struct, frozen=True):
    """A node that the extender avoids for the job until an instant (RFC 3339)."""

    node: str
    until: str


class NodeKind(msgspec.Struct, frozen=True):
    """The nodes that the extender holds the job's workers to, by a label and its value."""

    label: str
    value: str


class ConditionType(StrEnum):
    """The subjects of a profile's conditions."""

    FORECAST = "Forecast"
    PLACED = "Placed"
    PROGRESSING = "Progressing"
    GOAL_MET = "GoalMet"


class Truth(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition, by the API conventions; since when its status is what it is."""

    type: ConditionType
    status: Truth
    reason: str
    message: str
    last_transition_time: str


class BooksStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The time that moving the job has saved (``lifecycle.books``), and the same as its user reads
    it."""

    text: str
    saved_seconds: int
    saved_fraction: float
    stopped_seconds: int = 0
    redone_seconds: int = 0


class ProfileStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The autoscaler's decisions, and its knowledge. Instants are RFC 3339, durations seconds.

    ``state`` belongs to the autoscaler alone: what it needs to go on after a restart.
    ``written_by`` is the instance that wrote this status.
    """

    phase: Phase | None = None
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    interval_id: str = ""
    decided_at: str | None = None
    ps: int | None = None
    workers: int | None = None
    target_ps: int | None = None
    target_workers: int | None = None
    loss: float | None = None
    goal: str = ""
    metric: str = ""
    deadline: str = ""
    declared_end: str = ""
    progress_percent: int | None = None
    steps_per_second: float | None = None
    remaining_seconds: int | None = None
    rescales: int = 0
    last_rescaled_at: str | None = None
    rescale: RescaleStatus | None = None
    checkpoint_step: int | None = None
    checkpointed_at: str | None = None
    trained_seconds: float = 0.0
    complaint: str = ""
    failed_counts: tuple[str, ...] = ()
    earlier_runs: int = 0
    recommended: RecommendationStatus | None = None
    books: BooksStatus | None = None
    saves_on_stop: str = ""
    straggler: str = ""
    avoided_nodes: tuple[AvoidedNode, ...] = ()
    node_kind: NodeKind | None = None
    written_by: str = ""
    state: str | None = None


class TrainingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile as stored."""

    uid: str
    namespace: str
    name: str
    job: JobRef
    status: ProfileStatus
    resource_version: str = ""
    """The version that was read, or last written; empty: not known."""

    generation: int = 0
    """The generation of its spec; 0: not known."""


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Another job's profile has the name; whether that job still exists is not known here."""

    holder: TrainingProfile

    def __str__(self) -> str:
        job = self.holder.job
        profile = f"{self.holder.namespace}/{self.holder.name}"
        return f"the TrainingProfile {profile} belongs to {job.kind} {job.name} ({job.uid})"


class _ProfileSpec(msgspec.Struct, rename="camel"):
    job_ref: JobRef


def _profile(decoded: ApiObject[_ProfileSpec, ProfileStatus]) -> TrainingProfile:
    metadata = decoded.metadata
    if decoded.spec is None:
        raise Malformed(f"not a {PROFILE_KIND}: it has no spec")
    return TrainingProfile(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        job=decoded.spec.job_ref,
        status=decoded.status or ProfileStatus(),
        resource_version=metadata.resource_version,
        generation=metadata.generation,
    )


decode_profile = decoder_of(ApiObject[_ProfileSpec, ProfileStatus], f"a {PROFILE_KIND}", _profile)


def watched_profiles() -> ListWatch[TrainingProfile]:
    """Profiles of every namespace, for a ``Reflector``; without their CRD there are none."""
    return ListWatch(PROFILES, decode_profile, GROUP, VERSION, optional=True)


class ProfileWriter:
    """Creates profiles and writes their status; the autoscaler is the only one to do so."""

    def __init__(self, client: Client) -> None:
        self._api = CustomResource(client, PROFILE_KIND, PROFILES, decode_profile)

    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        """The job's profile, created if absent. The API server deletes it with the job."""
        return answer_of(lambda: self._create(job))

    def _create(self, job: TrainingJob) -> TrainingProfile | NameTaken:
        try:
            return self._api.create(job.namespace, job.name, _new(job))
        except KubeError as error:
            if error.kind is not ErrorKind.EXISTS:
                raise
        found = self._api.read(job.namespace, job.name)
        return found if found.job.uid == job.uid else NameTaken(found)

    def stored(self, profile: TrainingProfile) -> TrainingProfile | Refused:
        """The profile of that name as it is stored now."""
        return answer_of(lambda: self._api.read(profile.namespace, profile.name))

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        """Replace the whole status. INVALID where the profile is no longer the same object;
        CONFLICT where it has changed since it was read."""
        return self._api.replace_status(
            profile.namespace,
            profile.name,
            _storable(status, profile.generation),
            uid=profile.uid,
            version=profile.resource_version,
        )

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        """Delete a profile whose job is gone, this very one and no later one of the name."""
        return self._api.delete(profile.namespace, profile.name, {"uid": profile.uid})


def _new(job: TrainingJob) -> dict[str, object]:
    reference = {"kind": job.kind, "name": job.name, "uid": job.uid}
    owner = {
        "apiVersion": JOB_KINDS[job.kind].api_version,
        **reference,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [owner]},
        "spec": {"jobRef": reference},
    }


def _storable(status: ProfileStatus, generation: int) -> dict[str, object]:
    # By way of JSON text, where a number that is none becomes null; and null is no number to the
    # CRD's schema.
    fields: dict[str, object] = msgspec.json.decode(msgspec.json.encode(status))
    fields |= {
        name: _rounded(fields[name], digits) for name, digits in _PRINTED.items() if name in fields
    }
    if generation and status.conditions:
        conditions: list[dict[str, object]] = msgspec.to_builtins(status.conditions)
        fields["conditions"] = [
            {**condition, "observedGeneration": generation} for condition in conditions
        ]
    return {name: value for name, value in fields.items() if value is not None}


_PRINTED = {"loss": 5, "stepsPerSecond": 4}
"""Significant digits of the numbers that kubectl prints as they are stored."""


def _rounded(value: object, digits: int) -> object:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
