"""What is planned, behind one lock: the watch tells of changes, kube-scheduler asks, a thread plans
and tells.

Nothing here talks to the API server: the watch feeds ``pod_changed`` and its like, kube-scheduler's
calls end in
``filter`` and ``prioritize``, a background thread calls ``advance`` and reads ``wishes``.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from extender.answers import NEVER, Answers
from extender.planner import Now, Planner, Rules
from extender.results import FilterResult, PendingNomination
from extender.state.cluster import Cluster, Rescale, is_waiting
from optimus.jobs import Job
from optimus.kube.pods import Pod
from optimus.kube.store import Changes
from optimus.nodes import Node
from optimus.placement.ledger import Reservation
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)


def read_clocks() -> Now:
    """Now, on both clocks."""
    return Now(time.monotonic(), time.time())


class Placer:
    """Safe to use from several threads: one lock guards cluster, ledger and plans."""

    def __init__(
        self,
        rules: Rules,
        *,
        clock: Callable[[], Now] = read_clocks,
        planned: Callable[[float], None] = lambda _: None,
        check_invariants: bool = False,
    ) -> None:
        self._lock = threading.Lock()
        self._cluster = Cluster()
        self._planner = Planner(self._cluster, rules, Theorem1(), planned)
        self._promises = self._planner.promises
        self._clock = clock
        self._check = check_invariants
        self._answers = Answers(self._cluster, self._planner)
        self.changes = Changes()

    # --- what the watch tells

    def node_changed(self, name: str, node: Node | None) -> None:
        """A node was added, changed (``node`` is its state now) or removed (``None``)."""
        with self._lock:
            if not self._cluster.set_node(name, node):
                return
            self._planner.unbar(name)
            self._keep_within(name)
            self._assert_invariants()
        self.changes.notify()

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod was added, changed or removed; ``None`` on the side where it is not there."""
        with self._lock:
            self._cluster.set_pod(before, after)
            pod = after or before
            assert pod is not None
            if pod.replica is not None:
                self._member_changed(pod.replica, before, after)
            if (
                before is not None
                and before.bound() is not None
                and (after is None or after.bound() is None)
            ):
                self._planner.room_grew()
            if after is not None and after.node is not None:
                self._keep_within(after.node)
            self._assert_invariants()
        self.changes.notify()

    def _member_changed(self, replica: ReplicaId, before: Pod | None, after: Pod | None) -> None:
        waited = before is not None and is_waiting(before)
        waits = after is not None and is_waiting(after)
        if before is None or after is None or waited != waits or before.leaving != after.leaving:
            self._planner.job_changed(replica.job_uid)
        if not waits:
            self._planner.landed(replica)
        if waited and not waits and before is not None:
            self._answers.forget(before)
        if after is not None and after.node is not None and (before is None or before.node is None):
            # Bound: its room shows in the cluster now. The rest of its gang gets the time it needs.
            if not self._is_old(after):
                self._promises.release(replica)
                self._extend(replica.job_uid)
        elif waited and not waits and not self._planner.rescales.is_under_way(replica.job_uid):
            self._promises.release(replica)
            self._planner.room_grew()

    def _is_old(self, pod: Pod) -> bool:
        """Whether the pod is one that a rescale takes away: then what is held is for its
        successor."""
        assert pod.replica is not None
        rescale = self._cluster.rescales.get(pod.replica.job_uid)
        return pod.leaving or (rescale is not None and rescale.leaving)

    def _extend(self, job_uid: str) -> None:
        until = self._clock().at + self._planner.rules.reservation_seconds
        self._promises.ledger.extend(job_uid, until)

    def job_changed(self, uid: str, job: Job | None, *, is_there: bool = False) -> None:
        """A job was added or changed; ``None``: it is gone or has ended, or ``is_there`` and cannot
        be read."""
        with self._lock:
            if job is not None and self._cluster.jobs.get(uid) == job:
                return
            self._cluster.set_job(uid, job, is_there=is_there)
            if job is None and not is_there:
                self._planner.forget(uid)
            else:
                self._planner.job_changed(uid)
        self.changes.notify()

    def rescale_changed(
        self, job_uid: str, rescale: Rescale | None, *, has_run: bool = False
    ) -> None:
        """A job's rescale began, went a step further, or ended (``None``); ``has_run``: it has
        trained before."""
        with self._lock:
            if has_run:
                self._cluster.have_run.add(job_uid)
            self._cluster.set_rescale(job_uid, rescale)
            self._planner.hold_rescales(self._clock())
            self._assert_invariants()
        self.changes.notify()

    def _keep_within(self, node: str) -> None:
        """What others took of a node may leave less than is promised there: then those plans are
        made again.

        What kube-scheduler is about to bind goes last: it may have failed, or it binds and shows in
        the cluster then."""
        for sent_too in (False, True):
            for job_uid in (
                self._promises.ledger.jobs_on(node) if self._promises.is_overdrawn(node) else ()
            ):
                if self._promises.is_overdrawn(node):
                    _LOG.info(
                        "node %s has no room left for what was planned on it: %s is planned again",
                        node,
                        job_uid,
                    )
                    self._planner.break_plan(job_uid, sent_too=sent_too)

    # --- what kube-scheduler asks

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Which of the offered nodes the pod may go to: exactly one for a planned member of a
        gang."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            verdict = self._answers.filter(pod, names, now)
            self._assert_invariants()
        if pod.replica is not None:
            self.changes.notify()
        return verdict

    def prioritize(self, pod: Pod, names: Sequence[str]) -> dict[str, int]:
        """0 to 10 for each offered node; the planned node gets 10."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            scores = self._answers.prioritize(pod, names, now)
            self._assert_invariants()
            return scores

    # --- what the background thread does

    def advance(self) -> tuple[Pod, ...]:
        """Hold room for rescales and plan every gang that waits, in order; nothing happens where
        nothing changed.

        Returns pods whose users still read that the gang is not whole, while by now it is and does
        not fit."""
        with self._lock:
            now = self._clock()
            self._expire(now)
            self._planner.hold_rescales(now)
            self._planner.plan_in_turn(now)
            self._assert_invariants()
            return self._answers.misinformed()

    def _expire(self, now: Now) -> None:
        for over in self._planner.expire(now):
            self._give_up(over, now)

    def _give_up(self, over: Reservation, now: Now) -> None:
        """A replica that was asked about and yet did not bind in time is tried elsewhere first."""
        for pod in self._cluster.pods_of(over.replica.job_uid).values():
            if (
                pod.replica == over.replica
                and is_waiting(pod)
                and self._answers.answered_at(pod) > NEVER
            ):
                self._planner.bar(over.replica, over.node, now)

    def rebuild(self) -> tuple[Pod, ...]:
        """Take plans over from what an earlier process left behind: the nominations of whole gangs.

        Returns the pods whose nominations belong to no plan.
        """
        with self._lock:
            now = self._clock()
            self._planner.hold_rescales(now)
            stale: list[Pod] = []
            for job_uid in sorted(self._cluster.unplaced_jobs()):
                stale += self._planner.adopt(job_uid, now)
            self._assert_invariants()
            return tuple(stale)

    def waiting(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it still needs a node."""
        with self._lock:
            known = (
                None
                if pod.replica is None
                else self._cluster.pods_of(pod.replica.job_uid).get(pod.uid)
            )
            return known if known is not None and is_waiting(known) else None

    def let_go(self) -> None:
        """Another process decides now: hold nothing."""
        with self._lock:
            for job_uid in self._promises.ledger.jobs():
                self._planner.break_plan(job_uid)

    def wishes(self) -> tuple[PendingNomination, ...]:
        """The pods that are planned and wait, with their nodes."""
        with self._lock:
            found: list[PendingNomination] = []
            now = self._clock().at
            for job_uid in self._promises.ledger.jobs():
                if self._planner.rescales.takes_away(job_uid, now):
                    continue
                pods = {
                    pod.replica: pod
                    for pod in self._cluster.pods_of(job_uid).values()
                    if is_waiting(pod)
                }
                found += [
                    PendingNomination(
                        pods[held.replica], held.node, self._answers.answered_at(pods[held.replica])
                    )
                    for held in self._promises.ledger.of_job(job_uid)
                    if held.replica in pods
                ]
            return tuple(found)

    def reservations(self) -> int:
        """How many replicas room is held for."""
        with self._lock:
            return len(self._promises.ledger)

    def _assert_invariants(self) -> None:
        if self._check:
            for node in self._promises.overdrawn():
                _LOG.error("invariant broken: node %s is promised more than it has", node)
