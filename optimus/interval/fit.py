"""A whole cluster's allocation, fitted on its nodes: the first interval of jobs that all wait.

1. The policy shares out the room but for a part that is kept back; every job is placed whole, those
  that ask for
   least first (Optimus, section 4.2). One that does not fit is trimmed; one that does not fit even
   at its least gets the place of another, which is trimmed.
2. What is left lies in pieces that hold no whole job. The policy shares it out anew, everybody
  keeping what he has; the
   further tasks are placed one by one, large ones first, beside those that their job has already.
Step 2 is repeated while it finds a place for anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optimus.allocation import AllocationPolicy, AllocationProblem, Candidate
from optimus.interval.capacity_plan import Assigned, CapacityPlan
from optimus.jobs import Counts, ReplicaSpec
from optimus.placement.incremental import IncrementalPlacement, TightestFit
from optimus.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRules:
    """How an allocation is fitted."""

    kept_back_fraction: float = 0.10
    """The part of the room that is not given to whole jobs. Unit: none. Default: even spreads on
    the fewest servers leave 5 to 8 % of equal nodes in pieces too small for a server's share; this
    part is handed out afterwards."""

    rounds: int = 4
    """How often at most what is left is shared out. Default: later rounds place next to nothing."""

    victims: int = 32
    """How many jobs are looked at to make way for one that fits nowhere. Default: the first few do,
    if any does."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Counts that have their place in ``layout``; ``reasons`` why a job has fewer than it was
    allotted, or none.

    ``why`` is what the policy said of its first allocation, before it was fitted.
    """

    counts: Mapping[str, Counts]
    reasons: Mapping[str, str]
    why: Mapping[str, str]
    layout: CapacityPlan

    def reason(self, uid: str) -> str:
        """Why the job has these counts, or no place."""
        return self.reasons.get(uid) or self.why.get(uid, "")


def fit(
    candidates: Sequence[Candidate],
    policy: AllocationPolicy,
    layout: CapacityPlan,
    rules: FitRules,
    rest: AllocationPolicy | None = None,
) -> Fitted:
    """Allocate and place all candidates; none holds room in ``layout`` yet, which is charged with
    them.

    ``rest`` hands out what is left; the policy itself where it is not given.
    """
    stage = _Stage(
        sorted(candidates, key=lambda each: each.job.uid), policy, rest or policy, layout, rules
    )
    stage.place_whole()
    for _ in range(rules.rounds):
        if not stage.hand_out_the_rest():
            break
    return Fitted(stage.counts, stage.reasons, stage.why, layout)


@dataclass(slots=True)
class _Stage:
    candidates: Sequence[Candidate]
    policy: AllocationPolicy
    rest: AllocationPolicy
    layout: CapacityPlan
    rules: FitRules
    counts: dict[str, Counts] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    """What the policy said of its first allocation."""
    room: Resources = field(init=False)
    tightest: TightestFit = field(init=False)

    def __post_init__(self) -> None:
        self.tightest = TightestFit(self.layout.stock)
        self.room = self.layout.stock.total_free(
            {node.name for node in self.layout.nodes if node.cordoned}
        )

    def _problem(self, kept_back: float) -> AllocationProblem:
        held = tuple(
            Candidate(
                each.job,
                each.forecast,
                each.may_grow,
                running=True,
                holds=self.counts[each.job.uid],
            )
            if each.job.uid in self.counts
            else each
            for each in self.candidates
        )
        stock = self.layout.stock
        reserve = Resources(
            {name: int(max(amount, 0) * kept_back) for name, amount in self.room.items()}
        )
        return AllocationProblem(self.room, stock.capacity, held, stock.servers(), reserve)

    def place_whole(self) -> None:
        """Step 1."""
        problem = self._problem(self.rules.kept_back_fraction)
        allocation = self.policy.allocate(problem)
        self.why = allocation.reasons
        allotted = [each for each in self.candidates if each.job.uid in allocation.counts]
        shares = {
            each.job.uid: self.layout.stock.share(each.job, allocation.counts[each.job.uid])
            for each in allotted
        }
        for each in sorted(allotted, key=lambda each: (shares[each.job.uid], each.job.uid)):
            self._place(each, allocation.counts[each.job.uid])
        for each in allotted:
            if each.job.uid not in self.counts:
                self._make_way(each)

    def _place(self, candidate: Candidate, wanted: Counts) -> None:
        job, uid = candidate.job, candidate.job.uid
        if self.layout.seat(job, wanted, evenly=True) is None:
            self.counts[uid] = wanted
            return
        refusal = self._seat_task_by_task(candidate, wanted)
        if refusal is not None:
            self.reasons[uid] = refusal

    def _seat_task_by_task(self, candidate: Candidate, wanted: Counts) -> str | None:
        """Place a job at its least, and let it grow from there towards what was wanted as far as
        there is room."""
        job, uid = candidate.job, candidate.job.uid
        least = job.bounds.minimum
        refusal = self.layout.seat(job, least)
        if refusal is not None:
            return refusal
        self.counts[uid] = least
        growing = IncrementalPlacement(
            self.layout.seated[uid].seats, self.layout.stock, self.tightest
        )
        more = _more(least, wanted)
        ps = least.ps + growing.add(job.ps, 0, more.ps)
        workers = least.workers + growing.add(job.worker, 1, more.workers)
        self._accept(candidate, Counts(ps, workers), growing, (ps, workers) == wanted)
        if self.counts[uid] != wanted:
            self.reasons[uid] = f"trimmed from {wanted}, which do not fit beside the others"
        return None

    def _make_way(self, candidate: Candidate) -> None:
        """Trim or move another job, so that this one gets its least."""
        for victim in self._victims(candidate):
            mark, uid, job = self.layout.stock.mark(), victim.job.uid, candidate.job
            before, seated = self.counts[uid], self.layout.seated[uid]
            self.layout.release(uid)
            del self.counts[uid]
            if self.layout.seat(job, job.bounds.minimum) is None:
                if self._seat_task_by_task(victim, before) is None:
                    self.counts[job.uid] = job.bounds.minimum
                    return
                self.layout.seated.pop(job.uid)
            self.counts[uid] = before
            self.layout.stock.back_to(mark)
            self.layout.seated[uid] = seated

    def _victims(self, candidate: Candidate) -> list[Candidate]:
        """Jobs that may trim or move, those first that could spare all that the candidate needs, in
        all resources."""
        needed = candidate.job.demand(candidate.job.bounds.minimum)
        capacity = self.layout.stock.capacity
        found: list[tuple[bool, float, str, Candidate]] = []
        for each in self.candidates:
            counts, least = self.counts.get(each.job.uid), each.job.bounds.minimum
            if counts is not None:
                spare = each.job.demand(counts) - each.job.demand(least)
                found.append(
                    (not needed.fits_in(spare), -spare.dominant(capacity)[1], each.job.uid, each)
                )
        return [each for *_, each in sorted(found, key=lambda one: one[:3])[: self.rules.victims]]

    def hand_out_the_rest(self) -> bool:
        """Step 2; whether anything found a place."""
        allocation = self.rest.allocate(self._problem(0.0))
        stock = self.layout.stock
        growing, found = dict[str, IncrementalPlacement](), False
        known = {each.job.uid: each for each in self.candidates}
        for each in self.candidates:
            uid = each.job.uid
            if uid in allocation.counts and uid not in self.counts:
                self._place(each, allocation.counts[uid])
                found |= uid in self.counts
        grown = dict(self.counts)
        for uid, spec, column, count in self._further(allocation.counts):
            if uid not in growing:
                growing[uid] = IncrementalPlacement(
                    self.layout.seated[uid].seats, stock, self.tightest
                )
            added = growing[uid].add(spec, column, count)
            ps, workers = grown[uid]
            grown[uid] = Counts(ps + added, workers) if column == 0 else Counts(ps, workers + added)
        for uid, each_growing in growing.items():
            if grown[uid] != self.counts[uid]:
                found |= self._accept(
                    known[uid], grown[uid], each_growing, grown[uid] == allocation.counts[uid]
                )
        return found

    def _further(
        self, allotted: Mapping[str, Counts]
    ) -> Iterator[tuple[str, ReplicaSpec, int, int]]:
        """The further tasks of each job and role, those that ask for most first."""
        tasks: list[tuple[float, str, ReplicaSpec, int, int]] = []
        capacity = self.layout.stock.capacity
        for each in self.candidates:
            uid = each.job.uid
            more = _more(self.counts.get(uid), allotted.get(uid))
            for column, (spec, count) in enumerate(
                zip((each.job.ps, each.job.worker), more, strict=True)
            ):
                if count > 0:
                    tasks.append((-spec.resources.dominant(capacity)[1], uid, spec, column, count))
        for _, uid, spec, column, count in sorted(
            tasks, key=lambda task: (task[0], task[1], task[3])
        ):
            yield uid, spec, column, count

    def _accept(
        self, candidate: Candidate, counts: Counts, growing: IncrementalPlacement, whole: bool
    ) -> bool:
        """Keep what was added, unless only a part found a place that makes the job no faster."""
        uid, before = candidate.job.uid, self.layout.seated[candidate.job.uid]
        self.layout.seated[uid] = Assigned(candidate.job, growing.seats)
        if whole or candidate.forecast.at(counts) < candidate.forecast.at(self.counts[uid]):
            self.counts[uid] = counts
            return True
        self.layout.release(uid)
        # Where it was: placed anew it might find no place beside what others have added since.
        self.layout.put_back(before)
        return False


def _more(now: Counts | None, allotted: Counts | None) -> Counts:
    if now is None or allotted is None:
        return Counts(0, 0)
    return Counts(allotted.ps - now.ps, allotted.workers - now.workers)
