"""Where each gang stands on its way to its nodes and why it waits, in the words that every refusal,
Event and report uses; read from the state under its lock.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extender.state.cluster import is_waiting
from extender.state.extender_state import ExtenderState
from extender.state.gang_membership import ObservedGang
from extender.state.gang_queue import QueuedGang
from optimus.jobs import JobKey
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant
from optimus.placement.queue.shortfall import GangRefusal
from optimus.snapshot import ReplicaId


class GangPhase(StrEnum):
    """The stations of a gang."""

    INCOMPLETE = "incomplete"
    """Pods are missing, or wait for scheduling gates."""
    WAITING = "waiting"
    """It is complete, and nothing is reserved for it."""
    PLANNED = "planned"
    """Its nodes are reserved."""
    BINDING = "binding"
    """kube-scheduler was answered for some of its pods."""
    RUNNING = "running"
    """All its pods have a node."""
    RESCALING = "rescaling"
    """Its pods are about to be deleted; those at the new counts follow."""
    SUSPENDED = "suspended"


class WaitReason(StrEnum):
    """Why a gang, or one pod of it, gets no node now."""

    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"
    """Neither the pod nor its job says who belongs to the gang."""
    CHANGING = "changing"
    """It changes more often than its namespace may have looked at."""
    CACHE_TOO_OLD = "cache too old"
    NOT_PLANNED = "not planned"
    NO_ROOM = "no room"
    ASKED = "asked"
    """kube-scheduler is to say first which nodes a pod of each shape may go to."""
    NOT_OFFERED = "not offered"
    UNUSED = "unused"
    """Its reservations ended before its pods were bound."""
    PREEMPTING = "preempting"
    """Pods that are about to end still take its nodes."""
    PASSED = "passed"
    """A pod of a higher priority may be about to take them."""
    PASSING_PODS = "passing pods"
    """Pods of no job that were just answered may be about to take room of the gang, of which no pod
    is placed yet: the others would be left without."""
    ORDER = "order"
    """The pod's node opens once others of its gang are bound."""
    PROBE = "probe"
    """The nominated node alone is offered, and it is not the pod's node, or not any more."""
    RESCALING = "rescaling"
    BOUND = "bound"
    JUST_BOUND = "just bound"
    """The pod is of no gang, and gangs were just bound on all nodes that have room for it."""


SENTENCES: Final[Mapping[WaitReason, str]] = {
    WaitReason.INCOMPLETE: "waiting for all pods of job {job}",
    WaitReason.UNKNOWN: "job {job} itself has not been seen yet",
    WaitReason.CHANGING: "pods of job {job} change too often: later",
    WaitReason.CACHE_TOO_OLD: "job {job} is not planned: {detail}",
    WaitReason.NOT_PLANNED: "job {job} has not been planned yet",
    WaitReason.NO_ROOM: "job {job} does not fit as a whole",
    WaitReason.ASKED: "waiting until pods of job {job} have been offered nodes",
    WaitReason.NOT_OFFERED: (
        "job {job} does not fit as a whole on the nodes offered: kube-scheduler rules out others"
        " (kubectl describe pod says why)"
    ),
    WaitReason.UNUSED: (
        "pods of job {job} were not bound in time to the nodes planned: planned again later"
    ),
    WaitReason.PREEMPTING: "waiting for the pods of preempted jobs to make room for job {job}",
    WaitReason.PASSED: "waiting for a pod of a higher priority that may take room of job {job}",
    WaitReason.PASSING_PODS: (
        "pods that were just answered may take room of job {job}: tried again soon"
    ),
    WaitReason.ORDER: "waiting for other pods of job {job} to be bound first",
    WaitReason.PROBE: "the plan of job {job} has changed since pods were nominated",
    WaitReason.RESCALING: "job {job} is being suspended, to resume with other counts",
    WaitReason.BOUND: "the pod has been bound already",
    WaitReason.JUST_BOUND: ("gangs were just bound on the nodes that have room: tried again soon"),
}
"""What users read, where nothing more exact is known; it is the same at every attempt."""


def sentence_of(wait: WaitReason, job: str, detail: str = "") -> str:
    """Why a gang of a job, NAMESPACE/NAME, waits; ``detail`` is what is known more exactly."""
    sentence = SENTENCES[wait]
    if "{detail}" not in sentence and detail:
        return detail
    return sentence.replace("{job}", job).replace("{detail}", detail)


