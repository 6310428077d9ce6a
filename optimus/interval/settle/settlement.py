"""Settle: turn a policy's answer into decisions (Optimus, sections 3 to 5).

A job that goes to other counts is restarted. A policy whose trait is ``weighs_restarts`` moves one
only where that is expected to pay (``Settlement.may_move``); the published ones move all, and jobs
that they grant nothing are paused.

1. Say what may happen to each job; jobs that are not up for decision are charged.
2. In each pool of nodes that the same jobs may use, subtract fixed jobs and the minimum of waiting
   jobs from the free capacity; the policy allocates the rest.
3. Place what waits. Where restarts are not weighed, all jobs that move leave their nodes first, and
   are placed by ascending demand; by descending demand where they are bound to kinds of nodes, as
   small ones fit between large ones (Gavel, section 5).
4. Move the running jobs that may move. One shrinks only where another uses the capacity: for a
   waiting job always, for a growing one only where the growth saves more than all restarts and
   slower jobs cost, or meets a deadline. One that has no forecast any more returns what it has
   beyond its user's counts to waiting jobs.
5. Jobs whose counts are fixed go to faster kinds of nodes.

What does not fit on the nodes is trimmed task by task: the policy knows free capacity in sum, not
what each node holds. Jobs that take turns have theirs with all of their tasks."""

import itertools
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

from optimus.allocation import NO_MEMORY, Grant, PolicyMemory
from optimus.allocation.policy import ClusterAllocation, Refusal, grants
from optimus.allocation.problem import why_excluded
from optimus.interval.capacity_plan import CapacityPlan, first_that_fits, schedulable_capacity
from optimus.interval.classify import (
    Action,
    Eligibility,
    IntervalConfig,
    JobView,
    classify,
    classify_anew,
    too_little_text,
)
from optimus.interval.node_kinds import OnFastestKind
from optimus.interval.settle.faster_kinds import moves_to_faster_kinds
from optimus.interval.settle.reclaim import (
    WAITS,
    Limits,
    Place,
    Reclaim,
    cost_of_shrinking,
    is_donor,
    may_return,
)
from optimus.interval.settle.undecided import Undecided, charge_fixed
from optimus.interval.share import Share, in_queue_order, pools_of, share_pool
from optimus.interval.worth import FOR_EVER, Loan, loan_until_used
from optimus.jobs import NO_COUNTS, Binding, Counts, Job
from optimus.nodes import refusal
from optimus.resources import NONE, Resources, total

_TRIMS_AT_ONCE = 8
"""A forecast is evaluated at all counts that so many trims may come to: 81 at once take about as
long as one."""

KEEPS_ITS_NODES: Final = "it keeps its nodes, as no job is paused"
GOES_ON: Final = "it goes on, as no job whose turn it is fits on its nodes"
IN_THE_QUEUE: Final = "once it has waited for two intervals its pods wait in the queue"


def settle(undecided: Undecided) -> "Settlement":
    """Decide all counts; jobs are placed on the plan as they are decided."""
    plan, traits, config = undecided.plan, undecided.policy.traits, undecided.config
    weighs = traits.weighs_restarts
    # 1. Classify
    jobs = [
        classify(view) if weighs else classify_anew(view, reads_forecasts=traits.reads_forecasts)
        for view in undecided.views
    ]
    charge_fixed(jobs, plan)
    if weighs and config.fairness is not None:
        jobs = [each.with_objective(config.fairness) for each in jobs]
    # 2. Share and ask
    shares = [
        share_pool(pool, plan, undecided.at, reserves=weighs) for pool in pools_of(jobs, plan.nodes)
    ]
    answer, memory = undecided.ask((share.pool, share.problem) for share in shares)
    # 3. to 5. Place what waits, and move what may move
    if weighs:
        settlement = _in_place(undecided, shares, answer, jobs)
    else:
        settlement = _anew(undecided, shares, answer, jobs)
        plan.adopt(settlement.plan)
    return replace(settlement, jobs=jobs, memory=memory)


