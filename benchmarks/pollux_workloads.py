"""Published workloads in which jobs wait, on 64 GPUs, managed to untouched:
``python -m benchmarks.pollux_workloads [--tables DIR] [--speeds true|fitted|alone]
[--workloads FILE ...] [--policies NAME ...] [--load 1] [--json]``.

Tables and workloads are those of Pollux (Qiao et al., OSDI 2021): measured step times of
all-reduce training by placement and batch, progress by epoch, and what users submitted: 160 jobs
from minutes to half a day, with tuned numbers of GPUs. A worker has one GPU, there are no PSs, four
GPUs make a server, 16 servers the cluster. As there, time goes in steps of 60 s, a start or restart
takes 30 s, and each job keeps its global batch.

*Untouched*: first in, first out with backfill at the users' counts. The others are decided by
``OptimusPolicy`` and weighed against their restarts. *kept*: no job gets less than its own counts.
*first*: where those do not fit all together, all jobs get between one worker and their own counts;
beyond these they get only what is left. *free*: from one worker to what the batch allows. ``log``
minimises the sum of the logarithms of the remaining times t, ``root`` that of -2 / sqrt(t).

The end of each job is known. With ``fitted`` its speed is not: the speed model is fitted to the
step times at which it ran and, as jobs of one workload learn from one another, at which jobs of its
application with its batch did that have ended. It may grow to twice the workers that any of these
had. With ``alone`` nothing is learned from others."""

import argparse
import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from benchmarks.heavy_tails import LATE
from optimus.allocation import AllocationProblem, Candidate, ClusterProblem, Policy
from optimus.allocation.fairness import JobObjective
from optimus.allocation.policy import NO_MEMORY, PoolProblem, grants
from optimus.jobs import (
    Batch,
    BatchScope,
    CountBounds,
    Counts,
    Job,
    JobKey,
    ReplicaSpec,
    TrainingMode,
)
from optimus.models.earlier_runs import MOST_USED
from optimus.models.forecast import Forecast
from optimus.models.prior import samples_of, with_earlier
from optimus.models.speed.curve import MergedSamples, Processes, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.policies import policy_named
from optimus.progress.types import EarlierRun, SpeedSample
from optimus.resources import Resources
from optimus.simulator.summary import Estimate

TABLES: Final = Path(__file__).parent / "data" / "pollux"
SERVERS: Final = 16
GPUS: Final = 4
"""Of a server."""
WHOLE: Final = SERVERS * GPUS
STEP_SECONDS: Final = 60.0
RESTART_SECONDS: Final = 30.0
LEAST_GAIN: Final = 0.05
"""A move saves this part of the remaining time beyond its price."""
UNTOUCHED: Final = "untouched"
RECURRING: Final = "fitted"
ALPHAS: Final[Mapping[str, float]] = {"log": -1.0, "root": -1.5}
POLICIES: Final = (
    UNTOUCHED,
    *("-".join(each) for each in product(("kept", "first", "free"), ALPHAS)),
)

_GPU: Final = "nvidia.com/gpu"
_WORKER: Final = ReplicaSpec(Resources({_GPU: 1}))
_SINGLE: Final = ("ncf",)
"""Applications that train on one GPU alone, as published."""
_LARGEST_LOCAL: Final[Mapping[str, int]] = {"yolov3": 8}
"""Examples that fit on a GPU, where the tables go further."""

Floats = NDArray[np.float64]
Placement = tuple[int, ...]
"""GPUs on each server that a job has any of."""


def packed(workers: int) -> Placement:
    """The fewest servers."""
    full, rest = divmod(workers, GPUS)
    return (GPUS,) * full + ((rest,) if rest else ())


def _columns(path: Path) -> dict[str, Floats]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@dataclass(frozen=True, slots=True, eq=False)
class TableSpeed:
    """Steps per second by the number of workers."""

    speeds: Floats

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Self:
        """By the seconds of a step at 1, 2, 3, ... workers."""
        return cls(np.array([0.0, *(1 / each for each in seconds)]))

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> Floats:
        """At each number of workers; ``ps`` gives its shape alone."""
        at = np.minimum(np.asarray(workers), len(self.speeds) - 1)
        return np.asarray(self.speeds[np.broadcast_arrays(at, ps)[0]])


