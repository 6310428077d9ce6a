"""The cluster as the extender sees it: nodes, pods, jobs and rescales, corrected event by event.

What a node has left is a running sum, so that a call of kube-scheduler never walks over all pods.
The state's lock guards it together with the reservations.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from extender.state.occupancy import Occupancy, Occupant
from extender.state.volumes import ClaimName
from optimus.jobs import Binding, Counts, Job
from optimus.kube.pods import FINISHED_PHASES, Pod
from optimus.nodes import Node
from optimus.placement.first_kind import NO_ORDERS
from optimus.placement.gang import Gang
from optimus.resources import NONE, Resources, larger
from optimus.snapshot import BoundPod


@dataclass(frozen=True, slots=True)
class ProfileRescale:
    """A rescale in progress; room is reserved for ``target``."""

    job_uid: str
    id: str
    """Distinguishes one rescale of a job from the next."""

    target: Counts
    leaving: bool
    """Whether the pods that the job has now are about to be deleted (phase Suspending)."""

    kept: Counts | None = None
    """What the job had before and is to have: reserved for it while the target does not fit.
    ``None``: the target itself."""

    by_user: bool = False
    """Whether its user has brought it about, by other counts or by a mark on a suspended job."""


class ProfileForecast(NamedTuple):
    """The time that a job needs to its end, as its profile says."""

    at: float
    """When that was predicted (epoch, seconds)."""

    remaining_seconds: float


class ProfileFacts(NamedTuple):
    """The profile of a job, as far as it concerns the extender, beside its rescale."""

    forecast: ProfileForecast | None = None
    pause: str | None = None
    """The id of the pause in progress; "" where the job is paused already."""

    avoided: Mapping[str, float] = MappingProxyType({})
    """The nodes that the job goes to only where it does not fit on others, each until an instant
    (epoch, seconds)."""

    binding: Binding | None = None
    """The kind of nodes that its workers are held to."""


NO_PROFILE: Final = ProfileFacts()


class Cluster:
    """Nodes and pods by identity, free room by node. Not thread-safe."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """The replicas of all jobs, by UID."""
        self.unrecognized: dict[str, dict[str, Pod]] = {}
        """By UID of a job, the pods that it controls and whose labels name no replica, by UID."""
        self.jobs: dict[str, Job] = {}
        self.rescales: dict[str, ProfileRescale] = {}
        self.have_run: set[str] = set()
        """The UIDs of jobs that have had a bound pod or a rescale."""
        self._held: dict[str, Resources] = {}
        """By job UID, what its replicas take of nodes."""
        self._most_held, self._most_planned = dict[str, Resources](), dict[str, Resources]()
        """By job UID, the most of it at any time, or what a rescale was to give it; and the most
        that room was reserved for."""
        self.occupancy = Occupancy()
        """What pods on nodes mean for the rules of others."""
        self.profiles: dict[str, ProfileFacts] = {}
        """By job UID."""
        self.kind_orders = NO_ORDERS
        """On which kinds of nodes jobs that have not run yet are expected to be fastest."""
        self.ending: dict[str, Pod] = {}
        """The replicas that are being deleted and still take their room, by UID."""
        self.node_generation = 0
        self.changed_nodes: set[str] = set()
        """Nodes that have changed since ``Reservations`` last cleared this."""
        self.released_at: dict[str, float] = {}
        """By node, when a pod last left it, took less of it, or was nominated there no longer
        (monotonic)."""
        self._priorities: dict[str, int] = {}
        self._unreadable_jobs: set[str] = set()
        self._pods_by_job: dict[str, dict[str, Pod]] = {}
        self._waiting: dict[str, int] = {}
        self._jobs_by_claim: dict[ClaimName, Counter[str]] = {}
        self._used: dict[str, Resources] = {}

    def set_node(self, name: str, node: Node | None) -> bool:
        """Record a node, or its removal (``None``); returns whether anything relevant changed."""
        if self.nodes.get(name) == node:
            return False
        if node is None:
            del self.nodes[name]
            self.released_at.pop(name, None)
        else:
            self.nodes[name] = node
        self.node_generation += 1
        self.changed_nodes.add(name)
        return True

    def set_pod(self, before: Pod | None, after: Pod | None, now: float = float("-inf")) -> None:
        """Record a pod; ``before`` is what was recorded last, ``None`` on either side: absent.
        ``now`` is monotonic."""
        self._count_bound(before, after)
        if before is not None:
            self._count_replica(before, -1)
            self._note_release(before, after, now)
            self.ending.pop(before.uid, None)
        if after is not None:
            self._count_replica(after, 1)
            if after.leaving and after.replica is not None and after.bound() is not None:
                self.ending[after.uid] = after

    def _note_release(self, before: Pod, after: Pod | None, now: float) -> None:
        was, bound = before.bound(), None if after is None else after.bound()
        if was is None:
            node = before.nominated_node
            stays = after is not None and node in (None, after.nominated_node, after.node)
        else:
            node = was.node
            stays = (
                bound is not None and bound.node == node and was.resources.fits_in(bound.resources)
            )
        if node in self.nodes and not stays:  # anybody may name others, without end
            self.released_at[node] = now

    def _count_bound(self, before: Pod | None, after: Pod | None) -> None:
        """Count what a pod takes of its node, and what it means for the rules of others there."""
        was = None if before is None else before.bound()
        now = None if after is None else after.bound()
        if was != now:
            for bound, sign in ((was, -1), (now, 1)):
                if bound is None:
                    continue
                self._used[bound.node] = _changed(self._used.get(bound.node, NONE), bound, sign)
                self.changed_nodes.add(bound.node)
                self._count_held(bound, sign)
        if before is not None and was is not None and (after is None or now is None):
            self.occupancy.remove(before.uid, before.namespace)
        elif after is not None and now is not None:
            self.occupancy.set(
                after.uid,
                Occupant(now.node, after.namespace, after.labels, after.rules, after.leaving),
            )

    def _count_held(self, bound: BoundPod, sign: int) -> None:
        if bound.replica is None:
            return
        job_uid = bound.replica.job_uid
        before = self._held.get(job_uid, NONE)
        held = self._held[job_uid] = _changed(before, bound, sign)
        if not held:
            del self._held[job_uid]
        elif sign > 0:
            self._note_most(job_uid, before, held)

    def _note_most(self, job_uid: str, before: Resources, held: Resources) -> None:
        known = self._most_held.get(job_uid)
        if known is None or known is before:  # as while its pods come one after the other
            self._most_held[job_uid] = held
        elif not held.fits_in(known):
            self._most_held[job_uid] = larger(known, held)

    def note_planned(self, job_uid: str, demand: Resources) -> None:
        """Room is reserved for so much of a gang."""
        known = self._most_planned.get(job_uid)
        if known is None or not demand.fits_in(known):
            self._most_planned[job_uid] = larger(known or NONE, demand)

    def was_planned_with(self, job_uid: str, demand: Resources) -> bool:
        """Return whether so much of a gang has been planned, as far as that is known: whoever
        replaces waiting pods by larger ones waits like anybody with a new gang."""
        known = self._most_planned.get(job_uid)
        return known is None or demand.fits_in(known)

    def ran_with(self, job_uid: str, demand: Resources) -> bool:
        """Return whether a job has run, and not with less than this, as far as that is known:
        whoever makes a job larger while it does not run waits like anybody with a new one."""
        most = self._most_held.get(job_uid)
        return most is None or job_uid in self.rescales or demand.fits_in(most)

    def _count_replica(self, pod: Pod, sign: int) -> None:
        if pod.replica is None:
            self._note_unrecognized(pod, sign)
            return
        job_uid = pod.replica.job_uid
        of_job = self._pods_by_job.setdefault(job_uid, {})
        if sign > 0:
            of_job[pod.uid] = self.pods[pod.uid] = pod
        else:
            of_job.pop(pod.uid, None)
            self.pods.pop(pod.uid, None)
        if not of_job:
            del self._pods_by_job[job_uid]
            self._forget_if_over(job_uid)
        for claim in pod.rules.claims if pod.rules is not None else ():
            jobs = self._jobs_by_claim.setdefault((pod.namespace, claim), Counter())
            jobs[job_uid] += sign
            if not jobs[job_uid]:
                del jobs[job_uid]
            if not jobs:
                del self._jobs_by_claim[pod.namespace, claim]
        if is_waiting(pod):
            self._waiting[job_uid] = self._waiting.get(job_uid, 0) + sign
            if not self._waiting[job_uid]:
                del self._waiting[job_uid]
        if pod.node is not None and sign > 0:
            self.have_run.add(job_uid)

    def _note_unrecognized(self, pod: Pod, sign: int) -> None:
        if pod.owner is None:
            return
        of_job = self.unrecognized.setdefault(pod.owner.uid, {})
        if sign > 0:
            of_job[pod.uid] = pod
        else:
            of_job.pop(pod.uid, None)
        if not of_job:
            del self.unrecognized[pod.owner.uid]

    def set_job(self, uid: str, job: Job | None, *, exists: bool = False) -> None:
        """Record a job's spec; ``None``: it is gone or over, or ``exists`` and is unreadable."""
        self._unreadable_jobs.discard(uid)
        self.jobs.pop(uid, None)
        if job is not None:
            self.jobs[uid] = job
        elif exists:
            self._unreadable_jobs.add(uid)
        self._forget_if_over(uid)

    def _forget_if_over(self, job_uid: str) -> None:
        """Drop what outlives a job's pods, once it has neither pods nor an object that may run: a
        rescale deletes all pods of a job."""
        if not self.may_run(job_uid) and job_uid not in self._pods_by_job:
            self.have_run.discard(job_uid)
            self._most_held.pop(job_uid, None)
            self._most_planned.pop(job_uid, None)
            self._priorities.pop(job_uid, None)

    def set_rescale(self, job_uid: str, rescale: ProfileRescale | None) -> None:
        """Record a job's rescale; ``None``: none is in progress.

        One that its user has brought about counts for no more than the job has held: else it would
        be a way around the queue."""
        self.rescales.pop(job_uid, None)
        if rescale is not None and not (rescale.by_user and self._is_larger(job_uid, rescale)):
            self.rescales[job_uid] = rescale
            self.have_run.add(job_uid)
            if job_uid in self.jobs:
                demand = self.jobs[job_uid].demand(rescale.target)
                self._most_held[job_uid] = larger(self._most_held.get(job_uid, NONE), demand)
            self.priority_of(job_uid)  # remembered while the job has no pods

    def _is_larger(self, job_uid: str, rescale: ProfileRescale) -> bool:
        """Return whether its target is more than the job has held, as far as that is known."""
        job, most = self.jobs.get(job_uid), self._most_held.get(job_uid)
        return job is None or most is None or not job.demand(rescale.target).fits_in(most)

    def as_profile_says(self, gang: Gang) -> Gang:
        """The gang with what its job's profile says of nodes."""
        profile = self.profile_of(gang.job_uid)
        gang = replace(gang, avoided=frozenset(profile.avoided))
        return gang if profile.binding is None else gang.bound_to(profile.binding)

    def with_kinds(self, gang: Gang) -> Gang:
        """The gang with the kinds of nodes that it prefers for its first start; none where it is
        held to one."""
        job = self.jobs.get(gang.job_uid)
        if job is None or job.uid in self.have_run or self.profile_of(job.uid).binding:
            return gang
        return replace(gang, kinds=self.kind_orders.of_job(job))

    def profile_of(self, job_uid: str) -> ProfileFacts:
        """Return what a job's profile says."""
        return self.profiles.get(job_uid, NO_PROFILE)

    def set_profile(self, job_uid: str, facts: ProfileFacts) -> bool:
        """Record what a job's profile says; returns whether its gang may go to other nodes now."""
        before = self.profiles.pop(job_uid, NO_PROFILE)
        if facts != NO_PROFILE:
            self.profiles[job_uid] = facts
        same_nodes = before.avoided.keys() == facts.avoided.keys()
        return not same_nodes or before.binding != facts.binding

    def expire_avoided(self, epoch: float) -> list[str]:
        """Drop the nodes whose time is over; returns the UIDs of the jobs that this concerns."""
        ended = [
            uid
            for uid, each in self.profiles.items()
            if any(until <= epoch for until in each.avoided.values())
        ]
        for uid in ended:
            facts = self.profiles[uid]
            left = {node: until for node, until in facts.avoided.items() if until > epoch}
            self.set_profile(uid, facts._replace(avoided=left))
        return ended

    def knows_gang_of(self, pod: Pod) -> bool:
        """Return whether the members of the pod's gang are known: from its own list, else from its
        job.

        A pod without a list may be seen before its job is. An unreadable job's gang is the pods
        that exist."""
        job_uid = pod.replica.job_uid if pod.replica else ""
        return bool(pod.gang) or job_uid in self.jobs or job_uid in self._unreadable_jobs

    def may_run(self, job_uid: str) -> bool:
        """Return whether a job exists and has not ended, as far as it can be read."""
        return job_uid in self.jobs or job_uid in self._unreadable_jobs

    def controls(self, pod: Pod) -> bool:
        """Return whether a pod is a replica of the job that it names as its owner.

        Anybody who may create pods can write a UID into one: kind, namespace and name have to be
        the job's too; until the job is seen, those of its other pods."""
        if pod.owner is None or pod.replica is None:
            return False
        job = self.jobs.get(pod.replica.job_uid)
        if job is not None:
            return (job.kind, job.key) == (pod.owner.kind, pod.job_key)
        first = next(iter(self.pods_of(pod.replica.job_uid).values()), pod)
        return (first.owner, first.namespace) == (pod.owner, pod.namespace)

    def find_pod(self, uid: str, resource_version: str) -> Pod | None:
        """The replica with this UID, if the watch has shown this very version. Needs no lock."""
        pod = self.pods.get(uid)
        return pod if pod is not None and pod.resource_version == resource_version != "" else None

    def pods_of(self, job_uid: str) -> Mapping[str, Pod]:
        """The pods that a job controls, by UID."""
        return self._pods_by_job.get(job_uid, {})

    def jobs_with_claims(self, claims: Iterable[ClaimName]) -> set[str]:
        """The UIDs of the jobs of which a pod mounts any of these claims."""
        return {job_uid for claim in claims for job_uid in self._jobs_by_claim.get(claim, ())}

    def priority_of(self, job_uid: str) -> int:
        """The lowest priority of a job's pods; while a rescale replaces them, that of the last."""
        pods = self.pods_of(job_uid).values()
        staying = [pod.priority for pod in pods if not pod.leaving]
        found = min(staying or [pod.priority for pod in pods], default=None)
        if found is not None:
            self._priorities[job_uid] = found
        return self._priorities.get(job_uid, 0)

    def waiting_pods(self, job_uid: str) -> list[Pod]:
        """The pods of a job that still need a node."""
        return [pod for pod in self.pods_of(job_uid).values() if is_waiting(pod)]

    def waiting_count(self, job_uid: str) -> int:
        """Return how many pods of a job still need a node."""
        return self._waiting.get(job_uid, 0)

    def waiting_jobs(self) -> tuple[str, ...]:
        """The UIDs of the jobs that have pods without a node."""
        return tuple(self._waiting)

    def free(self, node: str) -> Resources:
        """Return what bound pods leave of a node; below zero where others have overcommitted it."""
        return self.nodes[node].allocatable - self._used.get(node, NONE)


def _changed(before: Resources, bound: BoundPod, sign: int) -> Resources:
    return before + bound.resources if sign > 0 else before - bound.resources


def used_by_node(pods: Iterable[Pod]) -> dict[str, Resources]:
    """Return what bound pods take of each node."""
    used: dict[str, Resources] = {}
    for bound in filter(None, (pod.bound() for pod in pods)):
        used[bound.node] = used.get(bound.node, NONE) + bound.resources
    return used


def is_waiting(pod: Pod) -> bool:
    """Return whether the pod still needs a node."""
    return pod.node is None and not pod.leaving and pod.phase not in FINISHED_PHASES