def _in_place(
    undecided: Undecided, shares: Sequence[Share], answer: ClusterAllocation, jobs: list[JobView]
) -> "Settlement":
    """Jobs whose counts do not change keep their pods; waiting jobs come first."""
    loan = _loan(undecided, shares, answer)
    settlement = Settlement.of(undecided, undecided.plan, answer, jobs, loan)
    refused = answer if undecided.policy.traits.refuses else {}
    for share in shares:
        settlement.start_waiting(share, refused)
    settlement.resize_running(jobs)
    settlement.bind_moved(jobs)
    for uid, kind, reason in moves_to_faster_kinds(undecided, jobs):
        settlement.kinds[uid], settlement.actions[uid] = kind, Action.CHANGE
        settlement.reasons[uid] = reason
    return settlement


def _anew(
    undecided: Undecided, shares: Sequence[Share], answer: ClusterAllocation, jobs: list[JobView]
) -> "Settlement":
    """Jobs that move leave their nodes and are placed again, beside those that stay.

    One that does not fit is paused until the next interval; where jobs cannot be paused it keeps
    its nodes, and the others are placed anew beside it. A paused job for which the policy leaves
    enough, and that does not fit because of jobs that it does not decide on, or of how they lie, is
    resumed all the same: its pods wait in the queue."""
    start = {
        each.job.uid: Grant(each.minimum, reason=f"there is free capacity for its {each.minimum}")
        for share in shares
        for each in share.admitted
    }
    refused = {each.job.uid: Refusal(why) for share in shares for each, why in share.rejected}
    wanted = start | grants(answer)
    beside: ClusterAllocation = {**start, **refused}
    paused = {uid for uid, history in undecided.inputs.history.items() if history.paused}
    queues = frozenset(uid for share in shares for uid in _left_out(share, wanted, paused))
    up = [
        each
        for each in jobs
        if each.candidate is not None or each.eligibility is Eligibility.WAITING
    ]
    kept, attempts = dict[str, str](), 0
    while True:
        attempts += 1
        settlement = Settlement.of(undecided, undecided.plan.copy(), answer, (), beside=beside)
        moving = settlement.leave(up, kept)
        unplaced = settlement.place_again(moving, queues)
        if not unplaced or undecided.inputs.may_pause:
            settlement.pause(unplaced, moving)
            return settlement
        # Then no running job moves.
        if attempts == 8:
            unplaced = [each for each in moving if undecided.plan.is_placed(each.job.uid)]
        kept |= {each.job.uid: KEEPS_ITS_NODES for each in unplaced}


