"""Turns: jobs share nodes by running one after the other (Gavel, OSDI 2020, section 5).

1. A policy gives each job ideal shares of the time of each kind of nodes, anew when jobs have come
   or gone, but only every ``reset_rounds``, or where nothing runs. What a job has received less
   than its share until then is its deficit.
2. Each round runs the jobs of the highest priority, kind by kind:

       priority_mk = share_mk / (half a round + seconds received on k since the shares were set)

   Ties go to the larger deficit, and equals of all stay where they are. What does not fit is
   skipped. Jobs without a share take what is left, unless the policy keeps to its shares. A job
   that runs counts as having received a round less, since each change costs a restart.
3. Kinds on which a job is equally fast, but for what measurements differ by, are one kind for it:
   it leaves its own for another of these only where it must.
4. Who is asked again within a round, such as a new leader, goes on with that round.

The kind binds a job's workers. Its other replicas go anywhere (``time_shares``), over several kinds
where none holds them all. T_mk is what job m was measured to do at its own counts on kind k, else
its forecast there, else the mean of the other kinds; 0 means never. Selectors are not looked at.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, product
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
from optimus.jobs import Counts
from optimus.resources import Resources, total

_VERSION: Final = 3

_SAME_SPEED: Final = 0.9
"""A kind is as good as a faster one from this part of its speed on. Default: what a speed measured
once differs by."""

_SAME_ROUND: Final = 0.9
"""Part of a round within which a question is about that round."""

TURNS: Final = PolicyTraits(
    placed_by="theorem1",
    reads_forecasts=False,
    reads_kinds=True,
    resizes=False,
    preempts=True,
    time_shared=True,
)
"""It packs the workers of a job on few servers."""

READING_FORECASTS: Final = replace(TURNS, reads_forecasts=True)
"""The same for policies that ask how many steps are left."""

JobMemory = Mapping[str, Any]
"""What is remembered of a job: "shares", "mark" (the seconds received when they were set) and
"deficit", each by kind; "notes", the policy's own; and "turn", the kind on which it runs in this
round, in a list that is empty where it does not."""

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
    shares: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Received since the shares were set."""
    deficit: Mapping[str, float] = field(default_factory=dict)
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
        pools = [(pool, list(_rows(pool, problem, earlier))) for pool in problem.pools]
        pools = [(pool, rows) for pool, rows in pools if rows]
        if problem.at - cluster.get("round_at", -math.inf) < _SAME_ROUND * problem.round_seconds:
            turns = dict(chain.from_iterable(_turn_of(each) for _, rows in pools for each in rows))
        else:
            if self._is_reset_due(problem, cluster, [each for _, rows in pools for each in rows]):
                elapsed = problem.at - cluster.get("reset_at", problem.at)
                pools = [
                    (pool, self._reset(pool, rows, problem.at, elapsed)) for pool, rows in pools
                ]
                cluster = {"reset_at": problem.at, "jobs": sum(len(rows) for _, rows in pools)}
            cluster = {**cluster, "round_at": problem.at}
            rounds = (self._round(*each, problem.round_seconds).items() for each in pools)
            turns = dict(chain.from_iterable(rounds))
        every = [each for _, rows in pools for each in rows]
        jobs = {
            each.uid: {**each.before, "turn": [turns[each.uid]] if each.uid in turns else []}
            for each in every
            if each.before is not None
        }
        remembered = PolicyMemory(self.name, _VERSION, {"jobs": jobs, "cluster": cluster})
        return {each.uid: _answer(each, turns) for each in every}, remembered

    def _is_reset_due(
        self, problem: ClusterProblem, cluster: Mapping[str, float], every: Sequence["_Row"]
    ) -> bool:
        if "reset_at" not in cluster:
            return True
        known = sum(each.before is not None for each in every)
        if len(every) == known == cluster["jobs"]:
            return False
        runs = any(each.account.holds for each in every)
        passed = problem.at - cluster["reset_at"]
        return not runs or passed >= (self.reset_rounds - 1 + _SAME_ROUND) * problem.round_seconds

    def _reset(
        self, pool: PoolProblem, rows: Sequence["_Row"], at: float, elapsed: float
    ) -> list["_Row"]:
        """Shares set anew; what was received goes into the deficits."""
        asked, after = _asked(pool, rows, at), list[_Row]()
        shares = self.shares(asked).tolist(), self.notes(asked)
        for each, row, noted in zip(rows, *shares, strict=True):
            before, received = each.before, each.account.received
            deficit = {
                kind.kind: before["deficit"].get(kind.kind, 0.0)
                + before["shares"].get(kind.kind, 0.0) * elapsed
                - received.since(before["mark"], kind.kind)
                for kind in pool.kinds
                if before is not None
            }
            given = {
                kind.kind: share for kind, share in zip(pool.kinds, row, strict=True) if share > 0
            }
            mark = dict(received.by_kind)
            known = {"shares": given, "mark": mark, "deficit": deficit, "notes": noted}
            after.append(replace(each, before=known))
        return after

    def _round(
        self, pool: PoolProblem, rows: Sequence["_Row"], round_seconds: float
    ) -> Mapping[str, str | None]:
        """Who runs in one pool, on which kind; kinds by the jobs' mean speed on them, the best
        first."""
        speeds = np.array([each.speeds for each in rows])
        relative = (speeds / np.maximum(speeds.max(axis=1, keepdims=True), 1e-12)).mean(axis=0)
        best_first = sorted(range(len(pool.kinds)), key=lambda kind: (-relative[kind], kind))
        contenders = [_contender(each, pool.kinds) for each in rows]
        return next_round(
            contenders, _less_taken(pool, best_first), round_seconds, fills=self.fills
        )


