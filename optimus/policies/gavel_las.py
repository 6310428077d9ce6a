"""Least attained service over kinds of nodes (Gavel, OSDI 2020, sections 4.1 and 5): max-min
fairness of throughput, and rounds in which jobs take turns.

1. The throughput T_mj of job m on kind j is what was measured of it at its own counts there, else
   its forecast on that kind; it is never resized. Kinds of which nothing is known count like the
   mean of those that are.
2. Ideal shares of time: max-min fair in throughput as a multiple of that at an equal share of all
   kinds, times the job's size over its weight (``allocation.max_min``; Gavel solves one programme,
   which leaves open what the jobs get that do not bound it).
3. Each round runs the jobs of the highest ratio of ideal to received time (``allocation.rounds``).
   Shares are set anew when jobs have come or gone, but not more often than ``reset_seconds``, or
   where nothing runs; until then a new job takes what is left over.

A job's size, the scale factor of the paper, is its dominant share of the cluster. Selectors of
nodes are not looked at: a job is taken to go to every kind that is large enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np

from optimus.allocation import (
    Candidate,
    ClusterAllocation,
    ClusterProblem,
    PolicyMemory,
    PolicyTraits,
)
from optimus.allocation.max_min import max_min_shares
from optimus.allocation.policy import Grant, JobAccount, Pause, PoolProblem, Refusal
from optimus.allocation.rounds import Contender, next_round
from optimus.jobs import Counts, Job
from optimus.resources import Resources, total

_VERSION: Final = 1
_Jobs = dict[str, dict[str, dict[str, float]]]
"""By UID: "shares", "mark" (seconds received when they were set) and "deficit", each by kind."""


@dataclass(frozen=True, slots=True)
class GavelLasPolicy:
    """Max-min fair over kinds of nodes; every job at its user's counts, on one kind at a time."""

    name: ClassVar[str] = "gavel-las"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1",
        reads_forecasts=False,
        reads_kinds=True,
        preempts=True,
        time_shared=True,
        round_seconds=360.0,
    )
    """Rounds of 6 minutes, as in the paper. It packs the workers of a job on few servers."""

    reset_seconds: float = 1920.0
    """Least seconds between two settings of the shares. Default: the authors' program."""

    tells_kinds: bool = True
    """Whether throughputs differ between kinds; without it this is the heterogeneity-agnostic
    policy with which the paper compares itself."""

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """Who runs in the coming round, on which kind."""
        known = memory.of(self.name, _VERSION)
        jobs: _Jobs = dict(known.get("jobs", {}))
        if self._is_reset_due(problem, known):
            elapsed = problem.at - known.get("reset_at", problem.at)
            jobs = {
                uid: entry
                for pool in problem.pools
                for uid, entry in self._reset(pool, problem, jobs, elapsed).items()
            }
            known = {"reset_at": problem.at}
        present = {each.job.uid for pool in problem.pools for each in pool.allocation.candidates}
        answers = [self._round(pool, problem, jobs) for pool in problem.pools]
        data = {
            "reset_at": known["reset_at"],
            "jobs": {uid: entry for uid, entry in jobs.items() if uid in present},
            "set_for": known.get("set_for", sorted(present)),
        }
        return dict(chain.from_iterable(answers)), PolicyMemory(self.name, _VERSION, data)

    def _is_reset_due(self, problem: ClusterProblem, known: Mapping[str, Any]) -> bool:
        if "reset_at" not in known:
            return True
        present = sorted(
            each.job.uid for pool in problem.pools for each in pool.allocation.candidates
        )
        if present == known["set_for"]:
            return False
        runs = any(problem.account(uid).holds for uid in present)
        return not runs or problem.at - known["reset_at"] >= self.reset_seconds

    def _reset(
        self, pool: PoolProblem, problem: ClusterProblem, jobs: _Jobs, elapsed: float
    ) -> _Jobs:
        """Shares set anew; what was received goes into the deficits."""
        candidates = pool.allocation.candidates
        kinds = [each.kind for each in pool.kinds]
        shares = self._shares(pool, problem)
        found: _Jobs = {}
        for each, row in zip(candidates, shares.tolist(), strict=True):
            uid = each.job.uid
            entry, received = jobs.get(uid, {}), problem.account(uid).received
            deficit = {
                kind: entry["deficit"].get(kind, 0.0)
                + entry["shares"].get(kind, 0.0) * elapsed
                - received.since(entry["mark"], kind)
                for kind in (kinds if entry else [])
            }
            given = {kind: share for kind, share in zip(kinds, row, strict=True) if share > 0}
            found[uid] = {"shares": given, "mark": dict(received.by_kind), "deficit": deficit}
        return found

    def _shares(self, pool: PoolProblem, problem: ClusterProblem) -> "np.ndarray[Any, Any]":
        """Ideal parts of the time, shape (jobs, kinds)."""
        candidates, capacities = pool.allocation.candidates, [each.capacity for each in pool.kinds]
        demands, whole = [_demand(each.job) for each in candidates], total(capacities)
        names = sorted({name for demand in demands for name in demand})
        speeds = np.array(
            [self._throughputs(each, problem, pool) for each in candidates], dtype=np.float64
        ).reshape(len(candidates), len(capacities))
        fits = np.array(
            [[demand.fits_in(capacity) for capacity in capacities] for demand in demands],
            dtype=np.bool_,
        ).reshape(speeds.shape)
        size = np.array([demand.dominant(whole)[1] for demand in demands])
        weight = np.array([problem.account(each.job.uid).weight for each in candidates])
        equal = np.array([_equal_shares(demand, capacities, whole) for demand in demands])
        usual = (speeds * equal.reshape(speeds.shape)).sum(axis=1, keepdims=True)
        worth = np.where(fits, speeds / np.where(usual > 0, usual, 1.0), 0.0)
        # Rounded, so that jobs that are equal but for the last bit are one row.
        worth = np.round(worth * (size / weight)[:, None] / max(size.max(initial=0.0), 1e-12), 9)
        return max_min_shares(worth, _matrix(demands, names), _matrix(capacities, names))

    def _throughputs(
        self, candidate: Candidate, problem: ClusterProblem, pool: PoolProblem
    ) -> list[float]:
        job, account = candidate.job, problem.account(candidate.job.uid)
        known = throughputs(account, _counts(job), [each.kind for each in pool.kinds])
        if not self.tells_kinds:
            known = {kind: float(speed > 0) for kind, speed in known.items()}
        running = [speed for speed in known.values() if speed > 0]
        usual = sum(running) / len(running) if running else 1.0
        return [known.get(each.kind, usual) for each in pool.kinds]

    def _round(
        self, pool: PoolProblem, problem: ClusterProblem, jobs: _Jobs
    ) -> Iterator[tuple[str, Grant | Pause | Refusal]]:
        """The answers of one pool; kinds by the jobs' mean worth of them, the best first."""
        candidates = pool.allocation.candidates
        speeds = [self._throughputs(each, problem, pool) for each in candidates]
        contenders = [
            self._contender(each, problem, jobs, _possible(each, row, pool))
            for each, row in zip(candidates, speeds, strict=True)
        ]
        rows = np.array(speeds)
        best_first = list(range(len(pool.kinds)))
        if len(candidates):
            relative = (rows / np.maximum(rows.max(axis=1, keepdims=True), 1e-12)).mean(axis=0)
            best_first.sort(key=lambda kind: (-relative[kind], kind))
        capacity = {pool.kinds[kind].kind: pool.kinds[kind].capacity for kind in best_first}
        chosen = next_round(contenders, capacity, self.traits.round_seconds)
        for candidate, each in zip(candidates, contenders, strict=True):
            share = min(sum(each.shares.values()), 1.0)
            if each.uid in chosen:
                kind = chosen[each.uid]
                reason = f"its turn on nodes of the kind {kind or 'that there is'}"
                yield each.uid, Grant(_counts(candidate.job), kind, share, reason)
                continue
            left_out = Pause if problem.account(each.uid).holds else Refusal
            yield each.uid, left_out(_why_not(each, share))

    def _contender(
        self,
        candidate: Candidate,
        problem: ClusterProblem,
        jobs: _Jobs,
        possible: frozenset[str],
    ) -> Contender:
        uid, demand = candidate.job.uid, _demand(candidate.job)
        account, entry = problem.account(uid), jobs.get(uid)
        held = account.holds.kind if account.holds else None
        if entry is None:
            return Contender(uid, demand, possible, held=held)
        seconds = {kind: account.received.since(entry["mark"], kind) for kind in sorted(possible)}
        return Contender(uid, demand, possible, entry["shares"], seconds, entry["deficit"], held)


