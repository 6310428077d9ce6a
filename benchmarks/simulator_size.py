"""How the time of a simulation grows with the cluster, at constant load.

Jobs of the paper's nine types arrive by a Poisson process, three an interval for each 13 nodes, so
that every size has the same load. One process, one simulation after the other::

    python -m benchmarks.simulator_size                         # 130 to 2,600 jobs, 13 to 260 nodes
    python -m benchmarks.simulator_size --sizes 77 --jobs 10000 --look-seconds 30   # 1,001 nodes

``--sizes`` are multiples of the testbed's 13 servers."""

import argparse
import json
import sys
import time

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from optimus.cli.arguments import joined, whole_number
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset, with_loop
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import FIGURES
from optimus.simulator.workload import (
    JOBS_PER_SLOT,
    SLOT_SECONDS,
    RandomWorkload,
    WorkloadConfig,
)

_JOBS_PER_SIZE = 130


def main() -> None:
    """Print one JSON object for each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=joined(whole_number(1)), default=(1, 5, 20))
    parser.add_argument("--jobs", type=whole_number(1), help="default: 130 for each size")
    parser.add_argument("--look-seconds", type=whole_number(0), default=0)
    options = parser.parse_args()
    for size in options.sizes:
        jobs = options.jobs or size * _JOBS_PER_SIZE
        found = measured(size, jobs, options.look_seconds)
        print(json.dumps(found), file=sys.stdout, flush=True)


def measured(size: int, jobs: int, look_seconds: float) -> object:
    """The CPU seconds of one simulation, and its figures."""

    def arrivals(count: int, rng: Generator) -> NDArray[np.float64]:
        return np.cumsum(rng.exponential(SLOT_SECONDS / JOBS_PER_SLOT / size, count))

    maker = RandomWorkload("poisson", arrivals, WorkloadConfig(machines=size))
    workload = maker(jobs, stream(1, Purpose.WORKLOAD))
    began = time.process_time()
    found = simulate(workload, with_loop(preset("optimus"), look_seconds=look_seconds), seed=1)
    seconds = time.process_time() - began
    figures = {name: figure(found) for name, figure in FIGURES.items()}
    return {
        "nodes": len(workload.nodes),
        "jobs": jobs,
        "look_seconds": look_seconds,
        "cpu_seconds": round(seconds, 1),
        "cpu_milliseconds_per_job": round(seconds / jobs * 1000, 1),
        "events": len(found.timeline),
        "figures": {name: value and round(value, 4) for name, value in figures.items()},
    }


if __name__ == "__main__":
    main()
