"""Gavel's own simulator, in its own semantics, around this project's policies.

``python -m benchmarks.gavel_rounds`` replays the traces of ``tests/data/gavel``. For each row of
its reference.csv it prints mean completion time and makespan in hours, beside those of Gavel's
simulator; with ``--policy`` also where there is no reference. It shows that the programmes are
right; what restarts, PSs and nodes do to a policy is for ``optimus simulate``.

The loop (scheduler/scheduler.py of stanford-futuredata/gavel at c4fa400, read and written anew): a
round lasts 360 s, or until its last job ends; jobs that arrived meanwhile join then. Shares are set
anew when jobs came or went and 1,920 s have passed. Until then a new job has no priority, and the
workers that it is chosen for stay idle. Kinds are visited from the fastest to the slowest; policies
without throughputs of kinds shuffle them in every round. A policy's ties go by deficit, share,
arrival."""

import argparse
import csv
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import eye_array, kron, vstack

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values, solved
from optimus.allocation.turns import Notes
from optimus.policies.gavel_cost import GavelCostPolicy
from optimus.policies.gavel_fifo import GavelFifoPolicy
from optimus.policies.gavel_ftf import GavelFtfPolicy
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.policies.gavel_makespan import GavelMakespanPolicy
from optimus.policies.gavel_sjf import GavelSjfPolicy
from optimus.policies.gavel_throughput import GavelThroughputPolicy

DATA = Path(__file__).parent.parent / "tests" / "data" / "gavel"
KINDS = ("v100", "p100", "k80")
PRICES = (2.48, 1.46, 0.45)
"""Dollars an hour of each kind: those of the authors' program."""
CLUSTERS = {
    "max_min_fairness": (8, 16, 24),
    "minimize_makespan": (8, 16, 24),
    "single200": (6, 6, 6),
}
ROUND_SECONDS, RESET_SECONDS = 360.0, 1920.0
_HALF_ROUND = ROUND_SECONDS / 2

Shares = Callable[[SharesProblem], Values]


@dataclass(frozen=True)
class TraceJob:
    """One line of a trace; ``speeds`` are steps per second on each kind."""

    arrival: float
    steps: float
    workers: int
    weight: float
    speeds: tuple[float, ...]


def no_notes(problem: SharesProblem) -> Notes:
    """Of a policy that remembers nothing."""
    return [{}] * len(problem.weights)


@dataclass(frozen=True)
class Rule:
    """A policy in this loop; ``shuffles``: it knows no throughputs of kinds."""

    shares: Shares
    notes: Callable[[SharesProblem], Notes] = no_notes
    shuffles: bool = False
    fills: bool = True


@dataclass
class Active:
    """A job that has arrived and not ended. Lists are by kind."""

    index: int
    job: TraceJob
    left: float
    notes: Mapping[str, float] = field(default_factory=dict)
    received: list[float] = field(default_factory=lambda: [_HALF_ROUND] * len(KINDS))
    deficit: list[float] = field(default_factory=lambda: [0.0] * len(KINDS))
    shares: Sequence[float] | None = None

    def priority(self, kind: int, of_all: Sequence[float]) -> float:
        """Share by the part of the kind's time that it has received."""
        if self.shares is None or not self.shares[kind] or not self.job.speeds[kind]:
            return 0.0
        received = self.received[kind] / of_all[kind]
        return self.shares[kind] / received if received else self.shares[kind] * 1e9


class Turn(NamedTuple):
    """What a job does in a round: when that ends, and its steps."""

    end: float
    of: Active
    kind: int
    steps: float


def read_trace(name: str) -> list[TraceJob]:
    """The jobs of a trace of Gavel's, each with its speeds."""
    throughputs = json.loads((DATA / "simulation_throughputs.json").read_text())
    jobs = []
    for line in (DATA / f"{name}.trace").read_text().splitlines():
        model, *_, steps, scale, weight, _slo, arrival = line.split("\t")
        speeds = tuple(throughputs[kind][f"('{model}', {scale})"]["null"] for kind in KINDS)
        jobs.append(TraceJob(float(arrival), float(steps), int(scale), float(weight), speeds))
    return jobs


class Replayed(NamedTuple):
    """Completion times in seconds, as the trace lists the jobs, the end of the last, and what the
    workers' time on their nodes cost."""

    times: list[float]
    end: float
    dollars: float

    @property
    def hours(self) -> tuple[float, float]:
        """The mean completion time, and the makespan."""
        return sum(self.times) / len(self.times) / 3600, self.end / 3600


def least_dollars(jobs: Sequence[TraceJob]) -> float:
    """What the jobs cost if each had all its time on the kind that is cheapest for it."""
    return sum(
        job.workers
        * job.steps
        / 3600
        * min(price / speed for price, speed in zip(PRICES, job.speeds, strict=True) if speed)
        for job in jobs
    )


