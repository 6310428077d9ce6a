"""Turns: jobs share nodes by running one after the other (Gavel, OSDI 2020, section 5).

1. A policy gives each job ideal shares of the time of each kind of nodes. They are set anew when
   jobs have come or gone, but only every ``reset_rounds``, or where nothing runs.
2. Each round runs the jobs of the highest priority, kind by kind:

       priority_mk = share_mk / (half a round + seconds received on k since the shares were set)

   What does not fit is skipped. Jobs without a share on a kind take what is left of it, unless the
   policy keeps to its shares. A job that runs has one round of credit: it counts as having received
   a round less, since each change costs a restart.
3. When shares are set anew, what a job has received less than its share is kept as its deficit,
   which decides between equal priorities; equals of all that stay where they are. A job that goes
   on on its kind keeps its nodes (its lease): only changes restart anything.
4. Kinds on which a job is equally fast, but for what measurements differ by, are one kind for it:
   it has the same priority on each of them, and leaves its own for another only where it must.
5. Who is asked again within a round, such as a new leader, goes on with that round.

The kind binds a job's workers. Its PSs and its other replicas go anywhere: beside the workers, or
first to nodes on which no job's workers run (``time_shares``), and over several kinds where none
holds them all. T_mk is what job m was
measured to do at its own counts on kind k, else its forecast there. Of a kind of which nothing is
known the mean of the others is taken; a T of 0 means never. A job is never resized, and selectors
of nodes are not looked at.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, product
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from optimus.allocation.policy import (
    ClusterAllocation,
    ClusterProblem,
    Grant,
    JobAccount,
    KindCapacity,
    Pause,
    PolicyMemory,
    PolicyTraits,
    PoolProblem,
    Refusal,
)
from optimus.allocation.problem import Candidate
from optimus.allocation.time_shares import SharesProblem, Values
from optimus.jobs import Counts, Job
from optimus.resources import Resources, total

_VERSION: Final = 3

_SAME_SPEED: Final = 0.9
"""A kind is as good as a faster one from this part of its speed on. Default: what a speed measured
once differs by."""

_SAME_ROUND: Final = 0.9
"""Part of a round within which a question is about that round."""

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})

TURNS: Final = PolicyTraits(
    placed_by="theorem1",
    reads_forecasts=False,
    reads_kinds=True,
    resizes=False,
    preempts=True,
    time_shared=True,
)
"""It packs the workers of a job on few servers."""

JobMemory = Mapping[str, Any]
"""What is remembered of a job: "shares", "mark" (the seconds received when they were set) and
"deficit", each by kind; "notes", the policy's own; and "turn", the kind on which it runs in this
round, in a list that is empty where it does not."""

READING_FORECASTS: Final = replace(TURNS, reads_forecasts=True)
"""The same for policies that ask how many steps are left."""

Notes = Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One job before a round; mappings are by kind of nodes.

    ``workers`` are what it takes of its kind, ``others`` what it takes anywhere. It runs only on
    kinds among ``possible``. ``held`` is the kind that it runs on now. Shares, seconds and deficit
    are of all kinds together that are one for it."""

    uid: str
    workers: Resources
    others: Resources
    possible: frozenset[str]
    shares: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    seconds: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """Received since the shares were set."""
    deficit: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    held: str | None = None
    alike: frozenset[str] = frozenset()
    """The other kinds that are as good for it as the one that it runs on."""
    is_wide: bool = False
    """Whether no kind holds its workers: it has what the others leave, on any nodes."""