@dataclass(slots=True)
class Settlement:
    """The decisions so far, by job UID, tried on ``plan``. A job without counts keeps its own."""

    undecided: Undecided
    plan: CapacityPlan
    answer: ClusterAllocation
    """The policy's."""
    beside: ClusterAllocation
    """What jobs get, or are refused, that it does not decide on."""
    allocated: Mapping[str, Counts]
    counts: dict[str, Counts]
    reclaim: Reclaim
    loan: Loan = FOR_EVER
    """How long what jobs get beyond their own counts stays with them."""
    reasons: dict[str, str] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    """Those that the counts do not tell."""
    kinds: dict[str, str] = field(default_factory=dict)
    """The kinds of nodes that jobs are bound to."""
    jobs: Sequence[JobView] = ()
    memory: PolicyMemory = NO_MEMORY

    @classmethod
    def of(
        cls,
        undecided: Undecided,
        plan: CapacityPlan,
        answer: ClusterAllocation,
        jobs: Sequence[JobView],
        loan: Loan = FOR_EVER,
        beside: ClusterAllocation = MappingProxyType({}),
    ) -> Self:
        """Nothing decided yet; donors are those of the jobs that the policy makes smaller, or no
        faster, and those without a forecast that have more than their user gave them."""
        allocated = {uid: each.counts for uid, each in grants({**answer, **beside}).items()}
        decided = dict[str, Counts]()
        resizable = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
        for each in resizable:
            current = each.job.counts
            if each.candidate is not None:
                wanted = allocated.get(each.job.uid, current)
                each.candidate.forecast.prefetch(current, wanted)
        donors = [
            (each, cost_of_shrinking(each, allocated[each.job.uid]))
            for each in resizable
            if is_donor(each, allocated.get(each.job.uid, each.job.counts))
        ]
        for each in jobs:
            if each.returns_to is not None and each.why_excluded(each.returns_to) is None:
                allocated[each.job.uid] = each.returns_to
                donors.append((each, math.inf))  # it gives to waiting jobs alone
        # Donors of the lowest priority come first, among equals those that lose least.
        donors.sort(
            key=lambda donor: (donor[0].job.priority, donor[0].capped, donor[1], donor[0].job.uid)
        )
        # An attempt takes a tenth of a millisecond: the largest cluster is decided in seconds.
        attempts = 50_000
        lenders = tuple(
            (each, each.own) for each in jobs if each.own is not None and may_return(each, each.own)
        )
        reclaim = Reclaim(tuple(donors), allocated, decided, attempts, lenders)
        return cls(undecided, plan, answer, beside, allocated, decided, reclaim, loan)

    @property
    def config(self) -> IntervalConfig:
        """The limits by which it is decided."""
        return self.undecided.config

    def may_move(self, job: JobView, counts: Counts) -> bool:
        """Return whether a running job may be restarted for these counts: whatever it costs where
        the policy does not weigh restarts."""
        if not self.undecided.policy.traits.weighs_restarts:
            return counts != job.job.counts
        return self._net_saving(job, counts) > 0

    def decide(self, job: JobView, counts: Counts, reason: str) -> None:
        """Fix one job's counts; what its classification says comes before the reason."""
        uid = job.job.uid
        self.counts[uid] = counts
        if self.plan.is_placed(uid):
            self.reclaim.moved(job, counts)
        self.reasons[uid] = "; ".join(part for part in (job.reason, reason) if part)

    def starts(self, job: JobView) -> bool:
        """Place a job that starts at its minimum, where the policy allocates it something."""
        uid, least = job.job.uid, job.minimum
        if uid not in self.allocated or job.why_excluded(least) is not None:
            return False
        return self.plan.assign(job.job, least) is None

    def place(self, job: JobView) -> None:
        """Place a job that waits or has to change its counts; for its minimum others shrink."""
        if job.lost_replicas:
            self._replace_lost(job)
            return
        allocated, minimum = self.allocated.get(job.job.uid), job.minimum
        wanted = [minimum]
        if allocated is not None and allocated != minimum:
            wanted = [allocated, *_trims(job, allocated, minimum), minimum]
        options = [each for each in wanted if job.why_excluded(each) is None]
        if job.forced and not options:
            # Its back-off is over: the counts that its bounds require are tried again. Not those at
            # which it failed.
            failed = job.history.failed_counts
            options = [each for each in wanted if why_excluded(failed, each) is None]
        refusal = self._place_first(job, options) if options else job.why_excluded(minimum)
        if refusal is not None:
            why = "" if allocated else self._said(job.job.uid)
            self.decide(job, job.job.counts, why or refusal)

    def _said(self, uid: str) -> str:
        found = self.beside.get(uid) or self.answer.get(uid)
        return found.reason if found is not None else ""

    def _kind(self, uid: str) -> str | None:
        """The kind of nodes that the policy binds a job to."""
        grant = self.answer.get(uid)
        return grant.kind if isinstance(grant, Grant) else None

    def _replace_lost(self, job: JobView) -> None:
        """Place lost replicas beside the others, also on reclaimed capacity; if there is none, go
        to the best counts that fit."""
        own = job.job.counts
        reason = "which has lost replicas"

        def place(plan: CapacityPlan) -> str | None:
            return plan.complete(job.job)

        if place(self.plan) is None or self._reclaim(job, place, reason) is None:
            self.decide(job, own, "they fit once others have released capacity")
            return
        fewer = [] if job.minimum == own else [*_trims(job, own, job.minimum), job.minimum]
        options = [each for each in fewer if job.why_excluded(each) is None]
        refusal = self._place_first(job, options) if options else f"its {own} wait for room"
        if refusal is not None:
            self.decide(job, own, refusal)

    def _place_first(self, job: JobView, options: Sequence[Counts]) -> str | None:
        """Place the first of these counts that fits; they are in descending order of demand. Where
        none does, others shrink for the last, and the job gets what they leave."""
        counts = _first_that_moves(self.plan, job.job, options)
        if counts is None:
            least = options[-1]
            reason = f"which waits for {least}"
            refusal = self._reclaim(job, lambda plan: plan.move(job.job, least), reason, WAITS)
            if refusal is not None:
                return refusal
            counts = _first_that_moves(self.plan, job.job, options) or least
        self.decide(job, counts, _placed_reason(job, counts))
        return None

    def resize_running(self, jobs: Iterable[JobView]) -> None:
        """Running jobs that are not decided yet: forced ones first, then those whose own gain
        releases capacity, which others may want, then by what is saved."""

        def key(job: JobView) -> tuple[bool, bool, bool, float, str]:
            wanted = self.allocated.get(job.job.uid, job.job.counts)
            is_late, releases = job.rescues_deadline(wanted), self._releases(job, wanted)
            return not job.forced, not releases, not is_late, -job.worth(wanted), job.job.uid

        resizable = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
        for job in sorted(resizable, key=key):
            if job.job.uid not in self.counts:
                self.place(job) if job.forced else self._resize(job)

    def _releases(self, job: JobView, wanted: Counts) -> bool:
        """Return whether a change that is worth its restart by itself needs less of every
        resource."""
        of, current = job.job, job.job.counts
        if wanted == current or job.cooling or not of.demand(wanted).fits_in(of.demand(current)):
            return False
        return self.may_move(job, wanted)

    def _resize(self, job: JobView) -> None:
        """Carry out a running job's allocation, as far as it fits and is worth the restart."""
        uid, current = job.job.uid, job.job.counts
        wanted = self.allocated.get(uid, current)
        policy_reason = self._said(uid)
        if wanted == current or job.cooling:
            self.decide(job, current, "" if job.cooling else policy_reason)
        elif job.why_excluded(wanted) is not None:
            self._resize_trimmed(job, wanted, "are not tried: its pods were not placed")
        elif not self.may_move(job, wanted):
            self.decide(job, current, self._why_not_worth_it(job, wanted))
        elif self._is_slow_there(job, wanted):
            self.decide(job, current, f"{wanted} would be on servers between which it is slow")
        elif self.plan.move(job.job, wanted) is None or self._reclaim_for_growth(job, wanted):
            self.decide(job, wanted, policy_reason)
        elif (own := job.own_of(wanted)) != current and self._reclaim_for_growth(job, own):
            self.decide(job, own, f"what is its own of {wanted}")
        else:
            self._resize_trimmed(job, wanted, "do not fit beside what the others keep")

    def _is_slow_there(self, job: JobView, wanted: Counts) -> bool:
        """Return whether a job without PSs would get servers on which these counts are not worth
        the restart: on fewer they would be."""
        if not job.job.all_reduce:
            return False
        savepoint, is_slow = self.plan.savepoint(job.job.uid), False
        if self.plan.move(job.job, wanted) is None:
            is_slow = not self._may_move_there(job, wanted)
            self.plan.undo(job.job.uid, savepoint)
        return is_slow

    def _may_move_there(self, job: JobView, counts: Counts) -> bool:
        """The same as ``may_move`` on the servers that the job gets, on which it is placed."""
        servers = {each.node for each in self.plan.held.get(job.job.uid, ())}
        return self.may_move(job.on_servers(counts, len(servers)), counts)

    def _reclaim_for_growth(self, job: JobView, wanted: Counts) -> bool:
        """Shrink others for this job's growth where all of it together pays."""
        if job.is_within_own(wanted):
            reason, limits = f"which has less than its own and waits for {wanted}", WAITS
        else:
            reason, limits = "which gains more by it", Limits(self._net_saving(job, wanted))
        return self._reclaim(job, lambda plan: plan.move(job.job, wanted), reason, limits) is None

    def _resize_trimmed(self, job: JobView, wanted: Counts, why_not: str) -> None:
        for counts in _trims(job, wanted, job.job.counts):
            if job.why_excluded(counts) is not None:
                continue
            savepoint = self.plan.savepoint(job.job.uid)
            if self.plan.move(job.job, counts) is not None:
                continue
            if self._may_move_there(job, counts):
                self.decide(job, counts, f"trimmed from {wanted}, which {why_not}")
                return
            self.plan.undo(job.job.uid, savepoint)
            break
        reason = f"{wanted} {why_not}, and nothing less is worth a restart"
        self.decide(job, job.job.counts, reason)

    def _reclaim(
        self, job: JobView, place: Place, reason: str, limits: Limits | None = None
    ) -> str | None:
        """Shrink others for what a job wants, or say why it does not fit even so."""
        found = self.reclaim.find(self.plan, place, limits or Limits())
        if isinstance(found, str):
            return found
        self.plan.adopt(found.plan)
        for donor, counts in found.donors:
            to = job.job.key.seen_from(donor.job.key.namespace)
            self.decide(donor, counts, f"releases capacity to {to}, {reason}")
        return None

    def _net_saving(self, job: JobView, counts: Counts) -> float:
        """Return what these counts save beyond the restart, by the objective; ``-inf`` where they
        are not expected to save enough."""
        if job.rescues_deadline(counts):
            # Finite: what donors without a limit to their cost keep from jobs that grow,
            # they keep from it too.
            return 1e300
        saving = job.saving(counts)
        if saving == math.inf:
            return saving
        if job.gain(counts, self.loan) <= self.config.hysteresis_fraction:
            return -math.inf
        # It is expected to pay, whatever its mean says.
        return max(job.worth(counts, job.price_seconds), 1e-9)

    def _why_not_worth_it(self, job: JobView, wanted: Counts) -> str:
        if job.saving(wanted) <= 0:
            return f"no other job needs the capacity that {wanted} would release"
        gain = job.gain(wanted, self.loan)
        return too_little_text(job, wanted, gain, self.config.hysteresis_fraction)

    def start_waiting(self, share: Share, refused: ClusterAllocation) -> None:
        """Place what waits in a pool, but for the jobs that the policy does not want to run now."""
        for job in share.placed:
            self.decide(job, job.counts, f"there is free capacity for its {job.counts}")
        for job, reason in share.rejected:
            self.decide(job, job.job.counts, reason)
        for job in share.admitted:
            self.place(job)
        # All that start have their minimum first, the largest first, and then grow, the smallest
        # first: nothing is restarted for it.
        placed = {each.job.uid for each in share.by_size({}, sign=-1) if self.starts(each)}
        starting = share.by_size(self.allocated)
        for job in (each for each in starting if each.job.uid in placed):
            self.place(job)
        unplaced = [each for each in starting if each.job.uid not in placed]
        capacity = share.problem.capacity
        for job in in_queue_order(unplaced, capacity, self.undecided.at):
            said = refused.get(job.job.uid)
            if isinstance(said, Refusal):
                self.decide(job, job.job.counts, said.reason)
            else:
                self.place(job)

    def bind_moved(self, jobs: Iterable[JobView]) -> None:
        """Bind jobs that are moved to the kinds of nodes on which they are faster."""
        rule, label = self.undecided.plan.rule, self.undecided.inputs.kind_label
        if not isinstance(rule, OnFastestKind):
            return
        for job in jobs:
            uid = job.job.uid
            is_moved = self.counts.get(uid, job.job.counts) != job.job.counts
            kind = self.plan.kind_of(uid, label) if is_moved and rule.kinds.get(uid) else ""
            if kind:
                self.kinds[uid] = kind
                self.reasons[uid] += f"; its workers on nodes of the kind {kind}"

    def leave(self, jobs: Iterable[JobView], kept: Mapping[str, str]) -> list[JobView]:
        """Keep the jobs where they are that are to stay, or have to (``kept``: why); the others
        leave their nodes, and are returned."""
        moving = list[JobView]()
        for job in jobs:
            uid, why = job.job.uid, kept.get(job.job.uid)
            if why is None and not self._stays(job):
                moving.append(job)
                continue
            # Lost replicas are placed beside the others, where that is possible.
            is_whole = self.plan.complete(job.job) is None
            if job.lost_replicas and not is_whole and why is None:
                moving.append(job)
                continue
            self._set(job, job.job.counts, why)
            if why is None:
                self._bind(uid)
        for job in moving:
            self.plan.release(job.job.uid)
        return moving

    def place_again(self, moving: Sequence[JobView], queues: Container[str]) -> list[JobView]:
        """Place these jobs on nodes that they all have left; returns those that ran and do not
        fit."""
        granted = {each.job.uid: self._granted(each.job) for each in moving}
        capacity, unplaced = schedulable_capacity(self.plan.nodes), list[JobView]()
        sign = -1 if any(map(self._kind, self.answer)) else 1
        demand = {uid: sign * job.demand().dominant(capacity)[1] for uid, job in granted.items()}
        for job in sorted(moving, key=lambda each: (demand[each.job.uid], each.job.uid)):
            uid = job.job.uid
            counts = self._fit(job, granted[uid]) if uid in self.allocated else None
            if counts is not None:
                self._start(job, counts)
            elif self.undecided.plan.is_placed(uid):
                unplaced.append(job)
            else:
                self._leave_out(job, queues)
        return unplaced

    def pause(self, unplaced: Iterable[JobView], moving: Iterable[JobView]) -> None:
        """Pause these jobs, but for those on whose nodes nobody fits whose turn it is."""
        takes_turns, wanted = self.undecided.policy.traits.time_shared, self.allocated
        misfits = any(
            each.job.uid in wanted and not self.plan.is_placed(each.job.uid) for each in moving
        )
        for job in unplaced:
            if takes_turns and misfits and self._return(job):
                self._set(job, job.job.counts, GOES_ON)
            else:
                self._set(job, job.job.counts, self._misfit(job), Action.PAUSE)

    def _stays(self, job: JobView) -> bool:
        uid = job.job.uid
        if uid not in self.allocated or not self.plan.is_placed(uid):
            return False
        is_there = self._kind(uid) in {None, self.undecided.kind_of(uid)}
        return is_there and not self.may_move(job, self.allocated[uid])

    def _return(self, job: JobView) -> bool:
        """Put a job back on the nodes that it has left, if they still have its room."""
        uid, plan = job.job.uid, self.plan
        held, taken = (
            self.undecided.plan.bound.get(uid, ()),
            defaultdict[str, list[Resources]](list),
        )
        for each in held:
            taken[each.node].append(each.resources)
        free = plan.free
        fits = (node in free and total(each).fits_in(free[node]) for node, each in taken.items())
        if not held or not all(fits):
            return False
        for each in held:
            plan.take(each.node, each.resources)
        plan.bound[uid] = held
        plan.quotas.charge(uid, job.job.counts)
        return True

    def _fit(self, of: JobView, job: Job) -> Counts | None:
        """The counts at which the job was placed."""
        wanted, least = job.counts, Counts(*map(min, of.minimum, job.counts))
        options = [wanted]
        if not self.undecided.policy.traits.time_shared and wanted != least:
            options += [*_trims(of, wanted, least), least]
        options = [each for each in options if of.why_excluded(each) is None]
        return _first_that_moves(self.plan, job, options) if options else None

    def _start(self, job: JobView, counts: Counts) -> None:
        uid, wanted = job.job.uid, self.allocated[job.job.uid]
        trimmed = f"trimmed from {wanted}, which do not fit on the nodes"
        action = None
        if self._is_paused(uid):
            action = Action.RESUME
        elif counts == job.job.counts and self.undecided.plan.is_placed(uid):
            action = Action.CHANGE  # the same counts on other nodes
        self._set(job, counts, trimmed if counts != wanted else None, action)
        self._bind(uid)

    def _leave_out(self, job: JobView, queues: Container[str]) -> None:
        """It does not run, and does not fit."""
        uid, why = job.job.uid, self._misfit(job)
        queues_now = uid in self.allocated or uid in queues
        if queues_now and self._is_paused(uid) and not self.plan.quotas.refusal(uid, job.minimum):
            why = "; ".join(each for each in (why, IN_THE_QUEUE) if each)
            self._set(job, job.minimum, why, Action.RESUME)
        else:
            self._set(job, job.job.counts, why)

    def _misfit(self, job: JobView) -> str:
        wanted = self.allocated.get(job.job.uid)
        return f"{wanted} do not fit on the nodes" if wanted is not None else ""

    def _set(
        self, job: JobView, counts: Counts, why: str | None, action: Action | None = None
    ) -> None:
        """Fix one job's counts, for what the policy says and this."""
        uid = job.job.uid
        self.counts[uid] = counts
        self.reasons[uid] = "; ".join(each for each in (self._said(uid), why) if each)
        if action is not None:
            self.actions[uid] = action

    def _bind(self, uid: str) -> None:
        if kind := self._kind(uid):
            self.kinds[uid] = kind

    def _is_paused(self, uid: str) -> bool:
        history = self.undecided.inputs.history.get(uid)
        return history is not None and history.paused

    def _granted(self, job: Job) -> Job:
        """The job at its counts, its workers bound to the kind of nodes, if they are to one."""
        kind, label = self._kind(job.uid), self.undecided.inputs.kind_label
        job = replace(job, counts=self.allocated.get(job.uid, NO_COUNTS))
        return job.bound_to(Binding(label, kind) if kind else None)


