"""Share: divides the nodes into pools, states the policy's problem in each, places starting jobs.

Taints, selectors and cordons keep replicas from nodes, so free capacity is not the same for all
jobs. 1. Jobs that compete for capacity are grouped by the constraints of their roles. 2. A node
belongs to the pool of the groups of which it admits a replica; groups that share a node are one
pool. 3. Within a pool, fixed jobs and the minimum of waiting jobs are subtracted before any job
grows.

Starting jobs wait with a forecast. They have no pods yet: nothing is restarted for their counts.
1. Every job is placed whole, smaller ones first (Optimus, section 4.2). One that does not fit is
   placed at its minimum and grows from there; one of which not even that fits gets the place of
   another starting job, which is trimmed or moved.
2. Whole jobs leave fragments that hold no whole job. The policy allocates them, every job keeping
   what it has; further tasks are placed one by one, large ones first, near the others of their job.
Step 2 is repeated while it places any task.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from optimus.allocation import NO_MEMORY, AllocationProblem, Candidate, ClusterProblem, Policy
from optimus.allocation.fairness import Fairness
from optimus.allocation.policy import PoolProblem, grants
from optimus.allocation.problem import NamespaceShare
from optimus.interval.capacity_plan import Assigned, CapacityPlan
from optimus.interval.classify import Classified, Eligibility, IntervalConfig
from optimus.jobs import Counts, Job, NodeConstraints, ReplicaSpec
from optimus.nodes import Node, refusal
from optimus.placement.capacity import Capacity, Vector
from optimus.placement.incremental import IncrementalPlacement, TightestFit
from optimus.placement.queue.order import OrderKey, WaitingGang, order_key
from optimus.resources import Resources, total


@dataclass(slots=True)
class Pool:
    """Nodes and the jobs that compete for them; no other job that competes may go there."""

    nodes: list[Node] = field(default_factory=list)
    jobs: list[Classified] = field(default_factory=list)

    @property
    def capacity(self) -> Resources:
        """What the nodes hold in all."""
        amounts = [node.allocatable for node in self.nodes]
        unique, alike = {id(amount): amount for amount in amounts}, Counter(map(id, amounts))
        return total(unique[key] * count for key, count in alike.items())

    def available(
        self, plan: CapacityPlan, holders: Iterable[str] = ()
    ) -> tuple[Resources, Mapping[Resources, int]]:
        """Return what is free or held by these jobs (UIDs), and the number of nodes by their part.

        What a node lacks where others have overcommitted it is not taken from the other nodes."""
        capacity = plan.capacity
        every = len(self.nodes) == len(capacity.nodes)
        rows = None if every else [capacity.row_of[node.name] for node in self.nodes]
        found = capacity.count_free(rows)
        for row, free in self._freed(plan, holders).items():
            found[capacity.free[row]] -= 1
            found[free] += 1
        servers = Counter[Resources]()
        for free, count in found.items():
            servers[capacity.resources_of(tuple([max(each, 0) for each in free]))] += count
        servers = +servers
        return total(each * count for each, count in servers.items()), servers

    @staticmethod
    def _freed(plan: CapacityPlan, holders: Iterable[str]) -> Mapping[int, Vector]:
        """By row, what is free where these jobs hold something, once they hold nothing."""
        capacity, held, freed = plan.capacity, plan.held, dict[int, Vector]()
        for each in (each for uid in holders for each in held.get(uid, ())):
            row, amount = capacity.row_of.get(each.node), capacity.vector(each.resources)
            if row is not None and amount is not None:
                before = freed.get(row, capacity.free[row])
                freed[row] = tuple([a + b for a, b in zip(before, amount, strict=True)])
        return freed


@dataclass(frozen=True, slots=True)
class Share:
    """The policy's problem in one pool, and its waiting jobs in the order of the queue.

    ``placed`` have a place at their own counts already; ``admitted`` fit, at their minimum, beside
    the minimum of running jobs; ``rejected`` do not, for the reason given. ``starting`` are waiting
    jobs with a forecast, whose counts the policy chooses. ``to_measure`` are running jobs for which
    capacity to be measured in is reclaimed.
    """

    pool: Pool
    problem: AllocationProblem
    placed: Sequence[Classified]
    admitted: Sequence[Classified]
    rejected: Sequence[tuple[Classified, str]]
    starting: Sequence[Classified]
    to_measure: Sequence[Classified]


def share_pool(
    pool: Pool, jobs: Sequence[Classified], plan: CapacityPlan, config: IntervalConfig, at: float
) -> Share:
    """Share out a pool's capacity; waiting jobs that fit as they are take theirs in ``plan``.

    ``jobs`` are all, of every pool or of none."""
    capacity = pool.capacity
    pool.jobs = [_startable(each, capacity) for each in pool.jobs]
    waiting = [each for each in pool.jobs if each.eligibility is Eligibility.WAITING]
    starting = [each for each in waiting if each.candidate is not None]
    queue = in_queue_order(
        [each for each in waiting if each.candidate is None], capacity, config, at
    )
    placed = [each for each in queue if plan.move(each.job, each.counts) is None]
    candidates = tuple(each.candidate for each in pool.jobs if each.candidate is not None)
    running = [each for each in candidates if each.running]
    holders = [each.job.uid for each in running]
    available, servers = pool.available(plan, holders)
    spare = available - total(each.job.demand(each.job.bounds.minimum) for each in running)
    returnable = total(
        plan.usage(each.job.uid) - each.job.demand(each.returns_to)
        for each in pool.jobs
        if each.returns_to is not None
    )
    quotas = plan.quotas.copy()
    for candidate in candidates:
        quotas.release(candidate.job.uid)
        if candidate.running:
            quotas.charge(candidate.job.uid, candidate.job.bounds.minimum)
    forced = [each for each in pool.jobs if each.forced and each.eligibility is Eligibility.FIXED]
    asked = [*forced, *(each for each in queue if not plan.is_placed(each.job.uid))]
    wanted = [(each, each.minimum) for each in asked]
    wanted += [(each, each.measure_at) for each in pool.jobs if each.measure_at is not None]
    admitted, to_measure = list[Classified](), list[Classified]()
    rejected = list[tuple[Classified, str]]()
    for number, (each, counts) in enumerate(wanted):
        demand = each.job.demand(counts) - plan.usage(each.job.uid)
        beyond = quotas.refusal(each.job.uid, counts)
        is_asked = number < len(asked)
        # Only for a job that waits others return what they have beyond their users' counts.
        returned = demand.beyond(spare) if is_asked else Resources()
        if beyond is None and returned.fits_in(returnable) and (demand - returned).fits_in(spare):
            returnable, demand = returnable - returned, demand - returned
            available, spare = available - demand, spare - demand
            quotas.charge(each.job.uid, counts)
            (admitted if is_asked else to_measure).append(each)
        elif is_asked:
            rejected.append((each, beyond or _why_rejected(each, demand, spare)))
    # Whole jobs leave fragments that no whole job fits. Part of the capacity is held back from them
    # and then allocated task by task. Not where jobs run: they would restart to use fragments.
    part = 0.0 if running else config.reserve_fraction
    reserve = Resources({name: int(max(each, 0) * part) for name, each in available.items()})
    for candidate in candidates:
        quotas.release(candidate.job.uid)
    shares = namespace_shares(pool, jobs, plan, config.fairness)
    problem = AllocationProblem(
        available, capacity, candidates, servers, reserve, quotas.remaining(), shares
    )
    return Share(pool, problem, placed, admitted, rejected, starting, to_measure)


def _startable(job: Classified, capacity: Resources) -> Classified:
    """The job; one that waits for its own counts starts with fewer where no nodes could ever hold
    these."""
    waits = job.eligibility is Eligibility.WAITING and job.own is not None
    if not waits or job.job.demand(job.minimum).fits_in(capacity):
        return job
    bounds, candidate = job.job.bounds, job.candidate
    if candidate is not None:
        wide = replace(candidate.job.bounds, min_ps=bounds.min_ps, min_workers=bounds.min_workers)
        candidate = replace(candidate, job=replace(candidate.job, bounds=wide))
    return replace(job, minimum=bounds.minimum, candidate=candidate)


def namespace_shares(
    pool: Pool,
    jobs: Iterable[Classified],
    plan: CapacityPlan,
    fairness: Fairness | None,
    *,
    with_waiting: bool = False,
) -> tuple[NamespaceShare, ...]:
    """The namespaces with jobs that may grow here, or with jobs that wait, too; none where there
    are not several."""
    namespaces = sorted(
        {
            each.job.key.namespace
            for each in pool.jobs
            if (each.candidate is not None and each.candidate.may_grow)
            or (with_waiting and each.eligibility is Eligibility.WAITING)
        }
    )
    if len(namespaces) < 2:
        return ()
    weigh, names = fairness or Fairness(), {node.name for node in pool.nodes}
    held: dict[str, list[Resources]] = {name: [] for name in namespaces}
    for each in jobs:
        namespace = each.job.key.namespace
        if each.candidate is None and namespace in held:
            held[namespace] += [
                one.resources for one in plan.held.get(each.job.uid, ()) if one.node in names
            ]
    return tuple(
        NamespaceShare(name, weigh.of_namespace(name), total(amounts))
        for name, amounts in held.items()
    )


def in_queue_order(
    jobs: Iterable[Classified], capacity: Resources, config: IntervalConfig, at: float
) -> list[Classified]:
    """Waiting jobs in the order in which the extender would bind their pods."""
    limit = config.waiting_age_limit_seconds

    def key(each: Classified) -> OrderKey:
        job = each.job
        demand, priority = job.demand(each.minimum), job.priority
        gang = WaitingGang(job.uid, demand, job.created_at, priority=priority)
        return order_key(gang, capacity, at, limit)

    return sorted(jobs, key=key)


def _why_rejected(each: Classified, demand: Resources, spare: Resources) -> str:
    even_so = "do not fit even with every job that may be resized now at its minimum"
    return f"{each.minimum} {even_so}: too little {', '.join(demand.lacking_in(spare))}"


_Constraints = frozenset[NodeConstraints]


def pools_of(jobs: Iterable[Classified], nodes: Sequence[Node]) -> Iterator[Pool]:
    """The pools of the jobs whose counts are to be decided, in the order of their first jobs."""
    grouped: dict[_Constraints, list[Classified]] = {}
    known: dict[tuple[int, ...], _Constraints] = {}
    for each in jobs:
        if _competes(each):
            # Most jobs share the objects of their constraints, which take long to hash.
            specs = _specs(each.job)
            key = tuple([id(spec.constraints) for spec in specs])
            if key not in known:
                known[key] = frozenset(spec.constraints for spec in specs)
            grouped.setdefault(known[key], []).append(each)
    groups = list(grouped)
    admission = _Admission.of(groups)
    leader = list(range(len(groups)))
    nodes_of: dict[int, list[Node]] = {}
    for alike in admission.of_alike(nodes):
        admitted = admission.of_node(alike[0])
        if admitted:
            first = min(_root(leader, group) for group in admitted)
            for group in admitted:
                leader[_root(leader, group)] = first
            nodes_of.setdefault(admitted[0], []).extend(alike)
    pools = {_root(leader, group): Pool() for group in range(len(groups))}
    for group, its_nodes in nodes_of.items():
        pools[_root(leader, group)].nodes += its_nodes
    for group, constraints in enumerate(groups):
        pools[_root(leader, group)].jobs += grouped[constraints]
    yield from pools.values()


def _competes(each: Classified) -> bool:
    waits = each.candidate is not None or each.eligibility is Eligibility.WAITING
    return waits or each.forced or each.measure_at is not None or each.returns_to is not None


def _specs(job: Job) -> Sequence[ReplicaSpec]:
    return job.ps, job.worker, *(each.spec for each in job.fixed)


@dataclass(frozen=True, slots=True)
class _Admission:
    """Which groups of jobs a node admits; nodes that are alike in all that decides it."""

    groups: Sequence[_Constraints]
    labels: tuple[str, ...]
    by_name: bool

    @classmethod
    def of(cls, groups: Sequence[_Constraints]) -> Self:
        """For these groups of jobs."""
        each = {constraints for group in groups for constraints in group}
        asked = [requirement for one in each for term in one.affinity for requirement in term]
        selected = {key for one in each for key, _ in one.selector}
        labels = selected | {one.key for one in asked if not one.field}
        return cls(groups, tuple(sorted(labels)), any(one.field for one in asked))

    def of_alike(self, nodes: Iterable[Node]) -> Iterable[Sequence[Node]]:
        """The nodes, those together that admit the same groups."""
        found, names = defaultdict[Hashable, list[Node]](list), self.labels
        for node in nodes:
            labels = tuple([node.labels.get(name) for name in names]) if names else ()
            found[node.cordoned, node.taints, labels, node.name if self.by_name else ""].append(
                node
            )
        return found.values()

    def of_node(self, node: Node) -> list[int]:
        """The numbers of the groups of which the node admits a replica, ascending."""
        return [
            number
            for number, group in enumerate(self.groups)
            if any(refusal(node, each) is None for each in group)
        ]


def _root(leader: Sequence[int], group: int) -> int:
    while leader[group] != group:
        group = leader[group]
    return group


_MAX_VICTIMS = 32
"""Maximum number of other jobs tried as victims of one that fits nowhere: mostly the first few
suffice."""


@dataclass(slots=True)
class StartingJobs:
    """The starting jobs of one pool: the counts of those that are placed in ``plan``, by UID."""

    share: Share
    plan: CapacityPlan
    at: float
    max_attempts: int
    counts: dict[str, Counts] = field(default_factory=dict)
    _jobs: dict[str, Candidate] = field(init=False)
    _available: Resources | None = None
    """What is free and what these jobs hold, together: the same in every round of the remainder,
    in which no other job takes or releases room."""
    _known_tightest: TightestFit | None = None

    def __post_init__(self) -> None:
        """Jobs whose last placement failed are left out; ``Settlement.place`` excludes counts."""
        self._jobs = {
            each.job.uid: each.candidate
            for each in sorted(self.share.starting, key=lambda each: each.job.uid)
            if each.candidate is not None and not each.placement_failures
        }

    @property
    def _tightest(self) -> TightestFit:
        """The tightest nodes for single tasks of these jobs; made when first asked for."""
        if self._known_tightest is None:
            self._known_tightest = TightestFit(self.plan.capacity)
            for candidate in self._jobs.values():
                self._known_tightest.task(candidate.job.ps)
                self._known_tightest.task(candidate.job.worker)
        return self._known_tightest

    def place_whole(self, allocated: Mapping[str, Counts]) -> None:
        """Place whole jobs at the counts that the policy allocated, those of the highest priority
        first, among equals the smallest."""
        wanted = {uid: allocated[uid] for uid in self._jobs if uid in allocated}
        jobs = [self._jobs[uid].job for uid in wanted]
        shares = self.plan.capacity.shares(jobs, list(wanted.values()))
        order = zip((-job.priority for job in jobs), shares, wanted, strict=True)
        for _, _, uid in sorted(order):
            self._place(uid, wanted[uid])
        unplaced = [uid for uid in wanted if uid not in self.counts]
        if unplaced:
            victims = _Victims(self._jobs, self.counts, self.plan.capacity)
            for uid in unplaced:
                self._displace_one(uid, victims)

    def join(self, uid: str) -> None:
        """Add a job that was placed by the settlement, to grow with the others."""
        assigned = self.plan.assigned.get(uid)
        if uid in self._jobs and assigned is not None:
            self.counts[uid] = assigned.assignment.counts

    @property
    def may_grow(self) -> bool:
        """Whether any node has room for a further task of any of these jobs."""
        return self._tightest.any_fits_on(self.plan.capacity)

    def share_remainder(self, policy: Policy) -> bool:
        """Allocate the fragments once; returns whether any task was placed."""
        self._tightest.reset(self.plan.capacity)
        problem = ClusterProblem(self.at, (PoolProblem(self._remainder()),))
        answer, _ = policy.decide(problem, NO_MEMORY, 0)
        allocated = {uid: each.counts for uid, each in grants(answer).items()}
        found = False
        for uid in self._jobs:
            if uid in allocated and uid not in self.counts:
                self._place(uid, allocated[uid])
                found |= uid in self.counts
        growing, grown = dict[str, IncrementalPlacement](), dict[str, Counts]()
        for uid, spec, column, count in self._further_tasks(allocated):
            if self._tightest.fits_nowhere(spec):
                continue
            if uid not in growing:
                growing[uid], grown[uid] = self._incremental(uid), self.counts[uid]
            ps, workers = grown[uid]
            allowed = self.plan.quotas.most_more(uid, grown[uid], role=column, wanted=count)
            added = growing[uid].add(spec, column, allowed)
            if not added:
                continue
            grown[uid] = Counts(ps + added, workers) if column == 0 else Counts(ps, workers + added)
            self.plan.quotas.charge(uid, grown[uid])
        for uid, counts in grown.items():
            if counts != self.counts[uid]:
                found |= self._accept(uid, counts, growing[uid], counts == allocated[uid])
        return found

    def _remainder(self) -> AllocationProblem:
        """The free capacity for these jobs, which keep the tasks that they have."""
        for uid, counts in self.counts.items():
            known = self._jobs[uid]
            if known.holds != counts:
                self._jobs[uid] = known.holding(counts)
        free, servers = self.share.pool.available(self.plan)
        if self._available is None:
            self._available = free + self._held()
        jobs, quotas = tuple(self._jobs.values()), self.plan.quotas.copy()
        for uid in self._jobs if quotas.quotas else ():
            quotas.release(uid)
        capacity, left = self.share.problem.capacity, quotas.remaining()
        return AllocationProblem(self._available, capacity, jobs, servers, quotas=left)

    def _held(self) -> Resources:
        # Thousands of jobs have few different requests: multiply once for each request.
        held: Counter[Resources] = Counter()
        for uid, counts in self.counts.items():
            job = self._jobs[uid].job
            held[job.ps.resources] += counts.ps
            held[job.worker.resources] += counts.workers
            for role in job.fixed:
                held[role.spec.resources] += role.count
        return total(amount * count for amount, count in held.items())

    def _place(self, uid: str, wanted: Counts) -> None:
        if self.plan.assign(self._jobs[uid].job, wanted, evenly=True) is None:
            self.counts[uid] = wanted
        else:
            self._place_task_by_task(uid, wanted)

    def _place_task_by_task(self, uid: str, wanted: Counts) -> bool:
        """Place a job at its minimum, then add tasks towards ``wanted`` as far as they fit."""
        job = self._jobs[uid].job
        minimum = job.bounds.minimum
        if self.plan.assign(job, minimum) is not None:
            return False
        self.counts[uid] = minimum
        growing, quotas = self._incremental(uid), self.plan.quotas
        more = quotas.most_more(uid, minimum, role=0, wanted=wanted.ps - minimum.ps)
        ps = minimum.ps + growing.add(job.ps, 0, more)
        quotas.charge(uid, Counts(ps, minimum.workers))
        more = wanted.workers - minimum.workers
        more = quotas.most_more(uid, Counts(ps, minimum.workers), role=1, wanted=more)
        workers = minimum.workers + growing.add(job.worker, 1, more)
        self._accept(uid, Counts(ps, workers), growing, (ps, workers) == wanted)
        return True

    def _incremental(self, uid: str) -> IncrementalPlacement:
        assignment = self.plan.assigned[uid].assignment
        return IncrementalPlacement(assignment, self.plan.capacity, self._tightest)

    def _accept(
        self, uid: str, counts: Counts, growing: IncrementalPlacement, is_whole: bool
    ) -> bool:
        """Keep the added tasks, unless they are only a part and make the job no faster."""
        candidate, before = self._jobs[uid], self.plan.assigned[uid]
        job, seconds = candidate.job, candidate.forecast.at
        self.plan.assigned[uid] = Assigned(job, growing.assignment)
        if is_whole or seconds(counts) < seconds(self.counts[uid]):
            self.counts[uid] = counts
            self.plan.quotas.charge(uid, counts)
            return True
        self.plan.release(uid)
        self._tightest.given_back()
        # On the same nodes: a new placement might not fit beside tasks added since.
        before.assignment.take_from(self.plan.capacity, job)
        self.plan.assigned[uid] = before
        self.plan.quotas.charge(uid, self.counts[uid])
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
                    if id(spec.resources) not in sizes:
                        sizes[id(spec.resources)] = spec.resources.dominant(whole)[1]
                    tasks.append((-sizes[id(spec.resources)], uid, column, spec, count))
        for _, uid, column, spec, count in sorted(tasks, key=lambda task: task[:3]):
            yield uid, spec, column, count

    def _displace_one(self, uid: str, victims: "_Victims") -> None:
        """Trim or move another starting job, so that this one gets its minimum."""
        job = self._jobs[uid].job
        minimum = job.bounds.minimum
        for victim in victims.of(job.demand(minimum)):
            if self.max_attempts <= 0:
                return
            self.max_attempts -= 1
            savepoint, before = self.plan.savepoint(victim), self.counts.pop(victim)
            charged = self.plan.quotas.charged(uid)
            self.plan.release(victim)
            self._tightest.given_back()
            if self.plan.assign(job, minimum) is None:
                if self._place_task_by_task(victim, before):
                    self.counts[uid] = minimum
                    victims.update(victim, self.counts[victim])
                    victims.update(uid, minimum)
                    return
                self.plan.assigned.pop(uid)
                self.plan.quotas.restore(uid, charged)
            self.counts[victim] = before
            self.plan.undo(victim, savepoint)


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
