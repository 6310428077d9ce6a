"""The state of the extender: the cluster as the watches show it, what is reserved on it, and the
gangs that wait. One lock guards all of it; events change it.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from extender.settings import Settings
from extender.state.cluster import NO_PROFILE, Cluster
from extender.state.devices import Devices, Name
from extender.state.future_room import Awaited, FutureRoom
from extender.state.gang_membership import gang_counts
from extender.state.gang_queue import GangQueue, QueuedGang
from extender.state.offers import Offers, shape_of
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from extender.state.unknown_rules import UnknownRules
from extender.state.unseen_bindings import UnseenBindings
from extender.state.unused_plans import UnusedPlans
from optimus.jobs import Role
from optimus.kube.pods import Pod
from optimus.kube.store import Changes
from optimus.placement.gang import Gang, GangRule, Placement, gang_shape
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant
from optimus.placement.queue.shortfall import GangRefusal
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)

UNSEEN_SECONDS: Final = 0.1
"""How long a call about a pod waits for the watch to show the pod."""

UNASKED_SECONDS: Final = 15.0
"""How long a reservation lasts that is made before kube-scheduler has asked about any pod of the
gang: it tries a requeued pod within its longest back-off, which is 10 s."""

MOST_UNLED_SECONDS: Final = 15.0
"""How long a process that kube-scheduler asks is expected to lead soon."""

_MOST_SEARCHES: Final = 3
"""Searches in a row for a rescale's room, where the cluster changes meanwhile."""


class Callbacks(NamedTuple):
    """Functions that are called to tell others."""

    observe_wait: Callable[[float], None] = lambda _: None
    """Gets how many seconds a gang had waited when all of it was bound."""

    gang_placed: Callable[[Sequence[Pod]], None] = lambda _: None
    """Gets the pods of a gang when all of them have a node; also when a part was bound anew."""

    called_as_follower: Callable[[], None] = lambda: None
    """Called when kube-scheduler, which asks only while it leads, asks one that does not."""

    count_searches: Callable[[int], object] = lambda _: None
    """Gets for how many waiting gangs a slice has searched for nodes."""


def read_clocks() -> Instant:
    """The time now: monotonic, and seconds since the epoch."""
    return Instant(time.monotonic(), time.time())