@dataclass(frozen=True, slots=True)
class TurnsPolicy(ABC):
    """A policy by which jobs take turns: it gives the shares."""

    name: ClassVar[str]
    traits: ClassVar[PolicyTraits] = TURNS
    fills: ClassVar[bool] = True
    """Whether jobs without a share take what is left."""

    reset_rounds: int = 2
    """Least rounds between two settings of the shares. Default: few, as a job that comes has no
    share before; the authors' program waits for 1920 s."""

    @abstractmethod
    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds), of at least one job."""

    def notes(self, problem: SharesProblem) -> Notes:
        """Return what the policy is to be told of each job when it sets the shares again."""
        return [{}] * len(problem.weights)

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """Return who runs in the coming round, on which kind."""
        known = memory.of(self.name, _VERSION)
        cluster, earlier = known.get("cluster", {}), known.get("jobs", {})
        uids = [each.job.uid for pool in problem.pools for each in pool.allocation.candidates]
        jobs: dict[str, JobMemory] = {uid: earlier[uid] for uid in uids if uid in earlier}
        since_seconds = problem.at - cluster.get("round_at", -math.inf)
        if since_seconds < _SAME_ROUND * problem.round_seconds:
            turns = _turns(problem, uids, jobs)
        else:
            if self._is_reset_due(problem, cluster, uids, len(jobs)):
                jobs = self._reset(problem, jobs, problem.at - cluster.get("reset_at", problem.at))
                cluster = {"reset_at": problem.at, "jobs": len(jobs)}
            cluster = {**cluster, "round_at": problem.at}
            rounds = (self._round(pool, problem, jobs).items() for pool in problem.pools)
            turns = dict(chain.from_iterable(rounds))
        answers = (_answer(pool, problem, jobs, turns) for pool in problem.pools)
        answer = dict(chain.from_iterable(answers))
        jobs = {
            uid: {**each, "turn": [turns[uid]] if uid in turns else []}
            for uid, each in jobs.items()
        }
        return answer, PolicyMemory(self.name, _VERSION, {"jobs": jobs, "cluster": cluster})

    def _is_reset_due(
        self,
        problem: ClusterProblem,
        cluster: Mapping[str, float],
        uids: Sequence[str],
        remembered: int,
    ) -> bool:
        if "reset_at" not in cluster:
            return True
        if len(uids) == remembered == cluster["jobs"]:
            return False
        runs = any(problem.account(uid).holds for uid in uids)
        passed = problem.at - cluster["reset_at"]
        return not runs or passed >= (self.reset_rounds - 1 + _SAME_ROUND) * problem.round_seconds

    def _reset(
        self, problem: ClusterProblem, jobs: Mapping[str, JobMemory], elapsed: float
    ) -> dict[str, JobMemory]:
        """Shares set anew; what was received goes into the deficits."""
        after = dict[str, JobMemory]()
        for pool in problem.pools:
            kinds = [each.kind for each in pool.kinds]
            if not pool.allocation.candidates:
                continue
            asked = _asked(pool, problem, jobs)
            rows = zip(
                pool.allocation.candidates,
                self.shares(asked).tolist(),
                self.notes(asked),
                strict=True,
            )
            for candidate, row, noted in rows:
                uid = candidate.job.uid
                before, received = jobs.get(uid), problem.account(uid).received
                deficit = {
                    kind: before["deficit"].get(kind, 0.0)
                    + before["shares"].get(kind, 0.0) * elapsed
                    - received.since(before["mark"], kind)
                    for kind in kinds
                    if before is not None
                }
                shares = {kind: share for kind, share in zip(kinds, row, strict=True) if share > 0}
                mark = dict(received.by_kind)
                after[uid] = {"shares": shares, "mark": mark, "deficit": deficit, "notes": noted}
        return after

    def _round(
        self, pool: PoolProblem, problem: ClusterProblem, jobs: Mapping[str, JobMemory]
    ) -> Mapping[str, str | None]:
        """Who runs in one pool, on which kind; kinds by the jobs' mean speed on them, the best
        first."""
        candidates = pool.allocation.candidates
        if not candidates:
            return {}
        speeds = np.array([_speeds(each, problem, pool) for each in candidates])
        contenders = [
            _contender(each, problem, jobs.get(each.job.uid), row, pool.kinds)
            for each, row in zip(candidates, speeds.tolist(), strict=True)
        ]
        relative = (speeds / np.maximum(speeds.max(axis=1, keepdims=True), 1e-12)).mean(axis=0)
        best_first = sorted(range(len(pool.kinds)), key=lambda kind: (-relative[kind], kind))
        capacity = _less_taken(pool, best_first)
        return next_round(contenders, capacity, problem.round_seconds, fills=self.fills)


def round_began(memory: PolicyMemory, otherwise: float) -> float:
    """Return when the round began that a policy's memory is of."""
    return float(memory.data.get("cluster", {}).get("round_at", otherwise))


