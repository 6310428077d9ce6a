"""The product's simulator on Gavel's traces, without costs, beside Gavel's own simulator.

``python -m benchmarks.gavel_simulated [--trace NAME] [--policy NAME ...]`` runs policies by the
loop of ``optimus simulate``: placement on nodes of one GPU, rounds at fixed instants, rescales by
the state machine, which here take no time. Jobs have no PSs; a worker takes one GPU. It prints mean
completion time and makespan in hours, beside those of the policy of Gavel's. What differs from
Gavel's loop: a new job runs on what is left over before it has shares, and a round does not end
with its last job."""

import argparse
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchmarks.gavel_rounds import CLUSTERS, DATA, KINDS, TraceJob, read_trace
from optimus.allocation.options import Options
from optimus.jobs import CountBounds, Counts, Job, JobKey, ReplicaSpec, RescaleRule, TargetEpochs
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.resources import PODS, Resources
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.ground_truth.measured import RecordedLoss
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.presets import preset
from optimus.simulator.results import GPU

THEIRS: Mapping[str, tuple[str, Options]] = {
    "gavel-las": ("max_min_fairness_perf", {"levels": False}),
    "gavel-ftf": ("finish_time_fairness_perf", {}),
    "gavel-makespan": ("min_total_duration_perf", {}),
    "gavel-fifo": ("fifo_perf", {"reset-seconds": 1920.0}),
}
"""Their policy, and the options with which ours is theirs."""
_EPOCHS = 100


@dataclass(frozen=True)
class FixedSpeed:
    """A speed that only the kind of the workers' nodes changes."""

    full: float

    def steps_per_second(self, _: tuple[Counts, ...], straggling: tuple[float, ...] = ()) -> float:
        """As fast as the slowest worker."""
        return self.full * min(straggling, default=1.0)


def simulated(number: int, traced: TraceJob) -> SimulatedJob:
    """A job of a trace, at its own counts alone."""
    counts, full = Counts(0, traced.workers), max(traced.speeds)
    job = Job(
        key=JobKey("gavel", f"job-{number:03}"),
        uid=f"job-{number:03}",
        kind="TFJob",
        created_at=traced.arrival,
        counts=counts,
        ps=ReplicaSpec(),
        worker=ReplicaSpec(Resources({GPU: 1, PODS: 1})),
        bounds=CountBounds(0, 0, traced.workers, traced.workers),
        steps_per_epoch=traced.steps / _EPOCHS,
        goal=TargetEpochs(_EPOCHS),
        rescale=RescaleRule.ANY,
    )
    return SimulatedJob(
        job=job,
        kind="gavel",
        speed=FixedSpeed(full),
        loss=RecordedLoss((1.0,)),
        steps_per_epoch=traced.steps / _EPOCHS,
        most_epochs=_EPOCHS,
        rescale_seconds=0.0,
        kind_speeds=MappingProxyType(
            {kind: speed / full for kind, speed in zip(KINDS, traced.speeds, strict=True)}
        ),
    )


def nodes(gpus: Sequence[int]) -> tuple[Node, ...]:
    """One GPU each."""
    has = Resources({GPU: 1, PODS: 110})
    return tuple(
        Node(f"{kind}-{number:02}", has, {NODE_KIND_LABEL: kind})
        for kind, count in zip(KINDS, gpus, strict=True)
        for number in range(count)
    )


def main() -> None:
    """Print ours beside theirs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", choices=CLUSTERS, default="max_min_fairness")
    parser.add_argument("--policy", nargs="+", choices=THEIRS, default=list(THEIRS))
    options = parser.parse_args()
    jobs = tuple(simulated(*each) for each in enumerate(read_trace(options.trace)))
    workload = Workload(options.trace, jobs, nodes(CLUSTERS[options.trace]))
    reference = {
        row["policy"]: (float(row["mean_jct_h"]), float(row["makespan_h"]))
        for row in csv.DictReader((DATA / "reference.csv").read_text().splitlines())
        if row["trace"] == options.trace
    }
    print("policy: mean JCT h (theirs, difference); makespan h (theirs, difference)")
    for name in options.policy:
        their_name, chosen = THEIRS[name]
        config = replace(preset(name, TrueForecasts(), options=chosen), leaving_seconds=0.0)
        found = simulate(workload, config, 1)
        ends = [(each.finished_at, each.arrived_at) for each in found.jobs]
        mean = sum(end - begin for end, begin in ends) / len(ends) / 3600
        ours = mean, max(end for end, _ in ends) / 3600
        theirs = reference.get(their_name)
        text = "; ".join(
            f"{mine:.4f} ({other:.4f}, {mine / other - 1:+.2%})" if theirs else f"{mine:.4f}"
            for mine, other in zip(ours, theirs or ours, strict=True)
        )
        print(f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
