"""Plans gangs: which gang, when, and on which free resources.

One gang (all pods of one job) is planned at a time, whole, in the order of the queue. A gang that
has waited past the age limit and does not fit yet, but would fit on empty nodes, blocks the nodes
that it could use for the gangs behind it (conservative backfill). A refusal is cached until
resources are freed: while a job waits, kube-scheduler calls again and again for each of its pods.

One lock guards cluster, reservations and plans together: a gang is all or nothing only where
nothing changes between planning it and reserving its nodes.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from extender.feasibility import Feasibility
from extender.gang_membership import ObservedGang, gang_counts
from extender.gang_queue import GangQueue, Instant
from extender.settings import Settings
from extender.state.cluster import Cluster, is_waiting
from extender.state.offers import Offers
from extender.state.rescale_reservations import RescaleReservations
from extender.state.reservations import Reservations
from optimus.jobs import Role
from optimus.kube.pods import Pod
from optimus.kube.store import Changes
from optimus.placement.gang import DoesNotFit, Gang, Placement, gang_shape
from optimus.placement.ledger import Reservation
from optimus.placement.queue_order import blocks_others
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingNomination:
    """A pod that is planned on a node and not bound yet."""

    pod: Pod
    node: str
    answered_at: float
    """When kube-scheduler was last answered with this node (monotonic), or minus infinity."""

    assumed: bool = False
    """Whether kube-scheduler is binding it: a nomination now would be found invalid."""


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
    ) -> None:
        """``observe_wait`` gets how many seconds a gang had waited when it got its plan."""
        self.settings = settings
        self.lock = threading.Lock()
        self.changes = Changes()
        self._clock, self._observe_wait, self._rule = clock, observe_wait, Theorem1()
        self.cluster = Cluster()
        self.reservations = Reservations(self.cluster)
        self.offers = Offers()
        self.rescales = RescaleReservations(
            self.cluster, self.reservations, self._rule, settings.rescale_hold_seconds
        )
        self.queue = GangQueue(
            self.cluster, self.reservations, self.rescales, self.offers, settings
        )
        self._feasibility = Feasibility(self.cluster, self._rule)
        self._room_generation = 0
        self._refusals: dict[str, tuple[int, int | None, DoesNotFit]] = {}
        """By job UID, with the generations of the room and, where rules of pods concern the gang,
        of these as they were then."""
        self._answered_at: dict[str, float] = {}
        self.refused_incomplete: dict[str, Pod] = {}
        """Pods, by UID, last refused because their gang was not complete."""

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
        """Drop every cached refusal: resources may have been freed."""
        self._room_generation += 1

    def job_changed(self, job_uid: str) -> None:
        """Drop what is cached about one job."""
        self._refusals.pop(job_uid, None)
        self._feasibility.forget(job_uid)
        self.queue.cached.pop(job_uid, None)

    def node_changed(self, node: str) -> None:
        """A node has changed, and perhaps the reason for which kube-scheduler ruled it out."""
        for job_uid in self.offers.node_changed(node):
            self.job_changed(job_uid)
        self.queue.cached.clear()
        self.room_grew()

    def job_spec_changed(self, job_uid: str) -> None:
        """A job's spec has changed: what its pods were offered before says nothing."""
        self.offers.forget(job_uid)
        self.job_changed(job_uid)

    def asked(self, pod: Pod, replica: ReplicaId, now: Instant) -> None:
        """kube-scheduler asks about a pod: the last answer did not lead to a binding."""
        self.refused_incomplete.pop(pod.uid, None)
        self.queue.paused.discard(replica.job_uid)
        node = self.reservations.assumed.get(replica)
        self.settled(replica)
        if node is not None:
            self._hold_assumed(replica, now, self.settings.reservation_seconds)
        if node is not None and self.offers.came_back(replica, node, now.monotonic):
            _LOG.info(
                "pod %s/%s: was not bound to node %s, repeatedly: the node is excluded",
                pod.namespace,
                pod.name,
                node,
            )
            self.offers.exclude(replica, node, now.monotonic)
            self.break_plan(replica.job_uid)

    def answered(self, pod: Pod, now: Instant) -> None:
        """kube-scheduler is answered with a pod's planned node."""
        self._answered_at[pod.uid] = now.monotonic

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
        if self.reservations.assumed.pop(replica, None) is not None:
            self.queue.cached.pop(replica.job_uid, None)

    def no_longer_waits(self, pod: Pod, replica: ReplicaId) -> None:
        """A pod is bound or gone: drop the answers about it."""
        self.settled(replica)
        self.offers.forget_pod(replica.job_uid, pod.uid)
        if not self.cluster.waiting_pods(replica.job_uid):
            self.offers.forget(replica.job_uid)
        self._answered_at.pop(pod.uid, None)
        self.refused_incomplete.pop(pod.uid, None)

    def offered(self, pod: Pod, names: Sequence[str], now: Instant) -> ObservedGang:
        """A pod is offered these nodes: record it where its gang is asked about; gives the gang."""
        observed = self.queue.observe(pod)
        if pod not in self.queue.not_offered_yet(observed):
            return observed
        self._record_offer(pod, names, now)
        return self.queue.observe(pod)

    def _record_offer(
        self, pod: Pod, names: Sequence[str], now: Instant, planned: str | None = None
    ) -> None:
        """Nodes that are full with what is reserved for others are not recorded as not offered.

        kube-scheduler counts nominated pods too, and room that is released would stay unused."""
        assert pod.replica is not None
        absent = self.cluster.nodes.keys() - names
        full = self.reservations.nodes_too_full(pod.resources, absent, pod.priority)
        ruled_out = absent - full if planned is None else {*(absent - full), planned}
        self.offers.record(pod.replica, pod.uid, ruled_out, now.monotonic)
        self.job_changed(pod.replica.job_uid)

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
                self.room_grew()
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
        self.queue.paused.discard(job_uid)
        assumed = self.reservations.assumed
        for replica in [replica for replica in assumed if replica.job_uid == job_uid]:
            del assumed[replica]
        if self.reservations.release_job(job_uid):
            self.room_grew()

    def expire(self, now: Instant) -> None:
        """End reservations and back-offs that have run out."""
        if now.monotonic >= self.offers.next_end:
            for job_uid in self.offers.expire(now.monotonic):
                self.job_changed(job_uid)
            self.changes.notify()
        expired = self.reservations.expire(now.monotonic)
        if expired:
            self.queue.cached.clear()
            self.room_grew()
            self.changes.notify()
        for held in expired:
            self.settled(held.replica)
            for pod in self.cluster.waiting_pods(held.replica.job_uid):
                if pod.replica == held.replica and pod.uid in self._answered_at:
                    # kube-scheduler got this node and did not bind the pod: try another one.
                    self.offers.exclude(held.replica, held.node, now.monotonic)
                    self.job_changed(held.replica.job_uid)
        for job_uid in {held.replica.job_uid for held in expired}:
            _LOG.warning("job %s: reservations ended before all its pods were bound", job_uid)
            self.rescales.plan_again(job_uid)
            # Until kube-scheduler calls for the job (a volume may be missing), nothing is reserved.
            self.queue.paused.add(job_uid)

    def update_rescales(self, now: Instant) -> None:
        """Reserve capacity for the target counts of every job that is being rescaled."""
        if self.rescales.update(now.monotonic):
            self.room_grew()

    # --- planning

    def reservation_for(self, pod: Pod, replica: ReplicaId) -> Reservation | None:
        """The reservation of a pod's replica.

        One for other counts (the job was rescaled again) or for less than the pod requests (its
        template has changed) is out of date: its plan is broken."""
        held = self.reservations.ledger.get(replica)
        if held is None:
            return None
        fits = pod.resources.fits_in(held.resources)
        rescale = self.cluster.rescales.get(replica.job_uid)
        if rescale is not None:
            counts = gang_counts(pod, self.cluster.jobs.get(replica.job_uid))
            fits &= (counts.get(Role.PS, 0), counts.get(Role.WORKER, 0)) == rescale.target
        if not fits:
            self.break_plan(replica.job_uid)
            return None
        return held

    def follows_others(self, pod: Pod, replica: ReplicaId) -> bool:
        """Whether a pod's node may be closed to it only until others of its gang are bound: it
        wants to be beside pods, or spread among them, and not all others are bound."""
        if pod.rules is None or not (pod.rules.affinity or pod.rules.spread):
            return False
        return any(
            held.replica != replica for held in self.reservations.ledger.of_job(replica.job_uid)
        )

    def plan_queue(self, now: Instant, asker: ObservedGang | None = None) -> DoesNotFit | None:
        """Plan the waiting gangs in order, up to the asker's; returns the asker's refusal."""
        known = None if asker is None else self._known_refusal(asker.gang.job_uid)
        if known is not None:
            return known
        blocked: frozenset[str] = frozenset()
        self._feasibility.begin_call()
        for observed, waiting in self.queue.in_order(now, asker):
            gang, waited = observed.gang, waiting.waited_seconds(now.epoch)
            refused = self._known_refusal(gang.job_uid) or self._plan_one(gang, blocked, now)
            if refused is not None:
                self.offers.does_not_fit(
                    gang.job_uid, now.monotonic, self.settings.exclusion_seconds
                )
            else:
                self._observe_wait(waited)
                if blocks_others(waiting, now.epoch, self.settings.age_limit_seconds):
                    self.room_grew()  # the nodes that it blocked are usable again
            if asker is not None and gang.job_uid == asker.gang.job_uid:
                return refused
            old = waited > self.settings.age_limit_seconds
            # A gang that could never fit must not block the others.
            if refused is not None and old and self._feasibility.could_fit(gang, now.monotonic):
                blocked |= self._feasibility.usable_nodes(gang, now.monotonic)
        return None

    def _known_refusal(self, job_uid: str) -> DoesNotFit | None:
        room, rules, refused = self._refusals.get(job_uid, (None, None, None))
        if room != self._room_generation or rules not in (None, self._rules_generation):
            return None
        return refused

    @property
    def _rules_generation(self) -> int:
        return self.cluster.occupancy.generation

    def _plan_one(self, gang: Gang, blocked: frozenset[str], now: Instant) -> DoesNotFit | None:
        gang = self.reservations.with_surroundings(gang)
        refused = self._plan(gang, blocked, now)
        if refused is not None:
            rules = None if gang.surroundings is None else self._rules_generation
            self._refusals[gang.job_uid] = self._room_generation, rules, refused
        return refused

    def _plan(self, gang: Gang, blocked: frozenset[str], now: Instant) -> DoesNotFit | None:
        free = self.reservations.free_for(gang)
        answer = self._rule.place(gang, free.without(blocked) if blocked else free)
        if isinstance(answer, Placement):
            self._hold(gang, answer, now)
            return None
        if blocked and isinstance(self._rule.place(gang, free), Placement):
            job = f"job {gang.key} ({gang_shape(gang)})"
            return DoesNotFit(f"{job} fits, but a job that has waited longer needs the capacity")
        return answer

    def _hold(self, gang: Gang, placement: Placement, now: Instant) -> None:
        expires_at = now.monotonic + self.settings.reservation_seconds
        self.reservations.hold(gang, placement, expires_at)
        self.job_changed(gang.job_uid)
        nodes = ", ".join(sorted({*placement.nodes.values()}))
        _LOG.info("job %s (%s) is planned on %s", gang.key, gang_shape(gang), nodes)

    # --- what the nominator calls, without the lock

    def advance(self) -> tuple[Pod, ...]:
        """Reserve for rescales and plan every gang that waits; does nothing where nothing changed.

        Returns pods whose status says that the gang is not complete although by now it is, and does
        not fit; each pod once."""
        with self.locked() as now:
            self.expire(now)
            self.update_rescales(now)
            self.plan_queue(now)
            outdated = tuple(
                pod
                for pod in self.refused_incomplete.values()
                if pod.replica and self._known_refusal(pod.replica.job_uid)
            )
            for pod in outdated:
                del self.refused_incomplete[pod.uid]
            return outdated

    def pending_nominations(self) -> tuple[PendingNomination, ...]:
        """The pods that are planned and wait, with their nodes."""
        with self.locked() as now:
            found: list[PendingNomination] = []
            for job_uid in self.reservations.ledger.jobs():
                if self.rescales.is_leaving(job_uid, now.monotonic):
                    continue
                pods = {pod.replica: pod for pod in self.cluster.waiting_pods(job_uid)}
                for held in self.reservations.ledger.of_job(job_uid):
                    pod = pods.get(held.replica)
                    if pod is not None:
                        answered_at = self._answered_at.get(pod.uid, float("-inf"))
                        assumed = held.replica in self.reservations.assumed
                        found.append(PendingNomination(pod, held.node, answered_at, assumed))
            return tuple(found)

    def pods_to_requeue(self) -> tuple[Pod, ...]:
        """The pods that wait to be offered nodes, so that their gang can be planned."""
        with self.locked() as now:
            return self.queue.pods_to_requeue(now.monotonic)

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
        """Adopt the nominations of complete gangs as plans; returns pods with other nominations."""
        with self.locked() as now:
            self.update_rescales(now)
            stale = (self._adopt(job_uid, now) for job_uid in sorted(self.cluster.waiting_jobs()))
            return tuple(pod for pods in stale for pod in pods)

    def _adopt(self, job_uid: str, now: Instant) -> tuple[Pod, ...]:
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
            self._hold(gang, Placement(job_uid, nominated), now)
            if not any(self.reservations.is_overcommitted(node) for node in nominated.values()):
                return ()
            self.break_plan(job_uid)
        return tuple(observed.pods[replica] for replica in sorted(nominated))

    def release_all(self) -> None:
        """Reserve nothing: another process leads now."""
        with self.locked() as now:
            for job_uid in self.reservations.ledger.jobs():
                self.break_plan(job_uid)
            for replica in self.reservations.assumed:
                # Its kube-scheduler has stopped: nobody waits for volumes any more.
                self._hold_assumed(replica, now, self.settings.reservation_seconds)

    def reservation_count(self) -> int:
        """The number of replicas with a reservation."""
        with self.lock:
            return len(self.reservations.ledger)