class ExtenderState:
    """Callers hold ``lock``, except for ``reserve_for_rescales`` and ``reservation_count``."""

    def __init__(
        self,
        config: Settings,
        rule: GangRule,
        clock: Callable[[], Instant] = read_clocks,
        callbacks: Callbacks = Callbacks(),  # noqa: B008 - it never changes
    ) -> None:
        self.config, self.rule, self.clock, self.callbacks = config, rule, clock, callbacks
        self.lock, self.changes = threading.Lock(), Changes()
        """``changes`` wakes the threads that may have something to plan or to requeue."""
        self.why_too_old: Callable[[], str | None] = lambda: None
        """Which cache of the cluster is too old for new plans; set once, before the threads run."""
        self.cluster, self.devices = Cluster(), Devices()
        self.reservations = Reservations(self.cluster)
        self.future_room = FutureRoom(self.cluster, self.reservations)
        self.unseen = UnseenBindings(self.cluster, self.reservations)
        self.offers, self.unknown_rules = Offers(), UnknownRules()
        self.rescales = RescaleReservations(
            self.cluster, self.reservations, rule, config.rescale_hold_seconds
        )
        self.queue = GangQueue(
            self.cluster,
            self.reservations,
            self.rescales,
            self.offers,
            self.unknown_rules,
            clock,
        )
        self.unused_plans, self.queue.schedulers = UnusedPlans(), {config.scheduler_name}
        self.release_count = 0
        """How often everything was released: plans of an earlier time are void."""
        self.leads = self.waited_to_lead = False
        """Whether gangs may be planned, and whether a call has waited for that."""
        self.unled_since: float | None = None
        """Since when kube-scheduler asks while this process does not lead."""
        self.refusals: dict[str, GangRefusal] = {}
        """By job UID, why gangs do not fit, as far as that is known."""
        self.tried_in_call: set[str] = set()
        """Jobs whose gangs a call of kube-scheduler has tried to plan as they are."""
        self.answered_at: dict[str, float] = {}
        """By pod UID, when kube-scheduler was last answered with its planned node (monotonic)."""
        self.asked_at: dict[str, float] = {}
        """By pod UID, when kube-scheduler asked last and was answered with no node."""
        self._waited: dict[str, bool] = {}
        """Jobs with pods that wait, until all are bound: whether all of a job once waited."""
        self.refused_for_now: dict[str, Pod] = {}
        """Pods, by UID, last refused because their gang was not complete or a cache was too old."""

    @contextmanager
    def locked(self) -> Iterator[Instant]:
        """Hold the lock for one event or call; yields the time now."""
        with self.lock:
            yield self.clock()
            if self.config.check_invariants:
                for node in self.reservations.overcommitted():
                    _LOG.error("invariant broken: node %s has less than is reserved on it", node)

    def job_changed(self, job_uid: str) -> None:
        """Drop what is cached about one job."""
        self.refusals.pop(job_uid, None)
        self.tried_in_call.discard(job_uid)
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
        self.asked_at[pod.uid] = now.monotonic  # until it is answered with a node
        if self.queue.paused:
            self.queue.resume(replica.job_uid)
        if self.queue.is_first_question(replica.job_uid):
            until = now.monotonic + self.config.reservation_seconds
            self.reservations.ledger.extend(replica.job_uid, until)
        node = self.reservations.assumed.get(replica)
        was_tried = node is not None and (not pod.in_group or self._is_answered_whole(replica))
        answered = [replica]
        if node is not None and pod.in_group:  # the cycle of its PodGroup has failed, for any pod
            answered = [
                each for each in self.reservations.assumed if each.job_uid == replica.job_uid
            ]
        for each in answered:
            self.settled(each)
            if node is not None:
                self.hold_assumed(each, now, self.config.reservation_seconds)
        if node is not None and was_tried and self.offers.was_not_bound(replica, node):
            _LOG.info(
                "pod %s/%s: was not bound to node %s, repeatedly: the node is excluded",
                pod.namespace,
                pod.name,
                node,
            )
            self.offers.exclude(pod, node)
            self.break_plan(replica.job_uid)
            self._pause(replica.job_uid, now, until_asked=False)

    def _is_answered_whole(self, replica: ReplicaId) -> bool:
        """Return whether kube-scheduler was answered with a node for every waiting pod of a
        gang."""
        pods, assumed = self.cluster.waiting_pods(replica.job_uid), self.reservations.assumed
        return all(each.replica in assumed for each in pods)

    def _pause(self, job_uid: str, now: Instant, *, until_asked: bool) -> None:
        """What was reserved for a gang was not used: reserve nothing for a while, longer each time,
        or until kube-scheduler asks about a pod (a volume may be missing)."""
        was_asked = job_uid in self.queue.asked
        seconds = self.unused_plans.unused(job_uid, now.monotonic) if was_asked else 0.0
        if seconds:
            self.queue.paused[job_uid] = now.monotonic + seconds
        elif until_asked:
            self.queue.paused[job_uid] = float("inf")

    def end_pause(self, job_uid: str) -> None:
        """A pod of the job is bound, or what kept its pods from being bound has changed."""
        self.unused_plans.used(job_uid)
        if self.queue.paused.get(job_uid) != float("inf"):
            self.queue.paused.pop(job_uid, None)

    def answered(self, pod: Pod, now: Instant) -> None:
        """kube-scheduler is answered with a pod's planned node."""
        self.answered_at[pod.uid] = now.monotonic
        self.asked_at.pop(pod.uid, None)

    def assume(self, pod: Pod, held: Reservation, now: Instant) -> None:
        """kube-scheduler is answered one node: the replica counts as placed until it settles."""
        self.answered(pod, now)
        self.reservations.assumed[held.replica] = held.node
        self.unseen.answered[pod.uid] = held.node
        self.queue.cached.pop(held.replica.job_uid, None)
        if not pod.in_group:
            self.hold_assumed(held.replica, now, self.config.binding_seconds)
        elif self._is_answered_whole(held.replica):
            for each in self.reservations.ledger.of_job(held.replica.job_uid):
                self.hold_assumed(each.replica, now, self.config.binding_seconds)

    def not_bound(self, pod: Pod, replica: ReplicaId, now: Instant) -> None:
        """This process tried to bind a pod to its planned node and did not: kube-scheduler does."""
        self.unseen.not_bound(pod.uid)
        self.answered_at.pop(pod.uid, None)
        self.settled(replica)
        self.hold_assumed(replica, now, self.config.reservation_seconds)

    def hold_assumed(self, replica: ReplicaId, now: Instant, seconds: float) -> None:
        """Let what is reserved for an assumed replica end in so many seconds."""
        self.reservations.ledger.expire_at(replica, now.monotonic + seconds)

    def settled(self, replica: ReplicaId) -> None:
        """A replica is no longer assumed: it is bound, gone, or asked about again."""
        if self.reservations.assumed.pop(replica, None) is not None:
            self.queue.cached.pop(replica.job_uid, None)

    def observe_wait(self, job_uid: str, now: Instant) -> None:
        """A job's pods have changed: its wait is over once a whole gang of them is bound."""
        pods, waiting = self.cluster.pods_of(job_uid), self.cluster.waiting_count(job_uid)
        if waiting:
            all_wait = waiting == len(pods)
            self._waited[job_uid] = all_wait or self._waited.get(job_uid, False)
            return
        all_waited = self._waited.pop(job_uid, None)
        if all_waited is None:
            return
        bound = [pod for pod in pods.values() if pod.node is not None and not pod.leaving]
        ours = any(pod.scheduler_name in self.queue.schedulers for pod in bound)
        if not bound or not ours or not self.leads:
            return
        size = sum(gang_counts(bound[0], self.cluster.jobs.get(job_uid)).values())
        if len(bound) < size:
            return
        self.callbacks.gang_placed(bound)
        if all_waited:
            since = max(pod.created_at for pod in bound)
            self.callbacks.observe_wait(max(now.epoch - since, 0.0))

    def no_longer_waits(self, pod: Pod, replica: ReplicaId) -> None:
        """A pod is bound or gone: drop the answers about it."""
        self.settled(replica)
        if pod.node is None:
            self.offers.forget_pod(replica.job_uid, pod.uid)
        if not self.cluster.waiting_count(replica.job_uid):
            self.offers.forget(replica.job_uid)
        self.answered_at.pop(pod.uid, None)
        self.asked_at.pop(pod.uid, None)
        self.refused_for_now.pop(pod.uid, None)
        if not self.cluster.pods_of(replica.job_uid) and not self.cluster.may_run(replica.job_uid):
            self.forget(replica.job_uid)

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

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self.job_changed(job_uid)
        self.offers.forget(job_uid)
        self.queue.forget(job_uid)
        self.unused_plans.used(job_uid)
        self.future_room.forget(job_uid)
        self.cluster.set_profile(job_uid, NO_PROFILE)
        assumed = self.reservations.assumed
        for replica in [replica for replica in assumed if replica.job_uid == job_uid]:
            del assumed[replica]
        self.reservations.release_job(job_uid)

    def expire(self, now: Instant) -> None:
        """End reservations and back-offs that have run out."""
        if now.monotonic >= self.offers.next_end:
            for job_uid in self.offers.expire(now.monotonic):
                self.job_changed(job_uid)
            self.changes.notify()
        is_due = now.monotonic >= self.reservations.ledger.next_expiry  # seldom
        expired = self.reservations.expire(now.monotonic) if is_due else ()
        if expired or (self.queue.paused and self.queue.end_pauses(now.monotonic)):
            self.changes.notify()
        for held in expired:
            self.settled(held.replica)
            for pod in self.cluster.waiting_pods(held.replica.job_uid):
                answered = pod.uid in self.answered_at and not pod.in_group
                if pod.replica == held.replica and answered:
                    # kube-scheduler got this node and did not bind the pod: try another one.
                    self.offers.exclude(pod, held.node)
                    self.job_changed(held.replica.job_uid)
        for job_uid in {held.replica.job_uid for held in expired}:
            _LOG.warning("job %s: reservations ended before all its pods were bound", job_uid)
            self.rescales.plan_again(job_uid)
            self._pause(job_uid, now, until_asked=True)

    def is_shown(self, pod: Pod) -> bool:
        """Return whether the watch shows this pod as a replica of the same job. Needs no lock."""
        known = self.cluster.pods.get(pod.uid)
        return known is not None and known.replica == pod.replica

    def wait_until_shown(self, pod: Pod) -> None:
        """kube-scheduler asks about a pod of a gang, perhaps before the watch here has shown it:
        wait for that, not for long. Callers do not hold the lock."""
        until, count = time.monotonic() + UNSEEN_SECONDS, -1
        while not self.is_shown(pod):
            left = until - time.monotonic()
            with self.lock:
                is_foreign = not self.cluster.controls(pod)
            if is_foreign or left <= 0:
                return
            count = self.changes.wait(count, left)

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

    def take_from_own_gang(
        self, pod: Pod, held: Reservation, names: Collection[str]
    ) -> Reservation | None:
        """Give a pod one of these nodes that is reserved for another of its gang like it, for its
        own; the first for which kube-scheduler has not been answered."""
        found, job_uid = self.queue.find(held.replica.job_uid), held.replica.job_uid
        if found is None:
            return None
        assumed, pods = self.reservations.assumed, found.observed.pods
        nodes = {
            each.replica: each.node
            for each in self.reservations.ledger.of_job(job_uid)
            if each.replica not in assumed
        }
        for replica, node in nodes.items():
            if node in names and replica in pods and shape_of(pods[replica]) == shape_of(pod):
                nodes[held.replica], nodes[replica] = node, held.node
                self.reservations.move(found.observed.gang, nodes, held.expires_at)
                return self.reservations.ledger.get(held.replica)
        return None

    def depends_on_own_gang(self, pod: Pod, replica: ReplicaId) -> bool:
        """Return whether a pod's node may be closed to it only until others of its gang are bound:
        it wants to be beside pods, or spread among them, and not all others are bound."""
        if pod.rules is None or not (pod.rules.affinity or pod.rules.spread):
            return False
        return any(
            held.replica != replica for held in self.reservations.ledger.of_job(replica.job_uid)
        )

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

    def with_devices(self, pod: Pod) -> Pod:
        """The pod with the devices that it takes. Takes the lock."""
        if not pod.device_claims:
            return pod
        with self.lock:
            return self.devices.with_claimed(pod)

    def settle_claims(self, claims: Iterable[Name]) -> None:
        """What these claims take of nodes may have changed."""
        for name in claims:
            before, after = self.devices.settle(name)
            if before != after:
                self.cluster.set_pod(before, after, self.clock().monotonic)
            if after is not None and after.node is not None and before != after:
                self.fit_reservations(after.node)

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

    def plan_at_once(self, queued: QueuedGang, now: Instant) -> bool:
        """Plan one gang under the lock, past the queue; returns whether it fits."""
        gang = self.reservations.with_surroundings(queued.observed.gang)
        answer = self.rule.place(gang, self.reservations.free_for(gang))
        if isinstance(answer, Placement):
            self.hold(gang, answer, now)
        return isinstance(answer, Placement)

    def hold(self, gang: Gang, placement: Placement, now: Instant) -> None:
        """Reserve what a gang is planned on."""
        self.future_room.forget(gang.job_uid)
        self.reservations.hold(gang, placement, self._end_of(gang, now))
        if not self.rescales.is_whole(gang.job_uid):
            self.rescales.adopt(gang.job_uid)
        self.job_changed(gang.job_uid)
        nodes = ", ".join(sorted({*placement.nodes.values()}))
        _LOG.info("job %s (%s) is planned on %s", gang.key, gang_shape(gang), nodes)

    def _end_of(self, gang: Gang, now: Instant) -> float:
        """Return when a gang's reservation ends: sooner where nothing of it is placed yet and
        kube-scheduler has not asked about it."""
        seconds = self.config.reservation_seconds
        is_asked = self.queue.is_asked(gang)
        return now.monotonic + (seconds if is_asked else min(seconds, UNASKED_SECONDS))

    def hold_future(
        self, gang: Gang, placement: Placement, awaited: Awaited, expires_at: float
    ) -> None:
        """Reserve room for a gang that pods still take; it is bound once they are gone."""
        if self.future_room.hold(gang, placement, awaited, expires_at):
            self.job_changed(gang.job_uid)
        else:
            self._room_is_free(gang.job_uid, self.clock())
        _LOG.info("job %s: room is reserved that %d pods leave", gang.key, len(awaited.pods))

    def _room_is_free(self, job_uid: str, now: Instant) -> None:
        self.future_room.forget(job_uid)
        until = now.monotonic + self.config.reservation_seconds
        for held in self.reservations.ledger.of_job(job_uid):
            self.reservations.ledger.expire_at(held.replica, until)
        self.job_changed(job_uid)
        self.changes.notify()

    def reserve_for_rescales(self) -> None:
        """Reserve capacity for the target counts of every job that is being rescaled: only the
        leader does, on caches that are recent. The searches need no lock."""
        with self.locked() as now:
            if self.rescales.follow(now.monotonic):
                self.changes.notify()
            unreserved = self.rescales.unreserved()
        for job_uid in unreserved:
            for _ in range(_MOST_SEARCHES):
                with self.locked() as now:
                    may_plan = self.may_plan()
                    search = self.rescales.search(job_uid, now.monotonic) if may_plan else None
                if search is None:
                    break
                answer = search.find()
                with self.locked():
                    if self.may_plan():
                        self.rescales.settle(search, answer)

    def waits_to_lead(self, now: Instant) -> bool:
        """Return whether pods of no job wait until gangs that are bound in part have their room
        reserved; not for long: this process may never lead."""
        if self.unled_since is None:
            self.unled_since = now.monotonic
        return now.monotonic - self.unled_since < MOST_UNLED_SECONDS

    def may_plan(self) -> bool:
        """Return whether this process leads, on caches that are recent."""
        return self.leads and self.why_too_old() is None

    def reservation_count(self) -> int:
        """The number of replicas with a reservation."""
        with self.lock:
            return len(self.reservations.ledger)
