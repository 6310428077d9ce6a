"""Jobs without parameter servers that share a cluster: ``python -m benchmarks.shared_ranks
[--tables DIR] [--jobs 12] [--draws 100]``.

Jobs of ``all_reduce_speed``'s series, packed, at random counts and with log-normal times to their
ends, have between them the workers that their users asked for. Each was measured at one to three
counts; ``OptimusPolicy`` gives all of them counts once, up to twice the largest measured ones. Mean
time to their ends, without restarts, to that at their users' counts, and the part that ends over
5 % later; *true*: by the measured step times."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.all_reduce_speed import measured_model, series
from benchmarks.heavy_tails import LATE
from benchmarks.pollux_workloads import GPUS, TABLES, TableSpeed
from optimus.allocation import AllocationProblem, Candidate, ClusterProblem
from optimus.allocation.fairness import JobObjective
from optimus.allocation.policy import NO_MEMORY, PoolProblem, grants
from optimus.jobs import CountBounds, Counts, Job, JobKey, ReplicaSpec
from optimus.models.forecast import Forecast
from optimus.policies import policy_named
from optimus.resources import Resources

_GPU = Resources({"nvidia.com/gpu": 1})


def _candidate(name: str, own: int, most: int, forecast: Forecast) -> Candidate:
    bounds = CountBounds(0, 0, 1, most, shares=most)
    job = Job(
        key=JobKey("shared", name),
        uid=name,
        kind="PyTorchJob",
        created_at=0.0,
        counts=Counts(0, own),
        ps=ReplicaSpec(),
        worker=ReplicaSpec(_GPU),
        bounds=bounds,
    )
    return Candidate(job, forecast, running=True, objective=JobObjective(1.0, -1.5))


def share(
    drawn: Sequence[tuple[int, Mapping[int, float]]], samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The mean time of these jobs to that at their users' counts, and the part that is late; 0
    samples: by the measured step times."""
    candidates, before = list[Candidate](), list[float]()
    for number, (batch, seconds) in enumerate(drawn):
        own, left = int(rng.choice(list(seconds))), float(rng.lognormal(8.0, 1.0))
        model, seen = measured_model(batch, seconds, own, max(samples, 1), GPUS, rng)
        most = min(2 * max(seen), max(seconds))
        counts = np.array(sorted(seconds))
        known = 1 / model.steps_per_second(0, counts)
        if not samples:
            known = np.array([seconds[each] for each in counts.tolist()])
        # Further workers up to the next power of two take no part of the batch.
        below = np.searchsorted(counts, np.arange(1, most + 1), side="right") - 1
        forecast = Forecast(TableSpeed.of(known[below]), left / seconds[own])
        candidates.append(_candidate(str(number), own, most, forecast))
        before.append(left)
    owns = [each.job.counts.workers for each in candidates]
    whole = _GPU * sum(owns)
    problem = AllocationProblem(whole, whole, tuple(candidates))
    asked = ClusterProblem(0.0, (PoolProblem(problem),))
    answer, _ = policy_named("optimus").decide(asked, NO_MEMORY, 0)
    given = {name: each.counts.workers for name, each in grants(answer).items()}
    ratios = []
    for number, ((_, seconds), own) in enumerate(zip(drawn, owns, strict=True)):
        most = given.get(str(number), own)
        ratios.append(seconds[max(each for each in seconds if each <= most)] / seconds[own])
    after = np.array(before) * ratios
    return float(after.sum() / sum(before)), float(np.mean(np.array(ratios) > LATE))


def main() -> None:
    """Print a row for each number of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    every = list(series(options.tables, spread=False))
    print("samples  to own  late")
    for samples in (1, 2, 3, 0):
        rng = np.random.default_rng(0)
        found = []
        for _ in range(options.draws):
            drawn = [every[int(rng.integers(len(every)))] for _ in range(options.jobs)]
            found.append(share(drawn, samples, rng))
        ratio, late = np.mean(found, axis=0)
        print(f"{samples or 'true':>7} {ratio:>7.2f} {late:>5.0%}")


if __name__ == "__main__":
    main()
