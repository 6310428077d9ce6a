"""Immutable copies of what the autoscaler knows of the cluster, for the page.

The loop makes one at the end of each tick, in its own thread. A copy holds references to values
that never change, so that it costs microseconds a job, and no request reads what the loop changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.cluster import Observation
from autoscaler.decide import rescales_of
from autoscaler.jobs.state import TrackedJob
from autoscaler.profile.status import status_of
from autoscaler.quota_deadlocks import quota_refusal
from optimus.errors import NotReady
from optimus.interval import Decision
from optimus.interval.capacity_plan import Claim, claims_of
from optimus.jobs import Job, JobKey
from optimus.kube.pod_failures import failure_of
from optimus.kube.pods import Pod
from optimus.kube.profiles import ProfileStatus
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.waiting_events import Wait
from optimus.lifecycle import JobRecord
from optimus.models.forecast import Forecast
from optimus.progress.types import TrainingProgress
from optimus.rescale.words import RescaleRecord

_NO_STATUS = ProfileStatus()


class JobCopy(NamedTuple):
    """One job. What a profile does not have is ``None`` for a job that is not managed here."""

    key: JobKey
    uid: str
    kind: str
    created_at: float
    job: Job | None
    status: ProfileStatus
    pods: tuple[Pod, ...] = ()
    wait: Wait | None = None
    """Why its pods wait for nodes, as the extender says."""

    progress: TrainingProgress | None = None
    forecast: Forecast | NotReady | None = None
    decision: Decision | None = None
    decided_at: float | None = None
    record: JobRecord | None = None
    rescale: RescaleRecord | None = None
    """The rescale in progress."""

    held: str = ""
    """Why nothing may begin for it now."""

    submitted_kind: str = ""
    """The kind that its user knows it by, where that is another one."""

    outcome: str | None = None
    """"Succeeded" or "Failed"; ``None`` while unfinished."""

    message: str = ""
    """What the training operator says of its end."""

    failure: str = ""
    """Why its pods do not run as they should, where no profile says so."""

    @property
    def reason(self) -> str:
        """Why it is where it is: by its profile, its pods or the training operator."""
        return self.status.reason or self.failure or self.message


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The cluster at ``at`` (seconds since the epoch, UTC); jobs by UID."""

    at: float
    leads: bool
    """Whether the process that made it decides; else it shows what the profiles have."""

    observation: Observation
    jobs: Mapping[str, JobCopy]
    claims: Sequence[Claim] = ()
    """Room that is kept for rescales in progress."""


def copy_of(
    managed: Iterable[TrackedJob], observation: Observation, at: float, hold_seconds: float
) -> ClusterCopy:
    """Return what the leading instance knows at the end of a tick; ``hold_seconds`` as in
    ``DecisionConfig``."""
    states = {state.job.uid: state for state in managed}
    jobs = {uid: _managed(state, observation, at) for uid, state in states.items()}
    for uid, training_job in observation.jobs.items():
        if uid not in jobs:
            jobs[uid] = _by_profile(training_job, observation)
    claims = tuple(claims_of(rescales_of(states), observation.snapshot, at, hold_seconds))
    return ClusterCopy(at, leads=True, observation=observation, jobs=jobs, claims=claims)


def copy_of_profiles(observation: Observation) -> ClusterCopy:
    """Return what a standby reads from the profiles."""
    jobs = {uid: _by_profile(job, observation) for uid, job in observation.jobs.items()}
    return ClusterCopy(observation.at, leads=False, observation=observation, jobs=jobs)


def _managed(state: TrackedJob, observation: Observation, at: float) -> JobCopy:
    job = state.job
    return JobCopy(
        job.key,
        job.uid,
        job.kind,
        job.created_at,
        job,
        status_of(state, at),
        observation.pods.get(job.uid, ()),
        observation.waits.get(job.uid) if state.gang.waits else None,
        state.progress(at),
        state.shown_forecast or state.forecasts.current,
        state.decision,
        state.decided_at,
        state.record,
        None if state.rescale is None else state.rescale.record,
        state.held,
        _submitted_kind(observation.jobs.get(job.uid)),
        state.training_job.outcome,
        state.training_job.message,
    )


def _by_profile(training_job: TrainingJob, observation: Observation) -> JobCopy:
    uid, profile = training_job.uid, observation.profiles.get(training_job.uid)
    pods = observation.pods.get(uid, ())
    failure = None if profile is not None else failure_of(pods, observation.at)
    refusal = quota_refusal(uid, observation)
    return JobCopy(
        training_job.key,
        uid,
        training_job.kind,
        training_job.created_at,
        training_job.job,
        _NO_STATUS if profile is None else profile.status,
        pods,
        Wait(text=refusal) if refusal else observation.waits.get(uid),
        submitted_kind=_submitted_kind(training_job),
        outcome=training_job.outcome,
        message=training_job.message,
        failure="" if failure is None else str(failure),
    )


def _submitted_kind(job: TrainingJob | None) -> str:
    return "" if job is None else job.submitted_kind
