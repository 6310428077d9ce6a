"""Settle by weighing each change against its restart (``traits.weighs_restarts``).

1. Share: in each pool of nodes that the same jobs may use, subtract fixed jobs and the minimum of
   waiting jobs from the free capacity; the policy allocates the rest.
2. Fit the allocation on the nodes; jobs whose counts do not change keep their pods. What does not
   fit is trimmed task by task: the policy knows free capacity in sum, not what each node holds.
3. Settle: keep only changes that are worth their restarts. A job shrinks only when another job uses
   the capacity: a restart for idle capacity is a loss. For a waiting job others always shrink, for
   a growing one only where the growth saves more than all restarts and slower jobs cost, or where
   it lets the job meet its deadline. A job that has no forecast any more and more than its user
   gave it returns that to waiting jobs.
4. Jobs whose counts are fixed go to faster kinds of nodes.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from optimus.allocation.policy import ClusterAllocation, Refusal, grants
from optimus.allocation.problem import why_excluded
from optimus.interval.capacity_plan import CapacityPlan, QuotaRefusal
from optimus.interval.classify import (
    Action,
    Classified,
    Eligibility,
    IntervalConfig,
    classify,
    too_little_text,
)
from optimus.interval.node_kinds import OnFastestKind
from optimus.interval.settle.faster_kinds import moves_to_faster_kinds
from optimus.interval.settle.undecided import Settled, Undecided, charge_fixed
from optimus.interval.share import Share, in_queue_order, pools_of, share_pool
from optimus.interval.worth import FOR_EVER, Loan, loan_until_used
from optimus.jobs import Counts
from optimus.nodes import refusal
from optimus.resources import NONE, Resources

_WORTH_ANY_RESTART = 1e300
"""Seconds that meeting a deadline counts as. Finite: what donors without a limit to their cost keep
from jobs that grow, they keep from it too."""

_LEAST_WORTH = 1e-9
"""Of a move that is expected to pay, where its mean does not."""

_TRIMS_AT_ONCE = 8
"""A forecast is evaluated at all counts that so many trims may come to: 81 at once take about as
long as one."""


def settle(undecided: Undecided) -> Settled:
    """Decide all counts; jobs are placed on the plan as they are decided."""
    plan, config, at = undecided.plan, undecided.config, undecided.at
    jobs = [classify(view) for view in undecided.views]
    charge_fixed(jobs, plan)
    if config.fairness is not None:
        jobs = [each.with_objective(config.fairness) for each in jobs]
    # 1. Share
    shares = [share_pool(pool, plan, config, at) for pool in pools_of(jobs, plan.nodes)]
    answer, memory = undecided.ask((share.pool, share.problem) for share in shares)
    # 2. and 3. Fit and settle, waiting jobs first
    loan = _loan(undecided, shares, answer)
    settlement = Settlement.of(plan, config, answer, jobs, loan)
    refused = answer if undecided.policy.traits.refuses else {}
    for share in shares:
        _settle_waiting(share, settlement, refused, at)
    settlement.resize_running(jobs)
    # 4. Kinds of nodes
    kinds, actions = _bind_moved(undecided, settlement, jobs), dict[str, Action]()
    for move in moves_to_faster_kinds(undecided, jobs):
        uid = move.job.job.uid
        kinds[uid], actions[uid] = move.kind, Action.CHANGE
        settlement.reasons[uid] = move.reason
    counts, reasons = settlement.counts, settlement.reasons
    return Settled(jobs, counts, reasons, answer, memory, actions=actions, kinds=kinds, loan=loan)


def _bind_moved(
    undecided: Undecided, settlement: "Settlement", jobs: Iterable[Classified]
) -> dict[str, str]:
    """The kinds of nodes that jobs are moved to because they are faster there."""
    rule, kinds = undecided.plan.rule, dict[str, str]()
    if not isinstance(rule, OnFastestKind):
        return kinds
    for job in jobs:
        uid = job.job.uid
        is_moved = settlement.counts.get(uid, job.job.counts) != job.job.counts
        kind = undecided.kind_of(uid) if is_moved and rule.kinds.get(uid) else ""
        if kind:
            kinds[uid] = kind
            settlement.reasons[uid] += f"; its workers on nodes of the kind {kind}"
    return kinds


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


def _settle_waiting(
    share: Share, settlement: "Settlement", answer: ClusterAllocation, at: float
) -> None:
    """Place what waits, but for the jobs that the policy does not want to run now."""
    for job in share.placed:
        settlement.decide(job, job.counts, f"there is free capacity for its {job.counts}")
    for job, reason in share.rejected:
        settlement.decide(job, job.job.counts, reason)
    for job in share.admitted:
        settlement.place(job)
    # All that start have their minimum first, the largest first, and then grow, the smallest first:
    # nothing is restarted for it.
    allocated = settlement.allocated
    placed = {each.job.uid for each in share.by_size({}, sign=-1) if settlement.starts(each)}
    starting = share.by_size(allocated)
    for job in (each for each in starting if each.job.uid in placed):
        settlement.place(job)
    unplaced = [each for each in starting if each.job.uid not in placed]
    capacity = share.problem.capacity
    for job in in_queue_order(unplaced, capacity, settlement.config, at):
        said = answer.get(job.job.uid)
        if isinstance(said, Refusal):
            settlement.decide(job, job.job.counts, said.reason)
        else:
            settlement.place(job)


@dataclass(slots=True)
class Settlement:
    """The decisions so far: counts and reasons by job UID, tried on ``plan``."""

    plan: CapacityPlan
    config: IntervalConfig
    allocated: Mapping[str, Counts]
    answer: ClusterAllocation
    """The policy's, of which the reasons are read."""
    counts: dict[str, Counts]
    reclaim: "Reclaim"
    reasons: dict[str, str] = field(default_factory=dict)
    loan: Loan = FOR_EVER
    """How long what jobs get beyond their own counts stays with them."""

    @classmethod
    def of(
        cls,
        plan: CapacityPlan,
        config: IntervalConfig,
        answer: ClusterAllocation,
        jobs: Sequence[Classified],
        loan: Loan = FOR_EVER,
    ) -> "Settlement":
        """Nothing decided yet; donors are jobs that the policy makes smaller, or no faster, and
        those without a forecast that have more than their user gave them."""
        allocated = {uid: each.counts for uid, each in grants(answer).items()}
        decided = dict[str, Counts]()
        returning = [each for each in jobs if each.returns_to is not None]
        jobs = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
        for each in jobs:
            current = each.job.counts
            if each.candidate is not None:
                wanted = allocated.get(each.job.uid, current)
                each.candidate.forecast.prefetch(current, wanted)
        donors = [
            (each, _cost_of_shrinking(each, allocated[each.job.uid]))
            for each in jobs
            if _is_donor(each, allocated.get(each.job.uid, each.job.counts))
        ]
        for each in returning:
            if each.returns_to is not None and each.why_excluded(each.returns_to) is None:
                allocated[each.job.uid] = each.returns_to
                donors.append((each, math.inf))  # it gives to waiting jobs alone
        # Donors of the lowest priority come first, among equals those that lose least.
        donors.sort(
            key=lambda donor: (
                donor[0].job.priority,
                donor[0].capped,
                donor[1],
                donor[0].job.uid,
            )
        )
        reclaim = Reclaim(tuple(donors), allocated, decided, config.max_attempts)
        return cls(plan, config, allocated, answer, decided, reclaim, loan=loan)

    def decide(self, job: Classified, counts: Counts, reason: str) -> None:
        """Fix one job's counts; what its classification says comes before the reason."""
        uid = job.job.uid
        self.counts[uid] = counts
        if self.plan.is_placed(uid):
            self.reclaim.moved(job, counts)
        self.reasons[uid] = "; ".join(part for part in (job.reason, reason) if part)

    def starts(self, job: Classified) -> bool:
        """Place a job that starts at its minimum, where the policy allocates it something."""
        uid, least = job.job.uid, job.minimum
        if uid not in self.allocated or job.why_excluded(least) is not None:
            return False
        return self.plan.assign(job.job, least) is None

    def place(self, job: Classified) -> None:
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
            failed = job.failed_counts
            options = [each for each in wanted if why_excluded(failed, each) is None]
        refusal = self._place_first(job, options) if options else job.why_excluded(minimum)
        if refusal is not None:
            why = "" if allocated else self._policy_reason(job.job.uid)
            self.decide(job, job.job.counts, why or refusal)

    def _policy_reason(self, uid: str) -> str:
        answer = self.answer.get(uid)
        return answer.reason if answer is not None else ""

    def _replace_lost(self, job: Classified) -> None:
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

    def _place_first(self, job: Classified, options: Sequence[Counts]) -> str | None:
        """Place the first of these counts that fits; they are in descending order of demand. Where
        none does, others shrink for the last, and the job gets what they leave."""
        counts = _first_that_moves(self.plan, job, options)
        if counts is None:
            least = options[-1]
            reason = f"which waits for {least}"
            refusal = self._reclaim(job, lambda plan: plan.move(job.job, least), reason, _WAITS)
            if refusal is not None:
                return refusal
            counts = _first_that_moves(self.plan, job, options) or least
        self.decide(job, counts, _placed_reason(job, counts))
        return None

    def resize_running(self, jobs: Iterable[Classified]) -> None:
        """Running jobs that are not decided yet: forced ones first, then those whose own gain
        releases capacity, which others may want, then by what is saved."""

        def key(job: Classified) -> tuple[bool, bool, bool, float, str]:
            wanted = self.allocated.get(job.job.uid, job.job.counts)
            is_late, releases = job.rescues_deadline(wanted), self._releases(job, wanted)
            return not job.forced, not releases, not is_late, -job.worth(wanted), job.job.uid

        resizable = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
        for job in sorted(resizable, key=key):
            if job.job.uid not in self.counts:
                self.place(job) if job.forced else self._resize(job)

    def _releases(self, job: Classified, wanted: Counts) -> bool:
        """Return whether a change that is worth its restart by itself needs less of every
        resource."""
        of, current = job.job, job.job.counts
        if wanted == current or job.cooling or not of.demand(wanted).fits_in(of.demand(current)):
            return False
        return self._net_saving(job, wanted) > 0

    def _resize(self, job: Classified) -> None:
        """Carry out a running job's allocation, as far as it fits and is worth the restart."""
        uid, current = job.job.uid, job.job.counts
        wanted = self.allocated.get(uid, current)
        policy_reason = self._policy_reason(uid)
        if wanted == current or job.cooling:
            self.decide(job, current, "" if job.cooling else policy_reason)
        elif job.why_excluded(wanted) is not None:
            self._resize_trimmed(job, wanted, "are not tried: its pods were not placed")
        elif self._net_saving(job, wanted) <= 0:
            self.decide(job, current, self._why_not_worth_it(job, wanted))
        elif self._is_slow_there(job, wanted):
            self.decide(job, current, f"{wanted} would be on servers between which it is slow")
        elif self.plan.move(job.job, wanted) is None or self._reclaim_for_growth(job, wanted):
            self.decide(job, wanted, policy_reason)
        elif (own := job.own_of(wanted)) != current and self._reclaim_for_growth(job, own):
            self.decide(job, own, f"what is its own of {wanted}")
        else:
            self._resize_trimmed(job, wanted, "do not fit beside what the others keep")

    def _is_slow_there(self, job: Classified, wanted: Counts) -> bool:
        """Return whether a job without PSs would get servers on which these counts are not worth
        the restart: on fewer they would be."""
        if not job.job.all_reduce:
            return False
        savepoint, is_slow = self.plan.savepoint(job.job.uid), False
        if self.plan.move(job.job, wanted) is None:
            is_slow = self._saving_there(job, wanted) <= 0
            self.plan.undo(job.job.uid, savepoint)
        return is_slow

    def _saving_there(self, job: Classified, counts: Counts) -> float:
        """Return what counts save, at which it is placed, on the servers that it gets."""
        servers = {each.node for each in self.plan.held.get(job.job.uid, ())}
        return self._net_saving(job.on_servers(counts, len(servers)), counts)

    def _reclaim_for_growth(self, job: Classified, wanted: Counts) -> bool:
        """Shrink others for this job's growth where all of it together pays."""
        if job.is_within_own(wanted):
            reason, limits = f"which has less than its own and waits for {wanted}", _WAITS
        else:
            reason, limits = "which gains more by it", Limits(self._net_saving(job, wanted))
        return self._reclaim(job, lambda plan: plan.move(job.job, wanted), reason, limits) is None

    def _resize_trimmed(self, job: Classified, wanted: Counts, why_not: str) -> None:
        for counts in _trims(job, wanted, job.job.counts):
            if job.why_excluded(counts) is not None:
                continue
            savepoint = self.plan.savepoint(job.job.uid)
            if self.plan.move(job.job, counts) is not None:
                continue
            if self._saving_there(job, counts) > 0:
                self.decide(job, counts, f"trimmed from {wanted}, which {why_not}")
                return
            self.plan.undo(job.job.uid, savepoint)
            break
        reason = f"{wanted} {why_not}, and nothing less is worth a restart"
        self.decide(job, job.job.counts, reason)

    def _reclaim(
        self, job: Classified, place: "_Place", reason: str, limits: "Limits | None" = None
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

    def _net_saving(self, job: Classified, counts: Counts) -> float:
        """Return what these counts save beyond the restart, by the objective; ``-inf`` where they
        are not expected to save enough."""
        if job.rescues_deadline(counts):
            return _WORTH_ANY_RESTART
        saving = job.saving(counts)
        if saving == math.inf:
            return saving
        if job.gain(counts, self.loan) <= self.config.hysteresis_fraction:
            return -math.inf
        return max(job.worth(counts, job.price_seconds), _LEAST_WORTH)

    def _why_not_worth_it(self, job: Classified, wanted: Counts) -> str:
        if job.saving(wanted) <= 0:
            return f"no other job needs the capacity that {wanted} would release"
        gain = job.gain(wanted, self.loan)
        return too_little_text(job, wanted, gain, self.config.hysteresis_fraction)


def _first_that_moves(
    plan: CapacityPlan, job: Classified, options: Sequence[Counts]
) -> Counts | None:
    """The first of these counts that fits, at which the job is placed; ``None`` where none does."""
    first = bisect_left(options, True, key=lambda counts: plan.fits(job.job, counts))
    is_placed = first < len(options) and plan.move(job.job, options[first]) is None
    return options[first] if is_placed else None


def _is_donor(job: Classified, wanted: Counts) -> bool:
    now = job.job.counts
    if job.forced or wanted == now:
        return False
    # A job with fewer tasks releases capacity even where it is a little faster with them: by itself
    # that is not worth its restart.
    is_less = wanted.ps <= now.ps and wanted.workers <= now.workers
    if job.rescues_deadline(wanted):
        return False
    return (is_less or job.saving(wanted) <= 0) and job.why_excluded(wanted) is None


def _cost_of_shrinking(donor: Classified, wanted: Counts) -> float:
    """Seconds that shrinking costs the donor; 0 for a job that has met its goal, and the price of
    the rescale for one that meets its deadline with what it keeps."""
    if donor.capped:
        return math.inf
    if donor.candidate is not None and not donor.candidate.may_grow:
        return 0.0
    if donor.keeps_deadline(wanted):
        # In time all the same.
        return -donor.worth(donor.job.counts, donor.price_seconds)
    return -donor.worth(wanted, donor.price_seconds)


def _placed_reason(job: Classified, counts: Counts) -> str:
    """Return why a waiting job gets these counts."""
    if counts == job.job.counts:
        return f"there is free capacity for its {counts}"
    beside = "" if job.forced else f", not for its {job.job.counts}"
    return f"there is free capacity for {counts}{beside}"


def _trims(job: Classified, wanted: Counts, end: Counts) -> Iterator[Counts]:
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
        counts = min(nearer, key=lambda each: (job.seconds(each), each))
        if counts == end:
            return
        yield counts


def _prefetch_trims(job: Classified, counts: Counts, end: Counts) -> None:
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


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A capacity plan in which these donors have shrunk and the job is placed."""

    plan: CapacityPlan
    donors: tuple[tuple[Classified, Counts], ...]


class _DonorsInTurn:
    """Donors in their order; while a quota refuses, those of its namespace alone, which can help.

    Those passed over have their turn once the nodes refuse."""

    def __init__(self, donors: Sequence[tuple[Classified, float]]) -> None:
        self._donors = donors
        self._used = bytearray(len(donors))
        self._from = 0

    def next(self, refusal: str | None) -> tuple[Classified, float] | None:
        """The next donor that may help against this refusal."""
        while self._from < len(self._donors) and self._used[self._from]:
            self._from += 1
        namespace = refusal.namespace if isinstance(refusal, QuotaRefusal) else None
        for number in range(self._from, len(self._donors)):
            donor = self._donors[number]
            is_near = namespace is None or donor[0].job.key.namespace == namespace
            if is_near and not self._used[number]:
                self._used[number] = 1
                return donor
        return None


_Place = Callable[[CapacityPlan], str | None]
"""Places a job on a capacity plan, or returns why it does not fit and changes nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that others may lose for a job, by the objective: together less than ``max_cost``.

    ``waits``: the job waits for no more than its own counts, for which loans are returned within
    cooldowns and profiling runs, too."""

    max_cost: float = math.inf
    waits: bool = False


_WAITS: Final = Limits(waits=True)


@dataclass(slots=True)
class Reclaim:
    """Reclaims capacity for a job by shrinking others; a bounded greedy search.

    ``donors`` shrink in this order, each at its cost, until the job fits; ``decided`` jobs do not.
    1. Test first whether the job fits with all donors shrunk, on one capacity plan that is kept for
       the whole interval: most jobs that cannot fit are refused there after one attempt.
    2. Then shrink donor by donor on one copy of the plan.
    3. Attempts are bounded: on a full cluster with thousands of waiting jobs the search would take
       minutes, and delay all other decisions. The remaining jobs wait for the next interval.
    """

    donors: tuple[tuple[Classified, float], ...]
    allocated: Mapping[str, Counts]
    decided: Mapping[str, Counts]
    attempts_left: int
    all_shrunk: CapacityPlan | None = None
    """The plan in which every donor has shrunk; ``None`` where it must be computed again."""
    shrunk: set[str] = field(default_factory=set)
    """UIDs of the donors that have shrunk in it."""

    def find(self, plan: CapacityPlan, place: _Place, limits: Limits) -> Reclaimed | str:
        """Shrink donors within these limits until ``place`` succeeds; or why it does not."""
        if self.attempts_left <= 0:
            return "too many attempts to shrink other jobs; tried again in the next interval"
        if self.all_shrunk is None:
            self.all_shrunk = plan.copy()
            self.shrunk = {
                donor.job.uid for donor, _ in self.donors if self._shrink(self.all_shrunk, donor)
            }
        self.attempts_left -= 1
        refusal = place(self.all_shrunk.copy())
        if refusal is not None:
            return refusal
        trial, donors = plan.copy(), list[Classified]()
        # Without a quota it is the nodes that refuse.
        if plan.quotas.quotas:
            refusal = place(trial)
            if refusal is None:
                return Reclaimed(trial, ())
        turn, max_cost = _DonorsInTurn(self.donors), limits.max_cost
        while (found := turn.next(refusal)) is not None and self.attempts_left > 0:
            donor, cost = found[0], _cost(*found, limits)
            if cost is None or max_cost - cost <= 0 or not self._shrink(trial, donor):
                continue
            max_cost -= cost
            donors.append(donor)
            self.attempts_left -= 1
            refusal = place(trial)
            if refusal is None:
                shrunk = ((each, self.allocated[each.job.uid]) for each in donors)
                return Reclaimed(trial, tuple(shrunk))
        return refusal or "no other job can shrink"

    def moved(self, job: Classified, counts: Counts) -> None:
        """Repeat the decision on a placed job in ``all_shrunk``."""
        uid, known = job.job.uid, self.all_shrunk
        stays = counts == job.job.counts and uid not in self.shrunk
        if known is None or (stays and known.is_placed(uid)):
            return
        if known.move(job.job, counts) is not None:
            self.all_shrunk = None

    def _shrink(self, plan: CapacityPlan, donor: Classified) -> bool:
        uid = donor.job.uid
        if uid in self.decided:
            return False
        self.attempts_left -= 1
        return plan.move(donor.job, self.allocated[uid]) is None


def _cost(donor: Classified, cost: float, limits: Limits) -> float | None:
    """Return what a donor's shrinking counts as; ``None`` where it does not shrink for this one."""
    if limits.waits and donor.lends:
        return 0.0
    return None if donor.cooling else cost