SHOWN_STATES: Final = (
    WaitReason.INCOMPLETE,
    WaitReason.NOT_PLANNED,
    WaitReason.NO_ROOM,
    WaitReason.ASKED,
    WaitReason.NOT_OFFERED,
    WaitReason.UNUSED,
    WaitReason.PREEMPTING,
    WaitReason.RESCALING,
    GangPhase.PLANNED,
    GangPhase.BINDING,
)
"""Where gangs with pods that wait may stand: why they wait, else their phase."""


@dataclass(frozen=True, slots=True)
class GangFacts:
    """Facts about one gang; none of them changes any more."""

    queued: QueuedGang
    phase: GangPhase
    wait: WaitReason | None
    refusal: GangRefusal | None
    held: Sequence[Reservation]
    back_off_ends: float | None
    """Monotonic."""

    victims: Sequence[str] = ()
    """The jobs that make room for it now, NAMESPACE/NAME."""

    @property
    def is_in_queue(self) -> bool:
        """Return whether it has a place in the queue."""
        return self.phase is GangPhase.WAITING and self.wait is not WaitReason.UNUSED

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
    """Return how many gangs with pods that wait are in each state, of the leader; takes the
    lock."""
    with state.locked() as now:
        gangs = waiting_gangs(state, now) if state.leads else ()
        found = Counter(each.wait or each.phase for each in gangs)
    return {state.value: float(found[state]) for state in SHOWN_STATES}


def oldest_waits(state: ExtenderState) -> dict[str, float]:
    """Return, by priority, how long the gang has waited that waits longest, in seconds; takes the
    lock."""
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


def why_unplanned(state: ExtenderState, observed: ObservedGang) -> WaitReason:
    """Why a complete gang has no plan; under the lock.

    Some of it would be bound and the others could not, where kube-scheduler knows rules that a plan
    does not: no pod is answered before it was asked about each shape. From the first back-off on
    the reason is one, whether it is asked again or not."""
    job_uid, offers = observed.gang.job_uid, state.offers
    must_ask = bool(state.queue.pods_to_ask_about(observed)) or offers.waits(job_uid)
    is_refused = job_uid in state.refusals
    if (must_ask or is_refused) and offers.has_refused(job_uid):
        return WaitReason.NOT_OFFERED
    if must_ask:
        return WaitReason.ASKED
    return WaitReason.NO_ROOM if is_refused else WaitReason.NOT_PLANNED


def _facts(state: ExtenderState, queued: QueuedGang, now: Instant) -> GangFacts:
    job_uid = queued.waiting.job_uid
    awaited = state.future_room.awaits(job_uid)
    return GangFacts(
        queued,
        *_phase(state, queued, now),
        state.refusals.get(job_uid),
        state.reservations.ledger.of_job(job_uid),
        state.offers.back_off_ends(job_uid),
        () if awaited is None else awaited.victims,
    )


def _phase(
    state: ExtenderState, queued: QueuedGang, now: Instant
) -> tuple[GangPhase, WaitReason | None]:
    observed, job_uid, queue = queued.observed, queued.waiting.job_uid, state.queue
    if state.rescales.is_leaving(job_uid, now.monotonic):
        return GangPhase.RESCALING, WaitReason.RESCALING
    if not observed.complete:
        return GangPhase.INCOMPLETE, WaitReason.INCOMPLETE
    waits = [replica for replica, pod in observed.pods.items() if is_waiting(pod)]
    if not waits:
        return GangPhase.RUNNING, None
    if queue.is_held(observed):
        return _held_phase(state, job_uid, waits)
    if job_uid in queue.paused:
        return GangPhase.WAITING, WaitReason.UNUSED
    return GangPhase.WAITING, why_unplanned(state, observed)


def _held_phase(
    state: ExtenderState, job_uid: str, waits: Iterable[ReplicaId]
) -> tuple[GangPhase, WaitReason | None]:
    if state.future_room.awaits(job_uid) is not None:
        return GangPhase.PLANNED, WaitReason.PREEMPTING
    binds = any(replica in state.reservations.assumed for replica in waits)
    return GangPhase.BINDING if binds else GangPhase.PLANNED, None
