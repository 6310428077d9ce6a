"""Plans, reservations and refusals of gangs on one cluster.


One lock guards cluster, reservations and refusals together, and nothing is searched under it for
the whole queue. ``plan_slice`` takes a snapshot under the lock, plans without it
(``extender.planning``), and reserves under the lock what still fits: a gang is all or nothing
because its room is checked and reserved in one step. What does not fit any more is planned again,
and so is everything behind it in the queue: a gang never takes the room that one before it needs.

A refusal is remembered until nodes have gained what the gang lacked: while a job waits,
kube-scheduler asks about each of its pods again and again.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from extender.backfill import FuturePlan, RunningJobs
from extender.gang_membership import gang_counts
from extender.gang_queue import GangQueue, Instant, QueuedGang
from extender.half_placed import HalfPlaced
from extender.planning import PlannedGang, Planning, Refusal, RefusedGang, Slice, Snapshot
from extender.settings import Settings
from extender.state.cluster import Cluster, is_waiting
from extender.state.future_room import Awaited, FutureRoom
from extender.state.offers import Offers
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from extender.state.unknown_rules import UnknownRules
from optimus.jobs import Role
from optimus.kube.pods import Pod
from optimus.kube.store import Changes
from optimus.placement.capacity import is_admitted
from optimus.placement.gang import DoesNotFit, Gang, Placement, gang_shape
from optimus.placement.ledger import Reservation
from optimus.placement.theorem1 import Theorem1
from optimus.placement.topology import NodePreferences
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)

WAIT_SECONDS: Final = 0.02
"""How long a call of kube-scheduler waits for a gang to be planned that has just become complete.
kube-scheduler has one scheduling thread: so each gang is waited for once."""

NODE_MICROSECONDS: Final = 4.9
"""Of kube-scheduler's processor time, to try one more node for a pod that is not nominated."""

NOMINATION_MICROSECONDS: Final = 6300.0
"""Of the processor time of API server, etcd and extender, for one nomination. Both were measured
(docs/benchmarks/scheduler-throughput.md); their ratio depends little on the processor."""

SCORE_WAIT_SECONDS: Final = 1.0
"""The same where kube-scheduler only asks for scores: it binds the pod next, plan or no plan."""

UNSEEN_SECONDS: Final = 60.0
"""A pod that kube-scheduler has asked about and that the watch has not shown for this long, or up
to twice as long, was deleted before."""

_MOST_SEARCHES: Final = 3
"""Searches in a row for a rescale's room, where the cluster changes meanwhile."""

LEAD_SECONDS: Final = 1.0
"""How long the first call waits for that of a kube-scheduler that has just begun to lead."""


@dataclass(frozen=True, slots=True)
class PendingNomination:
    """A pod that is planned on a node and not bound yet."""

    pod: Pod
    node: str
    answered_at: float
    """When kube-scheduler was last answered with this node (monotonic), or minus infinity."""

    assumed: bool = False
    """Whether kube-scheduler is binding it: a nomination now would be found invalid."""

    refused_at: float | None = None
    """When kube-scheduler was last refused every node for it (monotonic), if it has not been
    answered with one since."""

    compared: bool = True
    """Whether it is known that kube-scheduler offers such pods the nodes that plans use."""


def read_clocks() -> Instant:
    """The time now: monotonic, and seconds since the epoch."""
    return Instant(time.monotonic(), time.time())


