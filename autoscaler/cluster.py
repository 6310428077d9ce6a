"""Observes the cluster: watch caches, frozen into one ``Observation`` for each tick.

The caches of jobs and of pods may be of slightly different ages; no decision on an observation may
rely on them agreeing. What must be certain (that no pod of a job is left) a rescale reads from the
API server itself.
"""

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, Self

from optimus.jobs import Job, ReplicaSpec
from optimus.kube.admission import Priorities, quotas_of
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.nodes import ClusterNode, watched_nodes
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.profiles import TrainingProfile, watched_profiles
from optimus.kube.quotas import watched_priority_classes, watched_quotas
from optimus.kube.reflector import Reflector, ReflectorConfig, why_not_synced
from optimus.kube.training_jobs import TrainingJob, watched_training_jobs
from optimus.kube.waiting_events import Wait, WaitingEvent, watched_waiting_events
from optimus.kube.workload_profiles import WorkloadProfile, watched_workload_profiles
from optimus.nodes import Node, most_on_a_node
from optimus.snapshot import BoundPod, ClusterSnapshot

_UID: Final = attrgetter("uid")
_PAGE_OF_EVENTS: Final = 50


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at ``at`` (seconds since the epoch, UTC); mappings are by job UID."""

    at: float
    snapshot: ClusterSnapshot
    jobs: Mapping[str, TrainingJob]
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    profiles: Mapping[str, TrainingProfile] = field(default_factory=dict)
    node_kinds: Mapping[str, str] = field(default_factory=dict)
    """The kinds of nodes, by their names; without those that lack the label."""

    per_server: Mapping[str, int] = field(default_factory=dict)
    """How many workers of a job without PSs a node holds at most."""

    waits: Mapping[str, Wait] = field(default_factory=dict)
    """Why jobs wait for nodes, by the extender's newest Event on each."""

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
        nodes: "NodeList",
        pods: "FrozenPods",
        profiles: Sequence[TrainingProfile],
    ) -> Self:
        """Freeze what the caches hold; nodes and pods are in order."""
        by_uid = {job.uid: job for job in sorted(jobs, key=_UID)}
        pods = pods.of_their_namespaces(by_uid)
        active = (job.active for job in jobs if job.active is not None)
        found = [_as_seen(job, pods.priorities.get(job.uid), nodes) for job in active]
        own = [each for each in profiles if _belongs_to(each, by_uid.get(each.job.uid))]
        return cls(
            at,
            ClusterSnapshot(at, tuple(sorted(found, key=_UID)), nodes.nodes, pods.placed),
            by_uid,
            pods.by_job,
            {profile.job.uid: profile for profile in own},
            nodes.kinds,
            per_server={job.uid: job.per_server for job in found if job.per_server},
        )


@dataclass(frozen=True, slots=True)
class NodeList:
    """Nodes by name, and the kinds of those that have the label of kinds."""

    nodes: tuple[Node, ...]
    kinds: Mapping[str, str]
    _most: dict[ReplicaSpec, int] = field(default_factory=dict, compare=False)

    def most_workers(self, worker: ReplicaSpec) -> int:
        """Return how many such workers the largest node that admits them holds."""
        if worker not in self._most:
            self._most[worker] = most_on_a_node(self.nodes, worker)
        return self._most[worker]

    @classmethod
    def of(cls, nodes: Iterable[ClusterNode], node_kind_label: str) -> Self:
        """The nodes in order, whatever order they were read in."""
        found = tuple(sorted((each.node for each in nodes), key=attrgetter("name")))
        kinds = ((each.name, each.labels.get(node_kind_label)) for each in found)
        return cls(found, {name: kind for name, kind in kinds if kind})


