"""Plans waiting gangs, in a call about one or in slices, and commits what still holds.

Nothing is searched under the lock for the whole queue. ``plan_slice`` takes a snapshot under the
lock, plans without it (``optimus.placement.queue``), and reserves under the lock what still fits: a
gang is all or nothing because its capacity is checked and reserved in one step. What does not fit
any more is planned again, and so is everything behind it in the queue: a gang never takes the
capacity that one before it needs.

A refusal is remembered until nodes have gained what the gang lacked: while a job waits,
kube-scheduler asks about each of its pods again and again.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final

from extender.state.extender_state import ExtenderState
from optimus.jobs import JobKey
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang
from optimus.placement.ledger import Reservation
from optimus.placement.queue.backfill import FuturePlan, JobUsage, RunningJobs
from optimus.placement.queue.order import Instant, QueueEntry
from optimus.placement.queue.planning import (
    SLICE_SECONDS,
    PlannedGang,
    Planning,
    RefusedGang,
    Slice,
    Snapshot,
)
from optimus.placement.queue.shortfall import GangRefusal
from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId

CALL_SECONDS: Final = 0.1
"""Processor time that a call of kube-scheduler takes to plan a gang and those before it in the
queue. kube-scheduler has one scheduling thread: so it is taken once for each gang."""

SCORE_SECONDS: Final = 1.0
"""The same where kube-scheduler only asks for scores: it binds the pod next, plan or no plan."""

MOST_WAITING: Final = 500
"""Jobs with pods that wait, of which a call walks the queue; where more wait, the thread that plans
walks it for many gangs at once."""

LEAD_SECONDS: Final = 1.0
"""How long the first call waits for that of a kube-scheduler that has just begun to lead."""


class Planner:
    """Over one state, whose lock no caller may hold."""

    def __init__(self, state: ExtenderState) -> None:
        self.state = state
        age_limit = state.config.age_limit_seconds
        self._planning = Planning(state.rule, age_limit, time.thread_time)
        self._one_slice, self._node_generation = threading.Lock(), -1
        self.future_plans: Mapping[str, FuturePlan] = {}
        """By job UID, where the gangs that close nodes will be placed; replaced, never changed."""

    def plan_slice(self, seconds: float = SLICE_SECONDS, last: str | None = None) -> bool:
        """Plan for so many seconds, about, down to the gang of the job ``last`` (a UID); returns
        whether more gangs wait to be considered.

        Nothing is planned on caches that are too old, and nothing new is reserved."""
        if self.state.why_too_old() is not None:
            with self.state.locked() as now:
                self.state.expire(now)
            return False
        if not self._one_slice.acquire(timeout=-1 if last is None else seconds):
            return False
        try:
            return self._plan_slice(seconds, last)
        finally:
            self._one_slice.release()

    def _plan_slice(self, seconds: float, last: str | None) -> bool:
        # 1. What is waiting, and what is left.
        with self.state.locked() as now:
            self.state.expire(now)
        self.state.reserve_for_rescales()
        self._observe_changed()
        with self.state.locked() as now:
            snapshot = self._snapshot(now)
        # 2. Plans and refusals.
        found = self._planning.plan(snapshot, self, seconds=seconds, last=last)
        self.state.callbacks.count_searches(found.searches)
        # 3. What still holds.
        with self.state.locked() as now:
            whole = self._commit(snapshot, found, now)
            if not found.more:
                self.future_plans = found.future_plans
        if found.answers:
            self.state.changes.notify()
        return found.more or not whole

    def _observe_changed(self) -> None:
        """Look at the gangs that have changed, each under the lock for itself."""
        with self.state.lock:
            changed = self.state.queue.unobserved()
        for job_uid in changed:
            with self.state.lock:
                self.state.queue.find(job_uid)

    def _snapshot(self, now: Instant) -> Snapshot:
        cluster, queue = self.state.cluster, self.state.queue.waiting(now)
        nodes = None
        if self._node_generation != cluster.node_generation:
            self._node_generation, nodes = cluster.node_generation, dict(cluster.nodes)
        gangs = [each.observed.gang for each in queue]
        own = {gang.job_uid: self.state.reservations.own_room(gang) for gang in gangs}
        return Snapshot(
            now=now,
            queue=queue,
            refusals=dict(self.state.refusals),
            left=self.state.reservations.read_changes(),
            nodes=nodes,
            own={job_uid: room for job_uid, room in own.items() if room},
            remaining_seconds={
                gang.job_uid: forecast.remaining_seconds
                for gang in gangs
                if (forecast := cluster.profile_of(gang.job_uid).forecast) is not None
            },
            rules_generation=cluster.occupancy.generation,
            rules_openings=cluster.occupancy.openings,
            release_count=self.state.release_count,
        )

    def with_surroundings(self, gang: Gang) -> Gang:
        """The gang with what other pods mean for it and the kinds of nodes that it prefers, now."""
        with self.state.lock:
            gang = self.state.cluster.with_kinds(gang)
            return self.state.reservations.with_surroundings(gang)

    def running_jobs(self) -> RunningJobs:
        """Return what will end, and what is left beside it."""
        with self.state.lock:
            ledger, nodes = self.state.reservations.ledger, dict(self.state.cluster.nodes)
            left, pods = self.state.reservations.left_by_node(), dict(self.state.cluster.pods)
            held = [each for job_uid in ledger.jobs() for each in ledger.of_job(job_uid)]
            ends_at = {
                uid: sum(each.forecast)
                for uid, each in self.state.cluster.profiles.items()
                if each.forecast is not None
            }
            keys = {uid: job.key for uid, job in self.state.cluster.jobs.items()}
        usage = _usage(pods.values(), held, keys)
        return RunningJobs(tuple(nodes.values()), left, usage, ends_at)

    def _commit(self, snapshot: Snapshot, found: Slice, now: Instant) -> bool:
        """Reserve and refuse what still holds; returns whether that is all of it."""
        whole, fits = True, snapshot.release_count == self.state.release_count
        for answer in found.answers:
            job_uid = answer.queued.waiting.job_uid
            current = fits and self._is_current(answer.queued, now)
            if isinstance(answer, RefusedGang):
                if current and whole:
                    self._refuse(job_uid, answer.refusal, now)
                    continue
            elif current and self._still_fits(answer, snapshot):
                self.state.hold(answer.gang, answer.placement, now)
                continue
            else:
                # Refusals behind a plan that is not reserved were found on less room than there is;
                # plans behind it hold, unless it needs other room now.
                whole, fits = False, fits and not current
            self.state.refusals.pop(job_uid, None)
        return whole

    def _still_fits(self, planned: PlannedGang, snapshot: Snapshot) -> bool:
        gang, generation = planned.gang, self.state.cluster.occupancy.generation
        if generation != snapshot.rules_generation:
            now = self.state.reservations.with_surroundings(planned.queued.gang)
            if now.surroundings != gang.surroundings:
                return False
        return self.state.reservations.still_fits(gang, planned.placement)

    def _refuse(self, job_uid: str, refusal: GangRefusal, now: Instant) -> None:
        self.state.refusals[job_uid] = refusal
        self.state.offers.does_not_fit(job_uid, now.monotonic, self.state.config.exclusion_seconds)

    def _is_current(self, planned: QueueEntry, now: Instant) -> bool:
        """Return whether a gang is still as it was when it was planned, and waits."""
        job_uid = planned.waiting.job_uid
        queued = self.state.queue.cached.get(job_uid)
        return (
            queued is not None
            and queued is planned
            and job_uid not in self.state.queue.paused
            and not self.state.rescales.is_leaving(job_uid, now.monotonic)
            and not self.state.queue.is_held(queued.observed)
        )

    def plan_in_call(self, job_uid: str, seconds: float = CALL_SECONDS) -> None:
        """Plan a gang about which kube-scheduler asks, after those before it in the queue, in the
        thread of the call. Where that takes longer, the thread that plans goes on."""
        if not self._may_plan_in_call(job_uid):
            return
        if self.state.leads or self._begins_to_lead():
            until = time.thread_time() + seconds
            while not self._is_considered(job_uid):
                left = until - time.thread_time()
                if left <= 0 or not self.plan_slice(left, job_uid):
                    break
        self.state.changes.notify()

    def _may_plan_in_call(self, job_uid: str) -> bool:
        """Return whether no call has tried to plan the gang as it is, nothing hinders it, and its
        namespace is within its budget."""
        state = self.state
        if state.why_too_old() is not None:
            return False
        with state.lock:
            found, budgets = state.queue.find(job_uid), self._planning.budgets
            namespace = "" if found is None else found.observed.gang.key.namespace
            if (
                job_uid in state.tried_in_call
                or len(state.cluster.waiting_jobs()) > MOST_WAITING
                or (bool(budgets.spent) and budgets.is_over(namespace, state.clock().monotonic))
            ):
                return False
            state.tried_in_call.add(job_uid)
        return True

    def notice_lead(self) -> None:
        """kube-scheduler asks, so it seems to lead now."""
        self.state.callbacks.called_as_follower()
        self.state.changes.notify()

    def _begins_to_lead(self) -> bool:
        """kube-scheduler asks, so it seems to lead now: wait for that, once.

        Reading its Lease takes a while. Each pod that is refused meanwhile costs kube-scheduler a
        second attempt."""
        self.notice_lead()
        if self.state.waited_to_lead:
            return False
        self.state.waited_to_lead, until = True, time.monotonic() + LEAD_SECONDS
        while True:
            count, left = self.state.changes.count, until - time.monotonic()
            if self.state.leads or left <= 0:
                return self.state.leads
            self.state.changes.wait(count, left)

    def _is_considered(self, job_uid: str) -> bool:
        with self.state.lock:
            found = self.state.queue.find(job_uid)
            held = found is not None and self.state.queue.is_held(found.observed)
            return held or job_uid in self.state.refusals

    def step(self) -> bool:
        """Plan a slice as the leader; returns whether there is more to plan at once."""
        return self.state.leads and self.plan_slice()


def _usage(
    pods: Iterable[Pod], reserved: Iterable[Reservation], keys: Mapping[str, JobKey]
) -> dict[str, JobUsage]:
    """Return what each job takes of the nodes, by its UID: bound pods and reservations. ``keys``
    are those of the jobs that are known: one without pods may hold nodes for its return."""
    usage: dict[str, JobUsage] = {}

    def add(replica: ReplicaId, node: str, resources: Resources) -> None:
        amounts = usage[replica.job_uid].amounts
        amounts[node] = amounts.get(node, NONE) + resources

    for pod in pods:
        bound, key = pod.bound(), pod.job_key
        if pod.replica is not None and key is not None:
            usage.setdefault(pod.replica.job_uid, JobUsage(key, {}))
            if bound is not None:
                add(pod.replica, bound.node, bound.resources)
    for each in reserved:
        uid = each.replica.job_uid
        usage.setdefault(uid, JobUsage(keys.get(uid, JobKey("", "")), {}))
        add(each.replica, each.node, each.resources)
    return {uid: each for uid, each in usage.items() if each.amounts}