def _first_that_moves(plan: CapacityPlan, job: Job, options: Sequence[Counts]) -> Counts | None:
    """The first of these counts that fits, at which the job is placed; ``None`` where none does."""
    if plan.move(job, options[0]) is None:
        return options[0]
    # What fits mostly still fits with a task less, so that bisection finds the first that does.
    counts = first_that_fits(plan, job, options)
    return counts if counts is not None and plan.move(job, counts) is None else None


def _placed_reason(job: JobView, counts: Counts) -> str:
    """Return why a waiting job gets these counts."""
    if counts == job.job.counts:
        return f"there is free capacity for its {counts}"
    beside = "" if job.forced else f", not for its {job.job.counts}"
    return f"there is free capacity for {counts}{beside}"


def _trims(job: JobView, wanted: Counts, end: Counts) -> Iterator[Counts]:
    """The counts between wanted and end, without the least useful task each time."""
    counts = wanted
    for number in itertools.count():
        if number % _TRIMS_AT_ONCE == 0:
            _prefetch_trims(job, counts, end)
        nearer = []
        if counts.ps != end.ps:
            nearer.append(Counts(counts.ps + (1 if end.ps > counts.ps else -1), counts.workers))
        if counts.workers != end.workers:
            step = 1 if end.workers > counts.workers else -1
            nearer.append(Counts(counts.ps, counts.workers + step))
        counts = min(nearer, key=lambda each: (job.seconds(each), _spread(each, end), each))
        if counts == end:
            return
        yield counts


