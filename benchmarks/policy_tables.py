"""All policies on the same workloads, as ratios of completion times to those of ``optimus``:
``python -m benchmarks.policy_tables [--seeds 3] [--workloads NAME ...] [--policies NAME ...]``.

The answer is the table of docs/benchmarks/decisions.md, after some ten minutes of CPU. A cell is
the mean of the seeds' ratios and its 95 % interval by Student's t; completion times are weighed
where jobs have weights.

- ``small``: jobs submitted at 1 + 1, room for all.
- ``full``: jobs submitted at sensible counts, more than there is room for.
- ``kinds``: drawn jobs of Gavel's trace, at once, on a sixth part V100, a third P100, half K80.
- ``one kind``: the same on as many V100.
- ``weights``: as ``kinds``; every fifth job counts five times.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from benchmarks.gavel_rounds import DATA, KINDS
from optimus.cli.node_groups import parse_nodes
from optimus.cli.simulate import Comparison
from optimus.cli.trace_formats import read_gavel
from optimus.policies import POLICIES
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.presets import FIXED
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate
from optimus.simulator.trace_workload import SubmittedWorkload
from optimus.simulator.user_counts import UserCounts
from optimus.simulator.workload import WORKLOADS

REFERENCE: Final = "optimus"
TRACE: Final = "max_min_fairness"
DRAWN: Final = 40
"""Jobs of the trace."""
GPUS: Final = (6, 12, 18)
WEIGHT: Final = 5.0
"""Of every fifth job."""

Setting = Callable[[int], Comparison]
"""What is the same for every policy with a seed."""


def _parameter_jobs(jobs: int, nodes: int, counts: str | None, _: int) -> Comparison:
    return Comparison(
        maker=WORKLOADS["uniform"],
        jobs=jobs,
        nodes=parse_nodes([f"{nodes}:cpu=16,memory=80"]),
        counts=None if counts is None else UserCounts(counts),
    )


def _gavels_jobs(gpus: Mapping[str, int], weight: float, seed: int) -> Comparison:
    nodes = parse_nodes([f"{count}:gpu=1,kind={kind}" for kind, count in gpus.items()])
    every = read_gavel(DATA / f"{TRACE}.trace", DATA / "simulation_throughputs.json")
    chosen = stream(seed, Purpose.WORKLOAD).choice(len(every), DRAWN, replace=False)
    drawn = [
        replace(every[number], submit_seconds=0.0, weight=1.0 if place % 5 else weight)
        for place, number in enumerate(chosen.tolist())
    ]
    return Comparison(
        maker=SubmittedWorkload(TRACE, drawn, nodes),
        jobs=DRAWN,
        nodes=nodes,
        forecasts=TrueForecasts(),
    )


SETTINGS: Final[Mapping[str, Setting]] = {
    "small": partial(_parameter_jobs, 20, 5, None),
    "full": partial(_parameter_jobs, 20, 2, "sensible"),
    "kinds": partial(_gavels_jobs, dict(zip(KINDS, GPUS, strict=True)), 1.0),
    "one kind": partial(_gavels_jobs, {KINDS[0]: sum(GPUS)}, 1.0),
    "weights": partial(_gavels_jobs, dict(zip(KINDS, GPUS, strict=True)), WEIGHT),
}


def mean_seconds(policy: str, setting: str, seed: int) -> float:
    """Mean completion time of a policy's jobs, weighed."""
    comparison = SETTINGS[setting](seed)
    workload = comparison.maker(comparison.jobs, stream(seed, Purpose.WORKLOAD))
    of = {
        each.job.uid: workload.weights.get(each.job.priority_class, 1.0) for each in workload.jobs
    }
    jobs = comparison.run((policy, seed)).jobs
    times, weights = zip(*((job.completion_seconds, of[job.uid]) for job in jobs), strict=True)
    return float(np.average(times, weights=weights))


def row(policy: str, reference: Mapping[str, Sequence[float]]) -> str:
    """A policy's ratios to the reference in each setting, as a row of Markdown."""
    cells = []
    for setting, theirs in reference.items():
        ratios = [
            mean_seconds(policy, setting, seed) / seconds
            for seed, seconds in enumerate(theirs, start=1)
        ]
        found = Estimate.of(ratios)
        assert found.mean is not None
        half = "" if found.high is None else f" ± {found.high - found.mean:.2f}"
        cells.append(f"{found.mean:.2f}{half}")
    return f"| `{policy}` | {' | '.join(cells)} |"


def main() -> None:
    """Print the table row by row."""
    policies = [FIXED, *(name for name in POLICIES if name != REFERENCE)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--policies", nargs="+", choices=policies, default=policies)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    reference = {
        setting: [mean_seconds(REFERENCE, setting, seed) for seed in seeds]
        for setting in options.workloads
    }
    print(f"| policy | {' | '.join(reference)} |")
    print(f"| --- |{' --- |' * len(reference)}")
    seconds = (f"{np.mean(each):.0f} s" for each in reference.values())
    print(f"| `{REFERENCE}` | {' | '.join(seconds)} |", flush=True)
    for policy in options.policies:
        print(row(policy, reference), flush=True)


if __name__ == "__main__":
    main()
