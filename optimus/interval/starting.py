"""Starting jobs: places waiting jobs with a forecast at the counts that the policy chose.

They have no pods yet, so that nothing is restarted for their counts.
1. Every job is placed whole, smaller ones first (Optimus, section 4.2). One that does not fit is
   placed at its minimum and grows from there; one of which not even that fits gets the place of
   another starting job, which is trimmed or moved.
2. Whole jobs leave pieces that hold no whole job. The policy shares out what is left, every job
   keeping what it has; further tasks are placed one by one, large ones first, beside their job's.
Step 2 is repeated while it finds a place for anything.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from optimus.allocation import Allocation, AllocationPolicy, AllocationProblem, Candidate
from optimus.interval.capacity_plan import Assigned, CapacityPlan
from optimus.interval.share import Share
from optimus.jobs import Counts, ReplicaSpec
from optimus.placement.capacity import Capacity
from optimus.placement.incremental import IncrementalPlacement, TightestFit
from optimus.resources import Resources, total

_MAX_VICTIMS = 32
"""So many jobs are tried to make way for one that fits nowhere: the first few do, if any does."""


@dataclass(slots=True)
class StartingJobs:
    """The starting jobs of one pool: the counts of those that are placed in ``plan``, by UID.

    ``trimmed_from`` are the allocated counts of jobs that did not fit whole, ``refusals`` say why a
    job has no place."""

    share: Share
    plan: CapacityPlan
    max_attempts: int
    counts: dict[str, Counts] = field(default_factory=dict)
    trimmed_from: dict[str, Counts] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    _jobs: dict[str, Candidate] = field(init=False)
    _tightest: TightestFit | None = None

    def __post_init__(self) -> None:
        """Jobs that found no place a while ago are left to the search that knows where."""
        self._jobs = {
            each.job.uid: each.candidate
            for each in sorted(self.share.starting, key=lambda each: each.job.uid)
            if each.candidate is not None and not each.placement_failures
        }

    def place_whole(self, allocation: Allocation) -> None:
        """Step 1."""
        wanted = {uid: allocation.counts[uid] for uid in self._jobs if uid in allocation.counts}
        capacity = self.plan.capacity
        shares = {uid: capacity.share(self._jobs[uid].job, wanted[uid]) for uid in wanted}
        for uid in sorted(wanted, key=lambda uid: (shares[uid], uid)):
            self._place(uid, wanted[uid])
        unplaced = [uid for uid in wanted if uid not in self.counts]
        if unplaced:
            victims = _Victims(self._jobs, self.counts, self.plan.capacity)
            for uid in unplaced:
                self._make_way(uid, victims)

    def join(self, uid: str) -> None:
        """A job that found its place otherwise may grow with the others."""
        assigned = self.plan.assigned.get(uid)
        if uid in self._jobs and assigned is not None:
            self.counts[uid] = assigned.assignment.counts

    def share_remainder(self, policy: AllocationPolicy) -> bool:
        """Step 2, once; whether anything found a place."""
        self._tightest = None  # it knows the free room as it was before others were settled
        allocated = policy.allocate(self._remainder()).counts
        found = False
        for uid in self._jobs:
            if uid in allocated and uid not in self.counts:
                self._place(uid, allocated[uid])
                found |= uid in self.counts
        growing, grown = dict[str, IncrementalPlacement](), dict[str, Counts]()
        for uid, spec, column, count in self._further_tasks(allocated):
            if uid not in growing:
                growing[uid], grown[uid] = self._incremental(uid), self.counts[uid]
            added = growing[uid].add(spec, column, count)
            ps, workers = grown[uid]
            grown[uid] = Counts(ps + added, workers) if column == 0 else Counts(ps, workers + added)
        for uid, counts in grown.items():
            if counts != self.counts[uid]:
                found |= self._accept(uid, counts, growing[uid], counts == allocated[uid])
        return found

    def _remainder(self) -> AllocationProblem:
        """What these jobs may share now: they keep what they have."""
        jobs = tuple(
            Candidate(each.job, each.forecast, running=True, holds=self.counts[uid])
            if uid in self.counts
            else each
            for uid, each in self._jobs.items()
        )
        # Thousands of jobs ask for few different amounts: multiplied once for each of those.
        held: Counter[Resources] = Counter()
        for uid, counts in self.counts.items():
            job = self._jobs[uid].job
            held[job.ps.resources] += counts.ps
            held[job.worker.resources] += counts.workers
            for role in job.fixed:
                held[role.spec.resources] += role.count
        free, servers = self.share.pool.room(self.plan)
        room = free + total(amount * count for amount, count in held.items())
        return AllocationProblem(room, self.share.problem.capacity, jobs, servers)

    def _place(self, uid: str, wanted: Counts) -> None:
        if self.plan.assign(self._jobs[uid].job, wanted, evenly=True) is None:
            self.counts[uid] = wanted
        else:
            self._place_task_by_task(uid, wanted)

    def _place_task_by_task(self, uid: str, wanted: Counts) -> bool:
        """Place a job at its minimum and grow it towards what was wanted as far as it fits."""
        job = self._jobs[uid].job
        minimum = job.bounds.minimum
        refusal = self.plan.assign(job, minimum)
        if refusal is not None:
            self.refusals[uid] = refusal
            return False
        self.counts[uid] = minimum
        growing = self._incremental(uid)
        ps = minimum.ps + growing.add(job.ps, 0, wanted.ps - minimum.ps)
        workers = minimum.workers + growing.add(job.worker, 1, wanted.workers - minimum.workers)
        self._accept(uid, Counts(ps, workers), growing, (ps, workers) == wanted)
        if self.counts[uid] != wanted:
            self.trimmed_from[uid] = wanted
        return True

    def _incremental(self, uid: str) -> IncrementalPlacement:
        self._tightest = self._tightest or TightestFit(self.plan.capacity)
        assignment = self.plan.assigned[uid].assignment
        return IncrementalPlacement(assignment, self.plan.capacity, self._tightest)

    def _accept(
        self, uid: str, counts: Counts, growing: IncrementalPlacement, is_whole: bool
    ) -> bool:
        """Keep what was added, unless only a part found a place that makes the job no faster."""
        job, forecast, before = (
            self._jobs[uid].job,
            self._jobs[uid].forecast,
            self.plan.assigned[uid],
        )
        self.plan.assigned[uid] = Assigned(job, growing.assignment)
        if is_whole or forecast.at(counts) < forecast.at(self.counts[uid]):
            self.counts[uid] = counts
            return True
        self.plan.release(uid)
        # Where it was: placed anew it might find no place beside what others have added since.
        before.assignment.take_from(self.plan.capacity, job)
        self.plan.assigned[uid] = before
        return False

    def _further_tasks(
        self, allocated: Mapping[str, Counts]
    ) -> Iterator[tuple[str, ReplicaSpec, int, int]]:
        """The further tasks of each job and role, large ones first: small ones fill the gaps."""
        tasks: list[tuple[float, str, int, ReplicaSpec, int]] = []
        whole, sizes = self.share.problem.capacity, dict[int, float]()
        for uid, counts in self.counts.items():
            if allocated.get(uid, counts) == counts:
                continue
            job = self._jobs[uid].job
            for column, spec in enumerate((job.ps, job.worker)):
                count = allocated[uid][column] - counts[column]
                if count > 0:
                    size = sizes.get(id(spec.resources))
                    if size is None:
                        size = sizes[id(spec.resources)] = spec.resources.dominant(whole)[1]
                    tasks.append((-size, uid, column, spec, count))
        for _, uid, column, spec, count in sorted(tasks, key=lambda task: task[:3]):
            yield uid, spec, column, count

    def _make_way(self, uid: str, victims: "_Victims") -> None:
        """Trim or move another starting job, so that this one gets its minimum."""
        job = self._jobs[uid].job
        minimum = job.bounds.minimum
        for victim in victims.of(job.demand(minimum)):
            if self.max_attempts <= 0:
                return
            self.max_attempts -= 1
            room, before = self.plan.room_of(victim), self.counts.pop(victim)
            self.plan.release(victim)
            if self.plan.assign(job, minimum) is None:
                if self._place_task_by_task(victim, before):
                    self.counts[uid] = minimum
                    self.refusals.pop(uid, None)
                    victims.update(victim, self.counts[victim])
                    victims.update(uid, minimum)
                    return
                self.plan.assigned.pop(uid)
                self.refusals.pop(victim)
            self.counts[victim] = before
            self.plan.undo(victim, room)


class _Victims:
    """Placed jobs by what they could spare; kept as matrices, since every job is a victim."""

    def __init__(
        self, jobs: Mapping[str, Candidate], counts: Mapping[str, Counts], capacity: Capacity
    ) -> None:
        self._jobs, self._capacity, self._uids = jobs, capacity, list(jobs)
        self._row = {uid: row for row, uid in enumerate(self._uids)}
        self._spare = np.zeros((len(jobs), len(capacity.resources)), dtype=np.int64)
        self._is_placed = np.zeros(len(jobs), dtype=np.bool_)
        for uid, each in counts.items():
            self.update(uid, each)

    def update(self, uid: str, counts: Counts) -> None:
        """A job is placed at these counts now."""
        job, row = self._jobs[uid].job, self._row[uid]
        minimum, vector = job.bounds.minimum, self._capacity.vector
        ps = np.array(vector(job.ps.resources) or 0, dtype=np.int64)
        worker = np.array(vector(job.worker.resources) or 0, dtype=np.int64)
        more = counts.ps - minimum.ps, counts.workers - minimum.workers
        self._spare[row], self._is_placed[row] = ps * more[0] + worker * more[1], True

    def of(self, needed: Resources) -> list[str]:
        """The first few to try: those first that could spare all that is needed."""
        vector = self._capacity.vector(needed)
        if vector is None:
            return []
        whole = self._capacity.vector(self._capacity.allocatable) or ()
        spares_all = (self._spare >= np.array(vector)).all(axis=1)
        shares = (self._spare / np.maximum(np.array(whole), 1)).max(axis=1, initial=0.0)
        order = np.lexsort((-shares, ~spares_all))
        rows = order[self._is_placed[order]][:_MAX_VICTIMS]
        return [self._uids[row] for row in rows.tolist()]