def replay(jobs: Sequence[TraceJob], workers: Sequence[int], rule: Rule, seed: int = 0) -> Replayed:
    """A trace under a policy."""
    shuffler = random.Random(seed + 5)
    queue, active = list(enumerate(jobs)), list[Active]()
    running = list[Turn]()
    ended, of_all = dict[int, float](), [0.0] * len(KINDS)
    now, began, round_end, reset_at = jobs[0].arrival, 0.0, None, 0.0
    changed, dollars = False, 0.0
    while len(ended) < len(jobs):
        if running:
            now = max(turn.end for turn in running)
            began, round_end = round_end or began, now
        else:
            now = queue[0][1].arrival
        for turn in running:
            turn.of.received[turn.kind] += turn.end - began
            of_all[turn.kind] += turn.end - began
            turn.of.left -= turn.steps
            if turn.of.left <= 0:
                ended[turn.of.index], changed = turn.end - turn.of.job.arrival, True
        active = [each for each in active if each.index not in ended]
        while queue and queue[0][1].arrival <= now:
            index, job = queue.pop(0)
            active.append(Active(index, job, job.steps))
            changed = True
        if changed and active and (now - reset_at >= RESET_SECONDS or reset_at == 0):
            set_shares(rule, active, workers, (now, now - reset_at))
            of_all = [_HALF_ROUND * len(active)] * len(KINDS)
            reset_at, changed = now, False
        kinds = list(range(len(KINDS)))
        if rule.shuffles:
            shuffler.shuffle(kinds)
        running = [
            turn_of(each, kind, now)
            for each, kind in chosen(active, workers, kinds, of_all, fills=rule.fills)
        ]
        dollars += sum(
            (turn.end - now) / 3600 * turn.of.job.workers * PRICES[turn.kind] for turn in running
        )
    return Replayed([ended[index] for index in range(len(jobs))], now, dollars)


def set_shares(
    rule: Rule, active: Sequence[Active], workers: Sequence[int], times: tuple[float, float]
) -> None:
    """Sets the shares anew; what was received goes into the deficits. ``times``: now, and since the
    last time."""
    now, elapsed = times
    for each in active:
        for kind, received in enumerate(each.received):
            due = each.shares[kind] * elapsed if each.shares is not None else 0.0
            each.deficit[kind] += due - (received - _HALF_ROUND)
        each.received = [_HALF_ROUND] * len(KINDS)
    problem = problem_of(active, workers, now)
    found = rule.shares(problem).tolist()
    for each, shares, noted in zip(active, found, rule.notes(problem), strict=True):
        each.shares, each.notes = shares, noted


def problem_of(active: Sequence[Active], workers: Sequence[int], now: float) -> SharesProblem:
    """What a policy is asked."""
    jobs = [each.job for each in active]
    scale = np.array([[float(job.workers)] for job in jobs])
    return SharesProblem(
        at=now,
        speeds=np.array([job.speeds for job in jobs]),
        workers=scale,
        others=np.zeros_like(scale),
        capacity=np.array(workers, dtype=np.float64)[:, None],
        nodes=np.array(workers, dtype=np.float64),
        prices=np.array(PRICES),
        weights=np.array([job.weight for job in jobs]),
        namespaces=("",) * len(jobs),
        steps_left=np.array([each.left for each in active]),
        submitted=np.array([job.arrival for job in jobs]),
        finish_by=np.full(len(jobs), np.inf),
        notes=tuple(each.notes for each in active),
    )


def chosen(
    active: Sequence[Active],
    workers: Sequence[int],
    kinds: Sequence[int],
    of_all: Sequence[float],
    *,
    fills: bool,
) -> Iterator[tuple[Active, int]]:
    """The jobs of a round, each with its kind; without shares they take workers and do not run."""
    taken = set[int]()
    for kind in kinds:
        free = workers[kind]
        ranked = [
            (
                each.priority(kind, of_all),
                each.deficit[kind],
                each.shares[kind] if each.shares is not None else 0.0,
                -place,
            )
            for place, each in enumerate(active)
        ]
        for priority, *_, place in sorted(ranked, reverse=True):
            each = active[-place]
            if not each.job.speeds[kind] or (not fills and priority <= 0):
                continue
            if each.job.workers <= free and each.index not in taken:
                free -= each.job.workers
                taken.add(each.index)
                if each.shares is not None:
                    yield each, kind


def turn_of(each: Active, kind: int, now: float) -> Turn:
    """A job's turn: whole steps of a round, or those that are left."""
    rate = each.job.speeds[kind]
    steps = min(float(int(rate * ROUND_SECONDS)), each.left)
    return Turn(now + steps / rate, each, kind, steps)


