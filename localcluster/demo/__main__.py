"""``python -m localcluster.demo``, which ``make demo`` runs."""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from kube.contract import Phase
from localcluster.cluster import LocalCluster
from localcluster.demo import scenario
from localcluster.demo.summary import print_summary
from localcluster.demo.view import View
from localcluster.demo.watching import Row, Watching, reached
from localcluster.errors import LocalClusterError

_LOOK_SECONDS = 0.5
_SECOND_JOB_SECONDS = 75.0
_PLAIN_COLUMNS = 140


def main() -> int:
    """Play the demo; returns 0 when both jobs reached their goals."""
    parser = argparse.ArgumentParser(prog="python -m localcluster.demo", description=scenario.__doc__)
    parser.add_argument("--limit-seconds", type=float, default=900.0, help="give up after this (default: 900)")
    arguments = parser.parse_args()
    # A pipe or a file has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_COLUMNS)
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended as by Ctrl-C: everything is cleaned up
        with tempfile.TemporaryDirectory(prefix="optimus-demo-") as folder:
            return _play(console, Path(folder), arguments.limit_seconds)
    except KeyboardInterrupt:
        console.print("stopped; everything is cleaned up")
        return 130
    except LocalClusterError as error:
        console.print(f"[red]{error}[/red]", soft_wrap=True)
        return 1


def _play(console: Console, folder: Path, limit_seconds: float) -> int:
    with LocalCluster("demo", scenario.nodes()) as cluster:
        with cluster.progress.step("installing Optimus from manifests/"):
            scenario.install(cluster, folder)
        console.print(f"to look for yourself: export KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
        with Watching(cluster.kubeconfig) as watching:
            with View(console) as view:
                rows = _watch(cluster, watching, view, limit_seconds)
            print_summary(console, rows, watching.stories)
    done = len(rows) == 2 and all(story.reached_at is not None for story in watching.stories.values())
    console.print("\neverything is cleaned up" if done else "\n[red]not every job reached its goal[/red]")
    return 0 if done else 1


def _watch(cluster: LocalCluster, watching: Watching, view: View, limit_seconds: float) -> list[Row]:
    """Submit the first job, the second once the first is measured, and follow both to their goals."""
    scenario.submit(cluster, scenario.FIRST)
    watching.submitted(scenario.FIRST.name)
    while True:
        rows = watching.look()
        view.show(rows, watching.journal)
        has_second = scenario.SECOND.name in watching.stories
        if not has_second and (watching.elapsed_seconds > _SECOND_JOB_SECONDS or any(map(reached, rows))):
            scenario.submit(cluster, scenario.SECOND)
            watching.submitted(scenario.SECOND.name)
        if any(row.status.phase is Phase.FAILED for row in rows):
            return rows
        if watching.elapsed_seconds > limit_seconds or (has_second and len(rows) == 2 and all(map(reached, rows))):
            return rows
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
