"""The product's simulator on Gavel's traces, without costs, beside Gavel's own simulator.

``python -m benchmarks.gavel_simulated [--trace NAME] [--policy NAME ...]`` runs the simulator as
``optimus simulate --trace-format gavel`` does, without costs: placement on nodes of one GPU,
rounds at fixed instants, rescales by the state machine, which take no time. It prints mean
completion time and makespan in hours, beside those of the policy of Gavel's. What differs from
Gavel's loop: a new job runs on what is left over before it has shares, and a round does not end
with its last job."""

import argparse
import csv
from collections.abc import Mapping, Sequence

from benchmarks.gavel_rounds import CLUSTERS, DATA, KINDS
from optimus.allocation.options import Options
from optimus.cli.node_groups import parse_nodes
from optimus.cli.simulate import Comparison
from optimus.cli.trace_formats import read_gavel
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.stops import Stops
from optimus.simulator.trace_workload import SubmittedWorkload

THEIRS: Mapping[str, tuple[str, Options]] = {
    "gavel-las": ("max_min_fairness_water_filling_perf", {}),
    "gavel-ftf": ("finish_time_fairness_perf", {}),
    "gavel-makespan": ("min_total_duration_perf", {}),
    "gavel-fifo": ("fifo_perf", {"reset-rounds": 6}),
}
"""Their policy, and the options with which ours is theirs."""


def compared(trace: str, gpus: Sequence[int]) -> Comparison:
    """What is the same for every policy."""
    nodes = parse_nodes(
        [f"{count}:gpu=1,kind={kind}" for kind, count in zip(KINDS, gpus, strict=True)]
    )
    submitted = read_gavel(DATA / f"{trace}.trace", DATA / "simulation_throughputs.json")
    maker = SubmittedWorkload(trace, submitted, nodes)
    options = {name: chosen for name, (_, chosen) in THEIRS.items()}
    return Comparison(
        maker=maker,
        jobs=len(submitted),
        nodes=nodes,
        forecasts=TrueForecasts(),
        stops=Stops(costless=True),
        options=options,
    )


def hours(trace: str, policy: str) -> tuple[float, float]:
    """Mean completion time and makespan of a trace under a policy of ours."""
    found = compared(trace, CLUSTERS[trace]).run((policy, 1))
    times = [each.completion_seconds / 3600 for each in found.jobs]
    return sum(times) / len(times), found.ended_at / 3600


def main() -> None:
    """Print ours beside theirs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", choices=CLUSTERS, default="max_min_fairness")
    parser.add_argument("--policy", nargs="+", choices=THEIRS, default=list(THEIRS))
    options = parser.parse_args()
    reference = {
        row["policy"]: (float(row["mean_jct_h"]), float(row["makespan_h"]))
        for row in csv.DictReader((DATA / "reference.csv").read_text().splitlines())
        if row["trace"] == options.trace
    }
    print("policy: mean JCT h (theirs, difference); makespan h (theirs, difference)")
    for name in options.policy:
        theirs, ours = reference.get(THEIRS[name][0]), hours(options.trace, name)
        text = "; ".join(
            f"{mine:.4f} ({other:.4f}, {mine / other - 1:+.2%})" if theirs else f"{mine:.4f}"
            for mine, other in zip(ours, theirs or ours, strict=True)
        )
        print(f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
