"""Why each gang waits: the content of GET /inspect and of the Events on waiting jobs.

Nothing is computed or kept until a report is asked for. Then facts are read under the planner's
lock, for as long as a walk over the waiting gangs takes; the rest is computed without it.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from extender.gang_report import Expectation, GangReport, RoleReport, sentence
from extender.gang_states import (
    GangFacts,
    GangPhase,
    WaitReason,
    other_gang,
    sentence_of,
    waiting_gangs,
)
from extender.node_places import NodePlaces
from extender.planner.slices import Planner
from optimus.jobs import Job, JobKey, ReplicaSpec, Role
from optimus.kube.times import format_second
from optimus.kube.waiting_events import JobAhead
from optimus.placement.queue.backfill import Backfill, FuturePlan
from optimus.placement.queue.order import Instant, order_key
from optimus.resources import Resources

MOST_MISSING: Final = 100
"""Maximum number of replicas without a pod that are named; the roles say how many there are."""

MOST_AHEAD: Final = 10
"""Maximum number of jobs named before a gang in the queue; the others are counted."""


@dataclass(frozen=True, slots=True)
class _Context:
    """The facts that the reports of one call share."""

    now: Instant
    queue: Sequence[GangFacts]
    closing: Mapping[str, FuturePlan]
    """By job UID, the plans that close nodes."""

    plans: Mapping[str, FuturePlan | None]
    """By job UID, where gangs that wait will be placed, as far as that was asked for."""

    holding: Collection[str]
    """The UIDs of awaited jobs that still hold nodes."""

    ruled: Collection[str]
    """By job UID, the gangs that rules of pods refuse, and not their amounts."""

    places: NodePlaces


class Inspector:
    """Reports over one state. Safe to use from several threads."""

    def __init__(self, planner: Planner, age_limit_seconds: float) -> None:
        self._planner, self._state = planner, planner.state
        self._age_limit_seconds = age_limit_seconds
        self._one_report = threading.Lock()
        """Never taken while the state's lock is held."""
        self._backfill = Backfill(planner.state.rule)

    def waiting(self) -> tuple[GangReport, ...]:
        """Every gang with pods that wait for a node: in the order of the queue, then the others."""
        with self._one_report:
            return self._report(None)

    def of_job(self, key: JobKey) -> tuple[GangReport, ...]:
        """The gangs of the jobs of this name, whether they wait or not: one, of each kind."""
        with self._one_report:
            return self._report(key)

    def _report(self, wanted: JobKey | None) -> tuple[GangReport, ...]:
        state = self._state
        with state.locked() as now:
            facts = waiting_gangs(state, now)
            chosen = [each for each in facts if wanted in (None, each.key)]
            without: list[GangReport] = []
            if wanted is not None and not chosen:
                chosen, without = self._read_other(wanted, now)
            nodes, left = dict(state.cluster.nodes), state.reservations.left_by_node()
            closing = self._planner.future_plans
        places = NodePlaces(nodes, left)
        queue = self._in_order(facts, places.allocatable, now)
        plans = self._plans(queue, {each.uid for each in chosen}, closing, now)
        ruled = self._ruled(queue, plans, now)
        context = _Context(now, queue, closing, plans, self._holding(plans), ruled, places)
        at = {each.uid: number for number, each in enumerate(queue)}
        chosen.sort(key=lambda each: (at.get(each.uid, len(queue)), each.key))
        return *(self._gang(each, at.get(each.uid), context) for each in chosen), *without

    def _holding(self, plans: Mapping[str, FuturePlan | None]) -> Collection[str]:
        """The awaited jobs that still hold nodes: plans are some time old."""
        awaited = {plan.awaits for plan in plans.values() if plan is not None and plan.awaits}
        state = self._state
        with state.lock:
            return {
                uid
                for uid in awaited
                if any(pod.bound() for pod in state.cluster.pods_of(uid).values())
                or state.reservations.ledger.of_job(uid)
            }

    def _ruled(
        self, queue: Sequence[GangFacts], plans: Mapping[str, FuturePlan | None], now: Instant
    ) -> Collection[str]:
        return {
            each.uid
            for each in queue
            if each.uid in plans
            and each.refusal is not None
            and not each.refusal.blocked_by
            and self._backfill.is_refused_by_rules(
                each.queued.observed.gang, now, self._planner, never=plans[each.uid] is None
            )
        }

    def _read_other(self, key: JobKey, now: Instant) -> tuple[list[GangFacts], list[GangReport]]:
        state, found, without = self._state, [], []
        for uid, job in state.cluster.jobs.items():
            if job.key == key:
                facts = other_gang(state, uid, now)
                if facts is not None:
                    found.append(facts)
                else:
                    without.append(_without_pods(job, state.cluster.priority_of(uid)))
        return found, without

    def _in_order(
        self, facts: Sequence[GangFacts], capacity: Resources, now: Instant
    ) -> list[GangFacts]:
        """The queue, as ``Planning.plan`` walks it."""
        limit = self._age_limit_seconds
        return sorted(
            (each for each in facts if each.is_in_queue),
            key=lambda each: order_key(each.queued.waiting, capacity, now.epoch, limit),
        )

    def _plans(
        self,
        queue: Sequence[GangFacts],
        wanted: Collection[str],
        closing: Mapping[str, FuturePlan],
        now: Instant,
    ) -> dict[str, FuturePlan | None]:
        """Return where gangs will be placed; of the first in the queue alone, since each is a
        search.

        ``None``: not even once all jobs have ended."""
        unplanned = [each for each in queue if each.uid in wanted and each.uid not in closing]
        gangs = (each.queued.observed.gang for each in unplanned if _is_for_want_of_room(each))
        self._backfill.begin(gangs, now)
        plans: dict[str, FuturePlan | None] = {}
        closing_before: list[FuturePlan] = []
        for each in queue:
            plan = closing.get(each.uid)
            if plan is not None:
                plans[each.uid] = plan
                closing_before.append(plan)
            elif self._backfill.may_close(each.uid):
                gang = each.queued.observed.gang
                closed = {node for plan in closing_before for node in plan.nodes}
                plan = self._backfill.future_plan(gang, closed, now, self._planner)
                fits = plan is not None or (
                    bool(closed)
                    and self._backfill.fits_when_all_have_ended(gang, now, self._planner)
                )
                if plan is not None or not fits:
                    plans[each.uid] = plan
        return plans

    # --- one gang

    def _gang(self, facts: GangFacts, at: int | None, context: _Context) -> GangReport:
        waiting, observed, now = facts.queued.waiting, facts.queued.observed, context.now
        existing = {(each.role, each.index): pod for each, pod in observed.pods.items()}
        nodes = {_name(each.replica.role, each.replica.index): each.node for each in facts.held}
        nodes |= {_name(*each): pod.node for each, pod in existing.items() if pod.node is not None}
        ahead = () if at is None else self._ahead(facts, context.queue[:at], context)
        keeps = context.closing.get(facts.uid)
        ends = facts.back_off_ends
        owner = next((pod.owner for pod in observed.pods.values() if pod.owner), None)
        report = GangReport(
            namespace=facts.key.namespace,
            job=facts.key.name,
            kind="" if owner is None else owner.kind,
            uid=facts.uid,
            priority=waiting.priority,
            state=facts.phase,
            wait=facts.wait,
            whole=observed.complete,
            missing=()
            if observed.exceeds_job
            else tuple(_name(*each) for each in islice(observed.missing(), MOST_MISSING)),
            other_schedulers=observed.other_schedulers,
            gates=tuple(sorted({gate for pod in existing.values() for gate in pod.gates})),
            roles=_roles(facts, context.places),
            nodes=dict(sorted(nodes.items())),
            since=format_second(waiting.since) if waiting.since else None,
            waited_seconds=round(waiting.waited_seconds(now.epoch), 1) if waiting.since else 0.0,
            backs_off_seconds=None if ends is None else round(max(ends - now.monotonic, 0.0), 1),
            position=None if at is None else at + 1,
            ahead=ahead,
            jobs_ahead=at or 0,
            keeps_nodes=() if keeps is None else tuple(sorted(keeps.nodes)),
            fits_without_other_jobs=_fits_without_others(facts, context),
            expected=_expectation(context.plans.get(facts.uid), context),
            victims=tuple(facts.victims),
            rules=_rules(facts, context),
            reason=_reason(facts),
        )
        today = format_second(now.epoch)[:10]
        return msgspec.structs.replace(report, sentence=sentence(report, today))

    def _ahead(
        self, facts: GangFacts, before: Sequence[GangFacts], context: _Context
    ) -> tuple[JobAhead, ...]:
        """The jobs before a gang, those that keep nodes from it first."""
        blocked = facts.refusal.blocked_by if facts.refusal is not None else frozenset()
        keep = {uid: len(blocked.intersection(plan.nodes)) for uid, plan in context.closing.items()}
        keepers = [each for each in before if keep.get(each.uid)]
        others = [each for each in before[:MOST_AHEAD] if not keep.get(each.uid)]
        first = (*keepers, *others)[:MOST_AHEAD]
        return tuple(JobAhead(str(each.key), keep.get(each.uid, 0)) for each in first)


