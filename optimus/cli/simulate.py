"""``optimus simulate``: several policies on the same simulated jobs, compared seed by seed."""

import argparse
from pathlib import Path
from typing import Final

from optimus.cli.command import Answer, Command, Progress
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES
from optimus.simulator.workload import WORKLOADS

USUAL_POLICIES: Final = ("optimus", "optimus-paper", "drf", "tetris", "fifo")
_EPILOG = """
A trace is a CSV file with the columns arrival_seconds,type,mode,threshold[,examples];
see docs/simulator.md.
--output writes results.json, jobs.csv, timeline.csv, forecasts.csv and four plots.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    usual = ",".join(name for name in USUAL_POLICIES if name in POLICIES)
    add = parser.add_argument
    add(
        "--policies",
        type=_policies,
        default=_policies(usual),
        metavar="NAME,...",
        help=f"of {', '.join(POLICIES)}; ratios refer to the first (default: {usual})",
    )
    add("--jobs", type=_at_least_one, metavar="N", help="jobs (default: 60, or all of a trace)")
    add(
        "--seeds",
        type=_at_least_one,
        default=3,
        metavar="N",
        help="repeat with so many seeds (default: 3)",
    )
    add(
        "--seed", type=_at_least_none, default=1, metavar="N", help="the first of them (default: 1)"
    )
    add(
        "--workload",
        default="uniform",
        metavar="NAME|FILE.csv",
        help=f"{', '.join(WORKLOADS)}, or a trace (default: uniform)",
    )
    add(
        "--nodes",
        nargs="+",
        metavar="COUNT:cpu=16,memory=80[,gpu=2]",
        help="the cluster; memory in GiB (default: the paper's 13 servers)",
    )
    add(
        "--forecast",
        choices=("fitted", "truth"),
        default="fitted",
        help="fitted to what is seen of a job, or the truth (default: fitted)",
    )
    add(
        "--placement",
        choices=sorted(PLACEMENT_RULES),
        help="for all policies (default: the one that goes with each)",
    )
    add(
        "--pre-run",
        action="store_true",
        help="measure speeds before a job starts, as the paper does, and not by profiling runs",
    )
    add("--output", type=Path, metavar="DIR", help="write all results and plots into this folder")
    add(
        "--processes",
        type=_at_least_one,
        default=1,
        metavar="N",
        help="so many at a time (default: 1)",
    )


def run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Simulate every policy with every seed."""
    from optimus.cli.simulate_run import (
        compare,
    )  # a second of imports that other commands need not wait for

    return compare(options, progress)


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or any(name not in POLICIES for name in names):
        raise argparse.ArgumentTypeError(
            f"names among {', '.join(POLICIES)} are expected, not {text!r}"
        )
    return names


def _at_least_one(text: str) -> int:
    return _whole(text, 1)


def _at_least_none(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"a whole number of at least {least} is expected, not {text!r}"
        )
    return int(text)


COMMAND = Command(
    ("simulate",),
    "compare policies on simulated jobs, before installing anything",
    add_arguments,
    run,
)
