"""Room for jobs that are being rescaled, so that a waiting job cannot take their place.

From the first step of a rescale until its pods are bound, room is reserved for the job's target
counts, planned on what is free and on what the job's own pods are about to leave; for
``rescale-hold-seconds`` at most. While a target that is larger does not fit, room is reserved for
the counts to which the job may return: no pod is answered by that.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from extender.state.cluster import Cluster, ProfileRescale, used_by_node
from extender.state.reservations import Reservations
from optimus.jobs import Counts, Job, ReplicaSpec
from optimus.kube.pods import Pod
from optimus.nodes import Node
from optimus.nodes import refusal as admission_refusal
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, GangRule, Placement
from optimus.resources import NONE, Resources

_LOG = logging.getLogger(__name__)
_SUSPENSION_SECONDS: Final = 30.0
"""From the phase in the profile to the suspension of the job it takes a call or two."""


_SEARCH_SECONDS: Final = 1.0
"""Where nothing that matters has changed, room is searched for again at most this often."""

_Pods = frozenset[tuple[str, str | None, bool]]


@dataclass(frozen=True, slots=True)
class _FailedSearch:
    """A search that found no room, and on what."""

    at: float
    job: Job | None
    pods: _Pods
    changes: int
    left: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class _Tracked:
    rescale: ProfileRescale
    since: float
    held: bool
    refusal: _FailedSearch | None = None
    keeps: bool = False
    """Room is reserved for ``kept`` alone."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search for room, and what it is made on; it needs no lock."""

    rule: GangRule
    rescale: ProfileRescale
    gang: Gang
    nodes: tuple[Node, ...]
    left: Mapping[str, Resources]
    """By node, what is left to the gang."""

    refusal: _FailedSearch
    """To be remembered where nothing is found."""

    kept: Gang | None = None
    """What is reserved where the gang does not fit; ``None``: nothing more than there is."""

    def find(self) -> "Found":
        """Return where the gang fits, else where its job may return to."""
        capacity = Capacity(self.nodes, self.left)
        found = self.rule.place(self.gang, capacity)
        if self.kept is None or isinstance(found, Placement):
            return Found(found)
        return Found(found, self.rule.place(self.kept, capacity))


class Found(NamedTuple):
    """The result of a search."""

    answer: Placement | DoesNotFit
    kept: Placement | DoesNotFit | None = None