def _spread(counts: Counts, end: Counts) -> int:
    """Return how much more is left to go in one role than in the other."""
    return abs(abs(counts.ps - end.ps) - abs(counts.workers - end.workers))


def _prefetch_trims(job: JobView, counts: Counts, end: Counts) -> None:
    """Evaluate the forecast at all counts that the next trims may come to, in one call."""
    if job.candidate is None:
        return
    ps, workers = map(_next_counts, counts, end)
    job.candidate.forecast.prefetch(*(Counts(p, w) for p in ps for w in workers))


def _next_counts(first: int, last: int) -> range:
    """The first of the numbers on the way from one to the other, both included."""
    steps = min(abs(last - first), _TRIMS_AT_ONCE)
    least = first if last >= first else first - steps
    return range(least, least + steps + 1)


def _loan(undecided: Undecided, shares: Sequence[Share], answer: ClusterAllocation) -> Loan:
    """Return how long loans last, by the arrivals of jobs that could use the nodes of these."""
    inputs, nodes = undecided.inputs, [node for share in shares for node in share.pool.nodes]
    constraints = {each.constraints for job in inputs.arrived for each in (job.ps, job.worker)}
    usable = {each for each in constraints if any(refusal(node, each) is None for node in nodes)}
    arrived = [
        job for job in inputs.arrived if {job.ps.constraints, job.worker.constraints} <= usable
    ]
    left = _before_a_return(shares, answer)
    return loan_until_used(arrived, left, undecided.at, inputs.interval_seconds)


