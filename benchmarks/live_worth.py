"""What managing jobs is worth on live clusters:
``python -m benchmarks.live_worth --output DIR [--cluster embedded] [--counts 2+3 ...]
[--seeds 1 2] [--seconds 300] [--saves-every N]``; with ``--ranks`` the jobs are PyTorchJobs, and
``--counts 1+3`` is a master and three workers.

Six light jobs run at the same time on two clusters of their own: on one the autoscaler manages
them, on the other it only recommends (``--recommend``), so that they run at their users' counts.
All settings are ten times faster than the defaults. A job's speed is what its trainers sleep, and
its number of steps is fixed, so that what differs is what the autoscaler did.

The clusters run beside each other on one machine, which disturbs both alike;
``untouched training / stated costs`` says by how much. The result is one JSON object for each pair
of counts, over all such pairs in the folder."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.live_jobs import PlannedJob, Saving, planned_jobs, planned_rank_jobs
from benchmarks.live_report import (
    PAIR,
    Circumstances,
    Pair,
    figures,
    read_pair,
    write_pair,
)
from benchmarks.live_run import MANAGED, UNTOUCHED, Side, side
from localcluster.specs import Backend

_POLL_SECONDS: Final = 0.5
_PATIENCE: Final = 5.0
"""A run ends after so many times the mean length of its jobs."""


def main() -> None:
    """Run all pairs one after the other, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cluster", type=Backend, choices=list(Backend), default=Backend.EMBEDDED)
    parser.add_argument("--counts", nargs="+", type=_counts, default=[(1, 2), (2, 3), (5, 5)])
    none = "none: the figures of the pairs that the folder has"
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2], help=none)
    parser.add_argument(
        "--seconds", nargs="+", type=float, default=[300.0], help="mean lengths of the jobs"
    )
    parser.add_argument(
        "--saves-every", type=float, default=0.0, help="seconds; 0: jobs save when they are stopped"
    )
    parser.add_argument("--ranks", action="store_true", help="PyTorchJobs")
    given = parser.parse_args()
    # Its clusters end with it in order, and its folders go.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    saving = Saving(given.saves_every == 0, given.saves_every or 3600.0)
    for counts in given.counts:
        kind = f"{given.cluster}-{'ranks-' if given.ranks else ''}{counts[0]}+{counts[1]}"
        for seconds, seed in product(given.seconds, given.seeds):
            name = f"{kind}-{seconds:g}s-seed{seed}"
            jobs = (planned_rank_jobs if given.ranks else planned_jobs)(
                seed, counts, seconds, saving
            )
            run_pair(jobs, given.cluster, _PATIENCE * seconds, given.output / name)
            _tell(name, [read_pair(given.output / name)])
        folders = sorted(given.output.glob(f"{kind}-*/{PAIR}"))
        _tell(kind, [read_pair(each.parent) for each in folders])


def _counts(text: str) -> tuple[int, int]:
    ps, _, workers = text.partition("+")
    return int(ps), int(workers)


def run_pair(
    jobs: Sequence[PlannedJob], backend: Backend, limit_seconds: float, output: Path
) -> None:
    """Run the jobs on both clusters at once, and write what they did."""
    with tempfile.TemporaryDirectory(prefix="live-worth-") as folder, ExitStack() as stack:
        sides = [
            stack.enter_context(side(each, backend, Path(folder), recommends=each == UNTOUCHED))
            for each in (MANAGED, UNTOUCHED)
        ]
        before = {each.name: each.cpu_seconds() for each in sides}
        busy, began = _machine_seconds(), time.time()
        _play(sides, jobs, limit_seconds)
        for each in sides:
            each.finish()
        spent = time.time() - began
        circumstances = Circumstances(
            limit_seconds,
            {each.name: round(each.cpu_seconds() - before[each.name], 1) for each in sides},
            round(spent),
            round((_machine_seconds() - busy) / spent, 2),
            os.cpu_count() or 1,
        )
        write_pair(output, sides, circumstances)
        for each in sides:
            (output / f"{each.name}-autoscaler.log").write_text(each.autoscaler_log())


def _play(sides: Sequence[Side], jobs: Sequence[PlannedJob], limit_seconds: float) -> None:
    began, waiting = time.time(), list(jobs)
    for each in sides:
        each.begin(began)
    while time.time() < began + limit_seconds:
        while waiting and time.time() >= began + waiting[0].arrives_at:
            job = waiting.pop(0)
            for each in sides:
                each.submit(job)
        if not waiting and all(each.have_ended for each in sides):
            return
        time.sleep(_POLL_SECONDS)


def _machine_seconds() -> float:
    """CPU seconds that the machine has spent on anything."""
    spent = [int(each) for each in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle, waiting = spent[3], spent[4]
    return (sum(spent) - idle - waiting) / 100


def _tell(name: str, pairs: Sequence[Pair]) -> None:
    told = {"run": name, "pairs": len(pairs), **figures(pairs)} if pairs else {"run": name}
    print(json.dumps(told, indent=1), flush=True)


if __name__ == "__main__":
    main()
