"""Settle all counts as decided (Optimus, sections 4 and 5), as the published policies are run.

1. The policy chooses all counts from scratch, on the capacity less what jobs hold whose counts are
   up to others. A job without a forecast that a policy needs starts at its minimum.
2. Jobs whose counts stay keep their nodes. The others leave theirs and are placed again, by
   ascending demand; by descending demand where jobs are bound to kinds of nodes, since small ones
   fit between large ones (Gavel, section 5).
3. A job that does not fit gets fewer tasks; not in a policy that shares time, whose jobs have their
   turn with all of them.
4. One that does not fit at its minimum is paused until the next interval. Where jobs cannot be
   paused it keeps its nodes, and the others are placed anew beside it.
5. A paused job for which the policy leaves enough, and that does not fit because of jobs that it
   does not decide on, or of how they lie, is resumed all the same: its pods wait in the queue.

No change is weighed against its restart.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Self

from optimus.allocation import AllocationProblem, Grant
from optimus.allocation.policy import ClusterAllocation, Refusal, grants
from optimus.interval.capacity_plan import CapacityPlan, schedulable_capacity
from optimus.interval.classify import Action, Eligibility, JobView, classify_anew
from optimus.interval.settle.undecided import Settled, Undecided, charge_fixed
from optimus.interval.share import Pool, in_queue_order, pools_of
from optimus.jobs import NO_COUNTS, Binding, Counts, Job
from optimus.resources import Resources, total

MOST_ATTEMPTS: Final = 8
"""How often jobs are placed anew beside those that cannot be paused; then no running job moves."""

KEEPS_ITS_NODES: Final = "it keeps its nodes, as no job is paused"
GOES_ON: Final = "it goes on, as no job whose turn it is fits on its nodes"
IN_THE_QUEUE: Final = "once it has waited for two intervals its pods wait in the queue"


def settle(undecided: Undecided) -> Settled:
    """Decide all counts; jobs are placed on the plan as they are decided."""
    plan, traits = undecided.plan, undecided.policy.traits
    jobs = [classify_anew(view, reads_forecasts=traits.reads_forecasts) for view in undecided.views]
    charge_fixed(jobs, plan)
    # 1. Decide
    shares = [_Share.of(pool, undecided) for pool in pools_of(jobs, plan.nodes)]
    answer, memory = undecided.ask((share.pool, share.problem) for share in shares)
    wanted = {uid: grant for share in shares for uid, grant in share.starting.items()}
    wanted |= grants(answer)
    # 2. to 4. Fit
    paused = {uid for uid, history in undecided.inputs.history.items() if history.paused}
    queues = frozenset(uid for share in shares for uid in share.left_out(wanted, paused))
    refused = {uid: Refusal(why) for share in shares for uid, why in share.refusals.items()}
    said = {**answer, **refused}
    fit = _PlacedAnew(undecided, said, wanted, queues, trims=not traits.time_shared)
    fit.place([each for each in jobs if _is_up(each)])
    plan.adopt(fit.plan)
    return Settled(jobs, fit.counts, fit.reasons, answer, memory, fit.actions, fit.kinds)


def _is_up(job: JobView) -> bool:
    """Return whether the interval may give the job other counts or other nodes."""
    return job.candidate is not None or job.eligibility is Eligibility.WAITING


@dataclass(frozen=True, slots=True)
class _Share:
    """The policy's problem in one pool; ``starting`` are grants of jobs that it does not decide on,
    ``refusals`` the reasons of those that have none."""

    pool: Pool
    problem: AllocationProblem
    starting: Mapping[str, Grant]
    refusals: Mapping[str, str]

    @classmethod
    def of(cls, pool: Pool, undecided: Undecided) -> Self:
        """Jobs without a forecast take their minimum first."""
        plan, config, capacity = undecided.plan, undecided.config, pool.capacity
        candidates = tuple(each.candidate for each in pool.jobs if each.candidate is not None)
        holders = [each.job.uid for each in candidates if each.running]
        available, _ = pool.available(plan, holders)
        quotas = plan.quotas.copy()
        for each in candidates:
            quotas.release(each.job.uid)
        starting, refusals = dict[str, Grant](), dict[str, str]()
        queue = [
            each
            for each in pool.jobs
            if each.eligibility is Eligibility.WAITING and each.candidate is None
        ]
        for waiting in in_queue_order(queue, capacity, config, undecided.at):
            uid, least = waiting.job.uid, waiting.minimum
            demand, beyond = waiting.job.demand(least), quotas.refusal(uid, least)
            if beyond is None and demand.fits_in(available):
                available = available - demand
                quotas.charge(uid, least)
                starting[uid] = Grant(least, reason=f"there is free capacity for its {least}")
            else:
                lacking = ", ".join(demand.lacking_in(available))
                refusals[uid] = beyond or f"{least} do not fit: too little {lacking}"
        problem = AllocationProblem(available, capacity, candidates, quotas=quotas.remaining())
        return cls(pool, problem, starting, refusals)

    def left_out(self, wanted: Mapping[str, Grant], paused: Container[str]) -> Iterator[str]:
        """The paused jobs for which too little is left beside all that is granted, and enough would
        be if other jobs held nothing: not the policy keeps them paused."""
        jobs = {each.job.uid: each.job for each in self.pool.jobs}
        granted = total(
            jobs[uid].demand(each.counts) for uid, each in wanted.items() if uid in jobs
        )
        left, free = self.problem.capacity - granted, self.problem.available - granted
        for each in sorted(self.pool.jobs, key=lambda one: one.job.created_at):
            uid, demand = each.job.uid, each.job.demand(each.minimum)
            is_paused = uid in paused and uid not in wanted
            if is_paused and demand.fits_in(left) and not demand.fits_in(free):
                left = left - demand
                yield uid


@dataclass(slots=True)
class _PlacedAnew:
    """The decisions so far, tried on ``plan``."""

    undecided: Undecided
    answer: ClusterAllocation
    wanted: Mapping[str, Grant]
    queues: frozenset[str]
    trims: bool
    plan: CapacityPlan = field(init=False)
    counts: dict[str, Counts] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def place(self, jobs: Sequence[JobView]) -> None:
        """Place all jobs that do not stay where they are."""
        staying = [each for each in jobs if self._stays(each)]
        kept = dict[str, str]()
        for attempt in count(1):
            self.counts, self.reasons, self.actions, self.kinds = {}, {}, {}, {}
            self.plan = self.undecided.plan.copy()
            for each in staying:
                self._keep(each, kept.get(each.job.uid))
            moving = [each for each in jobs if each.job.uid not in self.counts]
            unplaced = self._place_again(moving)
            if not unplaced or self.undecided.inputs.may_pause:
                misfits = any(self._misfits(each.job.uid) for each in moving)
                for each in unplaced:
                    if not (misfits and self._goes_on(each)):
                        self._pause(each)
                return
            if attempt == MOST_ATTEMPTS:
                unplaced = [each for each in moving if self.plan_holds(each.job.uid)]
            kept |= {each.job.uid: KEEPS_ITS_NODES for each in unplaced}
            staying += unplaced

    def _stays(self, job: JobView) -> bool:
        grant, uid = self.wanted.get(job.job.uid), job.job.uid
        if grant is None or not self.plan_holds(uid) or grant.counts != job.job.counts:
            return False
        return grant.kind in {None, self.undecided.kind_of(uid)}

    def _misfits(self, uid: str) -> bool:
        """Return whether a job whose turn it is does not fit on the nodes."""
        return not self.trims and uid in self.wanted and not self.plan.is_placed(uid)

    def _goes_on(self, job: JobView) -> bool:
        """Return whether the job can stay on its nodes, as nobody fits there whose turn it is."""
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
        self.counts[uid], self.reasons[uid] = job.job.counts, f"{self._reason(uid)}; {GOES_ON}"
        return True

    def plan_holds(self, uid: str) -> bool:
        """Return whether the job holds nodes now."""
        return self.undecided.plan.is_placed(uid)

    def _keep(self, job: JobView, why: str | None) -> None:
        """The job stays; lost replicas are placed beside the others, where that is possible."""
        if self.plan.complete(job.job) is not None and job.lost_replicas and why is None:
            return  # placed again as a whole
        uid = job.job.uid
        grant = self.wanted.get(uid)
        self.counts[uid] = job.job.counts
        self.reasons[uid] = "; ".join(each for each in (self._reason(uid), why) if each)
        if grant is not None and grant.kind and why is None:
            self.kinds[uid] = grant.kind

    def _place_again(self, moving: Sequence[JobView]) -> list[JobView]:
        """Place these jobs on nodes that they all have left; returns those that ran and do not
        fit."""
        plan, wanted = self.plan, self.wanted
        for each in moving:
            plan.release(each.job.uid)
        capacity = schedulable_capacity(plan.nodes)
        sign = -1 if any(grant.kind is not None for grant in wanted.values()) else 1
        jobs = {
            each.job.uid: self._granted(each.job, wanted.get(each.job.uid, _NOTHING))
            for each in moving
        }
        demand = {uid: sign * job.demand().dominant(capacity)[1] for uid, job in jobs.items()}
        unplaced = list[JobView]()

        for each in sorted(moving, key=lambda job: (demand[job.job.uid], job.job.uid)):
            uid = each.job.uid
            counts = self._fit(each, jobs[uid]) if uid in wanted else None
            if counts is not None:
                self._decide(each, counts)
            elif self.plan_holds(uid):
                unplaced.append(each)
            else:
                self._leave_out(each)
        return unplaced

    def _leave_out(self, job: JobView) -> None:
        """It does not run, and does not fit."""
        uid = job.job.uid
        self.counts[uid], self.reasons[uid] = job.job.counts, self._why_not(uid)
        queues = uid in self.wanted or uid in self.queues
        if queues and self._is_paused(uid) and not self.plan.quotas.refusal(uid, job.minimum):
            self.counts[uid], self.actions[uid] = job.minimum, Action.RESUME
            self.reasons[uid] = f"{self.reasons[uid]}; {IN_THE_QUEUE}"

    def _fit(self, of: JobView, job: Job) -> Counts | None:
        """The counts at which the job was placed."""
        plan, least = self.plan, of.minimum

        def place(plan: CapacityPlan, counts: Counts) -> bool:
            return of.why_excluded(counts) is None and plan.assign(job, counts) is None

        if place(plan, job.counts):
            return job.counts
        fewer = list(_trims(job.counts, least)) if self.trims else []
        # What fits mostly still fits with a task less, so that bisection finds the first that does.
        first = bisect_left(fewer, True, key=lambda counts: place(plan.copy(), counts))
        return fewer[first] if first < len(fewer) and place(plan, fewer[first]) else None

    def _decide(self, job: JobView, counts: Counts) -> None:
        uid, grant = job.job.uid, self.wanted[job.job.uid]
        self.counts[uid] = counts
        trimmed = f"trimmed from {grant.counts}, which do not fit on the nodes"
        reasons = (self._reason(uid), trimmed if counts != grant.counts else "")
        self.reasons[uid] = "; ".join(each for each in reasons if each)
        if grant.kind:
            self.kinds[uid] = grant.kind
        if self._is_paused(uid):
            self.actions[uid] = Action.RESUME
        elif counts == job.job.counts and self.plan_holds(uid):
            self.actions[uid] = Action.CHANGE  # the same counts on other nodes

    def _pause(self, job: JobView) -> None:
        uid = job.job.uid
        self.counts[uid], self.actions[uid] = job.job.counts, Action.PAUSE
        self.reasons[uid] = self._why_not(uid)

    def _why_not(self, uid: str) -> str:
        reason, grant = self._reason(uid), self.wanted.get(uid)
        if grant is None:
            return reason
        missing = f"{grant.counts} do not fit on the nodes"
        return f"{reason}; {missing}" if reason else missing

    def _reason(self, uid: str) -> str:
        grant = self.wanted.get(uid)
        return grant.reason if grant is not None else self.answer.get(uid, _NO_ANSWER).reason

    def _is_paused(self, uid: str) -> bool:
        history = self.undecided.inputs.history.get(uid)
        return history is not None and history.paused

    def _granted(self, job: Job, grant: Grant) -> Job:
        """The job at these counts, its workers bound to the kind of nodes, if they are to one."""
        job, label = replace(job, counts=grant.counts), self.undecided.inputs.kind_label
        return job.bound_to(Binding(label, grant.kind) if grant.kind else None)


_NOTHING = Grant(NO_COUNTS)
_NO_ANSWER = Refusal("")


def _trims(counts: Counts, least: Counts) -> Iterator[Counts]:
    """Down to ``least``, each time one task less of the role that has more above its minimum."""
    least = Counts(min(least.ps, counts.ps), min(least.workers, counts.workers))
    while counts != least:
        if counts.ps - least.ps > counts.workers - least.workers:
            counts = Counts(counts.ps - 1, counts.workers)
        else:
            counts = Counts(counts.ps, counts.workers - 1)
        yield counts