def _roles(facts: GangFacts, places: NodePlaces) -> tuple[RoleReport, ...]:
    observed = facts.queued.observed
    tells_places = facts.is_in_queue or (
        facts.phase is GangPhase.INCOMPLETE and observed.templates.keys() >= observed.counts.keys()
    )
    closed = facts.refusal.blocked_by if facts.refusal is not None else frozenset()
    roles = []
    for role, expected in sorted(observed.counts.items()):
        pods = [pod for replica, pod in observed.pods.items() if replica.role is role]
        specs = observed.requests(role)
        counted = {
            spec: places.count(spec, count, closed) for spec, count in specs.items() if tells_places
        }
        lacking = {spec: specs[spec] - each.places for spec, each in counted.items()}
        # Where replicas of a role differ, the one that lacks most is shown.
        first = next(iter(specs), ReplicaSpec())
        shown = max(lacking, key=lambda spec: lacking[spec], default=first)
        roles.append(
            RoleReport(
                role=role,
                expected=expected,
                exist=len(pods),
                gated=sum(bool(pod.gates) for pod in pods),
                bound=sum(pod.node is not None for pod in pods),
                lacking=sum(lacking.values()),
                request=dict(shown.resources),
                places=counted.get(shown),
            )
        )
    return tuple(roles)


