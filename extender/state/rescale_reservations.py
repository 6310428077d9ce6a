"""Room for jobs that are being rescaled, so that a waiting job cannot take their place.

From the first step of a rescale until its pods are bound, room is reserved for the job's target
counts, planned on what is free and on what the job's own pods are about to leave; for
``--rescale-hold-seconds`` at most.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender.state.cluster import Cluster, Rescale, used_by_node
from extender.state.reservations import Reservations
from optimus.jobs import Job, ReplicaSpec
from optimus.kube.pods import Pod
from optimus.nodes import refusal as admission_refusal
from optimus.placement.gang import DoesNotFit, Gang
from optimus.placement.theorem1 import Theorem1
from optimus.resources import NONE, Resources

_LOG = logging.getLogger(__name__)
_SUSPENSION_SECONDS: Final = 30.0
"""From the phase in the profile to the suspension of the job it takes a call or two."""


_SEARCH_SECONDS: Final = 1.0
"""Where nothing that matters has changed, room is searched for again at most this often."""

_Pods = frozenset[tuple[str, str | None, bool]]


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A search that found no room, and on what."""

    at: float
    job: Job | None
    pods: _Pods
    changes: int
    left: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class _Tracked:
    rescale: Rescale
    since: float
    held: bool
    refusal: _Refusal | None = None


class RescaleReservations:
    """What is reserved for rescales. Not thread-safe."""

    def __init__(
        self, cluster: Cluster, reservations: Reservations, rule: Theorem1, max_seconds: float
    ) -> None:
        self._cluster, self._reservations, self._rule = cluster, reservations, rule
        self._max_seconds = max_seconds
        self._tracked: dict[str, _Tracked] = {}

    def update(self, now: float, *, reserve: bool = True) -> bool:
        """Reserve for rescales in progress, release for ended ones; returns whether room grew.

        Without ``reserve`` they are followed, and nothing new is planned."""
        ended = [job_uid for job_uid in self._tracked if job_uid not in self._cluster.rescales]
        grew = False
        for job_uid in ended:
            del self._tracked[job_uid]
            grew |= self._release_unused(job_uid)
        for job_uid, rescale in sorted(self._cluster.rescales.items()):
            grew |= self._update_one(job_uid, rescale, now, reserve=reserve)
        return grew

    def is_tracked(self, job_uid: str) -> bool:
        """Whether room may be reserved for counts whose pods need not exist yet."""
        return job_uid in self._tracked

    def is_leaving(self, job_uid: str, now: float) -> bool:
        """Whether the job's pods are about to be deleted: they are of the counts that it leaves.

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
        if tracked is None or not tracked.held:
            return False
        pods = self._leaving(job_uid, tracked.rescale)
        self._reservations.set_leaving(job_uid, used_by_node(pods))
        return True

    def adopt(self, job_uid: str) -> None:
        """What the last leader had planned for a job's pods is reserved now."""
        if job_uid in self._tracked:
            self._tracked[job_uid] = replace(self._tracked[job_uid], held=True, refusal=None)

    def plan_again(self, job_uid: str) -> None:
        """What was reserved for a job is of no use any more."""
        if job_uid in self._tracked:
            self._tracked[job_uid] = replace(self._tracked[job_uid], held=False, refusal=None)

    def _update_one(self, job_uid: str, rescale: Rescale, now: float, *, reserve: bool) -> bool:
        known = self._tracked.get(job_uid)
        same = known and (known.rescale.id, known.rescale.target) == (rescale.id, rescale.target)
        if known is None or not same:
            known = _Tracked(rescale, now, held=False)
        over, held, refusal = now - known.since >= self._max_seconds, known.held, known.refusal
        if not over:
            pods = self._leaving(job_uid, rescale)
            leaving = used_by_node(pods)
            if held:
                self._reservations.set_leaving(job_uid, leaving)
            if reserve and not held and self._may_fit(known, rescale, now):
                held = self._hold(rescale, leaving, [pod.uid for pod in pods], known.since)
                refusal = None if held else self._refusal(rescale, now)
        self._tracked[job_uid] = _Tracked(rescale, known.since, held, refusal)
        return over and self._release_unused(job_uid)

    def _leaving(self, job_uid: str, rescale: Rescale) -> list[Pod]:
        pods = self._cluster.pods_of(job_uid).values()
        return [pod for pod in pods if rescale.leaving or pod.leaving]

    def _refusal(self, rescale: Rescale, now: float) -> _Refusal:
        reservations = self._reservations
        left = reservations.left_by_node()
        job, pods = self._cluster.jobs.get(rescale.job_uid), self._pods(rescale.job_uid)
        return _Refusal(now, job, pods, reservations.changes, left)

    def _pods(self, job_uid: str) -> _Pods:
        pods = self._cluster.pods_of(job_uid).values()
        return frozenset((pod.uid, pod.node, pod.leaving) for pod in pods)

    def _may_fit(self, known: _Tracked, rescale: Rescale, now: float) -> bool:
        """Whether a search is worth while: the last one found nothing, and what has changed?"""
        refusal, job = known.refusal, self._cluster.jobs.get(rescale.job_uid)
        if (
            refusal is None
            or now - refusal.at >= _SEARCH_SECONDS
            or refusal.job != job
            or known.rescale != rescale
            or refusal.pods != self._pods(rescale.job_uid)
        ):
            return True
        changed = self._reservations.changed_since(refusal.changes)
        if job is None or not changed:
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

    def _hold(
        self,
        rescale: Rescale,
        leaving: Mapping[str, Resources],
        gone: Sequence[str],
        since: float,
    ) -> bool:
        job = self._cluster.jobs.get(rescale.job_uid)
        if job is None:
            return False
        gang = self._as_observed(Gang.of(job, rescale.target), with_nodes=not rescale.leaving)
        if not rescale.leaving:
            gang = self._reservations.with_assumed(gang)
        gang = self._reservations.with_surroundings(gang, gone)
        answer = self._rule.place(gang, self._reservations.free_for(gang, leaving))
        if isinstance(answer, DoesNotFit):
            return False
        self._reservations.hold(gang, answer, since + self._max_seconds, leaving)
        _LOG.info("job %s: room is reserved for its rescale to %s", job.key, rescale.target)
        return True

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
    """How many replicas that ask for so much fit in what is left."""
    return min((max(left[name], 0) // amount for name, amount in asked.items()), default=0)