class Application:
    """Step times and progress of one model, by its tables."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        placed, wide = (_columns(folder / f"{each}.csv") for each in ("placements", "scalability"))
        times = [np.column_stack([of["step_time"], of["sync_time"]]) for of in (placed, wide)]
        names = [str(int(each)) for each in placed["placement"]]
        self._placed = dict[str, tuple[Floats, Floats]]()
        for name in dict.fromkeys(names):
            rows = np.flatnonzero([each == name for each in names])
            rows = rows[np.argsort(placed["local_bsz"][rows])]
            self._placed[name] = placed["local_bsz"][rows], times[0][rows]
        shapes = [(len(each), sum(map(int, each))) for each in names]
        points = np.vstack(
            [
                np.column_stack([np.array(shapes), placed["local_bsz"]]),
                np.column_stack([wide["num_nodes"], wide["num_replicas"], wide["local_bsz"]]),
            ]
        )
        self._between = LinearNDInterpolator(points, np.vstack(times))
        self._nearest = NearestNDInterpolator(points, np.vstack(times), rescale=True)
        self.least_local = int(placed["local_bsz"].min())
        self.most_local = _LARGEST_LOCAL.get(self.name, int(placed["local_bsz"].max()))
        validated = {
            int(each.stem.split("-")[1]): _columns(each) for each in folder.glob("validation-*.csv")
        }
        self._validated = dict(sorted(validated.items()))
        self._epochs = min(len(each["progress"]) for each in validated.values())
        self.step_seconds = cache(self._step_seconds)
        self.steps = cache(self._steps)
        self.speed = cache(self._speed)

    def most_workers(self, batch: int) -> int:
        """The most workers that may share a global batch."""
        most = 1 if self.name in _SINGLE else batch // self.least_local
        return max(1, min(most, WHOLE))

    def _step_seconds(self, batch: int, placement: Placement) -> float:
        """A step of the global batch; examples that do not fit on a GPU at once are accumulated."""
        local = math.ceil(batch / sum(placement))
        passes = math.ceil(local / self.most_local)
        at_once = max(math.ceil(local / passes), self.least_local)
        step, sync = self._times(placement, at_once)
        return step + (passes - 1) * max(step - sync, 0.0)

    def _speed(self, batch: int) -> TableSpeed:
        counts = range(1, self.most_workers(batch) + 1)
        return TableSpeed.of(self.step_seconds(batch, packed(each)) for each in counts)

    def _times(self, placement: Placement, local: int) -> tuple[float, float]:
        turned = min(placement[at:] + placement[:at] for at in range(len(placement)))
        known = self._placed.get("".join(map(str, turned)))
        if known is not None:
            sizes, times = known
            step, sync = (float(np.interp(local, sizes, each)) for each in times.T)
            return step, sync
        point = [len(placement), sum(placement), local]
        found = self._between(point)[0]
        if not np.isfinite(found).all():  # on the edge of what was measured, or beyond it
            found = self._nearest(point)[0]
        return float(found[0]), float(found[1])

    def _steps(self, batch: int) -> float:
        """Steps of the whole training at a global batch: by epoch, the progress divided by what a
        step of this batch is worth beside one of the smallest."""
        sizes = np.array(list(self._validated))

        def by_epoch(name: str) -> Floats:
            return np.array([each[name][: self._epochs] for each in self._validated.values()]).T

        def at_batch(name: str) -> Floats:
            return np.array([np.interp(batch, sizes, each) for each in by_epoch(name)])

        ends = by_epoch("progress").min(axis=1)
        sqr, var = at_batch("grad_sqr"), at_batch("grad_var")
        worth = (var + sqr) / (var * sizes[0] / batch + sqr)
        return float((np.diff(ends, prepend=0.0) / worth).sum())


@dataclass(slots=True, eq=False)
class PolluxJob:
    """A job of a workload, and what has become of it."""

    name: str
    submitted_at: float
    application: Application
    own: int
    batch: int
    left: float = 0.0
    """Steps."""
    servers: dict[int, int] = field(default_factory=dict)
    """GPUs by server."""
    starting: float = 0.0
    """Seconds until it trains."""
    ended_at: float | None = None
    seen: dict[tuple[int, int], float] = field(default_factory=dict)
    """Step seconds by the workers and servers at which it ran."""
    earlier: tuple[EarlierRun, ...] = ()
    """Jobs of its application with its batch that have ended, the last ones."""

    @property
    def workload(self) -> tuple[str, int]:
        """Its application and batch: jobs of the same learn from one another."""
        return self.application.name, self.batch

    @property
    def workers(self) -> int:
        """That it has now."""
        return sum(self.servers.values())

    def most(self, speeds: str) -> int:
        """The most workers that it may get."""
        most = self.application.most_workers(self.batch)
        before = (each.counts.workers for each in samples_of(self.earlier))
        had = max((self.own, *(workers for workers, _ in self.seen), *before))
        return most if speeds == "true" else min(most, 2 * had)

    def speed(self, speeds: str) -> TableSpeed:
        """What is known of its speed."""
        return self.application.speed(self.batch) if speeds == "true" else _fitted_speed(self)

    def advance(self, at: float, seconds: float) -> None:
        """Train from an instant on."""
        if not self.servers:
            return
        delay = min(self.starting, seconds)
        self.starting -= delay
        step = self.application.step_seconds(self.batch, tuple(self.servers.values()))
        if delay < seconds:
            self.seen[self.workers, len(self.servers)] = step
        needed = self.left * step
        if needed <= seconds - delay:
            self.ended_at, self.left, self.servers = at + delay + needed, 0.0, {}
        else:
            self.left -= (seconds - delay) / step

    def samples(self) -> tuple[SpeedSample, ...]:
        """What was seen."""
        return tuple(
            SpeedSample(Counts(0, workers), 1 / seconds, math.inf, 0.0, servers=servers)
            for (workers, servers), seconds in sorted(self.seen.items())
        )

    def as_earlier(self) -> EarlierRun:
        """What later jobs learn from it."""
        at = self.ended_at or 0.0
        return EarlierRun(
            uid=self.name, job=self.name, at=at, conditions="", samples=self.samples()
        )


def _fitted_speed(job: PolluxJob) -> TableSpeed:
    """The speed model of what was seen, also of earlier jobs; before that, of 1 s at its own
    counts."""
    own = job.samples()
    if not own and not job.earlier:
        own = (SpeedSample(Counts(0, job.own), 1.0, math.inf, 0.0, servers=len(packed(job.own))),)
    return _speed_of(own, job.earlier, job.batch, job.application.most_workers(job.batch))


@lru_cache(maxsize=4096)
def _speed_of(
    own: tuple[SpeedSample, ...], earlier: tuple[EarlierRun, ...], batch: int, most: int
) -> TableSpeed:
    terms = SpeedTerms(
        TrainingMode.SYNC, Batch(batch, BatchScope.JOB), processes=Processes(per_server=GPUS)
    )
    model = SpeedModel.of(with_earlier(MergedSamples.of(own), earlier, terms), terms)
    return TableSpeed.of(1 / model.steps_per_second(0, np.arange(1, most + 1)))


@dataclass(frozen=True, slots=True)
class Rule:
    """How bounds are set, and what is minimised."""

    bounds: str
    alpha: float
    speeds: str = "true"
    policy: Policy = field(default_factory=lambda: policy_named("optimus"))

    def decide(self, jobs: Sequence[PolluxJob], at: float) -> dict[str, int]:
        """The workers of each job from now on; 0 for one that waits on."""
        forecasts = {each.name: Forecast(each.speed(self.speeds), each.left) for each in jobs}
        most = {each.name: each.most(self.speeds) for each in jobs}
        least = {each.name: 1 for each in jobs}
        if self.bounds != "free":
            is_short = sum(each.own for each in jobs) > WHOLE
            goes_down = self.bounds == "first" and is_short
            own = {each.name: (1 if goes_down else each.own, each.own) for each in jobs}
            least = self._ask(jobs, forecasts, at, own)
        up = [each for each in jobs if each.name in least]
        between = {name: (each, max(each, most[name])) for name, each in least.items()}
        return self._settle(jobs, forecasts, self._ask(up, forecasts, at, between))

    def _ask(
        self,
        jobs: Sequence[PolluxJob],
        forecasts: Mapping[str, Forecast],
        at: float,
        bounds: Mapping[str, tuple[int, int]],
    ) -> dict[str, int]:
        whole, objective = Resources({_GPU: WHOLE}), JobObjective(1.0, self.alpha)
        candidates = tuple(
            Candidate(
                _as_job(each, *bounds[each.name]),
                forecasts[each.name],
                each.workers > 0,
                objective=objective,
            )
            for each in jobs
        )
        problem = AllocationProblem(whole, whole, candidates)
        answer, _ = self.policy.decide(ClusterProblem(at, (PoolProblem(problem),)), NO_MEMORY, 0)
        return {name: each.counts.workers for name, each in grants(answer).items()}

    def _settle(
        self,
        jobs: Sequence[PolluxJob],
        forecasts: Mapping[str, Forecast],
        wanted: Mapping[str, int],
    ) -> dict[str, int]:
        """Waiting jobs start, and what they need is taken from those that are to have less. A
        running job grows where that is worth its restart and those of the jobs that give for it."""
        objective = JobObjective(1.0, self.alpha)

        def change(job: PolluxJob, workers: int, margin: float = 0.0) -> float:
            now, then = (forecasts[job.name].at(Counts(0, n)) for n in (job.workers, workers))
            return objective.cost(now) - objective.cost(then + RESTART_SECONDS + margin * now)

        moves = _Moves({each.name: each.workers for each in jobs}, wanted)
        giving = [each for each in jobs if 0 < wanted.get(each.name, 0) < each.workers]
        costs = ((-change(each, wanted[each.name]), each.name) for each in giving)
        moves.donors = sorted(costs)
        growing = [each for each in jobs if wanted.get(each.name, 0) > each.workers]
        gains = {
            each.name: change(each, wanted[each.name], LEAST_GAIN) if each.workers else math.inf
            for each in growing
        }
        for each in sorted(growing, key=lambda one: -gains[one.name]):
            if moves.grow(each.name, gains[each.name]):
                continue
            fitting = min(each.workers + moves.free, wanted[each.name])
            if fitting > each.workers and change(each, fitting, LEAST_GAIN) > 0:
                moves.counts[each.name] = fitting
        return moves.counts


@dataclass(slots=True)
class _Moves:
    """What is decided so far; ``donors`` are the jobs that are to have less, with what that costs
    them, the least first."""

    counts: dict[str, int]
    wanted: Mapping[str, int]
    donors: list[tuple[float, str]] = field(default_factory=list)

    @property
    def free(self) -> int:
        return WHOLE - sum(self.counts.values())

    def grow(self, name: str, gain: float) -> bool:
        """Give a job what it is to have, if what others lose for it is less than its gain. A gain
        without limit takes what it can."""
        number, spare, cost = 0, self.free, 0.0
        more = self.wanted[name] - self.counts[name]
        while spare < more and number < len(self.donors):
            loss, donor = self.donors[number]
            spare, cost = spare + self.counts[donor] - self.wanted[donor], cost + loss
            number += 1
        if gain < math.inf and (spare < more or gain <= max(cost, 0.0)):
            return False
        for _, donor in self.donors[:number]:
            self.counts[donor] = self.wanted[donor]
        del self.donors[:number]
        self.counts[name] += min(more, spare)
        return True


def _as_job(job: PolluxJob, least: int, most: int) -> Job:
    bounds = CountBounds(min_ps=0, max_ps=0, min_workers=least, max_workers=most)
    counts = Counts(0, job.workers)
    return Job(
        key=JobKey("pollux", job.name),
        uid=job.name,
        kind="PyTorchJob",
        created_at=job.submitted_at,
        counts=counts,
        ps=ReplicaSpec(),
        worker=_WORKER,
        bounds=bounds,
    )


def untouched(jobs: Sequence[PolluxJob]) -> dict[str, int]:
    """First in, first out, with backfill, at the users' counts."""
    free = WHOLE - sum(each.workers for each in jobs)
    counts = {each.name: each.workers for each in jobs}
    for each in jobs:
        if not each.workers and each.own <= free:
            counts[each.name] = each.own
            free -= each.own
    return counts