def _turns(
    problem: ClusterProblem, uids: Iterable[str], jobs: Mapping[str, JobMemory]
) -> dict[str, str | None]:
    """Return who runs in a round that has begun, on which kind: also who runs without a share."""
    turns = dict[str, str | None]()
    for uid in uids:
        holds = problem.account(uid).holds
        own = [holds.kind] if holds is not None else []
        turns.update((uid, kind) for kind in (jobs[uid]["turn"] if uid in jobs else own))
    return turns


def _answer(
    pool: PoolProblem,
    problem: ClusterProblem,
    jobs: Mapping[str, JobMemory],
    turns: Mapping[str, str | None],
) -> Iterator[tuple[str, Grant | Pause | Refusal]]:
    """The answers of one pool, by who runs on which kind."""
    for candidate in pool.allocation.candidates:
        uid, job = candidate.job.uid, candidate.job
        share = min(sum(jobs[uid]["shares"].values()), 1.0) if uid in jobs else 0.0
        if uid in turns:
            reason = f"its turn on nodes of the kind {turns[uid] or 'that there is'}"
            yield uid, Grant(_counts(job), turns[uid], share, reason)
            continue
        left_out = Pause if problem.account(uid).holds else Refusal
        yield uid, left_out(_why_not(candidate, problem, pool, share), share)


def _less_taken(pool: PoolProblem, best_first: Sequence[int]) -> dict[str, Resources]:
    """Return what each kind has for turns. Of what others hold, or are to start with as nothing is
    known of them yet, it is not known on which kind it is: it is taken off the last ones."""
    of_kinds = total(each.capacity for each in pool.kinds)
    taken, left = of_kinds - pool.allocation.available, dict[str, Resources]()
    for kind in reversed(best_first):
        has = pool.kinds[kind].capacity
        of_kind = Resources({name: min(has[name], max(taken[name], 0)) for name in has})
        taken = taken - of_kind
        left[pool.kinds[kind].kind] = has - of_kind
    return {pool.kinds[kind].kind: left[pool.kinds[kind].kind] for kind in best_first}


def next_round(
    contenders: Sequence[Contender],
    capacity: Mapping[str, Resources],
    round_seconds: float,
    *,
    fills: bool = True,
) -> dict[str, str | None]:
    """The kind on which each job that runs in this round runs, by UID; kinds in their order."""
    chosen, left = dict[str, str | None](), dict(capacity)
    last_first = list(capacity)[::-1]
    all_take_workers = all(any(kind in each.possible for each in contenders) for kind in capacity)
    # A job moves to a kind that is no better for it only where it has no place on its own.
    for may_move, (kind, has) in product((False, True), capacity.items()):
        waiting = [
            each
            for each in contenders
            if each.uid not in chosen
            and kind in each.possible
            and (may_move or kind not in each.alike)
            and (fills or each.shares.get(kind, 0.0) > 0)
        ]
        for each in sorted(waiting, key=lambda each: _order(each, kind, round_seconds)):
            beside = all_take_workers and (each.workers + each.others).fits_in(has)
            if _take(each, kind, left, [kind] if beside else last_first):
                chosen[each.uid] = kind
    for each in sorted(contenders, key=lambda each: (each.held is None, each.uid)):
        if each.is_wide and _spread(each.workers + each.others, after := dict(left), last_first):
            chosen[each.uid], left = None, after
    return chosen


