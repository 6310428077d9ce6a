"""``python -m examples.demo``, which ``make demo`` runs."""

import argparse
import logging
import math
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from examples.demo import scenario
from examples.demo.journal import Row, reached
from examples.demo.scenario import DemoJob
from examples.demo.serving import (
    ProfilePage,
    metrics_addresses,
    page_address,
    profiles_table,
    system_pods,
)
from examples.demo.summary import print_summary
from examples.demo.view import View
from examples.demo.watching import JobWatcher
from localcluster.cluster import LocalCluster
from localcluster.errors import LocalClusterError
from localcluster.specs import Backend
from optimus.kube.contract import Phase

_WHAT = (
    "Two jobs train on a cluster of this machine, under Optimus and untouched at the same time. A "
    "table shows their runs, forecasts and rescales until all have reached their goals."
)
_SEEN = (
    "Two small jobs of examples/light train here until their loss is {loss:g}, each twice at the "
    "same time:\n"
    "under Optimus, and (marked *) untouched, at 1 PS + 2 workers as submitted; each side has "
    "{nodes} nodes of {cpus} CPUs.\n"
    "At the end one table says when each was done, and what its restarts cost; if Optimus loses, "
    "it says so."
)
_LOOK_SECONDS = 0.5
_SECOND_JOB_SECONDS = 25.0
_PLAIN_COLUMNS = 140


@dataclass(frozen=True)
class DemoJobs:
    """The first job, the second job, submitted once the first has grown, and a time limit."""

    first: DemoJob
    second: DemoJob
    limit_seconds: float


def main() -> int:
    """Run the demo; returns 0 when both jobs reached their goals, 130 when it was interrupted."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=_WHAT)
    parser.add_argument(
        "--cluster",
        type=Backend,
        choices=list(Backend),
        default=Backend.EMBEDDED,
        help=(
            "the control plane: embedded (default; Python alone), or real (built once, which "
            "takes minutes)"
        ),
    )
    parser.add_argument(
        "--limit-seconds", type=float, default=900.0, help="give up after this (default: 900)"
    )
    parser.add_argument(
        "--target-loss",
        type=_loss,
        default=scenario.TARGET_LOSS,
        help=f"the jobs' goal (default: {scenario.TARGET_LOSS}); a higher loss is reached sooner",
    )
    arguments = parser.parse_args()
    first, second = (
        job.aiming_at(arguments.target_loss) for job in (scenario.FIRST, scenario.SECOND)
    )
    jobs = DemoJobs(first, second, arguments.limit_seconds)
    logging.getLogger().addHandler(logging.NullHandler())  # the screen belongs to the table
    # A pipe or a file has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_COLUMNS)
    said = _SEEN.format(loss=arguments.target_loss, nodes=scenario.NODES, cpus=scenario.CPUS)
    console.print(said, soft_wrap=True, highlight=False)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        return _run_on_cluster(jobs, console, arguments.cluster)
    except KeyboardInterrupt:
        console.print("stopped; everything is cleaned up")
        return 130
    except LocalClusterError as error:
        console.print(f"[red]{error}[/red]", soft_wrap=True)
        return 1


def _loss(text: str) -> float:
    try:
        loss = float(text)
    except ValueError:
        loss = math.nan
    if not 0 < loss < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no loss; a positive number is")
    return loss


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop the demo; further signals are ignored while it cleans up."""
    del number, frame
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run_on_cluster(jobs: DemoJobs, console: Console, backend: Backend) -> int:
    with LocalCluster("demo", scenario.nodes(), backend=backend) as cluster:
        folder = cluster.paths.root / "demo"  # ends with the cluster
        folder.mkdir()
        try:
            done = _run_demo(jobs, console, cluster, folder)
        except KeyboardInterrupt:
            console.print("\nstopping ...")
            raise
    console.print(
        "\neverything is cleaned up" if done else "\n[red]not every job reached its goal[/red]"
    )
    return 0 if done else 1


def _run_demo(jobs: DemoJobs, console: Console, cluster: LocalCluster, folder: Path) -> bool:
    """Install, run and summarise; return whether both jobs reached their goals."""
    with cluster.progress.step("installing Optimus from manifests/"):
        scenario.install(cluster, folder)
    with (
        cluster.api_client() as client,
        ProfilePage(partial(profiles_table, client)) as page,
        JobWatcher(cluster.kubeconfig) as watcher,
    ):
        pods = system_pods(client)
        in_browser = page_address(pods)
        addresses = {"page": f"{in_browser}  (in a browser)"}
        _print_addresses(console, cluster, page.address, addresses | metrics_addresses(pods))
        with View(console) as view:
            rows = _watch(jobs, cluster, folder, watcher, view)
        print_summary(console, rows, watcher.histories)
        if sys.stdin.isatty() and console.is_terminal:
            text = f"the page stays open: {in_browser}; Enter ends the demo"
            console.print(text, soft_wrap=True, highlight=False)
            sys.stdin.readline()
    return len(rows) == 4 and all(
        history.reached_at is not None for history in watcher.histories.values()
    )


def _print_addresses(
    console: Console, cluster: LocalCluster, page: str, others: Mapping[str, str]
) -> None:
    console.print("to look for yourself, while it runs:")
    lines = {
        "page": others["page"],
        "profiles": f"{page}  (as kubectl get trainingprofiles)",
        **{f"{name} metrics": each for name, each in others.items() if name != "page"},
        "kubectl": f"export KUBECONFIG={cluster.kubeconfig}",
    }
    for name, where in lines.items():
        console.print(f"  {name:19} {where}", soft_wrap=True, highlight=False)


def _watch(
    jobs: DemoJobs, cluster: LocalCluster, folder: Path, watcher: JobWatcher, view: View
) -> list[Row]:
    """Submit the first job, the second once the first has grown, and follow both to their goals."""
    scenario.submit(cluster, jobs.first, folder)
    watcher.submitted(jobs.first.name)
    while True:
        rows = watcher.look()
        view.show(rows, watcher.journal)
        has_second = jobs.second.name in watcher.histories
        if not has_second and (
            watcher.elapsed_seconds > _SECOND_JOB_SECONDS or any(map(_has_grown, rows))
        ):
            scenario.submit(cluster, jobs.second, folder)
            watcher.submitted(jobs.second.name)
        if any(row.outcome == "Failed" for row in rows):
            return rows
        if watcher.elapsed_seconds > jobs.limit_seconds or (
            has_second and len(rows) == 4 and all(map(reached, rows))
        ):
            return rows
        time.sleep(_LOOK_SECONDS)


def _has_grown(row: Row) -> bool:
    """Whether a job was measured and has the counts that were chosen for it, or is past that."""
    if row.is_untouched:
        return False
    trains = row.status.phase is Phase.TRAINING and row.status.remaining_seconds is not None
    return trains or reached(row)


if __name__ == "__main__":
    sys.exit(main())
