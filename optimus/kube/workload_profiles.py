"""WorkloadProfiles: what the jobs of one workload have shown, and their only writer.

One object for each value of the annotation ``optimus.dl/workload`` in a namespace, of that name and
owned by no job: it outlives them. ``kubectl delete`` forgets."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from optimus.jobs import ConvergenceThreshold, Counts, Goal, TargetLoss
from optimus.kube.client import Client
from optimus.kube.contract import GROUP, VERSION, WORKLOAD_PROFILE_KIND, WORKLOAD_PROFILES
from optimus.kube.custom_resource import CustomResource
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ApiObject, decoder_of
from optimus.kube.results import Refused, Written, answer_of
from optimus.kube.times import created_at, format_instant, parse_instant
from optimus.models.earlier_runs import KEPT_SECONDS, MOST_LOSSES, MOST_RUNS, MOST_SAMPLES
from optimus.models.speed.curve import SPEEDS
from optimus.progress.types import EarlierRun, SpeedSample


class StoredSample(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A measured speed; ``seconds`` of steady training, until ``at`` (RFC 3339)."""

    ps: int
    workers: int
    steps_per_second: float
    seconds: float
    at: str
    node_kind: str = ""
    servers: int = 0


class StoredRun(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The measurements of one job; ``places`` are the epochs (steps) done at each of ``losses``."""

    job: str
    uid: str
    at: str
    conditions: str
    samples: tuple[StoredSample, ...] = ()
    counts_steps: bool = False
    places: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    every_epoch: bool = False
    target_loss: float | None = None
    convergence_threshold: float | None = None
    met_at: float | None = None
    steps_per_epoch: float | None = None
    differed: bool = False


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The runs, and what ``kubectl get`` prints of them."""

    runs: tuple[StoredRun, ...] = ()
    run_count: int = 0
    sample_count: int = 0
    epochs_to_goal: float | None = None
    last_run_at: str | None = None
    written_by: str = ""


class WorkloadProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile as stored."""

    uid: str
    namespace: str
    name: str
    runs: tuple[EarlierRun, ...] = ()
    created_at: float = 0.0
    """Seconds since the epoch, UTC."""

    resource_version: str = ""

    @property
    def newest_at(self) -> float:
        """When something was added to it last."""
        return max([self.created_at, *(run.at for run in self.runs)])

    def has_expired(self, at: float) -> bool:
        """Nothing was added to it for so long that nothing in it applies any more."""
        return at - self.newest_at >= KEPT_SECONDS


def _profile(decoded: ApiObject[object, WorkloadStatus]) -> WorkloadProfile:
    """The profile; a run that cannot be used, as it was edited by hand, is left out."""
    metadata, status = decoded.metadata, decoded.status or WorkloadStatus()
    runs = (_run_from(each) for each in status.runs[-MOST_RUNS:])
    return WorkloadProfile(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        runs=tuple(run for run in runs if run is not None),
        created_at=created_at(metadata.creation_timestamp),
        resource_version=metadata.resource_version,
    )


decode_workload_profile = decoder_of(
    ApiObject[object, WorkloadStatus], f"a {WORKLOAD_PROFILE_KIND}", _profile
)


def watched_workload_profiles() -> ListWatch[WorkloadProfile]:
    """The profiles of every namespace, for a ``Reflector``; without their CRD there are none."""
    return ListWatch(WORKLOAD_PROFILES, decode_workload_profile, GROUP, VERSION, optional=True)


def _run_from(stored: StoredRun) -> EarlierRun | None:
    try:
        samples = tuple(
            SpeedSample(
                Counts(sample.ps, sample.workers),
                sample.steps_per_second,
                sample.seconds,
                parse_instant(sample.at),
                sample.node_kind,
                sample.servers,
            )
            for sample in stored.samples[-MOST_SAMPLES:]
        )
        at = parse_instant(stored.at)
    except Malformed:
        return None
    return EarlierRun(
        uid=stored.uid,
        job=stored.job,
        at=at,
        conditions=stored.conditions,
        samples=tuple(each for each in samples if _is_usable(each)),
        in_epochs=not stored.counts_steps,
        **_losses_of(stored),
        every_epoch=stored.every_epoch,
        goal=_goal_of(stored),
        met_at=stored.met_at if (stored.met_at or 0.0) > 0 else None,
        steps_per_epoch=stored.steps_per_epoch if (stored.steps_per_epoch or 0.0) > 0 else None,
        differed=stored.differed,
    )


def _is_usable(sample: SpeedSample) -> bool:
    low, high = SPEEDS
    fits = low <= sample.steps_per_second <= high and sample.seconds > 0
    return fits and sample.counts.ps >= 0 and sample.counts.workers > 0


def _losses_of(stored: StoredRun) -> dict[str, tuple[float, ...]]:
    """The losses, where they are as they were written: as many as places, which rise."""
    places, losses = stored.places[:MOST_LOSSES], stored.losses[:MOST_LOSSES]
    rises = all(one < other for one, other in pairwise(places))
    is_whole = len(stored.places) == len(stored.losses) and rises
    return {"places": places, "losses": losses} if is_whole else {}


def _goal_of(stored: StoredRun) -> Goal | None:
    if stored.target_loss is not None:
        return TargetLoss(stored.target_loss)
    if stored.convergence_threshold is not None:
        return ConvergenceThreshold(stored.convergence_threshold)
    return None


def _stored_run(run: EarlierRun) -> StoredRun:
    goal = run.goal
    return StoredRun(
        job=run.job,
        uid=run.uid,
        at=format_instant(run.at),
        conditions=run.conditions,
        samples=tuple(_stored_sample(sample) for sample in run.samples[-MOST_SAMPLES:]),
        counts_steps=not run.in_epochs,
        places=run.places,
        losses=run.losses,
        every_epoch=run.every_epoch,
        target_loss=goal.loss if isinstance(goal, TargetLoss) else None,
        convergence_threshold=goal.fraction if isinstance(goal, ConvergenceThreshold) else None,
        met_at=run.met_at,
        steps_per_epoch=run.steps_per_epoch,
        differed=run.differed,
    )


def _stored_sample(sample: SpeedSample) -> StoredSample:
    return StoredSample(
        sample.counts.ps,
        sample.counts.workers,
        float(f"{sample.steps_per_second:.6g}"),
        sample.seconds,
        format_instant(sample.at),
        sample.node_kind,
        sample.servers,
    )


def status_of(runs: Sequence[EarlierRun], written_by: str = "") -> WorkloadStatus:
    """Return what is stored of these runs, oldest first."""
    epochs = [run.met_at for run in runs if run.met_at is not None and run.in_epochs]
    return WorkloadStatus(
        runs=tuple(_stored_run(run) for run in runs),
        run_count=len(runs),
        sample_count=sum(len(run.samples) for run in runs),
        epochs_to_goal=float(f"{median(epochs):.4g}") if epochs else None,
        last_run_at=format_instant(math.floor(runs[-1].at)) if runs else None,
        written_by=written_by,
    )


class WorkloadProfileWriter:
    """Reads, creates and writes profiles of workloads; only the autoscaler does."""

    def __init__(self, client: Client) -> None:
        self._api = CustomResource(
            client, WORKLOAD_PROFILE_KIND, WORKLOAD_PROFILES, decode_workload_profile
        )

    def stored(self, namespace: str, name: str) -> WorkloadProfile | Refused:
        """The profile as it is stored now, created if absent."""
        return answer_of(lambda: self._stored(namespace, name))

    def _stored(self, namespace: str, name: str) -> WorkloadProfile:
        try:
            return self._api.read(namespace, name)
        except KubeError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
        metadata = {"name": name, "namespace": namespace}
        return self._api.create(namespace, name, {"metadata": metadata, "spec": {}})

    def write(self, profile: WorkloadProfile, status: WorkloadStatus) -> Written | Refused:
        """Replace the status. INVALID where the profile is no longer the same object; CONFLICT
        where it has changed since it was read."""
        return self._api.replace_status(
            profile.namespace,
            profile.name,
            status,
            uid=profile.uid,
            version=profile.resource_version,
        )

    def delete(self, profile: WorkloadProfile) -> Written | Refused:
        """Delete a profile of which nothing applies any more, this very version of it."""
        version = {"uid": profile.uid, "resourceVersion": profile.resource_version}
        return self._api.delete(profile.namespace, profile.name, version)