def _take(each: Contender, kind: str, left: dict[str, Resources], of_ps: Sequence[str]) -> bool:
    """Return whether the job fits on a kind, its PSs on one of others, else spread over these;
    takes what it asks for."""
    if not each.workers.fits_in(left[kind]):
        return False
    after = {**left, kind: left[kind] - each.workers}
    whole = next((other for other in of_ps if each.others.fits_in(after[other])), None)
    if not _spread(each.others, after, of_ps if whole is None else [whole]):
        return False
    left.update(after)
    return True


def _spread(amount: Resources, left: dict[str, Resources], kinds: Sequence[str]) -> bool:
    """Takes an amount from kinds in their order; returns whether there was enough."""
    for kind in kinds:
        taken = amount if amount.fits_in(left[kind]) else _part(amount, left[kind])
        left[kind], amount = left[kind] - taken, amount - taken
    return not amount


def _part(of: Resources, free: Resources) -> Resources:
    """As much of an amount as is free, of all resources the same part."""
    part = min((Fraction(max(free[name], 0), amount) for name, amount in of.items()))
    return Resources({name: math.floor(amount * part) for name, amount in of.items()})


def priority(contender: Contender, kind: str, round_seconds: float) -> float:
    """Ideal share by what was received, on one kind, in 1 / s."""
    received = contender.seconds.get(kind, 0.0)
    if kind == contender.held or kind in contender.alike:
        received = max(received - round_seconds, 0.0)
    return contender.shares.get(kind, 0.0) / (received + round_seconds / 2)


def _order(
    each: Contender, kind: str, round_seconds: float
) -> tuple[float, float, float, bool, str]:
    return (
        -priority(each, kind, round_seconds),
        -each.deficit.get(kind, 0.0),
        -each.shares.get(kind, 0.0),
        each.held != kind,
        each.uid,
    )


def throughputs(account: JobAccount, counts: Counts, kinds: Sequence[str]) -> dict[str, float]:
    """Steps per second at these counts on each kind of which it is known: the mean of what was
    measured there, weighted by its seconds, else the forecast's."""
    found = dict[str, float]()
    for kind in kinds:
        samples = [
            each
            for each in account.progress.samples
            if each.counts == counts and each.node_kind == kind and each.seconds > 0
        ]
        if samples:
            seconds = sum(each.seconds for each in samples)
            found[kind] = sum(each.steps_per_second * each.seconds for each in samples) / seconds
        elif kind in account.forecasts:
            speed = account.forecasts[kind].speed
            found[kind] = float(speed.steps_per_second(counts.ps, counts.workers))
    return found


def _speeds(candidate: Candidate, problem: ClusterProblem, pool: PoolProblem) -> list[float]:
    """Of a job on each kind; 0 on one whose nodes cannot hold its workers, as they are cut up."""
    account, kinds = problem.account(candidate.job.uid), [each.kind for each in pool.kinds]
    known = throughputs(account, _counts(candidate.job), kinds)
    running = [speed for speed in known.values() if speed > 0]
    usual = sum(running) / len(running) if running else 1.0
    return [
        known.get(each.kind, usual) if _holds_workers(each, candidate.job) else 0.0
        for each in pool.kinds
    ]