def _before_a_return(shares: Iterable[Share], answer: ClusterAllocation) -> Resources:
    """Return what jobs that arrive take before a loan is returned: all that the policy allocates to
    nobody, and half of what the others lend, since it is not known whose loan is returned first."""
    allocated, left, lent, lenders = grants(answer), NONE, NONE, 0
    for problem in (share.problem for share in shares):
        left += problem.available
        for each in problem.candidates:
            least, grant = each.job.bounds.minimum, allocated.get(each.job.uid)
            demand = each.job.demand(least if grant is None else grant.counts)
            left -= demand
            if grant is not None and grant.counts != least:
                lent, lenders = lent + (demand - each.job.demand(least)), lenders + 1
    part = (lenders - 1) / (2 * lenders) if lenders else 0.0
    return left + Resources({name: int(amount * part) for name, amount in lent.items()})


def _left_out(share: Share, wanted: Mapping[str, Grant], paused: Container[str]) -> Iterator[str]:
    """The paused jobs for which too little is left beside all that is granted, and enough would
    be if other jobs held nothing: not the policy keeps them paused."""
    jobs = {each.job.uid: each.job for each in share.pool.jobs}
    granted = total(jobs[uid].demand(each.counts) for uid, each in wanted.items() if uid in jobs)
    left, free = share.problem.capacity - granted, share.problem.available - granted
    for each in sorted(share.pool.jobs, key=lambda one: one.job.created_at):
        uid, demand = each.job.uid, each.job.demand(each.minimum)
        is_paused = uid in paused and uid not in wanted
        if is_paused and demand.fits_in(left) and not demand.fits_in(free):
            left = left - demand
            yield uid