class RescaleReservations:
    """Reservations for rescales. Not thread-safe."""

    def __init__(
        self, cluster: Cluster, reservations: Reservations, rule: GangRule, max_seconds: float
    ) -> None:
        self._cluster, self._reservations, self._rule = cluster, reservations, rule
        self._max_seconds = max_seconds
        self._tracked: dict[str, _Tracked] = {}

    def update(self, now: float, *, reserve: bool = True) -> bool:
        """Reserve for rescales in progress, release for ended ones; returns whether room grew.

        Without ``reserve`` they are followed, and nothing new is planned."""
        grew = self.follow(now)
        for job_uid in self.unreserved() if reserve else ():
            search = self.search(job_uid, now)
            if search is not None:
                self.settle(search, search.find())
        return grew

    def follow(self, now: float) -> bool:
        """Take over how far rescales are, and release for ended ones; returns whether room grew."""
        ended = [job_uid for job_uid in self._tracked if job_uid not in self._cluster.rescales]
        grew = False
        for job_uid in ended:
            keeps = self._tracked.pop(job_uid).keeps
            grew |= self._reservations.release_job(job_uid) if keeps else False
            grew |= self._release_unused(job_uid)
        for job_uid, rescale in sorted(self._cluster.rescales.items()):
            grew |= self._follow_one(job_uid, rescale, now)
        return grew

    def unreserved(self) -> list[str]:
        """The UIDs of the jobs that ``follow`` has found without a reservation: first those that
        return to room that was theirs, then those that were stopped first."""
        found = [(uid, known) for uid, known in self._tracked.items() if not known.held]
        found.sort(key=lambda each: (each[1].rescale.kept is not None, each[1].since, each[0]))
        return [uid for uid, _ in found]

    def search(self, job_uid: str, now: float) -> Search | None:
        """A search for room for a rescale, where none is reserved and one may be found."""
        known, job = self._tracked.get(job_uid), self._cluster.jobs.get(job_uid)
        if known is None or known.held or now - known.since >= self._max_seconds or job is None:
            return None
        if not self._may_fit(known, job, now):
            return None
        gang, reservations = self._gang(job, known.rescale), self._reservations
        left = reservations.left_by_node()
        refusal = _FailedSearch(now, job, self._pods(job_uid), reservations.changes, left)
        leaving = used_by_node(self._leaving(job_uid, known.rescale))
        left = left | reservations.left_to(gang, leaving)
        nodes, kept = tuple(self._cluster.nodes.values()), None
        if known.rescale.kept is not None and not known.keeps:
            kept = self._gang(job, known.rescale, known.rescale.kept)
        return Search(self._rule, known.rescale, gang, nodes, left, refusal, kept)

    def settle(self, search: Search, found: Found) -> None:
        """Reserve what a search has found, or remember that it has found nothing; neither where
        that does not hold any more."""
        job_uid, rescale = search.rescale.job_uid, search.rescale
        known, job = self._tracked.get(job_uid), self._cluster.jobs.get(job_uid)
        if known is None or known.held or known.rescale != rescale or job is None:
            return  # it is over, reserved, or a step further
        if self._gang(job, rescale) != search.gang:
            return
        answer = found.answer
        if isinstance(answer, DoesNotFit):
            self._tracked[job_uid] = replace(known, refusal=search.refusal)
            if search.kept is not None and isinstance(found.kept, Placement):
                self._keep(search.kept, found.kept, rescale)
            return
        leaving = used_by_node(self._leaving(job_uid, rescale))
        if not self._reservations.still_fits(search.gang, answer, leaving):
            return
        expires_at = known.since + self._max_seconds
        self._reservations.hold(search.gang, answer, expires_at, leaving)
        self._tracked[job_uid] = replace(known, held=True, refusal=None, keeps=False)
        _LOG.info("job %s: room is reserved for its rescale to %s", job.key, rescale.target)

    def _keep(self, gang: Gang, answer: Placement, rescale: ProfileRescale) -> None:
        """Reserve what a job may return to, where that is still free."""
        job_uid = rescale.job_uid
        leaving, known = used_by_node(self._leaving(job_uid, rescale)), self._tracked[job_uid]
        if gang.unbound and self._reservations.still_fits(gang, answer, leaving):
            expires_at = known.since + self._max_seconds
            self._reservations.hold(gang, answer, expires_at, leaving)
            self._tracked[job_uid] = replace(known, keeps=True)

    def is_whole(self, job_uid: str) -> bool:
        """Return whether what is reserved for a job is for all of its gang."""
        known = self._tracked.get(job_uid)
        return known is None or not known.keeps

    def is_tracked(self, job_uid: str) -> bool:
        """Return whether room may be reserved for counts whose pods need not exist yet."""
        return job_uid in self._tracked

    def is_leaving(self, job_uid: str, now: float) -> bool:
        """Return whether the job's pods are about to be deleted: they are of the counts that it
        leaves.

        A profile may stay at that for ever, its autoscaler gone: so not for longer than room is
        held, and not much longer than a suspension takes where the job is not suspended.
        """
        tracked = self._tracked.get(job_uid)
        if tracked is None or not tracked.rescale.leaving:
            return False
        job, limit = self._cluster.jobs.get(job_uid), self._max_seconds
        if job is not None and not job.suspended:
            limit = min(_SUSPENSION_SECONDS, limit)
        return now - tracked.since <= limit

    def pod_changed(self, job_uid: str) -> bool:
        """A job's pod has changed or is gone: correct at once what its old pods still take of the
        reserved room; returns whether there is any such room."""
        tracked = self._tracked.get(job_uid)
        if tracked is None or not (tracked.held or tracked.keeps):
            return False
        pods = self._leaving(job_uid, tracked.rescale)
        self._reservations.set_leaving(job_uid, used_by_node(pods))
        return True

    def adopt(self, job_uid: str) -> None:
        """What the last leader had planned for a job's pods is reserved now."""
        if job_uid in self._tracked:
            known = self._tracked[job_uid]
            self._tracked[job_uid] = replace(known, held=True, refusal=None, keeps=False)

    def plan_again(self, job_uid: str) -> None:
        """What was reserved for a job is of no use any more."""
        if job_uid in self._tracked:
            known = self._tracked[job_uid]
            self._tracked[job_uid] = replace(known, held=False, refusal=None, keeps=False)

    def _follow_one(self, job_uid: str, rescale: ProfileRescale, now: float) -> bool:
        known = self._tracked.get(job_uid)
        if known is None or (known.rescale.id, known.rescale.target) != (
            rescale.id,
            rescale.target,
        ):
            known = _Tracked(rescale, now, held=False, keeps=known is not None and known.keeps)
        elif known.rescale != rescale:
            known = replace(known, rescale=rescale, refusal=None)
        self._tracked[job_uid] = known
        if now - known.since >= self._max_seconds:
            return self._release_unused(job_uid)
        if known.held or known.keeps:
            leaving = used_by_node(self._leaving(job_uid, rescale))
            self._reservations.set_leaving(job_uid, leaving)
        return False

    def _leaving(self, job_uid: str, rescale: ProfileRescale) -> list[Pod]:
        pods = self._cluster.pods_of(job_uid).values()
        return [pod for pod in pods if rescale.leaving or pod.leaving]

    def _pods(self, job_uid: str) -> _Pods:
        pods = self._cluster.pods_of(job_uid).values()
        return frozenset((pod.uid, pod.node, pod.leaving) for pod in pods)

    def _may_fit(self, known: _Tracked, job: Job, now: float) -> bool:
        """Return whether a search is worth while: the last one found nothing, and what has
        changed?"""
        refusal, rescale = known.refusal, known.rescale
        if (
            refusal is None
            or now - refusal.at >= _SEARCH_SECONDS
            or refusal.job != job
            or refusal.pods != self._pods(rescale.job_uid)
        ):
            return True
        changed = self._reservations.changed_since(refusal.changes)
        if not changed:
            return False
        gang = self._as_observed(Gang.of(job, rescale.target), with_nodes=False)
        specs = {member.spec for member in gang.members}
        nodes = self._cluster.nodes
        return any(
            _holds(left, spec.resources) > _holds(refusal.left.get(name, NONE), spec.resources)
            and admission_refusal(nodes[name], spec.constraints) is None
            for name, left in changed.items()
            for spec in specs
        )

    def _gang(self, job: Job, rescale: ProfileRescale, counts: Counts | None = None) -> Gang:
        """The gang of the target counts, or of others, with what other pods mean for it, now."""
        gang = Gang.of(job, rescale.target if counts is None else counts)
        gang = self._as_observed(gang, with_nodes=not rescale.leaving)
        if not rescale.leaving:
            gang = self._reservations.with_assumed(gang)
        gone = [pod.uid for pod in self._leaving(job.uid, rescale)]
        gang = self._cluster.as_profile_says(gang)
        return self._reservations.with_surroundings(gang, gone)

    def _as_observed(self, gang: Gang, *, with_nodes: bool) -> Gang:
        """Each replica is as a pod of its role is: admission may have raised requests.

        New pods count before old ones. ``with_nodes`` counts new pods as placed where they are
        bound; until the old ones go, none of the new ones exists."""
        pods = sorted(
            self._cluster.pods_of(gang.job_uid).values(), key=lambda pod: (not pod.leaving, pod.uid)
        )
        alike = {pod.replica.role: pod for pod in pods if pod.replica}
        nodes = {pod.replica: pod.node for pod in pods if with_nodes and not pod.leaving}
        members = []
        for member in gang.members:
            pod, node = alike.get(member.role), nodes.get(gang.replica(member))
            if pod is None:
                members.append(replace(member, node=node))
                continue
            spec = ReplicaSpec(pod.resources, pod.constraints)
            members.append(
                replace(member, spec=spec, node=node, labels=pod.labels, rules=pod.rules)
            )
        return replace(gang, members=tuple(members))

    def _release_unused(self, job_uid: str) -> bool:
        """Release what is reserved for replicas that have no waiting pod."""
        waiting = {pod.replica for pod in self._cluster.waiting_pods(job_uid)}
        held = self._reservations.ledger.of_job(job_uid)
        unused = [each.replica for each in held if each.replica not in waiting]
        for replica in unused:
            self._reservations.release(replica)
        return bool(unused)


def _holds(left: Resources, asked: Resources) -> int:
    """Return how many replicas that ask for so much fit in what is left."""
    return min((max(left[name], 0) // amount for name, amount in asked.items()), default=0)
