"""How long the whole comparison takes: ``python -m benchmarks.simulator [--jobs 60] [--seeds 3]``,
JSON.

Five policies, three seeds, 60 jobs of the paper's workload, one after the other in this process;
seconds are CPU seconds. The named reference is ``drf`` in the same run: it asks for no forecast, so
that what the others take more is models and searches. Run twice, the results must be the same
bytes, of which ``sha256`` is the digest."""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from optimus.cli.simulate import USUAL_POLICIES
from optimus.simulator.engine import simulate
from optimus.simulator.files import write
from optimus.simulator.presets import preset
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.workload import WORKLOADS

REFERENCE = "drf"


def main() -> None:
    """Run the comparison and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    found: list[Simulation] = []
    taken: dict[str, float] = {}
    for policy in USUAL_POLICIES:
        began = time.process_time()
        found += [
            simulate(
                WORKLOADS["uniform"](options.jobs, stream(seed, Purpose.WORKLOAD)),
                preset(policy),
                seed,
            )
            for seed in seeds
        ]
        taken[policy] = time.process_time() - began
    json.dump(answer(found, taken), sys.stdout, indent=2)
    print()


def answer(found: Sequence[Simulation], taken: dict[str, float]) -> dict[str, object]:
    """What was measured: CPU seconds in all and by policy, against the reference, and the digest of
    the results."""
    simulated = sum(each.makespan_seconds for each in found)
    return {
        "policies": len(taken),
        "seeds": len({each.seed for each in found}),
        "jobs": len(found[0].jobs),
        "cpu_seconds": round(sum(taken.values()), 2),
        "simulated_hours": round(simulated / 3600, 1),
        "cpu_seconds_by_policy": {policy: round(seconds, 2) for policy, seconds in taken.items()},
        f"ratio_to_{REFERENCE}": {
            policy: round(seconds / taken[REFERENCE], 1) for policy, seconds in taken.items()
        },
        "sha256": _digest(found),
    }


def _digest(found: Sequence[Simulation]) -> str:
    with TemporaryDirectory() as folder:
        return hashlib.sha256(
            b"".join(path.read_bytes() for path in write(found, Path(folder)))
        ).hexdigest()


if __name__ == "__main__":
    main()