def place(jobs: Sequence[PolluxJob], counts: Mapping[str, int]) -> None:
    """Jobs whose counts change leave their servers, and go to as few as possible, large ones
    first."""
    changed = [each for each in jobs if counts[each.name] != each.workers]
    for each in changed:
        each.servers = {}
    free = [GPUS] * SERVERS
    for server, used in (item for each in jobs for item in each.servers.items()):
        free[server] -= used
    for each in sorted(changed, key=lambda one: (-counts[one.name], one.name)):
        rest, each.starting = counts[each.name], RESTART_SECONDS
        while rest:
            fitting = [at for at in range(SERVERS) if free[at] >= min(rest, GPUS)]
            at = min(fitting, key=lambda one: free[one]) if fitting else int(np.argmax(free))
            each.servers[at] = min(rest, free[at])
            rest -= each.servers[at]
            free[at] -= each.servers[at]


Outcome = dict[str, float]
"""Of a workload under a policy: seconds, the ratio of the mean to that of untouched jobs, the part
of the jobs more than 5 % later than untouched, and the largest multiple of the untouched time."""


def read_jobs(tables: Path, workload: Path, load: float = 1.0) -> list[PolluxJob]:
    """The jobs of a workload in the order of their submission, ``load`` times as fast."""
    with workload.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["application"] for row in rows})
    applications = {name: Application(tables / name) for name in names}
    jobs = []
    for row in rows:
        application, batch = applications[row["application"]], int(row["batch_size"])
        jobs.append(
            PolluxJob(
                row["name"],
                float(row["time"]) / load,
                application,
                min(int(row["num_replicas"]), application.most_workers(batch)),
                batch,
                application.steps(batch),
            )
        )
    return sorted(jobs, key=lambda each: (each.submitted_at, each.name))