@dataclass(frozen=True, slots=True)
class _Row:
    """A job of a pool: what is known of it, what is remembered, what its workers take together and
    what all other replicas do."""

    candidate: Candidate
    account: JobAccount
    before: JobMemory | None
    counts: Counts
    workers: Resources
    others: Resources
    speeds: Sequence[float]
    """On each kind; 0 on one whose nodes cannot hold its workers, as they are cut up."""
    is_wide: bool

    @property
    def uid(self) -> str:
        return self.candidate.job.uid


def _rows(
    pool: PoolProblem, problem: ClusterProblem, earlier: Mapping[str, JobMemory]
) -> Iterator[_Row]:
    for candidate in pool.allocation.candidates:
        job, account = candidate.job, problem.account(candidate.job.uid)
        counts, replica = job.bounds.clamp(job.counts), job.worker.resources
        known = throughputs(account, counts, [each.kind for each in pool.kinds])
        running = [speed for speed in known.values() if speed > 0]
        usual = sum(running) / len(running) if running else 1.0
        fits = [each.holds(replica, counts.workers) for each in pool.kinds]
        speeds = [
            known.get(each.kind, usual) if holds else 0.0
            for each, holds in zip(pool.kinds, fits, strict=True)
        ]
        workers = replica * counts.workers
        gang = workers, job.demand(counts) - workers
        yield _Row(candidate, account, earlier.get(job.uid), counts, *gang, speeds, not any(fits))


def round_began(memory: PolicyMemory, otherwise: float) -> float:
    """Return when the round began that a policy's memory is of."""
    return float(memory.data.get("cluster", {}).get("round_at", otherwise))


def _turn_of(row: _Row) -> list[tuple[str, str | None]]:
    """On which kind a job runs in a round that has begun, if it does: also without a share."""
    own = [row.account.holds.kind] if row.account.holds is not None else []
    return [(row.uid, kind) for kind in (own if row.before is None else row.before["turn"])]


def _answer(row: _Row, turns: Mapping[str, str | None]) -> Grant | Pause | Refusal:
    """The answer by who runs on which kind."""
    share = 0.0 if row.before is None else min(sum(row.before["shares"].values()), 1.0)
    if row.uid in turns:
        kind = turns[row.uid]
        reason = f"its turn on nodes of the kind {kind or 'that there is'}"
        return Grant(row.counts, kind, share, reason)
    why = (
        f"not its turn: it is meant to run {share:.0%} of the time, and others have received less "
        "of theirs"
    )
    if row.is_wide:
        why = "no kind of nodes holds its workers, and others leave too little on all together"
    elif not any(row.speeds):
        why = "it makes progress on no kind of nodes that is large enough for it"
    return (Pause if row.account.holds else Refusal)(why, share)


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
            of_ps = [kind] if beside else last_first
            after = _placed(each.workers, each.others, kind, left, of_ps)
            if after is not None:
                chosen[each.uid], left = kind, after
    for each in sorted(contenders, key=lambda each: (each.held is None, each.uid)):
        if each.is_wide and _spread(each.workers + each.others, rest := dict(left), last_first):
            chosen[each.uid], left = None, rest
    return chosen