class Planner:
    """Plans gangs on one cluster. Callers hold ``lock``, except in the last section's methods.

    ``changes`` wakes the nominator where it may have something to plan or to nominate."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], Instant] = read_clocks,
        observe_wait: Callable[[float], None] = lambda _: None,
        plan_now: Callable[[], None] | None = None,
        called_as_follower: Callable[[], None] = lambda: None,
        count_searches: Callable[[int], object] = lambda _: None,
    ) -> None:
        """``observe_wait`` gets how many seconds a gang had waited when all of it was bound.

        ``plan_now`` is called, without the lock, when a call of kube-scheduler waits for a plan; by
        default it wakes the thread that plans. ``called_as_follower`` is called when that happens
        while ``leads`` is false: only a kube-scheduler that leads asks. ``count_searches`` gets for
        how many waiting gangs a slice has searched for nodes."""
        self.settings = settings
        self.lock, self.changes = threading.Lock(), Changes()
        self.urgent = threading.Event()
        """Set while a call of kube-scheduler waits for a plan."""
        self._clock, self._observe_wait, self._count_searches = clock, observe_wait, count_searches
        preferences = NodePreferences(settings.topology_labels, settings.one_kind)
        self._rule = Theorem1(preferences=preferences)
        self._plan_now, self._called_as_follower = plan_now or self.urgent.set, called_as_follower
        self.why_too_old: Callable[[], str | None] = lambda: None
        """Which cache of the cluster is too old for new plans; set once, before the threads run."""
        self.cluster = Cluster()
        self.reservations = Reservations(self.cluster)
        self.future_room = FutureRoom(self.cluster, self.reservations)
        self.before_leading: Callable[[Instant], None] = lambda _: None
        """Called under the lock when the nominations of the last leader have been adopted, before
        anything is planned."""
        self.offers, self.unknown_rules = Offers(), UnknownRules()
        self.rescales = RescaleReservations(
            self.cluster, self.reservations, self._rule, settings.rescale_hold_seconds
        )
        self.queue = GangQueue(
            self.cluster,
            self.reservations,
            self.rescales,
            self.offers,
            self.unknown_rules,
            clock,
        )
        self.questions, self.queue.schedulers = self.queue.questions, {settings.scheduler_name}
        planning = Planning(self._rule, settings.age_limit_seconds)
        self._planning, self._one_slice = planning, threading.Lock()
        self._considered = threading.Condition(self.lock)
        self._waited_for, self._waited_to_lead = set[str](), False
        self._pending: dict[str, tuple[PendingNomination, ...]] = {}
        """By job UID; corrected by ``Reservations.touched_jobs``."""
        self._node_generation, self._release_count = -1, 0
        self.leads = False
        """Whether the nominations of the last leader have been adopted, so that gangs may be
        planned; set by ``adopt_nominations``, cleared by ``release_all``."""
        self.future_plans: Mapping[str, FuturePlan] = {}
        """By job UID, where the gangs that close nodes will be placed; replaced, never changed."""
        self._refusals: dict[str, Refusal] = {}
        self._answered_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        """By pod UID, when kube-scheduler asked last and was answered with no node."""
        self._unbound: set[str] = set()
        """Jobs that have been seen with all their pods waiting, until all are bound."""
        self.refused_for_now: dict[str, Pod] = {}
        """Pods, by UID, last refused because their gang was not complete or a cache was too old."""
        # When asked pods were last looked for that the watch has not shown, and their UIDs.
        self._looked_at, self._unseen = float("-inf"), set[str]()

    @contextmanager
    def locked(self) -> Iterator[Instant]:
        """Hold the lock for one event or call; yields the time now."""
        with self.lock:
            yield self._clock()
            if self.settings.check_invariants:
                for node in self.reservations.overcommitted():
                    _LOG.error("invariant broken: node %s has less than is reserved on it", node)

    # --- what has changed

    def room_grew(self) -> None:
        """Drop every refusal: more may have changed than what is left of nodes."""
        self._refusals.clear()
        self._waited_for.clear()

    def job_changed(self, job_uid: str) -> None:
        """Drop what is cached about one job."""
        self._refusals.pop(job_uid, None)
        self._waited_for.discard(job_uid)
        self.queue.changed(job_uid)

    def node_changed(self, node: str) -> None:
        """A node has changed, and perhaps the reason for which kube-scheduler ruled it out."""
        for job_uid in self.offers.node_changed(node):
            self.job_changed(job_uid)

    def job_spec_changed(self, job_uid: str) -> None:
        """A job's spec has changed: what its pods were offered before says nothing."""
        self.offers.forget(job_uid)
        self.end_pause(job_uid)
        self.job_changed(job_uid)

    def asked(self, pod: Pod, replica: ReplicaId, now: Instant) -> None:
        """kube-scheduler asks about a pod: the last answer did not lead to a binding."""
        self.refused_for_now.pop(pod.uid, None)
        self._asked_at[pod.uid] = now.monotonic  # until it is answered with a node
        if self.queue.paused:
            self.queue.resume(replica.job_uid)
        self._note_question(pod, now)
        node = self.reservations.assumed.get(replica)
        self.settled(replica)
        if node is not None:
            self._hold_assumed(replica, now, self.settings.reservation_seconds)
        if node is not None and self.offers.was_not_bound(replica, node, now.monotonic):
            _LOG.info(
                "pod %s/%s: was not bound to node %s, repeatedly: the node is excluded",
                pod.namespace,
                pod.name,
                node,
            )
            self.offers.exclude(pod, node, now.monotonic)
            self.break_plan(replica.job_uid)
            self._pause(replica.job_uid, now, until_asked=False)

    def _note_question(self, pod: Pod, now: Instant) -> None:
        assert pod.replica is not None
        if self.questions.record(pod, now.monotonic):
            until = now.monotonic + self.settings.reservation_seconds
            self.reservations.ledger.extend(pod.replica.job_uid, until)

    def _pause(self, job_uid: str, now: Instant, *, until_asked: bool) -> None:
        """What was reserved for a gang was not used: reserve nothing for a while, longer each time,
        or until kube-scheduler asks about a pod (a volume may be missing)."""
        seconds = self.questions.unused(job_uid, self.cluster.waiting_pods(job_uid), now.monotonic)
        if seconds:
            self.queue.paused[job_uid] = now.monotonic + seconds
        elif until_asked:
            self.queue.paused[job_uid] = float("inf")

    def end_pause(self, job_uid: str) -> None:
        """A pod of the job is bound, or what kept its pods from being bound has changed."""
        self.questions.used(job_uid)
        if self.queue.paused.get(job_uid) != float("inf"):
            self.queue.paused.pop(job_uid, None)

    def answered(self, pod: Pod, now: Instant) -> None:
        """kube-scheduler is answered with a pod's planned node."""
        if pod.replica is not None:
            self.reservations.touched_jobs.add(pod.replica.job_uid)
        self._answered_at[pod.uid] = now.monotonic
        self._asked_at.pop(pod.uid, None)

    def assume(self, pod: Pod, held: Reservation, now: Instant) -> None:
        """kube-scheduler is answered one node: the replica counts as placed until it settles."""
        self.answered(pod, now)
        self.reservations.assumed[held.replica] = held.node
        self._hold_assumed(held.replica, now, self.settings.binding_seconds)
        self.queue.cached.pop(held.replica.job_uid, None)

    def _hold_assumed(self, replica: ReplicaId, now: Instant, seconds: float) -> None:
        self.reservations.ledger.expire_at(replica, now.monotonic + seconds)

    def settled(self, replica: ReplicaId) -> None:
        """A replica is no longer assumed: it is bound, gone, or asked about again."""
        self.reservations.touched_jobs.add(replica.job_uid)
        if self.reservations.assumed.pop(replica, None) is not None:
            self.queue.cached.pop(replica.job_uid, None)

    def observe_wait(self, job_uid: str, now: Instant) -> None:
        """A job's pods have changed: its wait is over once a whole gang of them is bound."""
        pods, waiting = self.cluster.pods_of(job_uid), self.cluster.waiting_count(job_uid)
        if waiting:
            if waiting == len(pods):
                self._unbound.add(job_uid)
            return
        if job_uid not in self._unbound:
            return
        self._unbound.discard(job_uid)
        bound = [pod for pod in pods.values() if pod.node is not None and not pod.leaving]
        ours = any(pod.scheduler_name in self.queue.schedulers for pod in bound)
        if not bound or not ours or not self.leads:
            return
        size = sum(gang_counts(bound[0], self.cluster.jobs.get(job_uid)).values())
        if len(bound) >= size:
            since = max(pod.created_at for pod in bound)
            self._observe_wait(max(now.epoch - since, 0.0))

    def no_longer_waits(self, pod: Pod, replica: ReplicaId) -> None:
        """A pod is bound or gone: drop the answers about it."""
        self.settled(replica)
        self.queue.forget_unseen(replica.job_uid)
        self.offers.forget_pod(replica.job_uid, pod.uid)
        self.questions.forget_pod(replica.job_uid, pod.uid)
        if not self.cluster.waiting_count(replica.job_uid):
            self.offers.forget(replica.job_uid)
        self._answered_at.pop(pod.uid, None)
        self._asked_at.pop(pod.uid, None)
        self.refused_for_now.pop(pod.uid, None)

    def offered(self, pod: Pod, names: Sequence[str], now: Instant) -> QueuedGang | None:
        """A pod is offered these nodes: record it where its gang is asked about; gives the gang."""
        assert pod.replica is not None
        found = self.queue.find(pod.replica.job_uid)
        missing = () if found is None else self.queue.not_offered_yet(found.observed)
        if pod.uid not in {each.uid for each in missing}:
            return found
        self._record_offer(pod, names, now)
        return self.queue.find(pod.replica.job_uid)

    def _record_offer(
        self, pod: Pod, names: Sequence[str], now: Instant, planned: str | None = None
    ) -> None:
        """Nodes that are full with what is reserved for others are not recorded as not offered.

        kube-scheduler counts nominated pods too, and room that is released would stay unused."""
        assert pod.replica is not None
        absent = self.cluster.nodes.keys() - names
        full = self.reservations.nodes_too_full(pod.resources, absent, pod.priority)
        ruled_out = absent - full if planned is None else {*(absent - full), planned}
        self.offers.record(pod, ruled_out, now.monotonic)
        self.job_changed(pod.replica.job_uid)

    def compare_offer(self, pod: Pod, names: Sequence[str], now: Instant) -> None:
        """See whether a pod is offered every node that a plan may use; a probe cannot show it."""
        if pod.rules is not None or pod.beyond_plan:
            return
        known = self.unknown_rules
        last = known.last.get(pod.constraints)
        if last is not None and now.monotonic < last.recheck_at:
            return
        if list(names) == [pod.nominated_node]:
            return
        missing = self._missing(pod, names, now)
        if known.record(pod.constraints, now.monotonic, is_complete=missing is None):
            self._offers_differ(pod, missing)

    def scored(self, pod: Pod, now: Instant) -> None:
        """A pod is scored. Without a filter before, no list is compared: nothing is refused."""
        if not self._is_compared(pod):
            self.unknown_rules.record(pod.constraints, now.monotonic, is_complete=True)
            self._offers_differ(pod, None)

    def _missing(self, pod: Pod, names: Sequence[str], now: Instant) -> str | None:
        """A node that admits a pod, has had the room for a while, and is not offered.

        What is reserved for its own gang does not count: none of its pods is nominated yet, or
        kube-scheduler would count them."""
        assert pod.replica is not None
        job_uid, nodes = pod.replica.job_uid, self.cluster.nodes
        seen = self.unknown_rules.releases_seen(now.monotonic)
        for name in sorted(nodes.keys() - names):
            if (
                self.cluster.released_at.get(name, 0) <= seen
                and is_admitted(nodes[name], pod.constraints)
                and pod.resources.fits_in(self.cluster.free(name))
                and pod.resources.fits_in(self.reservations.left(name, besides=job_uid))
            ):
                return name
        return None

    def _offers_differ(self, pod: Pod, missing: str | None) -> None:
        """Another thing is known about pods with these constraints."""
        held = [
            job_uid
            for job_uid in self.reservations.ledger.jobs()
            if any(each.constraints == pod.constraints for each in self._unanswered(job_uid))
        ]
        self.reservations.touched_jobs.update(held)
        if missing is None:
            return
        _LOG.info(
            "node %s is not offered to pod %s/%s, which it admits and has room for: kube-scheduler"
            " has rules that plans do not know. No pod like it is answered before all pods of its"
            " gang have been offered nodes",
            missing,
            pod.namespace,
            pod.name,
        )
        for job_uid in held:
            if not self.offers.asks(job_uid):
                self.break_plan(job_uid)

    def _unanswered(self, job_uid: str) -> list[Pod]:
        """The waiting pods of a job of which none is being bound."""
        pods = self.cluster.waiting_pods(job_uid)
        is_binding = any(pod.replica in self.reservations.assumed for pod in pods)
        return [] if is_binding else pods

    def rule_out(self, pod: Pod, held: Reservation, names: Sequence[str], now: Instant) -> None:
        """kube-scheduler does not offer a pod's planned node: record its offer, break the plan."""
        job_uid = held.replica.job_uid
        _LOG.info("job %s: planned node %s is not offered", job_uid, held.node)
        differs = self.offers.was_offered(job_uid, pod.uid)
        self.break_plan(job_uid)
        self._record_offer(pod, names, now, planned=held.node)
        if differs:
            self.offers.offers_differ(job_uid, now.monotonic, self.settings.exclusion_seconds)

    def break_plan(self, job_uid: str, *, also_assumed: bool = False) -> None:
        """Release the reservations of a job; it is planned again from the queue.

        Assumed replicas, which kube-scheduler is about to bind, stay reserved, and the others are
        planned around them, unless ``also_assumed``."""
        for held in self.reservations.ledger.of_job(job_uid):
            if also_assumed:
                self.settled(held.replica)
            if held.replica not in self.reservations.assumed:
                self.reservations.release(held.replica)
        self.job_changed(job_uid)
        self.rescales.plan_again(job_uid)

    def fit_reservations(self, node: str) -> None:
        """Break plans while a node has less than is reserved on it: other pods were bound there.

        Gangs of the lowest priority go first. Assumed replicas go last: their binding may have
        failed, or it shows in the cluster soon."""
        if not self.reservations.is_overcommitted(node):
            return
        jobs = self.reservations.ledger.jobs_on(node)
        by_priority = sorted(jobs, key=lambda job_uid: (self.cluster.priority_of(job_uid), job_uid))
        for also_assumed in (False, True):
            for job_uid in by_priority:
                if not self.reservations.is_overcommitted(node):
                    return
                _LOG.info("node %s is overcommitted: job %s is planned again", node, job_uid)
                self.break_plan(job_uid, also_assumed=also_assumed)

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self.job_changed(job_uid)
        self.offers.forget(job_uid)
        self.queue.forget(job_uid)
        self.questions.forget(job_uid)
        self.future_room.forget(job_uid)
        self.cluster.forecasts.pop(job_uid, None)
        self.cluster.set_avoided(job_uid, {})
        assumed = self.reservations.assumed
        for replica in [replica for replica in assumed if replica.job_uid == job_uid]:
            del assumed[replica]
        self.reservations.release_job(job_uid)

    def expire(self, now: Instant) -> None:
        """End reservations and back-offs that have run out."""
        if now.monotonic - self._looked_at >= UNSEEN_SECONDS:
            self._looked_at = now.monotonic
            self._forget_unseen()
        if now.monotonic >= self.offers.next_end:
            for job_uid in self.offers.expire(now.monotonic):
                self.job_changed(job_uid)
            self.changes.notify()
        self._extend_advances(now)
        expired = self.reservations.expire(now.monotonic)
        if expired or (self.queue.paused and self.queue.end_pauses(now.monotonic)):
            self.changes.notify()
        for held in expired:
            self.settled(held.replica)
            for pod in self.cluster.waiting_pods(held.replica.job_uid):
                if pod.replica == held.replica and pod.uid in self._answered_at:
                    # kube-scheduler got this node and did not bind the pod: try another one.
                    self.offers.exclude(pod, held.node, now.monotonic)
                    self.job_changed(held.replica.job_uid)
        for job_uid in {held.replica.job_uid for held in expired}:
            _LOG.warning("job %s: reservations ended before all its pods were bound", job_uid)
            self.rescales.plan_again(job_uid)
            self._pause(job_uid, now, until_asked=True)

    def _extend_advances(self, now: Instant) -> None:
        if now.monotonic >= self.questions.next_end:
            for job_uid, until in self.questions.extend_advances(now.monotonic).items():
                self.reservations.ledger.extend(job_uid, until)

    def _forget_unseen(self) -> None:
        """Drop what was recorded of pods and jobs that no watch shows: no event will end it."""
        pods, holds = self.cluster.pods, self.reservations.ledger.holds
        jobs = {job_uid for job_uid in self.queue.unknown_jobs() if not holds(job_uid)}
        by_pod: tuple[dict[str, Any], ...] = (
            self._asked_at,
            self._answered_at,
            self.refused_for_now,
            self.questions.asked,
        )
        unseen = {uid for recorded in by_pod for uid in recorded.keys() - pods.keys()}
        waiting = self.queue.unseen_pods()
        unseen |= {uid for uid, job_uid in waiting.items() if not holds(job_uid)}
        unseen |= jobs
        gone, self._unseen = unseen & self._unseen, unseen - self._unseen
        for uid in gone & jobs:
            self.forget(uid)
        for uid in gone:
            for recorded in by_pod:
                recorded.pop(uid, None)
            job_uid = waiting.get(uid)
            if job_uid is not None and not holds(job_uid):
                self.queue.forget_unseen(job_uid)
                self.job_changed(job_uid)
                if not self.cluster.pods_of(job_uid):
                    self.queue.forget(job_uid)
                    self.offers.forget(job_uid)

    def update_rescales(self, now: Instant) -> None:
        """Reserve capacity for the target counts of every job that is being rescaled.

        Only the leader does, after it has adopted the nominations, and on caches that are recent:
        what is reserved is answered."""
        if self.rescales.update(now.monotonic, reserve=self._may_plan()):
            self.changes.notify()

    def _may_plan(self) -> bool:
        return self.leads and self.why_too_old() is None

    # --- planning

    def reservation_for(self, pod: Pod, replica: ReplicaId) -> Reservation | None:
        """The reservation of a pod's replica.

        One for other counts (the job was rescaled again) or for less than the pod requests (its
        template has changed) is out of date: its plan is broken."""
        held = self.reservations.ledger.get(replica)
        if held is None:
            return None
        fits = pod.resources is held.resources or pod.resources.fits_in(held.resources)
        rescale = self.cluster.rescales.get(replica.job_uid)
        if rescale is not None:
            if not self.rescales.is_whole(replica.job_uid):
                return None
            counts = gang_counts(pod, self.cluster.jobs.get(replica.job_uid))
            fits &= (counts.get(Role.PS, 0), counts.get(Role.WORKER, 0)) == rescale.target
        if not fits:
            self.break_plan(replica.job_uid)
            return None
        return held

    def depends_on_own_gang(self, pod: Pod, replica: ReplicaId) -> bool:
        """Whether a pod's node may be closed to it only until others of its gang are bound: it
        wants to be beside pods, or spread among them, and not all others are bound."""
        if pod.rules is None or not (pod.rules.affinity or pod.rules.spread):
            return False
        return any(
            held.replica != replica for held in self.reservations.ledger.of_job(replica.job_uid)
        )

    def refusal(self, job_uid: str) -> DoesNotFit | None:
        """Why a gang does not fit, if that is known."""
        known = self._refusals.get(job_uid)
        return None if known is None else known.answer

    def known_refusal(self, job_uid: str) -> Refusal | None:
        """The same, with what the gang lacked."""
        return self._refusals.get(job_uid)

    def plan_at_once(self, queued: QueuedGang, now: Instant) -> bool:
        """Plan one gang under the lock, past the queue; returns whether it fits."""
        gang = self.reservations.with_surroundings(queued.observed.gang)
        answer = self._rule.place(gang, self.reservations.free_for(gang))
        if isinstance(answer, Placement):
            self._hold(gang, answer, now)
        return isinstance(answer, Placement)

    def wait_for_plan(self, job_uid: str, limit_seconds: float = WAIT_SECONDS) -> None:
        """Wait, without the lock, until a gang is planned or refused; once, and not for long."""
        if self.why_too_old() is not None:
            return  # no plan comes
        with self.lock:
            found = self.queue.find(job_uid)
            namespace = "" if found is None else found.observed.gang.key.namespace
            deferred = self._planning.defers(namespace, self._clock().monotonic)
            if job_uid in self._waited_for or deferred:
                return
            self._waited_for.add(job_uid)
        if not self.leads:
            limit_seconds = self._begin_to_lead(limit_seconds)
        self._plan_now()
        self.changes.notify()
        with self._considered:
            self._considered.wait_for(lambda: self._is_considered(job_uid), limit_seconds)

    def _begin_to_lead(self, limit_seconds: float) -> float:
        """kube-scheduler asks, so it seems to lead now; returns how long to wait for a plan.

        Reading its Lease takes a while. Each pod that is refused meanwhile costs kube-scheduler a
        second attempt."""
        self._called_as_follower()
        if self._waited_to_lead:
            return limit_seconds
        self._waited_to_lead = True
        return max(limit_seconds, LEAD_SECONDS)

    def _is_considered(self, job_uid: str) -> bool:
        found = self.queue.find(job_uid)
        held = found is not None and self.queue.is_held(found.observed)
        return held or job_uid in self._refusals

    def hold_future(
        self, gang: Gang, placement: Placement, awaited: Awaited, expires_at: float
    ) -> None:
        """Reserve room for a gang that pods still take; it is bound once they are gone."""
        if self.future_room.hold(gang, placement, awaited, expires_at):
            self.job_changed(gang.job_uid)
        else:
            self._room_is_free(gang.job_uid, self._clock())
        _LOG.info("job %s: room is reserved that %d pods leave", gang.key, len(awaited.pods))

    def pod_changed(self, pod: Pod, now: Instant) -> None:
        """A pod has changed or is gone: what is reserved on its room no longer overlaps with it,
        and gangs that waited for its end alone may be bound."""
        self.reservations.pod_changed(pod.uid)
        replica = pod.replica
        if replica is not None and self.rescales.pod_changed(replica.job_uid) and pod.node:
            self.fit_reservations(pod.node)
        if not self.future_room.is_awaited(pod.uid):
            return
        for job_uid in self.future_room.pod_changed(pod.uid):
            self._room_is_free(job_uid, now)
        if pod.node is not None:
            self.fit_reservations(pod.node)

    def _room_is_free(self, job_uid: str, now: Instant) -> None:
        self.future_room.forget(job_uid)
        until = now.monotonic + self.settings.reservation_seconds
        for held in self.reservations.ledger.of_job(job_uid):
            self.reservations.ledger.expire_at(held.replica, until)
        self.job_changed(job_uid)
        self.changes.notify()

    def _end_of(self, gang: Gang, now: Instant, *, adopted: bool) -> float:
        """When a gang's reservation ends: sooner where nothing of it is placed yet and
        kube-scheduler has not asked about every pod."""
        job_uid, longest = gang.job_uid, self.settings.reservation_seconds
        is_placed_in_part = any(member.node is not None for member in gang.members)
        is_rescaled, is_early = job_uid in self.cluster.rescales, self.queue.asked.get(job_uid)
        if adopted or is_placed_in_part or is_rescaled or is_early:
            self.questions.end_advance(job_uid)
            return now.monotonic + longest
        pods = self.cluster.waiting_pods(job_uid)
        return self.questions.begin_advance(job_uid, pods, now.monotonic, longest)

    def _hold(
        self, gang: Gang, placement: Placement, now: Instant, *, adopted: bool = False
    ) -> None:
        self.future_room.forget(gang.job_uid)
        self.reservations.hold(gang, placement, self._end_of(gang, now, adopted=adopted))
        if not self.rescales.is_whole(gang.job_uid):
            self.rescales.adopt(gang.job_uid)
        self.job_changed(gang.job_uid)
        nodes = ", ".join(sorted({*placement.nodes.values()}))
        _LOG.info("job %s (%s) is planned on %s", gang.key, gang_shape(gang), nodes)

    # --- what the threads call, without the lock

    def advance(self) -> None:
        """Reserve for rescales and plan every gang that waits."""
        while self.plan_slice():
            pass

    def reserve_for_rescales(self) -> None:
        """The same as ``update_rescales``, with the searches outside the lock."""
        with self.locked() as now:
            if self.rescales.follow(now.monotonic):
                self.changes.notify()
            unreserved = self.rescales.unreserved()
        for job_uid in unreserved:
            for _ in range(_MOST_SEARCHES):
                with self.locked() as now:
                    may_plan = self._may_plan()
                    search = self.rescales.search(job_uid, now.monotonic) if may_plan else None
                if search is None:
                    break
                answer = search.find()
                with self.locked():
                    if self._may_plan():
                        self.rescales.settle(search, answer)

    def plan_slice(self) -> bool:
        """Plan for some milliseconds; returns whether more gangs wait to be considered.

        Nothing is planned on caches that are too old, and nothing new is reserved."""
        if self.why_too_old() is not None:
            with self.locked() as now:
                self.expire(now)
            return False
        with self._one_slice:
            # 1. What is waiting, and what is left.
            self.urgent.clear()
            with self.locked() as now:
                self.expire(now)
            self.reserve_for_rescales()
            self._observe_changed()
            with self.locked() as now:
                self.unknown_rules.mark(now.monotonic, self.cluster.releases)
                snapshot = self._snapshot(now)
            # 2. Plans and refusals.
            found = self._planning.plan(snapshot, self)
            self._count_searches(found.searches)
            # 3. What still holds.
            with self.locked() as now:
                whole = self._commit(snapshot, found, now)
                if not found.more:
                    self.future_plans = found.future_plans
                self._considered.notify_all()
        if found.answers:
            self.changes.notify()
        return found.more or not whole

    def _observe_changed(self) -> None:
        """Look at the gangs that have changed, each under the lock for itself."""
        with self.lock:
            changed = self.queue.unobserved()
        for job_uid in changed:
            with self.lock:
                self.queue.find(job_uid)

    def _snapshot(self, now: Instant) -> Snapshot:
        cluster, queue = self.cluster, self.queue.waiting(now)
        nodes = None
        if self._node_generation != cluster.node_generation:
            self._node_generation, nodes = cluster.node_generation, dict(cluster.nodes)
        gangs = [each.observed.gang for each in queue]
        own = {gang.job_uid: self.reservations.own_room(gang) for gang in gangs}
        return Snapshot(
            now=now,
            queue=queue,
            refusals=dict(self._refusals),
            left=self.reservations.read_changes(),
            nodes=nodes,
            own={job_uid: room for job_uid, room in own.items() if room},
            remaining_seconds={
                gang.job_uid: cluster.forecasts[gang.job_uid].remaining_seconds
                for gang in gangs
                if gang.job_uid in cluster.forecasts
            },
            rules_generation=cluster.occupancy.generation,
            rules_openings=cluster.occupancy.openings,
            release_count=self._release_count,
        )

    def with_surroundings(self, gang: Gang) -> Gang:
        """The gang with what other pods mean for it, now."""
        with self.lock:
            return self.reservations.with_surroundings(gang)

    def running_jobs(self) -> RunningJobs:
        """What will end, and what is left beside it."""
        with self.lock:
            ledger, nodes = self.reservations.ledger, self.cluster.nodes
            return RunningJobs(
                tuple(nodes.values()),
                self.reservations.left_by_node(),
                tuple(self.cluster.pods.values()),
                tuple(held for job_uid in ledger.jobs() for held in ledger.of_job(job_uid)),
                {uid: sum(forecast) for uid, forecast in self.cluster.forecasts.items()},
            )

    def _commit(self, snapshot: Snapshot, found: Slice, now: Instant) -> bool:
        """Reserve and refuse what still holds; returns whether that is all of it."""
        whole, fits = True, snapshot.release_count == self._release_count
        for answer in found.answers:
            queued, job_uid = answer.queued, answer.queued.waiting.job_uid
            current = fits and self._is_current(queued, now)
            if isinstance(answer, RefusedGang):
                if current and whole:
                    self._refuse(job_uid, answer.refusal, now)
                    continue
            elif current and self._still_fits(answer, snapshot):
                self._hold(answer.gang, answer.placement, now)
                continue
            else:
                # Refusals behind a plan that is not reserved were found on less room than there is;
                # plans behind it hold, unless it needs other room now.
                whole, fits = False, fits and not current
            self._refusals.pop(job_uid, None)
        return whole

    def _still_fits(self, planned: PlannedGang, snapshot: Snapshot) -> bool:
        gang, generation = planned.gang, self.cluster.occupancy.generation
        if generation != snapshot.rules_generation:
            now = self.reservations.with_surroundings(planned.queued.observed.gang)
            if now.surroundings != gang.surroundings:
                return False
        return self.reservations.still_fits(gang, planned.placement)

    def _refuse(self, job_uid: str, refusal: Refusal, now: Instant) -> None:
        self._refusals[job_uid] = refusal
        self.offers.does_not_fit(job_uid, now.monotonic, self.settings.exclusion_seconds)

    def _is_current(self, queued: QueuedGang, now: Instant) -> bool:
        """Whether a gang is still as it was when it was planned, and waits."""
        job_uid = queued.waiting.job_uid
        return (
            self.queue.cached.get(job_uid) is queued
            and job_uid not in self.queue.paused
            and not self.rescales.is_leaving(job_uid, now.monotonic)
            and not self.queue.is_held(queued.observed)
        )

    def outdated_refusals(self) -> tuple[Pod, ...]:
        """Pods whose users read that the gang is not complete or that a cache is too old, while by
        now it is so no longer and the gang does not fit; each once."""
        if self.why_too_old() is not None:
            return ()
        with self.lock:
            outdated = tuple(
                pod
                for pod in self.refused_for_now.values()
                if pod.replica and pod.replica.job_uid in self._refusals
            )
            for pod in outdated:
                del self.refused_for_now[pod.uid]
            return outdated

    def pending_nominations(self) -> tuple[PendingNomination, ...]:
        """The pods that are planned and wait, with their nodes."""
        with self.locked() as now:
            touched, self.reservations.touched_jobs = self.reservations.touched_jobs, set()
            for job_uid in touched:
                self._pending[job_uid] = self._pending_of(job_uid)
                if not self._pending[job_uid]:
                    del self._pending[job_uid]
            return tuple(
                each
                for job_uid, pending in self._pending.items()
                if not self.rescales.is_leaving(job_uid, now.monotonic)
                and self.future_room.awaits(job_uid) is None
                for each in pending
            )

    def _pending_of(self, job_uid: str) -> tuple[PendingNomination, ...]:
        pods = {pod.replica: pod for pod in self.cluster.waiting_pods(job_uid)}
        if not self.rescales.is_whole(job_uid):
            return ()
        return tuple(
            PendingNomination(
                pods[held.replica],
                held.node,
                self._answered_at.get(pods[held.replica].uid, float("-inf")),
                held.replica in self.reservations.assumed,
                self._asked_at.get(pods[held.replica].uid),
                self._is_compared(pods[held.replica]),
            )
            for held in self.reservations.ledger.of_job(job_uid)
            if held.replica in pods
        )

    def _is_compared(self, pod: Pod) -> bool:
        """Whether a nomination does not keep the pod from being offered all nodes once."""
        return (
            pod.rules is not None
            or pod.beyond_plan
            or (pod.replica is not None and self.offers.asks(pod.replica.job_uid))
            or pod.constraints in self.unknown_rules.last
        )

    def pods_to_requeue(self) -> tuple[Pod, ...]:
        """The pods that wait to be offered nodes, so that their gang can be planned."""
        with self.locked() as now:
            return self.queue.pods_to_requeue(now.monotonic)

    def nominations_save_time(self) -> bool:
        """Whether kube-scheduler would try so many nodes that a nomination costs less."""
        nodes = len(self.cluster.nodes)  # of one dict: needs no lock
        return nodes * NODE_MICROSECONDS > NOMINATION_MICROSECONDS

    def still_pending(self, pod: Pod, node: str) -> bool:
        """Whether a pod still waits, is planned on this node, and is not being bound."""
        with self.lock:
            known = self.cluster.pods.get(pod.uid)
            if known is None or known.replica is None or not is_waiting(known):
                return False
            held = self.reservations.ledger.get(known.replica)
            assumed = known.replica in self.reservations.assumed
            return held is not None and held.node == node and not assumed

    def find_waiting(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it still needs a node."""
        with self.lock:
            known = self.cluster.pods.get(pod.uid)
            return known if known is not None and is_waiting(known) else None

    def adopt_nominations(self) -> tuple[Pod, ...]:
        """Adopt the nominations of complete gangs as plans, then reserve for rescales beside them;
        returns pods with other nominations."""
        with self.locked() as now:
            self.update_rescales(now)
            stale = (self._adopt(job_uid, now) for job_uid in sorted(self.cluster.waiting_jobs()))
            found = tuple(pod for pods in stale for pod in pods)
            self.before_leading(now)
            self.leads = True
            self._complete_gangs_bound_in_part(now)
            self.update_rescales(now)
            self._waited_for.clear()  # they waited while nothing could be planned
        self.changes.notify()
        return found

    def _adopt(self, job_uid: str, now: Instant) -> tuple[Pod, ...]:
        self._drop_outdated_answers(job_uid)
        observed = self.queue.observe_waiting(job_uid)
        if observed is None or self.queue.is_held(observed):
            return ()
        nominated = {
            replica: pod.nominated_node
            for replica, pod in observed.pods.items()
            if pod.nominated_node and is_waiting(pod) and replica not in self.reservations.assumed
        }
        gang = observed.gang
        unbound = {gang.replica(member) for member in gang.unbound}
        if observed.complete and nominated.keys() == unbound:
            self._hold(gang, Placement(job_uid, nominated), now, adopted=True)
            if not any(self.reservations.is_overcommitted(node) for node in nominated.values()):
                self.rescales.adopt(job_uid)
                return ()
            self.break_plan(job_uid)
        return tuple(observed.pods[replica] for replica in sorted(nominated))

    def _complete_gangs_bound_in_part(self, now: Instant) -> None:
        """Reserve for the rest of gangs that are bound in part before anything else is planned.

        The last leader had reserved it. kube-scheduler drops the nomination of a pod that it tries
        while it has no extender, and in the queue a gang of a higher priority would go first."""
        if self.why_too_old() is not None:
            return
        for job_uid in sorted(self.cluster.waiting_jobs()):
            found = self.queue.find(job_uid)
            if found is None or job_uid in self.cluster.rescales:
                continue
            observed = found.observed
            in_part = any(member.node is not None for member in observed.gang.members)
            may_be_planned = observed.complete and not self.queue.not_offered_yet(observed)
            if in_part and may_be_planned and not self.queue.is_held(observed):
                self.plan_at_once(found, now)

    def _drop_outdated_answers(self, job_uid: str) -> None:
        """Another leader has nominated other nodes for pods that this one answered when it led: the
        kube-scheduler that was answered ended before that, and binds them no more."""
        for pod in self.cluster.waiting_pods(job_uid):
            answered = self.reservations.assumed.get(pod.replica) if pod.replica else None
            if answered is not None and pod.nominated_node not in (None, answered):
                assert pod.replica is not None
                self.settled(pod.replica)
                self.reservations.release(pod.replica)

    def release_all(self) -> None:
        """Reserve nothing: another process leads now."""
        with self.locked() as now:
            self._release_count += 1
            self.leads = self._waited_to_lead = False
            for job_uid in self.reservations.ledger.jobs():
                self.break_plan(job_uid)
            for replica in self.reservations.assumed:
                # Its kube-scheduler has stopped: no binding waits for volumes any more.
                self._hold_assumed(replica, now, self.settings.reservation_seconds)

    def half_placed(self) -> tuple[HalfPlaced, ...]:
        """The unmanaged jobs that are bound in part and whose rest does not fit."""
        with self.lock:
            found = (self._half_placed(job_uid) for job_uid in self.cluster.waiting_jobs())
            return tuple(each for each in found if each is not None)

    def _half_placed(self, job_uid: str) -> HalfPlaced | None:
        job, refusal = self.cluster.jobs.get(job_uid), self._refusals.get(job_uid)
        not_offered, paused = self.offers.has_refused(job_uid), job_uid in self.queue.paused
        waits = refusal is not None or not_offered or paused
        if job is None or job.managed or not waits:
            return None
        pods = [pod for pod in self.cluster.pods_of(job_uid).values() if not pod.leaving]
        bound = sum(pod.bound() is not None for pod in pods)
        if not bound:
            return None
        reason = "kube-scheduler does not offer nodes that hold it"
        if refusal is not None and not not_offered:
            reason = refusal.answer.reason
        elif paused:
            reason = "what was reserved for it ended before kube-scheduler bound it; the Events of"
            reason += " its pods say why"
        key = job.key
        return HalfPlaced(job.kind, key.namespace, key.name, job_uid, bound, len(pods), reason)

    def reservation_count(self) -> int:
        """The number of replicas with a reservation."""
        with self.lock:
            return len(self.reservations.ledger)