def _worth(kinds: Sequence[KindCapacity], speeds: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """Of each kind on which a job runs something that is equal for those that are one for it: they
    have the same price, and all but the speed of the fastest."""
    fastest, worth = dict[float, float](), dict[str, tuple[float, ...]]()
    for speed, each in sorted(zip(speeds, kinds, strict=True), key=lambda pair: -pair[0]):
        if speed < _SAME_SPEED * fastest.get(each.price, math.inf):
            fastest[each.price] = speed
        if speed > 0:
            worth[each.kind] = each.price, fastest[each.price]
    return worth


def _asked(
    pool: PoolProblem, problem: ClusterProblem, jobs: Mapping[str, JobMemory]
) -> SharesProblem:
    candidates = pool.allocation.candidates
    accounts = [problem.account(each.job.uid) for each in candidates]
    demands = [_demand(each.job) for each in candidates]
    capacities = [each.capacity for each in pool.kinds]
    names = sorted({name for demand in demands for part in demand for name in part})
    return SharesProblem(
        at=problem.at,
        speeds=np.array([_speeds(each, problem, pool) for each in candidates]),
        workers=_matrix([workers for workers, _ in demands], names),
        others=_matrix([others for _, others in demands], names),
        capacity=_matrix(capacities, names),
        kinds=tuple(each.kind for each in pool.kinds),
        nodes=np.array([float(each.nodes) for each in pool.kinds]),
        prices=np.array([each.price for each in pool.kinds]),
        weights=np.array([each.weight for each in accounts]),
        namespaces=tuple(each.job.key.namespace for each in candidates),
        steps_left=np.array([_steps_left(each) for each in candidates]),
        submitted=np.array([each.job.created_at for each in candidates]),
        finish_by=np.array([each.job.finish_by or math.inf for each in candidates]),
        notes=tuple(jobs.get(each.job.uid, {}).get("notes", {}) for each in candidates),
    )


def _steps_left(candidate: Candidate) -> float:
    forecast, workers = candidate.forecast, _counts(candidate.job).workers
    batches = forecast.reference_workers / workers if forecast.batch_per_worker else 1.0
    return forecast.remaining_steps * batches


def _contender(
    candidate: Candidate,
    problem: ClusterProblem,
    remembered: JobMemory | None,
    speeds: Sequence[float],
    kinds: Sequence[KindCapacity],
) -> Contender:
    uid, account = candidate.job.uid, problem.account(candidate.job.uid)
    worth, held = _worth(kinds, speeds), account.holds.kind if account.holds else None
    now = None if held is None else worth.get(held)
    contender = Contender(
        uid,
        *_demand(candidate.job),
        frozenset(worth),
        held=held,
        alike=frozenset(kind for kind in worth if kind != held and worth[kind] == now),
        is_wide=not any(_holds_workers(each, candidate.job) for each in kinds),
    )
    if remembered is None:
        return contender
    since = {kind: account.received.since(remembered["mark"], kind) for kind in worth}

    def together(amounts: Mapping[str, float]) -> dict[str, float]:
        return {
            kind: sum(amounts.get(other, 0.0) for other in worth if worth[other] == worth[kind])
            for kind in worth
        }

    return replace(
        contender,
        shares=together(remembered["shares"]),
        seconds=together(since),
        deficit=together(remembered["deficit"]),
    )


def _holds_workers(kind: KindCapacity, job: Job) -> bool:
    return kind.holds(job.worker.resources, _counts(job).workers)


def _why_not(candidate: Candidate, problem: ClusterProblem, pool: PoolProblem, share: float) -> str:
    if not any(_holds_workers(each, candidate.job) for each in pool.kinds):
        return "no kind of nodes holds its workers, and others leave too little on all together"
    if not any(_speeds(candidate, problem, pool)):
        return "it makes progress on no kind of nodes that is large enough for it"
    return (
        f"not its turn: it is meant to run {share:.0%} of the time, and others have received less "
        "of theirs"
    )


def _counts(job: Job) -> Counts:
    return job.bounds.clamp(job.counts)


def _demand(job: Job) -> tuple[Resources, Resources]:
    """Return what the workers take together, and what all other replicas do."""
    counts = _counts(job)
    workers = job.worker.resources * counts.workers
    return workers, job.demand(counts) - workers


def _matrix(amounts: Sequence[Resources], names: Sequence[str]) -> Values:
    rows = [[each[name] for name in names] for each in amounts]
    return np.array(rows, dtype=np.float64).reshape(len(amounts), len(names))