def _is_for_want_of_room(facts: GangFacts) -> bool:
    return facts.refusal is not None and facts.wait is not WaitReason.NOT_OFFERED


def _name(role: Role, index: int) -> str:
    return f"{role}-{index}"


def _without_pods(job: Job, priority: int) -> GangReport:
    counts = {Role.PS: job.counts.ps, Role.WORKER: job.counts.workers}
    counts |= {each.role: each.count for each in job.fixed}
    report = GangReport(
        namespace=job.key.namespace,
        job=job.key.name,
        kind=job.kind,
        uid=job.uid,
        priority=priority,
        state=GangPhase.SUSPENDED if job.suspended else GangPhase.INCOMPLETE,
        wait=None if job.suspended else WaitReason.INCOMPLETE,
        reason="" if job.suspended else "the training operator has not created its pods",
        preempted_for=job.preempted_for,
        roles=tuple(
            RoleReport(role=role, expected=count, exist=0, gated=0, bound=0)
            for role, count in sorted(counts.items())
            if count
        ),
    )
    return msgspec.structs.replace(report, sentence=sentence(report))


def _expectation(plan: FuturePlan | None, context: _Context) -> Expectation | None:
    """Return what is waited for. Of a job that has ended since the plan was made nothing is said,
    and no time that has passed."""
    if plan is None or (plan.awaits and plan.awaits not in context.holding):
        return None
    is_known = plan.is_predicted and plan.begins_at > context.now.epoch
    return Expectation(
        at=format_second(plan.begins_at) if is_known else None,
        awaits=str(plan.awaited) if plan.awaited is not None and plan.awaited.name else "",
        nodes=tuple(sorted(plan.amounts)),
    )


def _fits_without_others(facts: GangFacts, context: _Context) -> bool | None:
    """Return whether a gang in the queue fits once all jobs have ended; ``None`` where that is not
    known.

    A search answers for the first gangs alone; that nodes are too small shows for each."""
    if facts.uid in context.plans:
        return context.plans[facts.uid] is not None
    if not facts.is_in_queue:
        return None
    observed = facts.queued.observed
    wanted = (item for role in observed.counts for item in observed.requests(role).items())
    too_large = any(context.places.count(*each).places_empty < each[1] for each in wanted)
    return False if too_large else None


_RULES: Final = (
    ("pod anti-affinity", attrgetter("anti_affinity")),
    ("pod affinity", attrgetter("affinity")),
    ("topology spread", attrgetter("spread")),
    ("host ports", attrgetter("ports")),
    ("volume claims", attrgetter("claims")),
)


def _rules(facts: GangFacts, context: _Context) -> tuple[str, ...]:
    """The rules that keep a gang from nodes: its own, else those of other pods."""
    if facts.wait is WaitReason.NOT_OFFERED:
        return ("a volume, a resource claim or another rule that kube-scheduler checks",)
    if facts.uid not in context.ruled:
        return ()
    own = [each.rules for each in facts.queued.observed.gang.unbound if each.rules is not None]
    named = tuple(name for name, of in _RULES if any(map(of, own)))
    return named or ("anti-affinity of other pods",)


def _reason(facts: GangFacts) -> str:
    if facts.wait is None:
        return ""
    detail = facts.queued.observed.waits_for if facts.wait is WaitReason.INCOMPLETE else ""
    if facts.wait is WaitReason.NO_ROOM and facts.refusal is not None:
        detail = facts.refusal.answer.reason
    return sentence_of(facts.wait, str(facts.key), detail)
