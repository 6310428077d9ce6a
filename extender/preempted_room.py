"""Keeps the nodes that paused jobs leave for the gang that they were paused for.

The autoscaler pauses jobs for a gang (docs/design/0069); its marks on them name the gang. That is
planned on what is free and on what their pods still take, and its pods are bound once these have
gone. Anybody may write a mark on a job of his own, so that one counts only where the job's profile,
whose status the autoscaler alone writes, says that it is paused or about to be.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from extender.state.cluster import is_waiting, used_by_node
from extender.state.extender_state import ExtenderState
from extender.state.future_room import Awaited
from extender.state.gang_queue import QueuedGang
from optimus.kube.pods import Pod
from optimus.kube.suspension import Preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.placement.gang import Placement
from optimus.placement.queue.order import Instant

_LOG = logging.getLogger(__name__)

STEP_SECONDS: Final = 1.0

_MARGIN_SECONDS: Final = 30.0

_MOST_AHEAD_SECONDS: Final = 60.0
"""How far the autoscaler's clock may be ahead."""

KnownJobs = Callable[[], Iterable[TrainingJob]]


class PreemptedRoom:
    """``step`` is called by one thread; ``adopt`` by the one that begins to lead."""

    def __init__(self, state: ExtenderState, jobs: KnownJobs, max_seconds: float) -> None:
        """``max_seconds`` after the decision nothing is kept any more, whatever the marks say."""
        self._state, self._jobs, self._max_seconds = state, jobs, max_seconds
        self._kept: set[str] = set()
        """The UIDs of the gangs that nodes are kept for."""

    def step(self) -> None:
        """Reserve what is not reserved yet, and release it for gangs that nobody is paused for."""
        jobs = tuple(self._jobs())
        with self._state.locked() as now:
            if not self._state.leads:
                self._kept.clear()
            elif self._state.why_too_old() is None:
                self._follow(jobs, now)

    def adopt(self, now: Instant) -> None:
        """The same before anything is planned; under the lock."""
        self._follow(tuple(self._jobs()), now)

    def _follow(self, jobs: Sequence[TrainingJob], now: Instant) -> None:
        state = self._state
        paused = self._paused_for(jobs, now)
        for uid in self._kept - paused.keys():
            self._release(uid)
        self._kept = set(paused)
        for uid, victims in sorted(paused.items()):
            queued = state.queue.find(uid)
            if queued is not None and self._may_be_planned(queued):
                self._reserve(queued, victims, now)

    def _paused_for(
        self, jobs: Iterable[TrainingJob], now: Instant
    ) -> Mapping[str, list[TrainingJob]]:
        """The jobs that are paused for a gang, by its UID."""
        found: dict[str, list[TrainingJob]] = {}
        for job in jobs:
            preemption = None if job.suspension is None else job.suspension.preemption
            if preemption is None or not job.suspended or job.active is None:
                continue
            is_recent = -_MOST_AHEAD_SECONDS <= now.epoch - preemption.at < self._max_seconds
            if is_recent and not preemption.by_quota and self._is_believed(job, preemption):
                found.setdefault(preemption.uid, []).append(job)
        return found

    def _is_believed(self, job: TrainingJob, preemption: Preemption) -> bool:
        return self._state.cluster.profile_of(job.uid).pause in ("", preemption.text)

    def _may_be_planned(self, queued: QueuedGang) -> bool:
        """Return whether the gang waits, is whole, and nothing is reserved for it."""
        state, observed = self._state, queued.observed
        job = state.cluster.jobs.get(queued.waiting.job_uid)
        if job is None or job.suspended or not observed.complete:
            return False
        return any(is_waiting(pod) for pod in observed.pods.values()) and not state.queue.is_held(
            observed
        )

    def _reserve(self, queued: QueuedGang, victims: Sequence[TrainingJob], now: Instant) -> None:
        """Plan the gang on what is left now and what pods that are about to end take."""
        state, job_uid = self._state, queued.waiting.job_uid
        ending = [pod for job in victims for pod in state.cluster.pods_of(job.uid).values()]
        ending += self._leaving_pods()
        gone = {pod.uid for pod in ending}
        gang = state.reservations.with_surroundings(queued.observed.gang, gone)
        capacity = state.reservations.free_for(gang, used_by_node(ending))
        placement = state.rule.place(gang, capacity)
        if not isinstance(placement, Placement):
            return
        # Of these pods only those on the gang's nodes are waited for.
        nodes = {*placement.nodes.values()}
        awaited = Awaited(
            frozenset(pod.uid for pod in ending if pod.node in nodes and pod.bound() is not None),
            tuple(sorted(str(job.key) for job in victims)),
        )
        expires_at = now.monotonic + self._max_seconds + _MARGIN_SECONDS
        state.hold_future(gang, placement, awaited, expires_at)
        _LOG.info("job %s: nodes are kept that paused jobs leave", job_uid)

    def _leaving_pods(self) -> list[Pod]:
        """The pods that are being deleted and whose room is not reserved.

        What the pods of a rescaled job leave is reserved for its new ones."""
        state = self._state
        return [
            pod
            for uid, pod in state.cluster.ending.items()
            if pod.replica is not None
            and not state.rescales.is_tracked(pod.replica.job_uid)
            and state.cluster.profile_of(pod.replica.job_uid).pause is None
            and not state.future_room.is_awaited(uid)
        ]

    def _release(self, job_uid: str) -> None:
        state = self._state
        awaits = state.future_room.awaits(job_uid) is not None
        state.future_room.forget(job_uid)
        if awaits:
            state.break_plan(job_uid)
        state.changes.notify()
