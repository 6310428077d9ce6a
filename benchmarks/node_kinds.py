"""What telling kinds of nodes apart brings: a policy against itself without, and others.

``python -m benchmarks.node_kinds [--policy NAME] [--seeds N] [--seed N] [--jobs N ...]`` simulates
the workload ``uniform`` on 4 nodes of each of three kinds, whose workers compute at 1, 0.5 and 0.15
of the usual speed, and prints the table of ``optimus simulate`` for each number of jobs. The named
reference of ``gavel-las`` is ``las``: the same policy without kinds (least attained service, as
Gavel compares itself with); that of ``optimus`` is ``alike``: itself, with all kinds taken for one.
With ``fixed`` each job has 2 PSs and 2 workers and is never moved: placed ``anywhere``, and first
on the kind that is ``fastest``, which is known.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.gavel_rounds import without_kinds
from optimus.allocation.time_shares import SharesProblem, Values
from optimus.cli.node_groups import parse_arithmetic, parse_nodes
from optimus.cli.simulate import summary_table
from optimus.jobs import Counts, RescaleRule
from optimus.placement.first_kind import KindOrders
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.simulator.engine import simulate
from optimus.simulator.jobs import Workload
from optimus.simulator.presets import FIXED, SchedulerConfig, preset, with_loop
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.workload import WORKLOADS, on_kinds

REFERENCE = "las"
NODES = tuple(f"4:cpu=16,memory=80,speed={speed}" for speed in ("1", "0.5", "0.15"))
OTHERS = ("gavel-las", "fifo", "srtf")


@dataclass(frozen=True, slots=True)
class Agnostic(GavelLasPolicy):
    """``gavel-las`` without kinds: a job's share is spread evenly over them."""

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        return without_kinds(GavelLasPolicy().shares, problem)


def workload(jobs: int, seed: int) -> Workload:
    """So many jobs on nodes of three kinds."""
    found = WORKLOADS["uniform"](jobs, stream(seed, Purpose.WORKLOAD))
    drawn = tuple(on_kinds(each, _speeds()) for each in found.jobs)
    return replace(found, jobs=drawn, nodes=parse_nodes(NODES))


def _speeds() -> Mapping[str, float]:
    return parse_arithmetic(NODES)


def _staying(found: Workload) -> Workload:
    """The workload with jobs whose counts are never changed."""
    jobs = [
        replace(each, job=replace(each.job, rescale=RescaleRule.NEVER, counts=Counts(2, 2)))
        for each in found.jobs
    ]
    return replace(found, jobs=tuple(jobs))


def schedulers(policy: str) -> list[SchedulerConfig]:
    """The reference first."""
    usual = preset(policy)
    if policy == FIXED:
        label, kinds = (
            usual.loop.driver.kind_label,
            sorted(_speeds(), key=lambda kind: -_speeds()[kind]),
        )
        informed = with_loop(usual, kind_orders=KindOrders(label, tuple(kinds)))
        return [replace(usual, name="anywhere"), replace(informed, name="fastest")]
    if policy == "optimus":
        driver = replace(usual.loop.driver, kind_label="")
        without = replace(with_loop(usual, driver=driver), name="alike")
        return [without, usual, preset(FIXED)]
    without = replace(usual, name=REFERENCE, policy=Agnostic())
    return [without, *map(preset, OTHERS)]


def compared(policy: str, jobs: int, seeds: Sequence[int]) -> list[Simulation]:
    """Every scheduler with every seed."""
    made = {seed: workload(jobs, seed) for seed in seeds}
    if policy == FIXED:
        made = {seed: _staying(each) for seed, each in made.items()}
    return [simulate(made[seed], config, seed) for config in schedulers(policy) for seed in seeds]


def main() -> None:
    """Print a table for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=("gavel-las", "optimus", FIXED), default="gavel-las")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, nargs="+", default=[60, 180])
    options = parser.parse_args()
    for jobs in options.jobs:
        seeds = range(options.seed, options.seed + options.seeds)
        found = compared(options.policy, jobs, seeds)
        print(f"{jobs} jobs, {options.seeds} seeds; ratios to {found[0].policy}")
        print(f"\n{summary_table(found)}\n")


if __name__ == "__main__":
    main()
