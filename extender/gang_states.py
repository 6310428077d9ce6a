"""Where each gang stands on its way to its nodes, read from the state under its lock."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from extender.state.gang_queue import QueuedGang
from optimus.jobs import JobKey
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant
from optimus.placement.queue.shortfall import GangRefusal
from optimus.snapshot import ReplicaId


class GangState(StrEnum):
    """Where a gang stands."""

    INCOMPLETE = "incomplete"
    """Pods are missing, or wait for scheduling gates."""
    QUEUED = "queued"
    """It is about to be planned."""
    WAITING = "waiting"
    """It does not fit, or gangs before it need the capacity."""
    OFFERING = "offering"
    """kube-scheduler is asked which nodes its pods may go to."""
    BACKING_OFF = "backing off"
    """It does not fit on the nodes that kube-scheduler offers, and backs off."""
    PAUSED = "paused"
    """Its reservations ended before its pods were bound."""
    PREEMPTING = "preempting"
    """Its nodes are reserved, and pods that are about to end still take them."""
    PLANNED = "planned"
    """Its nodes are reserved."""
    BINDING = "binding"
    """kube-scheduler was answered for some of its pods."""
    RESCALING = "rescaling"
    """Its pods are about to be deleted; those at the new counts follow."""
    RUNNING = "running"
    """All its pods have a node."""
    WITHOUT_PODS = "without pods"
    SUSPENDED = "suspended"


IN_QUEUE: Final = (GangState.QUEUED, GangState.WAITING, GangState.OFFERING, GangState.BACKING_OFF)
"""The states in which a gang has its place in the queue."""

WITH_WAITING_PODS: Final = (
    *IN_QUEUE,
    GangState.INCOMPLETE,
    GangState.PAUSED,
    GangState.PREEMPTING,
    GangState.PLANNED,
    GangState.BINDING,
    GangState.RESCALING,
)


@dataclass(frozen=True, slots=True)
class GangFacts:
    """What is known of one gang; nothing of it changes any more."""

    queued: QueuedGang
    state: GangState
    refusal: GangRefusal | None
    held: Sequence[Reservation]
    back_off_ends: float | None
    """Monotonic."""

    not_offered: bool
    """Whether it once did not fit on the nodes that kube-scheduler offers."""

    victims: Sequence[str] = ()
    """The jobs that make room for it now, NAMESPACE/NAME."""

    @property
    def uid(self) -> str:
        """The job's UID."""
        return self.queued.waiting.job_uid

    @property
    def key(self) -> JobKey:
        """The job's namespace and name."""
        return self.queued.observed.gang.key


def waiting_gangs(state: ExtenderState, now: Instant) -> list[GangFacts]:
    """The gangs with pods that wait for our scheduler; under the lock."""
    found = (state.queue.find(job_uid) for job_uid in state.cluster.waiting_jobs())
    return [_facts(state, each, now) for each in found if each is not None]


def counts_by_state(state: ExtenderState) -> dict[str, float]:
    """How many gangs with pods that wait are in each state, of the leader; takes the lock."""
    with state.locked() as now:
        gangs = waiting_gangs(state, now) if state.leads else ()
        found = Counter(each.state for each in gangs)
    return {state.value: float(found[state]) for state in WITH_WAITING_PODS}


def oldest_waits(state: ExtenderState) -> dict[str, float]:
    """By priority, how long the gang has waited that waits longest, in seconds; takes the lock."""
    with state.locked() as now:
        waits = [each.queued.waiting for each in waiting_gangs(state, now)]
    oldest: dict[int, float] = {}
    for each in waits:
        waited = each.waited_seconds(now.epoch)
        oldest[each.priority] = max(oldest.get(each.priority, 0.0), waited)
    return {str(priority): waited for priority, waited in sorted(oldest.items())}


def other_gang(state: ExtenderState, job_uid: str, now: Instant) -> GangFacts | None:
    """The gang of any job that has pods; under the lock."""
    pods = [pod for pod in state.cluster.pods_of(job_uid).values() if not pod.leaving]
    newest = max(pods, key=lambda pod: (pod.created_at, pod.uid), default=None)
    if newest is None:
        return None
    return _facts(state, state.queue.queued(state.queue.observe(newest)), now)


def _facts(state: ExtenderState, queued: QueuedGang, now: Instant) -> GangFacts:
    job_uid = queued.waiting.job_uid
    refusal, awaited = state.refusals.get(job_uid), state.future_room.awaits(job_uid)
    return GangFacts(
        queued,
        _state(state, queued, refusal, now),
        refusal,
        state.reservations.ledger.of_job(job_uid),
        state.offers.back_off_ends(job_uid),
        state.offers.has_refused(job_uid),
        () if awaited is None else awaited.victims,
    )


def _state(
    state: ExtenderState, queued: QueuedGang, refusal: GangRefusal | None, now: Instant
) -> GangState:
    observed, job_uid, queue = queued.observed, queued.waiting.job_uid, state.queue
    if state.rescales.is_leaving(job_uid, now.monotonic):
        return GangState.RESCALING
    if not observed.complete:
        return GangState.INCOMPLETE
    waits = [replica for replica, pod in observed.pods.items() if is_waiting(pod)]
    if not waits:
        return GangState.RUNNING
    if queue.is_held(observed):
        return _held_state(state, job_uid, waits)
    if job_uid in queue.paused:
        return GangState.PAUSED
    if state.offers.back_off_ends(job_uid) is not None:
        return GangState.BACKING_OFF
    if queue.not_offered_yet(observed):
        return GangState.OFFERING
    return GangState.QUEUED if refusal is None else GangState.WAITING


def _held_state(state: ExtenderState, job_uid: str, waits: Iterable[ReplicaId]) -> GangState:
    if state.future_room.awaits(job_uid) is not None:
        return GangState.PREEMPTING
    binds = any(replica in state.reservations.assumed for replica in waits)
    return GangState.BINDING if binds else GangState.PLANNED