def run(
    tables: Path, speeds: str, load: float, case: tuple[Path, str]
) -> tuple[dict[str, float], float]:
    """The completion time of each job of a workload under a policy, and the makespan, in
    seconds."""
    workload, policy = case
    jobs, at = read_jobs(tables, workload, load), 0.0
    bounds, _, objective = policy.partition("-")
    is_untouched, rule = policy == UNTOUCHED, Rule(bounds, ALPHAS.get(objective, 0.0), speeds)
    ended = dict[tuple[str, int], tuple[EarlierRun, ...]]()
    while any(each.ended_at is None for each in jobs):
        for each in (one for one in jobs if one.ended_at is None):
            each.advance(at, STEP_SECONDS)
            if each.ended_at is not None and speeds == RECURRING:
                known = ended.get(each.workload, ())
                ended[each.workload] = (*known, each.as_earlier())[-MOST_USED:]
        at += STEP_SECONDS
        here = [each for each in jobs if each.submitted_at <= at and each.ended_at is None]
        for each in here:
            each.earlier = ended.get(each.workload, ())
        if here:
            place(here, untouched(here) if is_untouched else rule.decide(here, at))
    ends = {each.name: each.ended_at for each in jobs if each.ended_at is not None}
    makespan = max(ends.values()) - min(each.submitted_at for each in jobs)
    return {each.name: ends[each.name] - each.submitted_at for each in jobs}, makespan


