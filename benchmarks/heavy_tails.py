"""Jobs of very unequal lengths that wait for one another, managed to untouched:
``python -m benchmarks.heavy_tails [--counts best sensible] [--seeds 401-406] [--jobs 60]
[--processes 2] [--json]``.

Sixty jobs with parameter servers arrive on 13 servers in the product's simulator; the logarithm of
a job's length has a standard deviation of 1.2. Users submit them at their best or at their sensible
counts (``optimus.simulator.user_counts``). *Managed* is the policy ``optimus``, *untouched* the
same queue with jobs that nobody moves. For each of ``--counts``, the answer has the ratio of the
mean completion times seed by seed, its mean and 95 % interval over the seeds, the part of all jobs
that end more than 5 % later than untouched, and the largest ratio of one job."""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Final

from benchmarks.simulated_gains import OURS, Setting
from benchmarks.virtual_pairs import seeds_of
from optimus.simulator.presets import FIXED
from optimus.simulator.summary import Estimate
from optimus.simulator.user_counts import UserCounts
from optimus.simulator.workload import WorkloadConfig

SPREAD: Final = 1.2
LATE: Final = 1.05
"""A job is late from this multiple of its untouched time on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """What managing the jobs of one seed brought."""

    seed: int
    untouched_seconds: float
    managed_seconds: float
    ratios: tuple[float, ...] = field(repr=False)
    """Each job's completion time, managed to untouched."""

    @property
    def ratio(self) -> float:
        """Of the mean completion times."""
        return self.managed_seconds / self.untouched_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All seeds at one kind of counts."""

    mean: float | None
    low: float | None
    high: float | None
    by_seed: dict[int, float]
    late_fraction: float
    late_by_seed: dict[int, float]
    worst: float
    untouched_seconds: float
    managed_seconds: float


def run_seed(jobs: int, case: tuple[UserCounts, int]) -> SeedResult:
    """Both simulations of one seed."""
    counts, seed = case
    setting = Setting(jobs, config=WorkloadConfig(size_spread=SPREAD), other=FIXED, counts=counts)
    untouched, managed = (setting.run(each, seed, by_image=False) for each in (FIXED, OURS))
    return SeedResult(
        seed=seed,
        untouched_seconds=float(untouched.times.mean()),
        managed_seconds=float(managed.times.mean()),
        ratios=tuple((managed.times / untouched.times).tolist()),
    )


def summary(found: Sequence[SeedResult]) -> Summary:
    """The figures of several seeds; each seed is one observation."""
    estimate = Estimate.of([each.ratio for each in found])
    late = {each.seed: _late_fraction(each.ratios) for each in found}
    return Summary(
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        by_seed={each.seed: each.ratio for each in found},
        late_fraction=sum(late.values()) / len(late),
        late_by_seed=late,
        worst=max(max(each.ratios) for each in found),
        untouched_seconds=sum(each.untouched_seconds for each in found) / len(found),
        managed_seconds=sum(each.managed_seconds for each in found) / len(found),
    )


def _late_fraction(ratios: Sequence[float]) -> float:
    return sum(each > LATE for each in ratios) / len(ratios)


def main() -> None:
    """Run all seeds, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", nargs="+", type=UserCounts, default=list(UserCounts))
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("401-406"))
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = list(product(options.counts, options.seeds))
    with ProcessPoolExecutor(options.processes) as pool:
        results = list(pool.map(partial(run_seed, options.jobs), cases))
    answer = {
        str(counts): summary(
            [each for case, each in zip(cases, results, strict=True) if case[0] is counts]
        )
        for counts in options.counts
    }
    if options.json:
        plain = {name: asdict(each) for name, each in answer.items()}
        print(json.dumps(plain, indent=1, allow_nan=False))
        return
    print("counts    managed / untouched     over 5 % late   worst   by seed")
    for name, each in answer.items():
        interval = "" if each.low is None else f"({each.low:.2f} to {each.high:.2f})"
        by_seed = " ".join(f"{ratio:.2f}" for ratio in each.by_seed.values())
        print(
            f"{name:<9} {each.mean:.2f} {interval:<18} {each.late_fraction:>13.0%}"
            f" {each.worst:>7.1f}   {by_seed}"
        )


if __name__ == "__main__":
    main()
