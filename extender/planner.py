"""Which gang is planned when, and on what room: turns, and refusals that are remembered.

One gang is planned at a time, whole, in the order of ``optimus.placement.queue_order``. A gang that
has waited past the age limit, does not fit yet but could, keeps the nodes that it could use closed
to those behind it, so that room gathers for it. A refusal is remembered until room can have grown:
while a job waits, each of its pods asks again and again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from extender.feasibility import Feasibility
from extender.gang_queue import Turn, in_order, without
from extender.gangs import Assembly, assemble
from extender.rescales import RescaleHolds
from extender.state.assumed import AssumedPods
from extender.state.cluster import Cluster, is_waiting
from extender.state.exclusions import Exclusions
from extender.state.reservations import Reservations
from optimus.kube.pods import Pod
from optimus.placement.free_matrix import Rows
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.ledger import Reservation
from optimus.placement.queue_order import is_entitled
from optimus.placement.reasons import shape
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How long things last, in seconds."""

    scheduler_name: str
    reservation_seconds: float = 60.0
    barred_seconds: float = 60.0
    rescale_hold_seconds: float = 600.0
    age_limit_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks: ``at`` is monotonic and times what is held, ``epoch`` tells the
    age of pods."""

    at: float
    epoch: float


class Planner:
    """Plans gangs on one cluster. Not thread-safe: the placer's lock guards it."""

    def __init__(
        self,
        cluster: Cluster,
        rules: Rules,
        rule: Theorem1,
        planned: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``planned`` is told how many seconds a gang had waited when it got its plan."""
        self.cluster, self.rules = cluster, rules
        self.promises = Reservations(cluster)
        self._rule, self._planned = rule, planned
        self._bars = Exclusions()
        self._growth = 0
        self._refusals: dict[str, tuple[int, DoesNotFit]] = {}
        self._could_fit = Feasibility(cluster, rule)
        self._in_flight = AssumedPods()
        self._waiting: dict[str, Turn | None] = {}
        self._idle: set[str] = set()
        self.rescales = RescaleHolds(
            cluster, self.promises, rule, rules.rescale_hold_seconds, self._in_flight
        )

    # --- what has changed

    def room_grew(self) -> None:
        """Forget every refusal: room may have become free."""
        self._growth += 1

    def job_changed(self, job_uid: str) -> None:
        """Forget what was found out about one job."""
        self._refusals.pop(job_uid, None)
        self._could_fit.forget(job_uid)
        self._waiting.pop(job_uid, None)

    def bar(self, replica: ReplicaId, node: str, now: Now) -> None:
        """Keep a replica off a node for a while: kube-scheduler does not let it go there."""
        self._bars.add(replica, node, now.at, self.rules.barred_seconds)
        self.job_changed(replica.job_uid)

    def unbar(self, node: str) -> None:
        """A node has changed: whatever kept replicas off it may be gone."""
        self._bars.node_changed(node)
        self._waiting.clear()
        self.room_grew()

    def asked(self, job_uid: str) -> None:
        """kube-scheduler asks about a job's pod, so nothing that it knows keeps the pod from every
        node."""
        self._idle.discard(job_uid)

    def is_refused(self, job_uid: str) -> bool:
        """Whether the job's gang is whole and was found not to fit as things are."""
        return self._known_refusal(job_uid) is not None

    def _known_refusal(self, job_uid: str) -> DoesNotFit | None:
        growth, refused = self._refusals.get(job_uid, (None, None))
        return refused if growth == self._growth else None

    def sent(self, held: Reservation) -> None:
        """kube-scheduler was told to bind a replica: until it asks again or binds, the replica
        counts as placed."""
        self._in_flight.add(held.replica, held.node)
        self._waiting.pop(held.replica.job_uid, None)

    def landed(self, replica: ReplicaId) -> None:
        """A replica is bound, gone, or asked about again."""
        if self._in_flight.remove(replica):
            self._waiting.pop(replica.job_uid, None)

    def break_plan(self, job_uid: str, *, sent_too: bool = False) -> None:
        """What is held for a job is of no use any more; it is planned again in its turn.

        What kube-scheduler is about to bind stays held, and the rest is planned around it, unless
        ``sent_too``."""
        for held in self.promises.ledger.of_job(job_uid):
            if sent_too:
                self.landed(held.replica)
            if held.replica not in self._in_flight:
                self.promises.release(held.replica)
                self.room_grew()
        self.job_changed(job_uid)
        self.rescales.plan_again(job_uid)

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self.job_changed(job_uid)
        self._bars.forget(job_uid)
        self._idle.discard(job_uid)
        self._in_flight.forget(job_uid)
        if self.promises.release_job(job_uid):
            self.room_grew()

    def expire(self, now: Now) -> tuple[Reservation, ...]:
        """Let go of what has run out: reservations and bars."""
        over = self.promises.expire(now.at)
        if self._bars.expire(now.at) or over:
            self._waiting.clear()
            self.room_grew()
        for reservation in over:
            self.landed(reservation.replica)
        for job_uid in {reservation.replica.job_uid for reservation in over}:
            _LOG.warning("job %s: its pods did not bind in time, its room is free again", job_uid)
            self.rescales.plan_again(job_uid)
            # Perhaps kube-scheduler never will (a volume is missing): then it must not hold room
            # again and again.
            self._idle.add(job_uid)
        return over

    def hold_rescales(self, now: Now) -> None:
        """Hold room for the target counts of every job that is being rescaled; let go where that
        has ended."""
        if self.rescales.update(now.at):
            self.room_grew()

    # --- gangs

    def assemble(self, pod: Pod) -> Assembly:
        """The gang of a pod, from the pods that are there."""
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        others, job = self.cluster.pods_of(job_uid).values(), self.cluster.jobs.get(job_uid)
        found = assemble(pod, others, job, self._bars.of_job(job_uid))
        return replace(found, gang=self._in_flight.counted(found.gang))

    def plan_in_turn(self, now: Now, asker: Assembly | None = None) -> DoesNotFit | None:
        """Plan the gangs that wait, in order, up to the asker's (all of them without one).

        Returns the asker's refusal; ``None`` when its room is held.
        """
        known = None if asker is None else self._known_refusal(asker.gang.job_uid)
        if known is not None:
            return known
        closed: Rows | None = None
        self._could_fit.begin()
        for turn in self._turns(now, asker):
            refused = self._try(turn, closed, now)
            if asker is not None and turn.job_uid == asker.gang.job_uid:
                return refused
            if refused is not None and self._closes(turn, now):
                its = self._could_fit.nodes_for(turn.assembly.gang, now.at)
                closed = its if closed is None else closed | its
        return None

    def _turns(self, now: Now, asker: Assembly | None) -> list[Turn]:
        turns = [] if asker is None else [self._with_past(Turn.of(asker))]
        for job_uid in self.cluster.unplaced_jobs():
            leaves = self.rescales.takes_away(job_uid, now.at)
            if (
                leaves
                or job_uid in self._idle
                or (asker is not None and job_uid == asker.gang.job_uid)
            ):
                continue
            turn = self._turn_of(job_uid)
            if turn is not None and turn.assembly.complete and not self._is_held(turn.assembly):
                turns.append(self._with_past(turn))
        if len(turns) < 2:
            return turns
        return in_order(
            turns, self.promises.room().capacity, now.epoch, self.rules.age_limit_seconds
        )

    def _with_past(self, turn: Turn) -> Turn:
        return turn.that_ran() if turn.job_uid in self.cluster.have_run else turn

    def _turn_of(self, job_uid: str) -> Turn | None:
        if job_uid not in self._waiting:
            assembly = self._assemble_anew(job_uid)
            self._waiting[job_uid] = None if assembly is None else Turn.of(assembly)
        return self._waiting[job_uid]

    def _assemble_anew(self, job_uid: str) -> Assembly | None:
        ours = self.rules.scheduler_name
        pods = [
            pod
            for pod in self.cluster.pods_of(job_uid).values()
            if is_waiting(pod) and pod.scheduler_name == ours
        ]
        pods = [pod for pod in pods if self.cluster.knows_gang_of(pod)]
        # The newest pod's list is that of the generation that waits.
        newest = max(pods, key=lambda pod: (pod.created_at, pod.uid), default=None)
        return None if newest is None else self.assemble(newest)

    def _is_held(self, assembly: Assembly) -> bool:
        job_uid = assembly.gang.job_uid
        return all(
            self.promises.ledger.get(ReplicaId(job_uid, member.role, member.index)) is not None
            for member in assembly.gang.unbound
        )

    def _try(self, turn: Turn, closed: Rows | None, now: Now) -> DoesNotFit | None:
        known = self._known_refusal(turn.job_uid)
        if known is not None:
            return known
        refused = self._plan(turn.assembly.gang, closed, now)
        if refused is not None:
            self._refusals[turn.job_uid] = self._growth, refused
            return refused
        self._planned(turn.waited_seconds(now.epoch))
        if is_entitled(turn.waiting, now.epoch, self.rules.age_limit_seconds):
            # What it kept closed is open again.
            self.room_grew()
        return None

    def _plan(self, gang: Gang, closed: Rows | None, now: Now) -> DoesNotFit | None:
        room = self.promises.room_for(gang)
        answer = self._rule.place_in(gang, room if closed is None else without(room, closed))
        if isinstance(answer, Placement):
            self._hold(gang, answer, now)
            return None
        if closed is not None and isinstance(self._rule.place_in(gang, room), Placement):
            return DoesNotFit(
                f"job {gang.key} ({shape(gang)}) waits its turn: a job that waits longer needs "
                "the room"
            )
        return answer

    def plan_apart(
        self, assembly: Assembly, avoid: frozenset[str], replica: ReplicaId, now: Now
    ) -> bool:
        """Plan a gang again at once, with one of its types kept off some nodes; returns whether it
        fits so."""
        gang = assembly.gang
        members = tuple(
            replace(member, barred=member.barred | avoid)
            if (member.role, member.index) == (replica.role, replica.index)
            else member
            for member in gang.members
        )
        answer = self._rule.place_in(replace(gang, members=members), self.promises.room_for(gang))
        if isinstance(answer, DoesNotFit):
            return False
        self._hold(gang, answer, now)
        return True

    def _hold(self, gang: Gang, placement: Placement, now: Now) -> None:
        self.promises.hold(gang, placement, now.at + self.rules.reservation_seconds)
        self.job_changed(gang.job_uid)
        _LOG.info(
            "job %s (%s) is planned on %s",
            gang.key,
            shape(gang),
            ", ".join(sorted({*placement.nodes.values()})),
        )

    def adopt(self, job_uid: str, now: Now) -> tuple[Pod, ...]:
        """Take over the plan that a gang's nominations tell of, if it is whole and there is room
        for it.

        Returns the pods whose nominations are of no use.
        """
        assembly = self._assemble_anew(job_uid)
        if assembly is None or self._is_held(assembly):
            return ()
        told = {
            replica: pod.nominated_node
            for replica, pod in assembly.pods.items()
            if pod.nominated_node is not None and is_waiting(pod)
        }
        if assembly.complete and len(told) == len(assembly.gang.unbound):
            self._hold(assembly.gang, Placement(job_uid, told), now)
            if not any(self.promises.is_overdrawn(node) for node in {*told.values()}):
                return ()
            self.break_plan(job_uid)
        return tuple(assembly.pods[replica] for replica in sorted(told))

    def _closes(self, turn: Turn, now: Now) -> bool:
        """Whether those behind must leave the room that this gang waits for."""
        old = turn.waited_seconds(now.epoch) > self.rules.age_limit_seconds
        return old and self._could_fit.ever(turn.assembly.gang, now.at)
