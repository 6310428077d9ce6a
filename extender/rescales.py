"""Room for jobs that are being rescaled, so that they cannot lose their place to a waiting one.

From the first step of a rescale until its pods are bound, room is held for the job's target counts,
planned on what is free and on what the job's own pods are about to leave; at most for ten minutes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from extender.state.assumed import AssumedPods
from extender.state.cluster import Cluster, Rescale, is_waiting
from extender.state.reservations import Reservations
from optimus.jobs import ReplicaSpec
from optimus.placement.gang import DoesNotFit, Gang
from optimus.placement.theorem1 import Theorem1
from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)
_SUSPENSION_SECONDS: Final = 30.0
"""From the phase in the profile to the suspension in the job it takes a call or two."""


@dataclass(frozen=True, slots=True)
class _Known:
    rescale: Rescale
    since: float
    held: bool


class RescaleHolds:
    """What is held for rescales. Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        promises: Reservations,
        rule: Theorem1,
        seconds: float,
        in_flight: AssumedPods,
    ) -> None:
        self._cluster, self._promises, self._rule = cluster, promises, rule
        self._seconds, self._in_flight = seconds, in_flight
        self._known: dict[str, _Known] = {}

    def update(self, now: float) -> bool:
        """Hold room where a rescale begins or goes on, let go where one has ended; returns whether
        room grew."""
        grew = False
        for job_uid in [
            job_uid for job_uid in self._known if job_uid not in self._cluster.rescales
        ]:
            del self._known[job_uid]
            grew |= self._settle(job_uid)
        for job_uid, rescale in sorted(self._cluster.rescales.items()):
            grew |= self._step(job_uid, rescale, now)
        return grew

    def is_under_way(self, job_uid: str) -> bool:
        """Whether room is held for counts whose pods need not exist yet."""
        return job_uid in self._known

    def takes_away(self, job_uid: str, now: float) -> bool:
        """Whether the job's pods are about to go: what is made now is of the counts that it leaves.

        A profile may stay at that for ever, its autoscaler gone: not for longer than room is held,
        and not much longer than a suspension takes where the job is not suspended.
        """
        known = self._known.get(job_uid)
        if known is None or not known.rescale.leaving:
            return False
        job = self._cluster.jobs.get(job_uid)
        resumed = job is not None and not job.suspended
        return now - known.since <= (
            min(_SUSPENSION_SECONDS, self._seconds) if resumed else self._seconds
        )

    def plan_again(self, job_uid: str) -> None:
        """What was held for a job is of no use any more."""
        known = self._known.get(job_uid)
        if known is not None:
            self._known[job_uid] = replace(known, held=False)

    def _step(self, job_uid: str, rescale: Rescale, now: float) -> bool:
        known = self._known.get(job_uid)
        if known is None or (known.rescale.id, known.rescale.target) != (
            rescale.id,
            rescale.target,
        ):
            known = _Known(rescale, now, held=False)
        leaving = self._leaving(rescale)
        if now - known.since > self._seconds:
            self._known[job_uid] = replace(known, rescale=rescale)
            return self._settle(job_uid)
        if known.held:
            self._promises.ride(job_uid, leaving)
        held = known.held or self._hold(rescale, leaving, known.since)
        self._known[job_uid] = _Known(rescale, known.since, held)
        return False

    def _leaving(self, rescale: Rescale) -> Mapping[str, Resources]:
        leaving: dict[str, Resources] = {}
        for pod in self._cluster.pods_of(rescale.job_uid).values():
            taken = pod.bound()
            if taken is not None and (rescale.leaving or pod.leaving):
                leaving[taken.node] = leaving.get(taken.node, NONE) + taken.resources
        return leaving

    def _hold(self, rescale: Rescale, leaving: Mapping[str, Resources], since: float) -> bool:
        job = self._cluster.jobs.get(rescale.job_uid)
        if job is None:
            return False
        gang = self._as_admitted(Gang.of(job, rescale.target))
        if not rescale.leaving:
            gang = self._in_flight.counted(self._with_bound(gang))
        answer = self._rule.place_in(gang, self._promises.room_for(gang, leaving))
        if isinstance(answer, DoesNotFit):
            return False
        self._promises.hold(gang, answer, since + self._seconds, leaving)
        _LOG.info("job %s: room is held for %s while it is rescaled", job.key, rescale.target)
        return True

    def _as_admitted(self, gang: Gang) -> Gang:
        """Each replica asks for what a pod of its type does: admission may have made more of the
        job's template."""
        pods = sorted(
            self._cluster.pods_of(gang.job_uid).values(), key=lambda pod: (not pod.leaving, pod.uid)
        )
        specs = {
            pod.replica.role: ReplicaSpec(pod.resources, pod.constraints)
            for pod in pods
            if pod.replica
        }
        members = tuple(
            replace(member, spec=specs.get(member.role, member.spec)) for member in gang.members
        )
        return replace(gang, members=members)

    def _with_bound(self, gang: Gang) -> Gang:
        """The gang with what its new pods are bound to; until the old ones go they do not count."""
        there = {
            pod.replica: pod.node
            for pod in self._cluster.pods_of(gang.job_uid).values()
            if not pod.leaving
        }
        members = tuple(
            replace(member, node=there.get(ReplicaId(gang.job_uid, member.role, member.index)))
            for member in gang.members
        )
        return replace(gang, members=members)

    def _settle(self, job_uid: str) -> bool:
        """Let go of what is held for replicas that have no pod."""
        waiting = {
            pod.replica for pod in self._cluster.pods_of(job_uid).values() if is_waiting(pod)
        }
        idle = [
            held for held in self._promises.ledger.of_job(job_uid) if held.replica not in waiting
        ]
        for held in idle:
            self._promises.release(held.replica)
        return bool(idle)