@dataclass(frozen=True, slots=True)
class FrozenPods:
    """The pods at one moment."""

    by_job: Mapping[str, tuple[Pod, ...]]
    """The pods of each job, by its UID, in the order of their names."""

    priorities: Mapping[str, int]
    """The lowest priority of each job's pods, without those that are leaving."""

    placed: tuple[BoundPod, ...]
    """Those that take room on nodes, in the order of their UIDs."""

    namespaces: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The namespaces of the pods of each job."""

    def of_their_namespaces(self, jobs: Mapping[str, TrainingJob]) -> "FrozenPods":
        """Without the replicas that are in another namespace than their job, by UID: anybody may
        write a UID into a pod. They only take room on their nodes."""
        forged = [
            uid
            for uid, names in self.namespaces.items()
            if uid in jobs and names != {jobs[uid].namespace}
        ]
        if not forged:
            return self
        by_job, priorities = dict(self.by_job), dict(self.priorities)
        foreign = set[str]()
        for uid in forged:
            namespace, pods = jobs[uid].namespace, self.by_job[uid]
            foreign.update(pod.uid for pod in pods if pod.namespace != namespace)
            own = tuple(pod for pod in pods if pod.namespace == namespace)
            _set_pods(by_job, priorities, uid, own)
        placed = tuple(
            replace(each, replica=None) if each.uid in foreign else each
            for each in self.placed
            if not (each.ended and each.uid in foreign)
        )
        return FrozenPods(by_job, priorities, placed, self.namespaces)


def _set_pods(
    by_job: dict[str, tuple[Pod, ...]], priorities: dict[str, int], uid: str, pods: tuple[Pod, ...]
) -> None:
    by_job.pop(uid, None)
    priorities.pop(uid, None)
    staying = [pod.priority for pod in pods if not pod.leaving]
    if pods:
        by_job[uid] = pods
    if staying:
        priorities[uid] = min(staying)


class PodIndex:
    """The pods of each job, and those that take room on nodes; kept with each change of a pod.

    Of a hundred thousand pods hardly one changes between two ticks: only what has changed is put
    in order again, and what has not is the same object as before. Safe to use from two threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owned: dict[str, dict[str, Pod]] = {}
        self._placed: dict[str, BoundPod] = {}
        self._changed: set[str] = set()
        """The UIDs of jobs of which a pod has changed."""
        self._places_changed = False
        self._frozen = FrozenPods({}, {}, ())

    def note(self, before: Pod | None, after: Pod | None) -> None:
        """Take in a change of one pod; ``None``: it was not there, or is gone."""
        with self._lock:
            if before is not None:
                self._forget(before)
            if after is None:
                return
            if after.owner is not None:
                self._owned.setdefault(after.owner.uid, {})[after.uid] = after
                self._changed.add(after.owner.uid)
            placed = after.bound() or after.ended()
            if placed is not None:
                self._placed[after.uid] = placed
                self._places_changed = True

    def _forget(self, pod: Pod) -> None:
        if pod.owner is not None:
            self._owned.get(pod.owner.uid, {}).pop(pod.uid, None)
            self._changed.add(pod.owner.uid)
        if self._placed.pop(pod.uid, None) is not None:
            self._places_changed = True

    def freeze(self) -> FrozenPods:
        """The pods as they are now."""
        with self._lock:
            if not self._changed and not self._places_changed:
                return self._frozen
            by_job, priorities = dict(self._frozen.by_job), dict(self._frozen.priorities)
            namespaces = dict(self._frozen.namespaces)
            for uid in self._changed:
                pods = tuple(sorted(self._owned[uid].values(), key=attrgetter("name")))
                _set_pods(by_job, priorities, uid, pods)
                namespaces[uid] = frozenset(pod.namespace for pod in pods)
                if not pods:
                    del self._owned[uid], namespaces[uid]
            placed = self._frozen.placed
            if self._places_changed:
                placed = tuple(map(self._placed.__getitem__, sorted(self._placed)))
            self._frozen = FrozenPods(by_job, priorities, placed, namespaces)
            self._changed, self._places_changed = set(), False
            return self._frozen


def _as_seen(job: Job, priority: int | None, nodes: "NodeList") -> Job:
    """The job with the lowest priority of its pods, as the extender orders gangs; without PSs also
    with the most workers of a node."""
    most = nodes.most_workers(job.worker) if job.all_reduce else 0
    if (priority is None or priority == job.priority) and most == job.per_server:
        return job
    return replace(job, priority=job.priority if priority is None else priority, per_server=most)