def outcome(times: Mapping[str, float], makespan: float, before: Mapping[str, float]) -> Outcome:
    """The figures of completion times beside untouched ones."""
    seconds = np.array(list(times.values()))
    ratios = seconds / np.array([before[name] for name in times])
    return {
        "mean_jct_seconds": float(seconds.mean()),
        "p99": float(np.percentile(seconds, 99)),
        "makespan": makespan,
        "ratio": float(seconds.mean() / np.mean(list(before.values()))),
        "late_fraction": float(np.mean(ratios > LATE)),
        "worst": float(ratios.max()),
    }


def summary(found: Sequence[Outcome]) -> dict[str, float | None]:
    """A policy over all workloads, each of which is one observation."""
    estimate = Estimate.of([each["ratio"] for each in found])
    late, worst = ([each[name] for each in found] for name in ("late_fraction", "worst"))
    ends = {"ratio": estimate.mean, "low": estimate.low, "high": estimate.high}
    return ends | {"late_fraction": float(np.mean(late)), "worst": max(worst)}


def main() -> None:
    """Run all workloads, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--tables", type=Path, default=TABLES, metavar="DIR")
    add("--speeds", choices=("true", RECURRING, "alone"), default="true")
    add("--workloads", nargs="+", type=Path, metavar="FILE", help="default: DIR/workloads/*.csv")
    add("--policies", nargs="+", choices=POLICIES[1:], default=POLICIES[1:])
    add("--load", type=float, default=1.0, help="jobs come so many times as fast")
    add("--processes", type=int, default=2)
    add("--json", action="store_true")
    options = parser.parse_args()
    workloads = options.workloads or sorted((options.tables / "workloads").glob("*.csv"))
    policies = (UNTOUCHED, *options.policies)
    cases = list(product(workloads, policies))
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(partial(run, options.tables, options.speeds, options.load), cases)
        found = dict(zip(cases, results, strict=True))
    by_file = {
        each.name: {
            policy: outcome(*found[each, policy], found[each, UNTOUCHED][0]) for policy in policies
        }
        for each in workloads
    }
    overall = {policy: summary([each[policy] for each in by_file.values()]) for policy in policies}
    if options.json:
        print(json.dumps({"workloads": by_file, "policies": overall}, indent=1, allow_nan=False))
        return
    print("policy      to untouched   over 5 % late   worst   by workload")
    for policy, each in overall.items():
        ratios = " ".join(f"{of[policy]['ratio']:.2f}" for of in by_file.values())
        late, worst = f"{each['late_fraction']:.0%}", f"{each['worst']:.1f}"
        print(f"{policy:<11} {each['ratio']:>12.2f} {late:>15} {worst:>7}   {ratios}")


if __name__ == "__main__":
    main()