def in_order(problem: SharesProblem, order: Sequence[int], *, stops: bool) -> Values:
    """All the time on one kind for each job in this order: on its fastest with enough left. One for
    which none has is left out; if it ``stops``, the first that fits on no kind at all ends it.

    PSs are beside the workers, or on the last kind with enough left, or spread over the last."""
    shares = np.zeros(problem.speeds.shape)
    kinds = [str(number) for number in range(len(problem.nodes))]
    left = dict(zip(kinds, map(_amounts, problem.capacity), strict=True))
    for job in order:
        speeds = dict(zip(kinds, problem.speeds[job].tolist(), strict=True))
        gang = _amounts(problem.workers[job]), _amounts(problem.others[job])
        fastest = sorted(kinds, key=lambda kind: (-speeds[kind], -int(kind)))
        ways = ((kind, of_ps) for kind in fastest for of_ps in ([kind], kinds[::-1]))
        places = ((kind, _placed(*gang, kind, left, of_ps)) for kind, of_ps in ways)
        kind, after = next((each for each in places if each[1] is not None), ("", None))
        if after is not None and speeds[kind] > 0:
            shares[job, int(kind)], left = 1.0, after
        elif after is None and stops:
            break
    return shares


def _placed(
    workers: Resources, others: Resources, kind: str, left: dict[str, Resources], of_ps: list[str]
) -> dict[str, Resources] | None:
    """What is left of each kind with a job's workers on one and its other replicas on the first of
    others that holds them, else spread over these; ``None`` where too little is."""
    if not workers.fits_in(left[kind]):
        return None
    after = {**left, kind: left[kind] - workers}
    whole = next((other for other in of_ps if others.fits_in(after[other])), None)
    return after if _spread(others, after, of_ps if whole is None else [whole]) else None


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


def _asked(pool: PoolProblem, rows: Sequence[_Row], at: float) -> SharesProblem:
    jobs = [each.candidate.job for each in rows]
    names = sorted({name for each in rows for name in (*each.workers, *each.others)})
    return SharesProblem(
        at=at,
        speeds=np.array([each.speeds for each in rows]),
        workers=_matrix([each.workers for each in rows], names),
        others=_matrix([each.others for each in rows], names),
        capacity=_matrix([each.capacity for each in pool.kinds], names),
        nodes=np.array([float(each.nodes) for each in pool.kinds]),
        prices=np.array([each.price for each in pool.kinds]),
        weights=np.array([each.account.weight for each in rows]),
        namespaces=tuple(each.key.namespace for each in jobs),
        steps_left=np.array([_steps_left(each) for each in rows]),
        submitted=np.array([each.created_at for each in jobs]),
        finish_by=np.array([each.finish_by or math.inf for each in jobs]),
        notes=tuple(each.before["notes"] if each.before else {} for each in rows),
    )


def _steps_left(row: _Row) -> float:
    forecast = row.candidate.forecast
    batches = forecast.reference_workers / row.counts.workers if forecast.batch_per_worker else 1.0
    return forecast.remaining_steps * batches


def _contender(row: _Row, kinds: Sequence[KindCapacity]) -> Contender:
    worth, holds = _worth(kinds, row.speeds), row.account.holds
    held = None if holds is None else holds.kind
    received, now = row.account.received, None if held is None else worth.get(held)
    before = row.before or {"shares": {}, "mark": received.by_kind, "deficit": {}}

    def together(amounts: Mapping[str, float]) -> dict[str, float]:
        return {
            kind: sum(amounts.get(other, 0.0) for other in worth if worth[other] == worth[kind])
            for kind in worth
        }

    return Contender(
        row.uid,
        row.workers,
        row.others,
        frozenset(worth),
        shares=together(before["shares"]),
        seconds=together({kind: received.since(before["mark"], kind) for kind in worth}),
        deficit=together(before["deficit"]),
        held=held,
        alike=frozenset(kind for kind in worth if kind != held and worth[kind] == now),
        is_wide=row.is_wide,
    )


def _amounts(row: Values) -> Resources:
    return Resources({str(number): int(amount) for number, amount in enumerate(row.tolist())})


def _matrix(amounts: Sequence[Resources], names: Sequence[str]) -> Values:
    rows = [[each[name] for name in names] for each in amounts]
    return np.array(rows, dtype=np.float64).reshape(len(amounts), len(names))