def _possible(candidate: Candidate, speeds: Sequence[float], pool: PoolProblem) -> frozenset[str]:
    """The kinds that are large enough for a job, and on which it makes progress."""
    demand = _demand(candidate.job)
    return frozenset(
        each.kind
        for each, speed in zip(pool.kinds, speeds, strict=True)
        if speed > 0 and demand.fits_in(each.capacity)
    )


def _why_not(contender: Contender, share: float) -> str:
    if not contender.possible:
        return "no kind of nodes is both large enough for it and one on which it makes progress"
    return (
        f"not its turn: it is meant to run {share:.0%} of the time, and others have received less "
        "of theirs"
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


def _counts(job: Job) -> Counts:
    return job.bounds.clamp(job.counts)


def _demand(job: Job) -> Resources:
    return job.demand(_counts(job))


def _equal_shares(
    demand: Resources, capacities: Sequence[Resources], whole: Resources
) -> list[float]:
    """An equal share of all kinds: each kind's part of the job's dominant resource."""
    name = demand.dominant(whole)[0]
    if not name:
        return [1 / len(capacities)] * len(capacities)
    return [each[name] / max(whole[name], 1) for each in capacities]


def _matrix(amounts: Sequence[Resources], names: Sequence[str]) -> "np.ndarray[Any, Any]":
    rows = [[each[name] for name in names] for each in amounts]
    return np.array(rows, dtype=np.float64).reshape(len(amounts), len(names))