def max_min(problem: SharesProblem) -> Values:
    """Max-min fairness by one programme, as published: jobs that do not bound the smallest
    throughput are raised no further."""
    lift = problem.weights * problem.usual / problem.workers[:, 0]
    lift = np.round(lift / lift.max(), 12)
    return TimeShares(problem, lift).raise_floors(lift).shares


def without_kinds(rule: Shares, problem: SharesProblem) -> Values:
    """What a policy gives that takes all nodes for one kind, on which each job has the speed of its
    fastest: each job's share, spread evenly over the kinds on which it runs."""
    best, whole = problem.speeds.max(axis=1)[:, None], problem.capacity.sum(axis=0)[None]
    of_all = {"nodes": problem.nodes.sum(keepdims=True), "prices": problem.prices[:1]}
    found = rule(replace(problem, speeds=best, capacity=whole, **of_all))
    return np.where(problem.speeds > 0, np.round(found * problem.equal, 6), 0.0)


def alike(problem: SharesProblem) -> SharesProblem:
    """Each job as fast everywhere as on the first kind."""
    return replace(problem, speeds=np.repeat(problem.speeds[:, :1], len(KINDS), axis=1))


def throughput_as_coded(problem: SharesProblem) -> Values:
    """The largest sum of throughputs leaves many jobs without a share. The authors' solver gives
    each of these less than 1e-6, the more the less the sum loses by it, and that ranks them for
    what is left over. Here the reduced cost says what the sum would lose."""
    shares = TimeShares(problem).maximise(problem.speeds)
    jobs, kinds = shares.shape
    time = kron(eye_array(jobs), np.ones((1, kinds)))
    taken = kron(problem.workers.T, eye_array(kinds))
    most = np.append(np.ones(jobs), problem.capacity[:, 0])
    worth = (problem.speeds / problem.speeds.max()).ravel()
    bounds = np.full(len(most), -np.inf), most
    found = solved(worth, vstack([time, taken]), bounds, np.full(len(worth), np.inf))
    lost = np.maximum(np.abs(found.col_dual), 1e-6).reshape(jobs, kinds)
    return np.where(shares > 0, shares, 1e-12 / lost)


_LAS, _FTF, _MAKESPAN = GavelLasPolicy(), GavelFtfPolicy(), GavelMakespanPolicy()
RULES: Mapping[str, Rule] = {
    "max_min_fairness": Rule(lambda problem: without_kinds(max_min, alike(problem)), shuffles=True),
    "max_min_fairness_perf": Rule(max_min),
    "max_min_fairness_water_filling_perf": Rule(_LAS.shares),
    "finish_time_fairness": Rule(
        lambda problem: _FTF.shares(alike(problem)),
        lambda problem: _FTF.notes(alike(problem)),
        shuffles=True,
    ),
    "finish_time_fairness_perf": Rule(_FTF.shares, _FTF.notes),
    "fifo_perf": Rule(GavelFifoPolicy().shares, fills=False),
    "min_total_duration": Rule(
        lambda problem: without_kinds(_MAKESPAN.shares, alike(problem)), shuffles=True
    ),
    "min_total_duration_perf": Rule(_MAKESPAN.shares),
    "shortest_job_first_perf": Rule(GavelSjfPolicy().shares),
    "max_normalised_throughput_perf": Rule(GavelThroughputPolicy().shares),
    "cost": Rule(GavelCostPolicy().shares, fills=False),
    "cost_with_a_floor_of_0.1": Rule(GavelCostPolicy(floor=0.1).shares, fills=False),
    "max_sum_throughput_perf": Rule(throughput_as_coded),
}
"""Gavel's name of a policy -> the policy here."""


def main() -> None:
    """Print ours beside theirs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=RULES, help="this one, also without a reference")
    parser.add_argument("--seed", type=int, default=0, help="of the order of kinds; Gavel's: 0")
    options = parser.parse_args()
    print("trace, policy: mean JCT h (theirs, difference); makespan h (theirs, difference); cost")
    reference = {
        (row["trace"], row["policy"]): (float(row["mean_jct_h"]), float(row["makespan_h"]))
        for row in csv.DictReader((DATA / "reference.csv").read_text().splitlines())
    }
    for trace, workers in CLUSTERS.items():
        for name, rule in RULES.items():
            theirs = reference.get((trace, name))
            if options.policy != name and (options.policy is not None or theirs is None):
                continue
            jobs = read_trace(trace)
            found = replay(jobs, workers, rule, options.seed)
            ours = found.hours
            text = "; ".join(
                f"{mine:.4f} ({other:.4f}, {mine / other - 1:+.2%})" if theirs else f"{mine:.4f}"
                for mine, other in zip(ours, theirs or ours, strict=True)
            )
            least = f"{found.dollars:.0f} $ ({least_dollars(jobs):.0f} at least)"
            print(f"{trace}, {name}: {text}; {least}", flush=True)


if __name__ == "__main__":
    main()
