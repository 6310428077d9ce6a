"""Observes the cluster: watch caches, frozen into one ``Observation`` for each tick.

The caches of jobs and of pods may be of slightly different ages; no decision on an observation may
rely on them agreeing. What must be certain (that no pod of a job is left) a rescale reads from the
API server itself.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from optimus.jobs import Job
from optimus.kube.admission import NO_BUDGETS, Admission, Namespaces
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.nodes import ClusterNode, watched_nodes
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.profiles import TrainingProfile, watched_profiles
from optimus.kube.quotas import watched_limit_ranges, watched_priority_classes, watched_quotas
from optimus.kube.reflector import Reflector, ReflectorConfig, why_not_synced
from optimus.kube.training_jobs import TrainingJob, watched_training_jobs
from optimus.kube.waiting_events import WaitingEvent, watched_waiting_events
from optimus.kube.workload_profiles import WorkloadProfile, watched_workload_profiles
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at ``at`` (seconds since the epoch, UTC); mappings are by job UID."""

    at: float
    snapshot: ClusterSnapshot
    jobs: Mapping[str, TrainingJob]
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    profiles: Mapping[str, TrainingProfile] = field(default_factory=dict)
    node_kinds: Mapping[str, str] = field(default_factory=dict)
    """By a node's name; nodes without the label of kinds are left out."""

    waits: Mapping[str, str] = field(default_factory=dict)
    """Why jobs wait for nodes, as the extender last told their users."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Why pods of a job could not be made again, as quotas and limits of its namespace are."""

    workloads: Mapping[tuple[str, str], WorkloadProfile] = field(default_factory=dict)
    """What jobs of each workload have shown, by namespace and name."""

    since_break_seconds: float = math.inf
    """Since a list or watch failed last: other clients of the API server may be behind, too."""

    silent_seconds: float = 0.0
    """Since the API server last answered, for the cache that has not heard from it for longest."""

    @classmethod
    def of(
        cls,
        at: float,
        jobs: Sequence[TrainingJob],
        nodes: Sequence[ClusterNode],
        pods: Sequence[Pod],
        profiles: Sequence[TrainingProfile],
        node_kind_label: str = "",
    ) -> Self:
        """Freeze what the caches hold."""
        by_job: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.name):
            if pod.owner is not None:
                by_job.setdefault(pod.owner.uid, []).append(pod)
        active = (job.active for job in jobs if job.active is not None)
        snapshot = ClusterSnapshot.of(
            at,
            (_with_priority(job, by_job.get(job.uid, ())) for job in active),
            (node.node for node in nodes),
            (placed for pod in pods if (placed := pod.bound() or pod.ended()) is not None),
        )
        by_uid = {job.uid: job for job in sorted(jobs, key=lambda job: job.uid)}
        own = [each for each in profiles if _belongs_to(each, by_uid.get(each.job.uid))]
        return cls(
            at,
            snapshot,
            by_uid,
            {uid: tuple(found) for uid, found in by_job.items()},
            {profile.job.uid: profile for profile in own},
            {node.name: kind for node in nodes if (kind := node.node.labels.get(node_kind_label))},
        )


def _with_priority(job: Job, pods: Sequence[Pod]) -> Job:
    """The job with the lowest priority of its pods, as the extender orders gangs."""
    priority = min((pod.priority for pod in pods if not pod.leaving), default=job.priority)
    return replace(job, priority=priority) if priority != job.priority else job


def _belongs_to(profile: TrainingProfile, job: TrainingJob | None) -> bool:
    """Whether a profile is the job's own; anybody may write its UID into some profile's spec."""
    holder = (profile.namespace, profile.name, profile.job.kind)
    return job is not None and holder == (job.namespace, job.name, job.kind)


def waits_of(events: Iterable[WaitingEvent], jobs: Mapping[str, TrainingJob]) -> dict[str, str]:
    """The newest text for each job, by UID; an Event of another namespace counts for nothing."""
    newest: dict[str, WaitingEvent] = {}
    for event in sorted(events, key=lambda each: (each.last_at, each.name)):
        job = jobs.get(event.job_uid)
        if job is not None and job.namespace == event.namespace:
            newest[event.job_uid] = event
    return {job_uid: event.message for job_uid, event in newest.items()}


class Caches:
    """Watch caches of jobs, nodes, pods and profiles; a ``with`` block keeps them fresh."""

    def __init__(
        self,
        client: Client,
        rules: EligibilityConfig,
        node_selector: str,
        node_kind_label: str,
        config: ReflectorConfig,
        budgets: Mapping[str, Resources] = NO_BUDGETS,
    ) -> None:
        """``config`` must have each watch opened anew within the age that decisions allow."""
        self._node_kind_label = node_kind_label
        self._jobs = [
            Reflector(client, watched_training_jobs(kind, rules), config=config)
            for kind in JOB_KINDS
        ]
        self._nodes = Reflector(client, watched_nodes(node_selector), config=config)
        self._pods = Reflector(client, watched_pods(), config=config)
        self._profiles = Reflector(client, watched_profiles(), config=config)
        self._quotas = Reflector(client, watched_quotas(), config=config)
        self._ranges = Reflector(client, watched_limit_ranges(), config=config)
        self._classes = Reflector(client, watched_priority_classes(), config=config)
        self._events = Reflector(client, watched_waiting_events(), config=config)
        self._workloads = Reflector(client, watched_workload_profiles(), config=config)
        self._admission = Admission(budgets)

    @property
    def all(self) -> Sequence[Reflector[Any]]:
        """Every cache."""
        return self._events, self._workloads, *self._needed

    @property
    def _needed(self) -> Sequence[Reflector[Any]]:
        """The caches that no decision is made without: Events are only shown, and without profiles
        of workloads every job begins anew."""
        admission = self._quotas, self._ranges, self._classes
        return *self._jobs, self._nodes, self._pods, *admission, self._profiles

    def __enter__(self) -> Self:
        for cache in self.all:
            cache.start()
        return self

    def __exit__(self, *_: object) -> None:
        for cache in self.all:
            cache.stop()

    def wait_synced(self, timeout_seconds: float) -> bool:
        """Wait until every cache has been filled once."""
        end = time.monotonic() + timeout_seconds
        return all(cache.wait_synced(max(end - time.monotonic(), 0.0)) for cache in self._needed)

    def missing(self) -> str | None:
        """A sentence on what was not read yet, and why; ``None`` once all was."""
        return why_not_synced(self._needed)

    def observe(self, at: float) -> Observation:
        """The cluster as the caches have it."""
        stored = tuple(job for reflector in self._jobs for job in reflector.items())
        spaces = Namespaces.of(self._quotas.items(), self._ranges.items(), self._classes.items())
        jobs = self._admission.admitted(stored, spaces)
        nodes, pods, profiles = self._nodes.items(), self._pods.items(), self._profiles.items()
        observation = Observation.of(at, jobs, nodes, pods, profiles, self._node_kind_label)
        allowed = self._admission.quotas(jobs, observation.pods, spaces)
        return replace(
            observation,
            snapshot=replace(observation.snapshot, quotas=allowed),
            refused=self._admission.refused(jobs, spaces),
            waits=waits_of(self._events.items(), observation.jobs),
            workloads={(each.namespace, each.name): each for each in self._workloads.items()},
            since_break_seconds=min(each.since_failure_seconds for each in self._needed),
            silent_seconds=max(each.silent_seconds or 0.0 for each in self._needed),
        )