def _belongs_to(profile: TrainingProfile, job: TrainingJob | None) -> bool:
    """Whether a profile is the job's own; any user may write its UID into some profile's spec."""
    holder = (profile.namespace, profile.name, profile.job.kind)
    return job is not None and holder == (job.namespace, job.name, job.kind)


def waits_of(events: Iterable[WaitingEvent], jobs: Mapping[str, TrainingJob]) -> dict[str, Wait]:
    """The newest for each job, by UID; an Event of another namespace counts for nothing."""
    newest: dict[str, WaitingEvent] = {}
    for event in events:
        job = jobs.get(event.job_uid)
        if job is None or job.namespace != event.namespace:
            continue
        known = newest.get(event.job_uid)
        if known is None or (known.last_at, known.name) < (event.last_at, event.name):
            newest[event.job_uid] = event
    return {job_uid: event.wait for job_uid, event in newest.items()}


class Caches:
    """Watch caches of jobs, nodes, pods and profiles; a ``with`` block keeps them fresh."""

    def __init__(
        self,
        client: Client,
        rules: EligibilityConfig,
        node_selector: str,
        node_kind_label: str,
        config: ReflectorConfig,
    ) -> None:
        """``config`` must have each watch reopened within the age that decisions allow."""
        self._node_kind_label = node_kind_label
        self._jobs = [
            Reflector(client, watched_training_jobs(kind, rules), config=config)
            for kind in JOB_KINDS
        ]
        self._nodes = Reflector(client, watched_nodes(node_selector), config=config)
        self._index = PodIndex()
        pods = watched_pods(ignored_resources=rules.ignored_resources)
        self._pods = Reflector(client, pods, config=config, observer=self._index.note)
        self._profiles = Reflector(client, watched_profiles(), config=config)
        self._quotas = Reflector(client, watched_quotas(), config=config)
        self._classes = Reflector(client, watched_priority_classes(), config=config)
        # Anybody may write Events of a megabyte: fewer are read at once.
        small = replace(config, page=_PAGE_OF_EVENTS)
        self._events = Reflector(client, watched_waiting_events(), config=small)
        self._workloads = Reflector(client, watched_workload_profiles(), config=config)
        self._priorities = Priorities()
        self._node_list = (-1, NodeList((), {}))
        """The nodes after so many changes."""

    @property
    def all(self) -> Sequence[Reflector[Any]]:
        """Every cache."""
        return self._events, self._workloads, *self._needed

    @property
    def _needed(self) -> Sequence[Reflector[Any]]:
        """The caches that no decision is made without: Events are only shown, and without profiles
        of workloads every job begins without earlier runs."""
        return (*self._jobs, self._nodes, self._pods, self._quotas, self._classes, self._profiles)

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

    def _present_nodes(self) -> NodeList:
        changes = self._nodes.changes.count
        if self._node_list[0] != changes:
            self._node_list = changes, NodeList.of(self._nodes.items(), self._node_kind_label)
        return self._node_list[1]

    def observe(self, at: float) -> Observation:
        """The cluster as the caches have it."""
        stored = tuple(job for reflector in self._jobs for job in reflector.items())
        jobs = self._priorities.set_on(stored, self._classes.items())
        pods, profiles = self._index.freeze(), self._profiles.items()
        observation = Observation.of(at, jobs, self._present_nodes(), pods, profiles)
        quotas = quotas_of(jobs, observation.pods, self._quotas.items())
        return replace(
            observation,
            snapshot=replace(observation.snapshot, quotas=quotas),
            waits=waits_of(self._events.items(), observation.jobs),
            workloads={(each.namespace, each.name): each for each in self._workloads.items()},
            since_break_seconds=min(each.since_failure_seconds for each in self._needed),
            silent_seconds=max(each.silent_seconds for each in self._needed),
        )
